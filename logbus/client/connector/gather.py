"""Many requests at once, without leaving any behind."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, DeferredList

T = TypeVar("T")


async def gather(work: Iterable[Coroutine[Deferred[Any], Any, T]]) -> list[T]:
    """
    The results, in order, once all have ended, be it well or not: nothing goes on behind the back of who asked.

    :raise Exception: the first one's failure, if any failed.
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
