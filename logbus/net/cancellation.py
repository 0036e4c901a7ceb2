"""
Shields work from the end of the request that began it: a request is cancelled when its client disconnects.
"""

from __future__ import annotations

from typing import TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

T = TypeVar("T")


def shield_from_cancellation(work: Deferred[T]) -> Deferred[T]:
    """The same result, but cancelling it does not cancel the work."""
    waiting: Deferred[T] = Deferred()

    def done(result: T | Failure) -> None:
        # After a cancellation the result is dropped.
        if isinstance(result, Failure):
            if not waiting.called:
                waiting.errback(result)
        elif not waiting.called:
            waiting.callback(result)

    work.addBoth(done)
    return waiting
