"""
Asks all brokers for their last hour, and puts it together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from attrs import frozen
from twisted.internet.interfaces import IReactorTime

from logbus.admin.metric_history import Points
from logbus.console.api_client import ApiClient
from logbus.console.broker_answers import from_brokers


@frozen
class ClusterHistory:
    """
    The last hour of brokers.

    :ivar of: what each told, by its id.
    :ivar silent: ids of those that told nothing.
    """

    of: Mapping[int, Mapping[str, Any]]
    silent: Sequence[int]

    def sum(self, name: str) -> Points:
        """Return the sum over the brokers, for each interval of those that any of them has."""
        return self._combined(name, sum)

    def highest(self, name: str) -> Points:
        """Return the highest value of any broker."""
        return self._combined(name, max)

    def _combined(self, name: str, combine: Callable[[Iterable[float]], float]) -> Points:
        # The newest values are beside each other, wherever the hours begin.
        newest_first = zip_longest(*(reversed(each[name]) for each in self.of.values()))
        known = [[value for value in values if value is not None] for values in newest_first]
        return [combine(values) if values else None for values in reversed(known)]


async def last_hour(api: ApiClient, brokers: Iterable[int], clock: IReactorTime) -> ClusterHistory:
    """Ask brokers for their last hour."""
    told = await from_brokers(brokers, lambda broker: api.get(f"/api/v1/brokers/{broker}/history"), clock)
    return ClusterHistory(
        {broker: each for broker, each in told.items() if each is not None},
        [broker for broker, each in told.items() if each is None],
    )
