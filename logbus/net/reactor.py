"""
An epoll reactor that calls our connections more directly, and lets those that are readable at once share work.

Twisted calls each ready descriptor in a logging context of its own, so that ``log.msg`` messages show the connection's
name. Our transport and clients do not use that, and the context costs more than a tenth of what a small request costs.
"""

from __future__ import annotations

from collections.abc import Callable
from select import EPOLLIN, EPOLLOUT
from time import monotonic
from typing import Any

from twisted.internet import tcp
from twisted.internet.epollreactor import EPollReactor
from twisted.logger import Logger
from twisted.python.log import callWithLogger

from logbus.net.busy_poll import EXPECTED, BusyPoll
from logbus.net.native_fetches import NativeFetches
from logbus.net.native_sends import NativeSends
from logbus.net.read_turn import ReadTurn
from logbus.net.standstills import Standstills
from logbus.net.transport import ServerTransport
from logbus.net.turn_times import SHORT, TurnTimes

# Both at once, hang-ups and errors are rare: Twisted handles them.
_CALLS = (EPOLLIN, EPOLLOUT)
# The connections of clients, and ours to other brokers, and the threads. Subclasses are called as by any reactor.
_STRAIGHT: frozenset[Any] = frozenset({ServerTransport, tcp.Client, NativeSends, NativeFetches})

_POLLS = 64
"""At most, before Twisted has its turn."""


def _description(selectable: Any) -> str:
    """A description of what failed, for the log."""
    peer: Callable[[], object] | None = getattr(selectable, "getPeer", None)
    return str(selectable.logPrefix()) if peer is None else f"the connection with {peer()}"


class BrokerReactor(EPollReactor):
    """
    An epoll reactor that calls :class:`~logbus.net.transport.ServerTransport` and TCP clients directly.

    :ivar turn: what the connections that one poll found readable leave to be done together. A single one is served at
        once.
    :ivar turns: how long each turn took.
    :ivar standstills: looks after each turn that was long, or has waited, before what it found is served.
    :ivar busy: polls before the reactor sleeps.
    """

    _log = Logger()

    def __init__(self) -> None:
        self.turn = ReadTurn()
        self.turns = TurnTimes()
        self.standstills = Standstills()
        self.busy = BusyPoll()
        self._sends: NativeSends | None = None
        self._has_sends = True
        self._fetches: NativeFetches | None = None
        self._has_fetches = True
        super().__init__()

    @property
    def sends(self) -> NativeSends | None:
        """The threads that send, which are started when they are first asked for; None: there are none."""
        if self._sends is None and self._has_sends:
            self._sends = NativeSends.start(self)
            self._has_sends = self._sends is not None
        return self._sends

    @property
    def fetches(self) -> NativeFetches | None:
        """Likewise, the threads that answer fetches."""
        if self._fetches is None and self._has_fetches:
            self._fetches = NativeFetches.start(self)
            self._has_fetches = self._fetches is not None
        return self._fetches

    def doPoll(self, timeout: float | None) -> None:
        """
        Wait for ready descriptors, and call them; again, as long as nothing else is due: what Twisted does between two
        polls costs more than a poll.
        """
        for _ in range(_POLLS):
            if not self._poll(timeout) or timeout == 0:
                return
            if self.threadCallQueue or self._newTimedCalls or self._justStopped or not self._started:
                return
            calls = self._pendingTimedCalls
            if calls:
                timeout = calls[0].time - self.seconds()
                if timeout <= 0:
                    return

    def _poll(self, timeout: float | None) -> bool:
        """Wait once; returns whether there was something ready."""
        selectables: dict[int, Any] = self._selectables
        turn, turns, busy = self.turn, self.turns, self.busy
        before = turns.begun
        ended = monotonic()
        if before:
            turns.end(ended)
        ready: Any = None
        if busy.expected == EXPECTED and busy.seconds and timeout != 0:
            ready = busy.poll(self._poller.poll, timeout, len(selectables), ended)
        if not ready:
            ready = self._poller.poll(-1 if timeout is None else timeout, len(selectables))
        turns.begun = monotonic()
        if timeout != 0:
            busy.waited(turns.begun - ended, len(ready))
        if turns.begun - before > SHORT:
            self.standstills.look()
        several = len(ready) > 1
        if several:
            turn.begun = turns.begun
        if self._sends is not None:
            self._sends.polled(ready)
        for fd, event in ready:
            # A ready descriptor may have been closed by one called before it.
            selectable: Any = selectables.get(fd)
            if several:
                if selectable.__class__ is ServerTransport and event == EPOLLIN:
                    turn.reading = selectable
                else:
                    # Whatever it does, it finds the work of those before it done.
                    turn.reading = None
                    turn.end()
            if selectable.__class__ in _STRAIGHT and event in _CALLS:
                why: Exception | None
                try:
                    why = selectable.doRead() if event == EPOLLIN else selectable.doWrite()
                except Exception as e:
                    self._log.failure("{descriptor} failed", descriptor=_description(selectable))
                    why = e
                if why is not None:
                    callWithLogger(selectable, self._disconnectSelectable, selectable, why, event == EPOLLIN)
            elif selectable is not None:
                callWithLogger(selectable, self._doReadOrWrite, selectable, fd, event)
        if several:
            turn.reading = None
            turn.end()
            turn.begun = 0.0
        return bool(ready)

    doIteration = doPoll
