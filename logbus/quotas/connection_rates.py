"""
Limits how many connections addresses and listeners make a second (Kafka: ConnectionQuotas, KIP-612). Pure.

An address over its rate is refused. A listener over its rate, or that of the broker, accepts later: there is nobody to
blame, and the connections wait in the kernel's queue.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping

from attrs import define, field

from logbus.addresses import canonical_address
from logbus.quotas.leaky_bucket import LeakyBucket

UNLIMITED = 2**31 - 1
"""A rate from which on there is no limit."""

MOST_ADDRESSES = 10_000
"""Addresses that are counted at the same time; beyond that, those unheard of for longest start afresh."""

BURST_SECONDS = 1.0
"""So many seconds of its rate may come at once, and one connection in any case."""


@define(eq=False)
class ConnectionRates:
    """
    Rates of new connections.

    :param now: the time, in seconds.
    :ivar exempt: listeners to which the rate of the broker does not apply: that of the brokers, as in Kafka.
    :ivar throttled: called with ``ip`` or ``listener`` and the seconds, each time there is something to wait for.
    :ivar is_active: whether there is a rate of any kind: while there is none, nothing is counted.
    """

    _now: Callable[[], float]
    exempt: Collection[str] = ()
    throttled: Callable[[str, float], object] = lambda what, seconds: None
    is_active: bool = field(default=False, init=False)
    _of_broker: float = field(default=UNLIMITED, init=False)
    _of_listeners: Mapping[str, float] = field(factory=dict, init=False)
    _of_addresses: dict[str | None, float] = field(factory=dict, init=False)
    # Those heard of last are at the end.
    _addresses: OrderedDict[str, LeakyBucket] = field(factory=OrderedDict, init=False)
    # By listener; None: the broker's.
    _listeners: dict[str | None, LeakyBucket] = field(factory=dict, init=False)

    def set_listeners(self, of_broker: float, of_listeners: Mapping[str, float]) -> None:
        """Set the rates of the broker and of its listeners, in connections a second."""
        self._of_broker = of_broker
        self._of_listeners = {name: rate for name, rate in of_listeners.items() if rate < UNLIMITED}
        self._update_is_active()

    def set_address(self, address: str | None, rate: float | None) -> None:
        """
        Set the rate of an address, or remove it.

        :param address: None: of each one that has none of its own.
        """
        key = None if address is None else canonical_address(address)
        self._of_addresses.pop(key, None)
        if rate is not None:
            self._of_addresses[key] = rate
        self._update_is_active()

    def refuse(self, host: str) -> float:
        """
        Count a connection of an address; 0: it is within its rate.

        :return: the seconds until its next connection may come; this one must be closed, and does not count.
        """
        if not host or not self._of_addresses:
            return 0.0
        host = canonical_address(host)
        rate = self._of_addresses.get(host, self._of_addresses.get(None, UNLIMITED))
        if rate >= UNLIMITED:
            return 0.0
        seconds = self._over(self._bucket(host), rate)
        if seconds:
            self.throttled("ip", seconds)
        return seconds

    def delay(self, listener: str) -> float:
        """Count a connection that a listener has accepted; the seconds for which it must accept no other."""
        now, longest = self._now(), 0.0
        rates: list[tuple[str | None, float]] = [(listener, self._of_listeners.get(listener, UNLIMITED))]
        if listener not in self.exempt:
            rates.append((None, self._of_broker))
        for name, rate in rates:
            if rate < UNLIMITED:
                bucket = self._listeners.setdefault(name, LeakyBucket(now))
                longest = max(longest, bucket.add(1.0, max(rate, 1e-9), now) - max(BURST_SECONDS, 1 / max(rate, 1e-9)))
        seconds = max(longest, 0.0)
        if seconds:
            self.throttled("listener", seconds)
        return seconds

    def _over(self, bucket: LeakyBucket, rate: float) -> float:
        """Count one more connection, unless it would be too many."""
        now, rate = self._now(), max(rate, 1e-9)
        over = bucket.add(1.0, rate, now) - max(BURST_SECONDS, 1 / rate)
        if over <= 1e-9:
            return 0.0
        bucket.level -= 1.0
        return over

    def _bucket(self, host: str) -> LeakyBucket:
        buckets = self._addresses
        bucket = buckets.get(host)
        if bucket is None:
            bucket = buckets[host] = LeakyBucket(self._now())
            if len(buckets) > MOST_ADDRESSES:
                buckets.popitem(last=False)
        buckets.move_to_end(host)
        return bucket

    def _update_is_active(self) -> None:
        addresses = any(rate < UNLIMITED for rate in self._of_addresses.values())
        self.is_active = addresses or self._of_broker < UNLIMITED or bool(self._of_listeners)
        if not addresses:
            self._addresses.clear()
