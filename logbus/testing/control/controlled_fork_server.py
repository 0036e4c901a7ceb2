"""The fork server of workers that follow their test: ``python -m logbus.testing.control.controlled_fork_server``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from logbus.workers import fork_server
from logbus.workers.worker import Worker

if TYPE_CHECKING:
    from logbus.broker import Broker


class ControlledWorker(Worker):
    """A worker with such a broker."""

    def _broker_of(self, config: Any, **options: Any) -> Broker:
        from logbus.testing.control.controlled_process import controlled_broker

        return controlled_broker(self._reactor, config, self._plan.listeners, **options)


if __name__ == "__main__":
    fork_server.WORKER = ControlledWorker
    fork_server.main()
