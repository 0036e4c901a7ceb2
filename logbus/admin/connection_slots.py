"""
Limits the HTTP connections, and chooses the one to evict for a new one. Pure.

A client that opens connections and sends nothing must not lock out others, in particular the probes of an orchestrator,
which would restart the broker. So a new connection replaces the one that has been idle for longest, at the address with
the most connections; connections with a request in progress stay, but not while its login is verified or was wrong. If
all have one, a few more are admitted for health checks only.
"""

from __future__ import annotations

from collections import Counter
from typing import Generic, Protocol, TypeVar

from attrs import define, field, frozen

from logbus.admin.http_limits import HttpLimits


class SlotConnection(Protocol):
    """The part of a connection that slots need."""

    @property
    def answering(self) -> bool:
        """Whether a complete request of somebody known is not answered yet."""


C = TypeVar("C", bound=SlotConnection)


@frozen
class SlotAdmission(Generic[C]):
    """
    The admission of a connection.

    :ivar health_only: whether it is admitted for health checks only.
    :ivar evict: the connection to close for it.
    """

    health_only: bool = False
    evict: C | None = None


@define(eq=False)
class ConnectionSlots(Generic[C]):
    """The connections of a listener. The limit per address does not apply to UNIX sockets."""

    limits: HttpLimits
    # Addresses by connection, ordered by idle time, longest first.
    _open: dict[C, str] = field(factory=dict, init=False)
    _by_host: Counter[str] = field(factory=Counter, init=False)
    _health: dict[C, str] = field(factory=dict, init=False)

    def admit(self, host: str) -> SlotAdmission[C] | None:
        """Return how a new connection from ``host`` is admitted; None: it is not."""
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
        # At the address with the most: one that opens many does not take the place of another's probe.
        by_host = Counter(self._health.values())
        idle = [each for each in self._health if not each.answering]
        evict = max(idle, key=lambda each: (by_host[self._health[each]], self._health[each] == host), default=None)
        return SlotAdmission(health_only=True, evict=evict) if evict is not None else None

    def enter(self, connection: C, host: str, health_only: bool) -> None:
        """Add an open connection."""
        if health_only:
            self._health[connection] = host
        else:
            self._open[connection] = host
            self._by_host[host] += 1

    def answered(self, connection: C) -> None:
        """Note that a connection's request was answered: it becomes the last to be evicted."""
        if connection in self._open:
            self._open[connection] = self._open.pop(connection)

    def leave(self, connection: C) -> None:
        """Remove a connection that is closed or closing."""
        self._health.pop(connection, None)
        host = self._open.pop(connection, None)
        if host is not None:
            self._by_host[host] -= 1
            if not self._by_host[host]:
                del self._by_host[host]
