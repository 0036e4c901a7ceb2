"""
The client with which the test kit looks at a broker or a cluster: in the broker's thread, or in one of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from logbus.errors import LogbusError
from logbus.testing.reactor_thread import ReactorThread
from logbus.testing.settings import KIT_CLIENT_ID

if TYPE_CHECKING:
    from logbus.client import Cluster

T = TypeVar("T")

CLOSE_SECONDS = 10.0


class Inspector:
    """
    A client.  It connects at first use, and leaves nothing behind after :meth:`close`.

    :param bootstrap: the brokers' addresses.
    :param security: how it logs in, by the properties of Kafka's clients.
    :param thread: where it runs; None: in a thread of its own.
    """

    def __init__(self, bootstrap: str, security: Mapping[str, str], thread: ReactorThread | None) -> None:
        self.bootstrap = bootstrap
        self._security = security
        self._owned = ReactorThread("logbus-test-inspector") if thread is None else None
        self._thread = self._owned or thread
        self._cluster: Cluster | None = None

    @property
    def usable(self) -> bool:
        """Whether its thread runs."""
        return self._thread is not None and self._thread.alive

    def run(self, what: Callable[[Cluster], Awaitable[T]], timeout: float) -> T:
        """
        What a coroutine function returns, or raises, which is given the client's cluster.

        :param timeout: seconds, after which it is cancelled.
        :raise TimeoutError: it had not ended.
        """
        __tracebackhide__ = True
        assert self._thread is not None

        async def running() -> T:
            return await what(self._connected())

        try:
            return self._thread.run(running, timeout)
        except (LogbusError, TimeoutError) as e:
            # A test is told what was wrong; where the kit noticed it is of no use to it.
            raise e.with_traceback(None) from None

    def close(self) -> None:
        """Close its connections, and its thread if it has one."""

        async def closing() -> None:
            if self._cluster is not None:
                cluster, self._cluster = self._cluster, None
                await cluster.close()

        if self.usable and self._thread is not None:
            self._thread.run(closing, CLOSE_SECONDS)
        if self._owned is not None:
            self._owned.stop()
            self._owned.join(CLOSE_SECONDS)

    def _connected(self) -> Cluster:
        if self._cluster is None:
            from logbus.client import Cluster

            reactor: Any = self._thread.reactor if self._thread is not None else None
            self._cluster = Cluster(reactor, self.bootstrap, client_id=KIT_CLIENT_ID, security=self._security or None)
        return self._cluster
