"""
Which HTTP connections are open, and which of them ends when another has no room.

A client that opens connections and asks nothing must not keep others away, least of all the probes of an orchestrator,
which would restart the broker. So a newcomer takes the place of the connection that has been without a request for
longest, at the address that has most of them; connections whose request is being answered stay. When all are being
answered, a few more are taken, for health checks alone.
"""

from __future__ import annotations

from collections import Counter
from typing import Generic, Protocol, TypeVar

from attrs import define, field, frozen

from logbus.admin.http_limits import HttpLimits


class SlotConnection(Protocol):
    """A connection, as its slot sees it."""

    @property
    def answering(self) -> bool:
        """Whether a whole request came that is not answered yet."""


C = TypeVar("C", bound=SlotConnection)


@frozen
class SlotAdmission(Generic[C]):
    """
    How a connection is admitted.

    :ivar health_only: it may ask how the broker is, and nothing else.
    :ivar evict: the connection to close in its favour.
    """

    health_only: bool = False
    evict: C | None = None


@define(eq=False)
class ConnectionSlots(Generic[C]):
    """The connections of one listener. Those without an address (UNIX sockets) have no share of their own."""

    limits: HttpLimits
    # With their addresses; the one that was without a request for longest comes first.
    _open: dict[C, str] = field(factory=dict, init=False)
    _by_host: Counter[str] = field(factory=Counter, init=False)
    _health: dict[C, None] = field(factory=dict, init=False)

    def admit(self, host: str) -> SlotAdmission[C] | None:
        """How one more connection from ``host`` is admitted; None: it is not."""
        limits = self.limits
        if host and self._by_host[host] >= limits.connections_per_address:
            candidates = [each for each, its in self._open.items() if its == host]
        elif len(self._open) >= limits.connections:
            crowded = [host for host, _ in self._by_host.most_common()]
            candidates = sorted(self._open, key=lambda each: crowded.index(self._open[each]))
        else:
            return SlotAdmission()
        evict = next((each for each in candidates if not each.answering), None)
        if evict is not None:
            return SlotAdmission(evict=evict)
        if len(self._health) < limits.health_connections:
            return SlotAdmission(health_only=True)
        evict = next((each for each in self._health if not each.answering), None)
        return SlotAdmission(health_only=True, evict=evict) if evict is not None else None

    def enter(self, connection: C, host: str, health_only: bool) -> None:
        """A connection is open now."""
        if health_only:
            self._health[connection] = None
        else:
            self._open[connection] = host
            self._by_host[host] += 1

    def answered(self, connection: C) -> None:
        """A connection's request was answered: it is the last to go."""
        if connection in self._open:
            self._open[connection] = self._open.pop(connection)

    def leave(self, connection: C) -> None:
        """A connection is gone, or as good as gone."""
        self._health.pop(connection, None)
        host = self._open.pop(connection, None)
        if host is not None:
            self._by_host[host] -= 1
            if not self._by_host[host]:
                del self._by_host[host]
