"""A broker in a thread of this process, on a private reactor."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logbus.errors import LogbusError
from logbus.quick_imports import quick_imports
from logbus.testing.broker_log import ThreadLog
from logbus.testing.control.broker_controls import BrokerControls
from logbus.testing.errors import OF_ITS_OWN, BrokerFailed
from logbus.testing.placement import Placement
from logbus.testing.reactor_thread import ReactorThread

if TYPE_CHECKING:
    from logbus.broker import Broker as BrokerService
    from logbus.cluster.peers import ConnectTo
    from logbus.metastore.memory_store import MemoryStore
    from logbus.testing.disk_filling import DiskFilling
    from logbus.testing.faults.rule_book import RuleBook
    from logbus.testing.requests.history import RequestHistory

#: Seconds to wait for a broker that did not stop in time, so that nothing of it is left.
GRACE = 60.0


class BrokerThread:
    """
    A broker on a private reactor, in a thread of its own or in one that brokers of a cluster share.

    A thread of its own ends when the broker has stopped, or could not start.

    :param shared: the thread of several brokers, whose owner ends it.
    :param store: called in the thread, gives the metadata store; None: that of the configuration.
    :param links: wraps what connects to other brokers; None: they are connected to as they are.
    :param release: advertise this Kafka release's versions; None: the default table.
    :param placement: where it listens; None: on 127.0.0.1.
    :param book: the faults of its clients' requests.
    :param history: where these are recorded.
    :param filling: whether its disk is full.

    :ivar log: what is logged in the thread.
    :ivar controls: what the test controls of it.
    :ivar service: the broker, once it is made.
    """

    def __init__(
        self,
        config: Mapping[str, str],
        data_dir: Path,
        ports: Mapping[str, int],
        book: RuleBook,
        history: RequestHistory,
        filling: DiskFilling,
        *,
        shared: ReactorThread | None = None,
        store: Callable[[], MemoryStore] | None = None,
        release: str | None = None,
        links: Callable[[ConnectTo], ConnectTo] | None = None,
        placement: Placement | None = None,
    ) -> None:
        self._started: Future[Mapping[str, str]] = Future()
        self._ended: Future[None] = Future()
        self.service: BrokerService | None = None
        self.store: MemoryStore | None = None
        self._make_store = store
        self._release = release
        self._links = links
        self._placement = placement or Placement()
        self._stop_failure: BaseException | None = None
        self._stopping = False
        self._directories = [Path(each) for each in config.get("log.dirs", str(data_dir)).split(",")]
        self._owns_thread = shared is None
        self.thread = ReactorThread("logbus-test-broker") if shared is None else shared
        self.controls = BrokerControls(self.thread.reactor, self.thread.clock, book, history, filling)
        self.log = ThreadLog()
        self.log.open(self.thread.ident)
        self.thread.call(self._begin, config, data_dir, ports)

    @property
    def log_mark(self) -> int:
        """The number of events that were logged so far."""
        return self.log.count

    def log_lines(self, since: int) -> list[str]:
        """The last lines that were logged in the thread, without those before a mark."""
        return self.log.lines(since)

    def wait_ready(self, timeout: float) -> Mapping[str, str]:
        try:
            return self._started.result(timeout)
        except FutureTimeout:
            doing = self.log.lines()[-1:]
            with contextlib.suppress(BrokerFailed):
                self.stop(GRACE)
            last = f"; it logged last: {doing[0]}" if doing else ""
            raise BrokerFailed(f"the broker was not ready after {timeout:g} s{last}") from None
        except (LogbusError, OSError) as e:
            self._wait_ended(GRACE)
            # The message is enough; a traceback is of no use to a test.
            raise BrokerFailed(f"the broker did not start: {e}") from None
        except Exception as e:
            self._wait_ended(GRACE)
            raise BrokerFailed(f"the broker did not start: {e!r}") from e

    def _begin(self, config: Mapping[str, str], data_dir: Path, ports: Mapping[str, int]) -> None:
        from twisted.internet.defer import Deferred

        Deferred.fromCoroutine(self._start(config, data_dir, ports))

    async def _start(self, config: Mapping[str, str], data_dir: Path, ports: Mapping[str, int]) -> None:
        try:
            if self._stopping:
                raise BrokerFailed("it was stopped before it had begun")
            # Of the first broker's imports there is nothing to collect; further ones import nothing.
            is_first = "logbus.broker.broker" not in sys.modules
            with quick_imports() if is_first else contextlib.nullcontext():
                self.service = self._make(config, data_dir, ports)
            await self.service.startService()
            self.controls.started()
        except BaseException as e:
            self._started.set_exception(e)
            if not self._stopping or self.service is None:
                self._stopping = True
                self._end()
        else:
            self._started.set_result({e.listener: f"{e.host}:{e.port}" for e in self.service.endpoints.values()})

    def _make(self, config: Mapping[str, str], data_dir: Path, ports: Mapping[str, int]) -> BrokerService:
        from logbus.broker import Broker as BrokerService
        from logbus.cluster.peers import tcp
        from logbus.config import ConfigView
        from logbus.listener_config import secured

        settings = ConfigView.load(set={"log.dirs": str(data_dir), **config})
        listeners = [secured(self._placement.listener(name, port), settings) for name, port in ports.items()]
        if self._make_store is not None:
            self.store = self._make_store()
        service = BrokerService(
            self.thread.reactor,
            settings,
            listeners,
            release=self._release,
            store=self.store,
            connect_to=None if self._links is None else self._links(tcp(self.thread.reactor)),
            **self.controls.options(settings),
        )
        self.controls.service = service
        return service

    def stop(self, timeout: float) -> None:
        """
        Stop in order.

        :raise BrokerFailed: it took longer than ``timeout`` seconds, or failed.
        """
        self.thread.call(self._begin_stop)
        if not self._wait_ended(timeout):
            # Wait for a late stop, too: files cannot be removed while the broker writes.
            self._wait_ended(GRACE)
            raise BrokerFailed(f"the broker had not stopped after {timeout:g} s")
        if self._stop_failure is not None:
            raise BrokerFailed(f"the broker did not stop in order: {self._stop_failure}") from self._stop_failure

    def _begin_stop(self) -> None:
        from twisted.internet.defer import Deferred

        if self._stopping:
            return
        self._stopping = True
        self.controls.stopping()
        if self.service is not None:
            # Otherwise it could not start, and ends by itself.
            Deferred.fromCoroutine(self._stop(self.service))

    async def _stop(self, service: BrokerService) -> None:
        try:
            await service.stopService()
        except BaseException as e:
            self._stop_failure = e
        self._end()

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)
        if self._owns_thread:
            self.thread.stop()

    def _wait_ended(self, timeout: float) -> bool:
        """Wait until it has stopped, and its own thread ended; whether that was in time."""
        try:
            if self.thread.alive:
                self._ended.result(timeout)
        except FutureTimeout:
            return False
        if self._owns_thread and not self.thread.join(timeout):
            return False
        self.log.close()
        return True

    def kill(self) -> None:
        """
        Have it vanish as far as clients and other brokers can see: connections break, its session with the metadata
        store expires, nobody is told.  What it has written stays; its next start has to recover it.

        :raise BrokerFailed: it is no broker of a cluster.
        """
        if self.store is None or self.service is None:
            raise BrokerFailed(f"a broker in this process cannot be killed; {OF_ITS_OWN}")
        self.thread.call(self._vanish, self.service, self.store)
        self.stop(GRACE)
        from logbus.storage.checkpoints import CLEAN_SHUTDOWN

        for directory in self._directories:
            (directory / CLEAN_SHUTDOWN).unlink(missing_ok=True)

    def _vanish(self, service: BrokerService, store: MemoryStore) -> None:
        service.readiness.serving = False
        service.abort_connections()
        store.vanish()
        self._begin_stop()

    def isolate(self) -> None:
        """In the broker's thread: have it hear nothing of the metadata store any more, before :meth:`vanish`."""
        if self.store is not None:
            self.store.suspend()

    def accepted(self) -> list[Any]:
        """In the broker's thread: the transports of the connections that others have made to it."""
        return [] if self.service is None else self.service.client_transports()

    def vanish(self) -> None:
        """In the broker's thread: begin what :meth:`kill` does; its data have nothing to recover."""
        if self.service is not None and self.store is not None:
            self._vanish(self.service, self.store)

    def abandon(self) -> None:
        """End the thread, and with it all that the broker does. For the end of the process: it stops in no order."""
        self._stopping = True
        self.thread.abandon()
        self.thread.join(GRACE)
