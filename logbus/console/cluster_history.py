"""
Asks all brokers for their last hour, and puts it together.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from itertools import zip_longest
from typing import Any

from attrs import frozen
from twisted.internet.defer import CancelledError, Deferred, TimeoutError, gatherResults
from twisted.internet.interfaces import IReactorTime

from logbus.admin.metric_history import Points
from logbus.admin.problem_details import problem
from logbus.console.api_client import ApiClient, ApiRefusal

MOST_BROKERS = 32
"""Brokers that a page asks."""
PATIENCE_SECONDS = 2.0
"""A broker that has not answered by then is left out."""


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


async def soon(answer: Awaitable[Any], clock: IReactorTime) -> Any:
    """
    Wait for an answer, but not for long.

    :raise ApiRefusal: 504: there is none.
    """

    async def wait() -> Any:
        return await answer

    try:
        return await Deferred.fromCoroutine(wait()).addTimeout(PATIENCE_SECONDS, clock)
    except (TimeoutError, CancelledError):
        status = HTTPStatus.GATEWAY_TIMEOUT
        detail = f"There was no answer for {PATIENCE_SECONDS:.0f} s."
        raise ApiRefusal(status, problem(status, detail), {}) from None


async def last_hour(api: ApiClient, brokers: Iterable[int], clock: IReactorTime) -> ClusterHistory:
    """Ask brokers for their last hour, all at the same time."""

    async def ask(broker: int) -> tuple[int, Mapping[str, Any] | None]:
        try:
            return broker, await soon(api.get(f"/api/v1/brokers/{broker}/history"), clock)
        except ApiRefusal:
            return broker, None

    asked = [Deferred.fromCoroutine(ask(broker)) for broker in list(brokers)[:MOST_BROKERS]]
    told = await gatherResults(asked)
    return ClusterHistory(
        {broker: each for broker, each in told if each is not None}, [broker for broker, each in told if each is None]
    )
