"""Measures clients that have a quota, and says how long they must wait (Kafka: ClientQuotaManager). Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from attrs import define, field

from logbus.quotas.leaky_bucket import LeakyBucket
from logbus.quotas.quota_table import Quota, QuotaTable

MOST_CLIENTS = 10_000
"""Clients that are measured at the same time; beyond that, those unheard of for longest start afresh."""

LONGEST_WAIT = 2_000_000
"""Seconds; responses have no room for a longer throttle time, in milliseconds."""

PART_AT_ONCE = 0.25
"""The part of a window's amount that a client over its quota gets at once: four portions in each window."""


def _nothing(seconds: float) -> None:
    """Nobody counts throttle times."""


@define(eq=False)
class ClientQuotaManager:
    """
    One kind of quota.

    A client may take one window's amount at once. Beyond that it waits, until it has paid for what it took; but never
    longer than all windows together: what is more is forgiven, so that a request that is larger than all its client may
    take in that time does not keep it waiting for hours.

    :ivar quotas: whose quota is what.
    :ivar in_bursts: a client may take the amount of all windows at once, and nothing is forgiven (Kafka: TokenBucket).
    :ivar throttled: called with the seconds that a client must wait, each time it must.
    """

    quotas: QuotaTable
    _now: Callable[[], float]
    _windows: int = 11
    _window_seconds: float = 1
    throttled: Callable[[float], object] = _nothing
    _in_bursts: bool = False
    # Those heard of last are at the end.
    _buckets: OrderedDict[tuple[str | None, str | None], LeakyBucket] = field(factory=OrderedDict, init=False)

    def __len__(self) -> int:
        return len(self._buckets)

    @property
    def is_active(self) -> bool:
        """Whether anybody has a quota."""
        return not self.quotas.is_empty

    def add(self, user: str, client_id: str | None, amount: float) -> float:
        """Count what a client took; the seconds for which it should wait, though it is not told now."""
        quota = self.quotas.find(user, client_id or "")
        return 0.0 if quota is None else self._wait(quota, amount)

    def record(self, user: str, client_id: str | None, amount: float) -> float:
        """
        Count what a client took.

        :return: the seconds for which it must wait; 0: it is within its quota.
        """
        seconds = self.add(user, client_id, amount)
        if seconds:
            self.throttled(seconds)
        return seconds

    def wait(self, user: str, client_id: str | None) -> float:
        """The seconds for which a client must wait before it takes anything; 0: it need not."""
        return self.record(user, client_id, 0.0)

    def most(self, user: str, client_id: str | None) -> float | None:
        """
        What a client should get at once, so that it takes its quota evenly (Kafka: getMaxValueInQuotaWindow); None: it
        has no quota.
        """
        quota = self.quotas.find(user, client_id or "")
        return None if quota is None else quota.value * self._window_seconds * PART_AT_ONCE

    def _wait(self, quota: Quota, amount: float) -> float:
        buckets, key, now = self._buckets, quota.shared_by, self._now()
        bucket = buckets.get(key)
        if bucket is None:
            if not amount:
                return 0.0
            bucket = buckets[key] = LeakyBucket(now)
            self._forget(key, now)
        buckets.move_to_end(key)
        all_windows = self._windows * self._window_seconds
        burst = all_windows if self._in_bursts else self._window_seconds
        seconds = bucket.add(amount, quota.value, now) - burst
        if seconds <= 0.0:
            return 0.0
        longest = LONGEST_WAIT if self._in_bursts else min(all_windows, LONGEST_WAIT)
        if seconds > longest:
            seconds = longest
            bucket.cap((burst + longest) * quota.value)
        return seconds

    def _forget(self, new: tuple[str | None, str | None], now: float) -> None:
        """For each new client, forget two at most that are idle, so that no request has to wait for a great many."""
        buckets, long_ago = self._buckets, now - (self._windows + 1) * self._window_seconds
        for _ in range(2):
            oldest = next(iter(buckets))
            bucket, are_many = buckets[oldest], len(buckets) > MOST_CLIENTS
            if oldest == new or (bucket.at > long_ago and not are_many):
                break
            if bucket.empty_at > now and not are_many:
                # It has still to wait, and is looked at again behind the others.
                buckets.move_to_end(oldest)
            else:
                del buckets[oldest]
