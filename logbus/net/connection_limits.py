"""Limits of connections, and the counts that they are checked against (Kafka: ConnectionQuotas)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import count

from attrs import define, field, frozen

DESCRIPTORS_FOR_BROKERS = 128
"""File descriptors that connections of clients leave for those of other brokers; an eighth if there are few."""


@frozen
class ConnectionLimits:
    """
    Limits of one listener's connections.

    :ivar request_max_bytes: the longest frame accepted (``socket.request.max.bytes``).
    :ivar max_pending: requests of one connection without a response (``queued.max.requests``); reading stops there.
    :ivar max_unsent: bytes of replies that a peer has not taken yet; beyond that none of its requests is served.
    :ivar max_unsent_in_all: the same over all peers; near that, each is allowed fewer.
    :ivar max_connections: open connections (``max.connections``).
    :ivar max_connections_per_ip: per address (``max.connections.per.ip``).
    :ivar per_ip_overrides: other limits for some addresses (``max.connections.per.ip.overrides``).
    :ivar idle_seconds: after which an idle connection is closed (``connections.max.idle.ms``).
    :ivar frame_seconds: in which a frame must be complete once it has begun; time in which reading is paused is not
        counted.
    :ivar frame_rate: bytes a second that a frame must receive after that.
    :ivar send_buffer: bytes that the kernel buffers for a peer (``socket.send.buffer.bytes``); −1: its default.
    :ivar turn_requests: requests served for one connection before others get their turn.
    :ivar turn_bytes: bytes of requests, likewise.
    """

    request_max_bytes: int = 100 * 1024 * 1024
    max_pending: int = 100
    max_unsent: int = 1024 * 1024
    max_unsent_in_all: int = 256 * 1024 * 1024
    max_connections: int = 10_000
    max_connections_per_ip: int = 2**31 - 1
    per_ip_overrides: Mapping[str, int] = field(factory=dict)
    idle_seconds: float = 600.0
    frame_seconds: float = 30.0
    frame_rate: int = 256 * 1024
    send_buffer: int = 100 * 1024
    turn_requests: int = 64
    turn_bytes: int = 1024 * 1024


@define
class UnsentReplies:
    """
    Bytes of replies that peers have not taken yet, over all connections.

    A connection may have as many as are left, up to its own limit: the more peers do not read, the less is served ahead
    of each. One reply at a time is always allowed.

    :ivar most: bytes over all connections.
    :ivar least: bytes that each may have in any case.
    """

    most: int
    least: int = 64 * 1024
    total: int = field(default=0, init=False)

    def allowed(self, most: int) -> int:
        """Bytes allowed for a connection whose own limit is ``most``."""
        return min(most, max(self.least, self.most - self.total))


@define
class ConnectionQuotas:
    """
    Counts connections by listener and by address (Kafka: ConnectionQuotas). Connections without an address (UNIX
    sockets) have no limit per address.

    :ivar limits: over all listeners; may be replaced while connections are open.
    :ivar by_listener: limits of some listeners (``listener.name.<name>.max.connections``); may be replaced, too.
    :ivar most_by_descriptors: connections that the process has file descriptors for.
    :ivar protected: the listener of the brokers; None: they have none of their own. Its connections are admitted up to
        its own limit, however many the others have, as in Kafka: clients must not keep brokers from each other.
    """

    limits: ConnectionLimits
    by_listener: Mapping[str, int] = field(factory=dict)
    most_by_descriptors: int = 2**31 - 1
    protected: str | None = None
    _by_host: Counter[str] = field(factory=Counter, init=False)
    _by_listener: Counter[str] = field(factory=Counter, init=False)
    _total: int = field(default=0, init=False)
    _ids: Iterator[int] = field(factory=lambda: count(1), init=False)

    @property
    def total(self) -> int:
        """Open connections."""
        return self._total

    def open_on(self, listener: str) -> int:
        """Open connections of a listener."""
        return self._by_listener[listener]

    def problem(self, host: str, listener: str = "") -> str | None:
        """The reason to refuse a further connection from ``host``; None to admit it."""
        limits = self.limits
        is_protected = self.protected is not None and listener == self.protected
        if self._total >= self._most_by_descriptors(is_protected):
            return (
                f"{self._total} connections are open, and the process may not open files for more: raise its limit "
                "(ulimit -n, LimitNOFILE)"
            )
        most = self.by_listener.get(listener)
        if most is not None and self._by_listener[listener] >= most:
            return f"{self._by_listener[listener]} connections of this listener are open; max.connections is {most}"
        if self._total >= limits.max_connections and not is_protected:
            return f"{self._total} connections are open; max.connections is {limits.max_connections}"
        most = limits.per_ip_overrides.get(host, limits.max_connections_per_ip)
        if host and self._by_host[host] >= most:
            return f"{self._by_host[host]} connections from this address are open; max.connections.per.ip is {most}"
        return None

    def _most_by_descriptors(self, is_protected: bool) -> int:
        """Connections in all up to which one is admitted: some descriptors are left for brokers."""
        most = self.most_by_descriptors
        return most if is_protected or self.protected is None else most - min(DESCRIPTORS_FOR_BROKERS, most // 8)

    def enter(self, host: str, listener: str = "") -> int:
        """Count a new connection from ``host``; returns a number of its own for it."""
        self._total += 1
        self._by_listener[listener] += 1
        self._by_host[host] += 1
        return next(self._ids)

    def leave(self, host: str, listener: str = "") -> None:
        """Uncount a closed connection from ``host``."""
        self._total -= 1
        self._by_listener[listener] -= 1
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]


@define
class WarningLimiter:
    """
    Limits warnings in the log to one a second for each address.

    :ivar seconds: a monotonic clock.
    """

    seconds: Callable[[], float]
    interval: float = 1.0
    most_hosts: int = 1000
    _last: dict[str, float] = field(factory=dict, init=False)
    _suppressed: Counter[str] = field(factory=Counter, init=False)

    def admit(self, host: str) -> int | None:
        """
        :returns: None if no warning about ``host`` may be logged now, else the number of warnings suppressed since the
            last one.
        """
        now = self.seconds()
        last = self._last.get(host)
        if last is not None and now - last < self.interval:
            self._suppressed[host] += 1
            return None
        if len(self._last) >= self.most_hosts:
            self._prune(now)
        self._last[host] = now
        return self._suppressed.pop(host, 0)

    def _prune(self, now: float) -> None:
        """Remove addresses without recent warnings; under a flood from more than ``most_hosts``, remove all."""
        self._last = {host: at for host, at in self._last.items() if now - at < self.interval}
        if len(self._last) >= self.most_hosts:
            self._last.clear()
        self._suppressed = Counter({h: n for h, n in self._suppressed.items() if h in self._last})


def more_suppressed(suppressed: int) -> str:
    """Return the end of a warning: the number of those before it that were suppressed, if there were any."""
    return f" ({suppressed} more warnings suppressed)" if suppressed else ""
