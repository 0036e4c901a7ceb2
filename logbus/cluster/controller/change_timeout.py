"""
Limits how long a request waits until the change that it asked for is in force on the brokers.
"""

from __future__ import annotations

from typing import TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.errors import ApiError

WAIT_MS = 30_000
"""For requests without a timeout of their own."""

T = TypeVar("T")
_log = Logger()


def in_time(clock: IReactorTime, work: Deferred[T], timeout_ms: int) -> Deferred[bool]:
    """
    Whether ``work`` ends in time; otherwise it goes on, with another controller if this one is replaced.

    :param timeout_ms: 0 or less: :data:`WAIT_MS`.
    """
    outcome: Deferred[bool] = Deferred()
    seconds = (timeout_ms if timeout_ms > 0 else WAIT_MS) / 1000
    timer = clock.callLater(seconds, lambda: outcome.callback(False))

    def late(failure: Failure) -> None:
        if failure.check(ApiError) is not None:
            _log.info("not finished here after its request had timed out: {error}", error=failure.value)
        else:
            _log.failure("administration failed after its request had timed out", failure)

    def done(result: T | Failure) -> None:
        if outcome.called:
            if isinstance(result, Failure):
                late(result)
            return
        timer.cancel()
        if isinstance(result, Failure):
            outcome.errback(result)
        else:
            outcome.callback(True)

    work.addBoth(done)
    return outcome
