"""A metadata store over a simulated network: requests take time, connections break, sessions expire."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.metastore.base_store import TreeStore, attempt
from logbus.metastore.imetastore import IMetadataStore
from logbus.metastore.memory_store import MemoryEnsemble
from logbus.metastore.operations import ConnectionLost, Op, SessionLost, SessionState
from logbus.metastore.tree import Applied, Tree
from logbus.testing.simulation.environment.virtual_clock import Call, VirtualClock

T = TypeVar("T")


@define(eq=False)
class Ensemble(MemoryEnsemble):
    """
    The servers.

    :ivar available: whether they answer. While they do not, no session expires.
    :ivar seconds: the average time of a request to them, and of the answer back.
    """

    time: VirtualClock = field(kw_only=True)
    random: Random = field(kw_only=True)
    session_timeout: float = field(kw_only=True)
    available: bool = field(default=True, init=False)
    seconds: float = field(default=0.001, init=False)
    expired: int = field(default=0, init=False)

    def way(self) -> float:
        """The delay of a message."""
        return self.random.uniform(0.5, 1.5) * self.seconds


@implementer(IMetadataStore)
@define(eq=False, repr=False)
class SimulatedStore(TreeStore):
    """
    The client in one process.

    Requests and answers keep their order. The client notices a cut connection after some time, the servers when the
    session has timed out, whichever comes first.

    :ivar reachable: whether the servers can be reached.
    """

    ensemble: Ensemble
    reactor: Any
    path: str = "simulated"
    reachable: bool = field(default=True, init=False)
    _connection: int = field(default=0, init=False)
    _asked: deque[_Request] = field(factory=deque, init=False)
    _last_request: float = field(default=0.0, init=False)
    _last_answer: float = field(default=0.0, init=False)
    _expiry: Call | None = field(default=None, init=False)
    _opened: Deferred[None] | None = field(default=None, init=False)

    @property
    def _clock(self) -> VirtualClock:
        return self.ensemble.time

    def open(self) -> Deferred[None]:
        """Begin the first session, as soon as the servers can be reached."""
        self.ensemble.clients.append(self)
        opened = self._opened = Deferred()
        if self.reachable and self.ensemble.available:
            self._clock.at(self._clock.now + self.ensemble.way(), self.reactor, self._reconnect)
        return opened

    def close(self) -> Deferred[None]:
        """End the session, or leave it to expire if the servers cannot be reached."""
        if self.state is SessionState.CLOSED:
            return succeed(None)
        done: Deferred[None] = Deferred()

        def closed(_: object) -> None:
            if self.state is not SessionState.CLOSED:
                heard = self.state is SessionState.CONNECTED and self.reachable
                self._move(SessionState.CLOSED)
                self._leave(at_once=heard)
            done.callback(None)

        self.sync().addBoth(closed)
        return done

    # Faults.

    def cut(self, *, noticed: bool, expires: bool = True) -> None:
        """
        Break the connection.

        :param noticed: the client notices at once; otherwise by a timeout.
        :param expires: the session ends unless :meth:`mend` comes in time.
        """
        if not self.reachable:
            return
        self.reachable = False
        timeout = self.ensemble.session_timeout
        random = self.ensemble.random
        if expires:
            self._expire_in(timeout * random.uniform(0.67, 1.0))
        notice_in = 0.0 if noticed else timeout * random.uniform(0.3, 0.67)
        self._clock.at(self._clock.now + notice_in, self.reactor, self._notice, self._connection)

    def mend(self) -> None:
        """Restore the connection."""
        if not self.reachable:
            self.reachable = True
            self._clock.at(self._clock.now + self.ensemble.random.uniform(0.01, 1.0), self.reactor, self._reconnect)

    def expire(self) -> None:
        """End the session by force; a connected client learns it."""
        self._end_session()
        self._clock.at(self._clock.now + self.ensemble.way(), self.reactor, self._check_session)

    def froze(self) -> None:
        """The process is frozen: it sends no heartbeats."""
        self._expire_in(self.ensemble.session_timeout * self.ensemble.random.uniform(0.67, 1.0))

    def thawed(self) -> None:
        """The process continues; it learns the state of its session later."""
        if self.ensemble.alive(self.session_id):
            if self.reachable:
                self._stop_expiry()
            return
        self._clock.at(self._clock.now + self.ensemble.random.uniform(0, 0.5), self.reactor, self._check_session)

    def died(self) -> None:
        """The process ended; the servers notice by the timeout."""
        self._leave(at_once=False)

    # Sessions.

    def _expire_in(self, seconds: float) -> None:
        self._stop_expiry()
        self._expiry = self._clock.at(self._clock.now + seconds, None, self._end_session)

    def _stop_expiry(self) -> None:
        if self._expiry is not None and self._expiry.active():
            self._expiry.cancel()
        self._expiry = None

    def _end_session(self) -> None:
        if not self.ensemble.available:
            # Timeouts do not run now. When the servers are back, every session has its full timeout again.
            self._expire_in(self.ensemble.session_timeout)
        elif self.ensemble.alive(self.session_id):
            self.ensemble.expired += 1
            self.ensemble.end(self.session_id)

    def _leave(self, *, at_once: bool) -> None:
        if self in self.ensemble.clients:
            self.ensemble.clients.remove(self)
        if at_once:
            self._stop_expiry()
            self.ensemble.end(self.session_id)
        else:
            self._expire_in(self.ensemble.session_timeout * self.ensemble.random.uniform(0.67, 1.0))

    def _notice(self, connection: int) -> None:
        if connection == self._connection and self.state is SessionState.CONNECTED:
            self._lose(SessionState.SUSPENDED, ConnectionLost("the connection was lost while a request was out"))

    def _check_session(self) -> None:
        if self.state in (SessionState.CONNECTED, SessionState.SUSPENDED) and self.reachable:
            self._notice(self._connection)
            self._reconnect()

    def _reconnect(self) -> None:
        if not self.reachable or not self.ensemble.available or self.state is SessionState.CLOSED:
            return
        self._stop_expiry()
        if self._opened is not None:
            self._begin()
            opened, self._opened = self._opened, None
            opened.callback(None)
        elif self.ensemble.alive(self.session_id):
            # Messages in flight on the old connection are lost, even if that was not noticed yet.
            self._notice(self._connection)
            self._connection += 1
            self._move(SessionState.CONNECTED)
        else:
            self._lose(SessionState.LOST, SessionLost("the session expired while a request was out"))
            self._begin()

    def _begin(self) -> None:
        self.session_id = self.ensemble.begin()
        self.generation += 1
        self._connection += 1
        self._move(SessionState.CONNECTED)

    def _lose(self, state: SessionState, error: Exception) -> None:
        asked, self._asked = self._asked, deque()
        self._connection += 1
        self._move(state)
        for request in asked:
            self._deliver(request.waiting.errback, Failure(error))

    # Requests.

    def hear(self, applied: Applied) -> None:
        """Any client made a change."""
        for watcher, event in self._watches.take(applied.events).due:
            self._send_back(self._send_event, self._connection, watcher, event)

    def _send_event(self, connection: int, watcher: Any, event: Any) -> None:
        if connection == self._connection:
            self._deliver(self._watches.tell, watcher, event)

    def _read_tree(self, read: Callable[[Tree], T]) -> Deferred[T]:
        return self._request(lambda: read(self.ensemble.tree), changes=False)

    def _change(self, ops: Any) -> Deferred[Applied]:
        wanted: tuple[Op, ...] = tuple(ops)
        session_id = self.session_id
        return self._request(lambda: self.ensemble.apply(wanted, session_id), changes=True)

    def _request(self, run: Callable[[], T], *, changes: bool) -> Deferred[T]:
        if self.reactor.dead:
            return Deferred()
        if self.state is SessionState.CLOSED:
            return fail(SessionLost("the session is closed"))
        if self.state is not SessionState.CONNECTED:
            return fail(ConnectionLost("the metadata store is out of reach"))
        waiting: Deferred[T] = Deferred()
        request = _Request(waiting, run, self.session_id, changes)
        self._asked.append(request)
        self._last_request = max(self._last_request, self._clock.now + self.ensemble.way())
        self._clock.at(self._last_request, None, self._serve, request, self._connection)
        return waiting

    def _serve(self, request: _Request, connection: int) -> None:
        """Serve a request, at the servers."""
        if request.served or not self.ensemble.available:
            return
        # A request in flight when the connection broke arrives, or does not.
        broken = connection != self._connection or not self.reachable
        if broken and (not request.changes or self.ensemble.random.random() < 0.5):
            return
        request.served = True
        if not self.ensemble.alive(request.session_id):
            return
        outcome = attempt(request.run)
        if self.reachable:
            self._send_back(self._answer, request, outcome, connection)

    def _send_back(self, fn: Callable[..., None], *args: Any) -> None:
        self._last_answer = max(self._last_answer, self._clock.now + self.ensemble.way())
        self._clock.at(self._last_answer, self.reactor, fn, *args)

    def _answer(self, request: _Request, outcome: Any, connection: int) -> None:
        if connection != self._connection or not self._asked or self._asked[0] is not request:
            return
        self._asked.popleft()
        self._deliver(request.waiting.errback if isinstance(outcome, Failure) else request.waiting.callback, outcome)


@define(eq=False)
class _Request:
    """A request without an answer yet."""

    waiting: Deferred[Any]
    run: Callable[[], Any]
    session_id: int
    changes: bool
    served: bool = False
