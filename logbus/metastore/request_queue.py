"""
The requests of a ZooKeeper session, in order: some in flight, the others queued.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logbus.metastore.operations import ConnectionLost, MetastoreError, SessionLost


@define(eq=False)
class StoreRequest:
    """
    :ivar send: called with the session and the callback for the answer.
    :ivar noted: called as soon as there is an answer that is not an error: sets the watch.
    """

    send: Callable[[Any, Callable[[Any], None]], None]
    noted: Callable[[], None] | None = None
    answered: bool = False
    outcome: Any = None
    waiting: Deferred[Any] = field(factory=Deferred)

    def refuse(self, error: MetastoreError) -> None:
        """Fail a request that will not be sent, in its turn."""
        self.answered, self.outcome = True, error


@define(eq=False)
class RequestQueue:
    """
    Sends requests, and delivers their answers in the same order.

    :param deliver: calls a function, with arguments, after those delivered before it.
    :param lost: called when an answer is that the connection, or the session, is lost.
    :ivar session: the session while it is connected, else None.
    """

    _in_flight: int
    _deliver: Callable[..., None]
    _lost: Callable[[], None]
    session: Any = field(default=None, init=False)
    _waiting: deque[StoreRequest] = field(factory=deque, init=False)
    _out: deque[StoreRequest] = field(factory=deque, init=False)

    def put(self, request: StoreRequest) -> None:
        """Send a request, or queue it while too many are in flight."""
        self._waiting.append(request)
        self._send(self._in_flight - len(self._out))

    def send_all(self) -> None:
        """Send all queued requests, however many are in flight."""
        self._send(len(self._waiting))

    def _send(self, most: int) -> None:
        while self._waiting and most > 0:
            most -= 1
            request = self._waiting.popleft()
            self._out.append(request)
            if not request.answered:
                request.send(self.session, lambda outcome, request=request: self._answered(request, outcome))  # type: ignore[misc]
        self._settle()

    def _answered(self, request: StoreRequest, outcome: Any) -> None:
        if request.answered:
            return  # It failed when the connection went.
        if isinstance(outcome, ConnectionLost | SessionLost):
            # The state changes before the failure is delivered: callbacks send nothing new on a lost connection.
            self._lost()
            return
        request.answered, request.outcome = True, outcome
        if request.noted is not None and not isinstance(outcome, MetastoreError):
            request.noted()
        self._settle()
        if self.session is not None:
            self._send(self._in_flight - len(self._out))

    def _settle(self) -> None:
        """Deliver the answers that are due."""
        while self._out and self._out[0].answered:
            request = self._out.popleft()
            if isinstance(request.outcome, MetastoreError):
                self._deliver(request.waiting.errback, Failure(request.outcome))
            else:
                self._deliver(request.waiting.callback, request.outcome)

    def take_all(self) -> list[StoreRequest]:
        """Take all requests, in order; answers that still come are dropped."""
        taken = [*self._out, *self._waiting]
        self._out.clear()
        self._waiting.clear()
        for request in taken:
            request.answered = True
        return taken
