"""
A metadata store in memory with any number of clients, whose sessions break on command; for tests and the simulator.

The *ensemble* stands for the ZooKeeper servers, each of its clients for one process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.metastore.base_store import TreeStore, attempt, settle
from logbus.metastore.imetastore import IMetadataStore
from logbus.metastore.operations import ConnectionLost, Delete, Op, SessionLost, SessionState
from logbus.metastore.tree import Applied, Tree

T = TypeVar("T")


@define(eq=False)
class MemoryEnsemble:
    """
    The tree and the sessions on it.

    :ivar wall_clock: seconds since 1970, for the nodes' times.
    :ivar clients: the clients to notify of changes: :class:`MemoryStore` or the like.
    :ivar clock: None: requests are answered at once. Otherwise each takes ``latency`` seconds of this clock.
    """

    wall_clock: Callable[[], float] = lambda: 0.0
    clock: IReactorTime | None = None
    latency: float = 0.0
    tree: Tree = field(factory=Tree, init=False)
    clients: list[Any] = field(factory=list, init=False)
    _sessions: set[int] = field(factory=set, init=False)
    _last_session: int = field(default=0, init=False)

    def client(self) -> MemoryStore:
        """A new client, to be opened."""
        client = MemoryStore(self)
        self.clients.append(client)
        return client

    def begin(self) -> int:
        """A new session's id."""
        self._last_session += 1
        self._sessions.add(self._last_session)
        return self._last_session

    def alive(self, session_id: int) -> bool:
        """Whether the session has not expired."""
        return session_id in self._sessions

    def end(self, session_id: int) -> None:
        """Expire a session: its ephemerals are deleted, and watches fire."""
        self._sessions.discard(session_id)
        owned = self.tree.owned_by(session_id)
        if owned:
            self.apply([Delete(path) for path in owned], session_id)

    def apply(self, ops: Sequence[Op], session_id: int) -> Applied:
        """Change the tree and fire the watches of all clients, before the request is answered."""
        applied = self.tree.apply(ops, session_id, int(self.wall_clock() * 1000))
        for client in list(self.clients):
            client.hear(applied)
        return applied


@implementer(IMetadataStore)
@define(eq=False)
class MemoryStore(TreeStore):
    """One client of a :class:`MemoryEnsemble`."""

    ensemble: MemoryEnsemble
    _in_flight: deque[tuple[Deferred[Any], Callable[[], Any]]] = field(factory=deque, init=False)

    def open(self) -> Deferred[None]:
        """Begin the first session."""
        self._begin()
        return succeed(None)

    def close(self) -> Deferred[None]:
        """End the session, once the earlier requests are served."""
        if self.state is SessionState.CLOSED:
            return succeed(None)

        def end(_: object) -> None:
            if self.state is not SessionState.CLOSED:
                self._move(SessionState.CLOSED)
                self.ensemble.end(self.session_id)
                self.ensemble.clients.remove(self)

        return self.sync().addBoth(end)

    # Faults.

    def suspend(self, *, applied: bool = False) -> None:
        """
        Cut the connection. Requests in flight fail with ConnectionLost.

        :param applied: whether the servers applied them nevertheless.
        """
        cut, self._in_flight = self._in_flight, deque()
        self._move(SessionState.SUSPENDED)
        for waiting, run in cut:
            if applied:
                attempt(run)
            self._watches.clear()
            self._deliver(waiting.errback, Failure(ConnectionLost("the connection was lost while a request was out")))

    def resume(self) -> None:
        """Restore the connection: only now the client learns that its session expired meanwhile."""
        if self.ensemble.alive(self.session_id):
            self._move(SessionState.CONNECTED)
        else:
            self._move(SessionState.LOST)
            self._begin()

    def expire(self) -> None:
        """Have the servers expire the session; a connected client learns it at once and gets a new one."""
        if self.state is not SessionState.CONNECTED:
            self.ensemble.end(self.session_id)
            return
        cut, self._in_flight = self._in_flight, deque()
        self._move(SessionState.LOST)
        self.ensemble.end(self.session_id)
        for waiting, _ in cut:
            self._deliver(waiting.errback, Failure(SessionLost("the session expired while a request was out")))
        self._begin()

    def vanish(self) -> None:
        """Have its process end as a crash does: the session expires at once, and no request is answered any more."""
        if self.state is not SessionState.CLOSED:
            self._in_flight.clear()
            self._move(SessionState.CLOSED)
            self.ensemble.clients.remove(self)
            self.ensemble.end(self.session_id)

    # Inside.

    def hear(self, applied: Applied) -> None:
        """Any client made a change."""
        for watcher, event in self._watches.take(applied.events).due:
            self._deliver(self._watches.tell, watcher, event)

    def _begin(self) -> None:
        self.session_id = self.ensemble.begin()
        self.generation += 1
        self._move(SessionState.CONNECTED)

    def _read_tree(self, read: Callable[[Tree], T]) -> Deferred[T]:
        return self._request(lambda: read(self.ensemble.tree))

    def _change(self, ops: Sequence[Op]) -> Deferred[Applied]:
        return self._request(lambda: self.ensemble.apply(ops, self.session_id))

    def _request(self, run: Callable[[], T]) -> Deferred[T]:
        if self.state is SessionState.CLOSED:
            return fail(SessionLost("the session is closed"))
        if self.state is not SessionState.CONNECTED:
            return fail(ConnectionLost("the metadata store is out of reach"))
        waiting: Deferred[T] = Deferred()
        if self.ensemble.clock is None:
            self._answer(waiting, run)
        else:
            self._in_flight.append((waiting, run))
            self.ensemble.clock.callLater(self.ensemble.latency, self._serve, waiting)
        return waiting

    def _serve(self, waiting: Deferred[Any]) -> None:
        # Requests are served in order, so this one is either the first or was cut off.
        if self._in_flight and self._in_flight[0][0] is waiting:
            self._answer(*self._in_flight.popleft())

    def _answer(self, waiting: Deferred[T], run: Callable[[], T]) -> None:
        # Run first: the watches that it fires are delivered before the answer.
        self._deliver(settle, waiting, attempt(run))
