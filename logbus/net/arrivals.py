"""
Counts the objects that clients create, such as groups, over the last minutes, and finds the clients that create most.

A client may give itself a new name each time, so few names are kept: those that no count of others outweighs (Misra
and Gries). A client that creates more than one part in :data:`NAMES` of all is among them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping

from attrs import define, field

from logbus.net.request_context import ANONYMOUS, RequestContext

SPAN_SECONDS = 600
"""What is counted is as old as this, or younger."""

SLOT_SECONDS = 60
NAMES = 16
"""Names of each sort that are kept for a minute."""

SHOWN_LENGTH = 60


@define(eq=False)
class _Slot:
    """The arrivals within a minute, with lower bounds of how much of it came from whom, by sort of name."""

    number: int
    total: int = 0
    names: dict[str, Counter[str]] = field(factory=dict)

    def add(self, sort: str, name: str) -> None:
        counts = self.names.setdefault(sort, Counter())
        if name in counts or len(counts) < NAMES:
            counts[name] += 1
        else:
            self.names[sort] = Counter({other: count - 1 for other, count in counts.items() if count > 1})


@define(eq=False)
class Arrivals:
    """
    The arrivals within the last :data:`SPAN_SECONDS`, to the minute.

    :ivar seconds: a monotonic clock.
    :ivar since_start: how much has come in all.
    """

    seconds: Callable[[], float]
    since_start: int = field(default=0, init=False)
    _slots: deque[_Slot] = field(factory=deque, init=False)

    def add(self, client: RequestContext | None) -> None:
        """Count one that a client has brought; None: it is not known which."""
        number = int(self.seconds() // SLOT_SECONDS)
        if not self._slots or self._slots[-1].number != number:
            self._slots.append(_Slot(number))
            self._forget()
        slot = self._slots[-1]
        slot.total += 1
        self.since_start += 1
        if client is None:
            return
        if client.principal != ANONYMOUS:
            slot.add("principal", client.principal)
        if client.host:
            slot.add("address", client.host)
        if client.client_id:
            slot.add("client id", client.client_id)

    @property
    def lately(self) -> int:
        """The number of arrivals."""
        self._forget()
        return sum(slot.total for slot in self._slots)

    def most_by(self) -> Mapping[str, str]:
        """Return who has brought at least half of it, by sort of name: principal, address, client id."""
        half = self.lately / 2
        found: dict[str, str] = {}
        for sort in ("principal", "address", "client id"):
            counts: Counter[str] = Counter()
            for slot in self._slots:
                counts.update(slot.names.get(sort, {}))
            for name, count in counts.most_common(1):
                if count >= half:
                    found[sort] = name
        return found

    def describe(self, what: str) -> str:
        """Return a sentence without its end: how much, and from whom; names of clients' own are quoted and cut."""
        told = f"{self.lately} {what} in {SPAN_SECONDS // 60} minutes"
        by = [f"{sort} {_quoted(name)}" for sort, name in self.most_by().items()]
        return f"{told}, most of them by {', '.join(by)}" if by else told

    def _forget(self) -> None:
        oldest = (self.seconds() - SPAN_SECONDS) // SLOT_SECONDS
        while self._slots and self._slots[0].number <= oldest:
            self._slots.popleft()


def _quoted(name: str) -> str:
    return repr(name if len(name) <= SHOWN_LENGTH else f"{name[:SHOWN_LENGTH]}…")
