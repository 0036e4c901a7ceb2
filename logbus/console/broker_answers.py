"""
Asks several brokers at the same time, and does not wait long for one that hangs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, TimeoutError, gatherResults
from twisted.internet.interfaces import IReactorTime

from logbus.admin.problem_details import problem
from logbus.console.api_client import ApiRefusal

MOST_BROKERS = 32
"""Brokers that a page asks."""
PATIENCE_SECONDS = 2.0
"""A broker that has not answered by then is left out."""


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


async def from_brokers(
    brokers: Iterable[int], ask: Callable[[int], Awaitable[Any]], clock: IReactorTime
) -> Mapping[int, Any]:
    """Return what the first brokers of a list answer, by their ids; None: one does not, or refuses."""

    async def one(broker: int) -> tuple[int, Any]:
        try:
            return broker, await soon(ask(broker), clock)
        except ApiRefusal:
            return broker, None

    asked = [Deferred.fromCoroutine(one(broker)) for broker in list(brokers)[:MOST_BROKERS]]
    return dict(await gatherResults(asked))
