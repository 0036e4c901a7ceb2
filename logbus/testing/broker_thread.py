"""A broker in a thread of this process, on a private reactor."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import TYPE_CHECKING

from logbus.attrs_code import kept_attrs_code
from logbus.errors import LogbusError
from logbus.testing.broker_process import BrokerFailed
from logbus.testing.private_reactor import close_reactor, private_reactor

if TYPE_CHECKING:
    from logbus.broker import Broker as BrokerService

#: Seconds to wait for a broker that did not stop in time, so that nothing of it is left.
GRACE = 60.0


class BrokerThread:
    """
    A broker on a private reactor, in a thread of its own.

    The thread ends when the broker has stopped, or could not start.
    """

    def __init__(self, config: Mapping[str, str], data_dir: Path, ports: Mapping[str, int]) -> None:
        self._started: Future[Mapping[str, str]] = Future()
        self._service: BrokerService | None = None
        self._stop_failure: BaseException | None = None
        self._stopping = self._abandoned = False
        self._reactor = private_reactor()
        self._open = True
        self._closing = threading.Lock()
        self._thread = threading.Thread(
            target=self._run, args=(config, data_dir, ports), name="logbus-test-broker", daemon=True
        )
        self._thread.start()

    def wait_ready(self, timeout: float) -> Mapping[str, str]:
        try:
            return self._started.result(timeout)
        except FutureTimeout:
            with contextlib.suppress(BrokerFailed):
                self.stop(GRACE)
            raise BrokerFailed(f"the broker was not ready after {timeout:g} s") from None
        except LogbusError as e:
            self._thread.join(GRACE)
            # The message is enough; a traceback is of no use to a test.
            raise BrokerFailed(f"the broker did not start: {e}") from None
        except Exception as e:
            self._thread.join(GRACE)
            raise BrokerFailed(f"the broker did not start: {e!r}") from e

    def _run(self, config: Mapping[str, str], data_dir: Path, ports: Mapping[str, int]) -> None:
        from twisted.internet.defer import Deferred

        reactor = self._reactor
        reactor.callWhenRunning(lambda: Deferred.fromCoroutine(self._start(config, data_dir, ports)))
        reactor.run(installSignalHandlers=False)
        with self._closing:
            self._open = False
            if not self._abandoned:
                # Otherwise threads of the broker still report to it.
                close_reactor(reactor)

    async def _start(self, config: Mapping[str, str], data_dir: Path, ports: Mapping[str, int]) -> None:
        try:
            with kept_attrs_code():
                self._service = self._make(config, data_dir, ports)
            await self._service.startService()
        except BaseException as e:
            self._started.set_exception(e)
            if not self._stopping:
                self._stopping = True
                self._reactor.stop()
        else:
            self._started.set_result({e.listener: f"{e.host}:{e.port}" for e in self._service.endpoints.values()})

    def _make(self, config: Mapping[str, str], data_dir: Path, ports: Mapping[str, int]) -> BrokerService:
        from logbus.broker import Broker as BrokerService
        from logbus.config import ConfigView
        from logbus.ilogbus import Listener
        from logbus.listener_config import secured

        view = ConfigView.load(set={"log.dirs": str(data_dir), **config})
        listeners = [
            secured(Listener(name, name, f"tcp:{port}:interface=127.0.0.1"), view) for name, port in ports.items()
        ]
        return BrokerService(self._reactor, view, listeners)

    def stop(self, timeout: float) -> None:
        """
        Stop in order.

        :raise BrokerFailed: it took longer than ``timeout`` seconds, or failed.
        """
        self._call(self._begin_stop)
        self._thread.join(timeout)
        if self._thread.is_alive():
            # Wait for a late stop, too: files cannot be removed while the broker writes.
            self._thread.join(GRACE)
            raise BrokerFailed(f"the broker had not stopped after {timeout:g} s")
        if self._stop_failure is not None:
            raise BrokerFailed(f"the broker did not stop in order: {self._stop_failure}") from self._stop_failure

    def _begin_stop(self) -> None:
        from twisted.internet.defer import Deferred

        if self._stopping or self._service is None:
            # In the second case it could not start, and ends by itself.
            return
        self._stopping = True
        Deferred.fromCoroutine(self._stop(self._service))

    async def _stop(self, service: BrokerService) -> None:
        try:
            await service.stopService()
        except BaseException as e:
            self._stop_failure = e
        self._reactor.stop()

    def kill(self) -> None:
        raise BrokerFailed("a broker in this process cannot be killed; use Broker(in_process=False)")

    def abandon(self) -> None:
        """End the thread, and with it all that the broker does. For the end of the process: it stops in no order."""
        self._stopping = self._abandoned = True
        self._call(self._reactor.stop)
        self._thread.join(GRACE)

    def _call(self, fn: Callable[[], object]) -> None:
        """Have the thread call a function, if it has not ended."""
        with self._closing:
            if self._open:
                self._reactor.callFromThread(fn)
