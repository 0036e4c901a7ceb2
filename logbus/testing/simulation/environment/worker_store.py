"""
The metadata store of simulated workers: the supervisor's embedded store, and their clients of it over the network.

Its disk keeps what was committed, in a dictionary; a commit takes virtual time. A worker's session ends with its
connection, so at once when its process dies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

from attrs import define, field
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.python.failure import Failure

from logbus.metastore.embedded_store import EmbeddedStore
from logbus.metastore.local_store import LocalStore
from logbus.metastore.operations import SessionState, StoreUnusable
from logbus.metastore.store_server import StoreServer
from logbus.metastore.tree import Row, Tree
from logbus.testing.simulation.checks.durability_oracle import DurabilityOracle
from logbus.testing.simulation.environment.network import Network
from logbus.testing.simulation.environment.node_reactor import NodeReactor
from logbus.testing.simulation.environment.virtual_clock import VirtualClock

HOST, PORT = "10.0.2.1", 2181

CommitFault: TypeAlias = Callable[[], tuple[StoreUnusable, bool] | None]


def no_fault() -> None:
    """Commits succeed."""


class WorkerStore(LocalStore):
    """A worker's client. What happens to its process the server learns from the connection."""

    reachable = False  # Nothing but its process can be cut off: both are on one machine.

    def died(self) -> None:
        """The process ended."""

    def froze(self) -> None:
        """The process is frozen."""

    def thawed(self) -> None:
        """The process continues."""


@define(eq=False)
class _Rows:
    """What is on the disk."""

    rows: dict[str, Row] = field(factory=dict)
    zxid: int = 0
    oracles: list[DurabilityOracle] = field(factory=list)
    fault: CommitFault = no_fault

    def open(self) -> Tree:
        return Tree.load(self.rows.values(), self.zxid)

    def commit(self, rows: Iterable[Row], gone: Iterable[str], zxid: int) -> None:
        error, is_made = self.fault() or (None, True)
        if is_made:
            self._apply(list(rows), gone, zxid)
        if error is not None:
            raise error

    def _apply(self, rows: Sequence[Row], gone: Iterable[str], zxid: int) -> None:
        self.zxid = zxid
        for path in gone:
            self.rows.pop(path, None)
        self.rows.update((row.path, row) for row in rows)
        for oracle in self.oracles:
            oracle.tree = self.open()
            oracle.changed([row.path for row in rows])

    def close(self) -> None:
        pass


@define(eq=False)
class _TimedThread:
    """Stands for the store's thread."""

    host: WorkerStoreHost
    reactor: NodeReactor
    _last: float = 0.0

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def callInThreadWithCallback(
        self, onResult: Callable[[bool, Any], object], func: Callable[..., Any], *args: Any, **kw: Any
    ) -> None:
        clock = self.host.clock
        self._last = max(self._last, clock.now + self.host.random.uniform(0.5, 1.5) * self.host.seconds)

        def run() -> None:
            try:
                found = func(*args, **kw)
            except StoreUnusable:
                onResult(False, Failure())
            else:
                onResult(True, found)

        clock.at(self._last, self.reactor, run)


@define(eq=False)
class WorkerStoreHost:
    """
    The supervisor, as far as it is a metadata store.

    :ivar seconds: the average time of a commit.
    :ivar up: whether its process runs.
    :ivar failed: called when the store has failed for good: the supervisor ends.
    """

    clock: VirtualClock
    network: Network
    random: Random
    wall_clock: Callable[[], float]
    session_timeout: float
    seconds: float = field(default=0.002, init=False)
    up: bool = field(default=False, init=False)
    lives: int = field(default=0, init=False)
    failed: Callable[[], object] = field(default=lambda: None, init=False)
    reactor: NodeReactor = field(init=False)
    _disk: _Rows = field(factory=_Rows, init=False)

    @property
    def fault(self) -> CommitFault:
        """Called before each commit; returns the error with which it fails, and whether it is made all the same."""
        return self._disk.fault

    @fault.setter
    def fault(self, fault: CommitFault) -> None:
        self._disk.fault = fault

    def watch(self, oracles: Iterable[DurabilityOracle]) -> None:
        """Tell them of all commits."""
        self._disk.oracles += oracles

    def start(self) -> None:
        """Start a process on what was committed."""
        self.up = True
        self.lives += 1
        reactor: Any = NodeReactor(self.clock, self.network, HOST)
        self.reactor = reactor
        self.network.started(reactor)
        store = EmbeddedStore(Path("metadata.db"), reactor, self.wall_clock, _TimedThread(self, reactor))  # type: ignore[arg-type]
        store._database = self._disk  # type: ignore[assignment]
        server = StoreServer(store, Path("unused"), reactor)

        def changed(state: SessionState) -> None:
            if state is SessionState.CLOSED and not reactor.dead:
                self.failed()

        def opened(_: None) -> None:
            store.subscribe(changed)
            reactor.listenTCP(PORT, server.factory(), interface=HOST)

        # If it cannot be opened, either, this supervisor ends, too.
        store.open().addCallbacks(opened, lambda failure: (failure.trap(StoreUnusable), self.failed()))

    def kill(self, *, silently: bool = False) -> None:
        """
        End it, as a crash does: no commit under way is made or answered.

        :param silently: as a power cut does: nobody is told.
        """
        self.up = False
        self.reactor.dead = True
        self.network.ended(self.reactor, silently=silently)

    def client(self, reactor: Any) -> WorkerStore:
        """The client of a worker's process."""
        return WorkerStore(TCP4ClientEndpoint(reactor, HOST, PORT), reactor, self.session_timeout, "simulated")
