"""Runs several requests concurrently."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, DeferredList

T = TypeVar("T")


async def gather(work: Iterable[Coroutine[Deferred[Any], Any, T]]) -> list[T]:
    """
    Wait until all coroutines have ended; returns their results in order.

    :raise Exception: the first failure, if any; also then only after all have ended.
    """
    begun = [Deferred.fromCoroutine(each) for each in work]
    results: list[T] = []
    failure: Any = None
    for success, result in await DeferredList(begun, consumeErrors=True):
        if success:
            results.append(result)
        elif failure is None:
            failure = result
    if failure is not None:
        failure.raiseException()
    return results
