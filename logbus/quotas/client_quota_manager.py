"""Measures clients that have a quota, and says how long they must wait (Kafka: ClientQuotaManager). Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from attrs import define, field

from logbus.quotas.measured_rate import MeasuredRate
from logbus.quotas.quota_table import Quota, QuotaTable

MOST_CLIENTS = 10_000
"""Clients that are measured at the same time; beyond that, those unheard of for longest start afresh."""


@define(eq=False)
class ClientQuotaManager:
    """
    One type of quota.

    :ivar quotas: whose quota is what.
    :ivar throttled: number of requests whose clients must wait.
    :ivar throttled_seconds: how long in all.
    """

    quotas: QuotaTable
    _now: Callable[[], float]
    _windows: int = 11
    _window_seconds: float = 1
    throttled: int = field(default=0, init=False)
    throttled_seconds: float = field(default=0.0, init=False)
    # Those heard of last are at the end.
    _rates: OrderedDict[tuple[str | None, str | None], MeasuredRate] = field(factory=OrderedDict, init=False)

    def __len__(self) -> int:
        return len(self._rates)

    @property
    def is_active(self) -> bool:
        """Whether anybody has a quota."""
        return not self.quotas.is_empty

    def record(self, user: str, client_id: str | None, amount: float) -> float:
        """
        Count what a client took.

        :return: the seconds for which it must wait; 0: it is within its quota.
        """
        quota = self.quotas.find(user, client_id or "")
        if quota is None:
            return 0.0
        now = self._now()
        rate = self._rate(quota, now)
        rate.record(amount, now)
        seconds = rate.throttle_seconds(quota.value, now)
        if seconds:
            self.throttled += 1
            self.throttled_seconds += seconds
        return seconds

    def _rate(self, quota: Quota, now: float) -> MeasuredRate:
        rates, key = self._rates, quota.shared_by
        rate = rates.get(key)
        if rate is None:
            rate = rates[key] = MeasuredRate(self._windows, self._window_seconds)
        rates.move_to_end(key)
        # Each time at most two, so that no request has to wait for a great many.
        for _ in range(2):
            oldest = next(iter(rates))
            if oldest == key or (len(rates) <= MOST_CLIENTS and not rates[oldest].is_idle(now)):
                break
            del rates[oldest]
        return rate
