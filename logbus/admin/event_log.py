"""
The last events of the cluster, numbered, so that a client that was cut off gets those it has missed.

Each broker has a log of its own, with the same events under other ids: a client that comes back to another broker, or
after too many events, is told so, and reads anew what it shows.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from logbus.admin.problem_details import HttpProblem
from logbus.security.acl.acls import AclOperation, ResourceType

KEPT_EVENTS = 1000
"""Events that a broker keeps for clients that are behind."""

Need = tuple[AclOperation, ResourceType, str]
"""The right that somebody needs to be told of an event."""


@frozen
class ClusterEvent:
    """
    An event.

    :ivar tell: returns its members, for each client that may see it: a change of thousands of partitions costs its
        broker nothing at once.
    :ivar need: the right to see it; None: everybody may.
    """

    name: str
    tell: Callable[[], Mapping[str, Any]]
    need: Need | None = None


@define(eq=False)
class EventLog:
    """
    The last events.

    :ivar run: distinguishes this log from those of other brokers and of earlier processes; hexadecimal.
    :ivar last: the number of the last event.
    """

    run: str
    _clock: IReactorTime
    _wall_clock: Callable[[], float]
    last: int = field(default=0, init=False)
    _kept: deque[tuple[int, ClusterEvent]] = field(factory=lambda: deque(maxlen=KEPT_EVENTS), init=False)
    _waiting: dict[Deferred[None], IDelayedCall] = field(factory=dict, init=False)

    def append(self, events: Iterable[ClusterEvent], skipped: int = 0) -> None:
        """
        Add events, and wake the streams.

        :param skipped: events before these which nobody is told of: there were too many.
        """
        at = int(self._wall_clock() * 1000)
        if skipped:
            self._kept.clear()
            self.last += skipped
        for each in events:
            self._kept.append((at, each))
            self.last += 1
        for waiting in list(self._waiting):
            self._wake(waiting)

    def event_after(self, number: int) -> tuple[int, ClusterEvent] | None:
        """
        Return the event that follows another one, which must not be the last.

        :return: ms since 1970, and the event; None: it is not kept any more.
        """
        place = number - self.last + len(self._kept)
        return self._kept[place] if place >= 0 else None

    def event_id(self, number: int) -> str:
        """Return what clients know an event by."""
        return f"{self.run}-{number}"

    def place_of(self, event_id: str) -> int | None:
        """
        Return the number of the last event that a client has got.

        :return: None: it was another broker's, or what followed is not kept any more.
        :raise HttpProblem: it is no id of an event.
        """
        if not re.fullmatch(r"[0-9a-f]{1,32}-[0-9]{1,15}", event_id, re.ASCII):
            raise HttpProblem(
                HTTPStatus.BAD_REQUEST,
                f"The Last-Event-ID {event_id[:100]!r} is not one of this stream; leave it out to begin anew.",
            )
        run, _, number = event_id.partition("-")
        place = int(number)
        if run != self.run or not self.last - len(self._kept) <= place <= self.last:
            return None
        return place

    def more(self, seconds: float) -> Deferred[None]:
        """Fires after the next event, or after a time."""
        waiting: Deferred[None] = Deferred(self._forget)
        self._waiting[waiting] = self._clock.callLater(seconds, self._wake, waiting)
        return waiting

    def _wake(self, waiting: Deferred[None]) -> None:
        self._forget(waiting)
        waiting.callback(None)

    def _forget(self, waiting: Deferred[None]) -> None:
        timer = self._waiting.pop(waiting, None)
        if timer is not None and timer.active():
            timer.cancel()
