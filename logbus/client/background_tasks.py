"""Runs coroutines in the background."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure


class BackgroundTasks:
    """
    A set of running coroutines.

    :param failed: called with the failure of a coroutine, unless it was cancelled.
    """

    def __init__(self, failed: Callable[[Failure], object]) -> None:
        self._failed = failed
        self._tasks: set[Deferred[None]] = set()

    def start(self, coroutine: Coroutine[Deferred[Any], Any, None]) -> Deferred[None]:
        """Start a coroutine; the Deferred fires when it has ended, and never fails."""
        task = Deferred.fromCoroutine(coroutine)
        self._tasks.add(task)

        def ended(result: object) -> None:
            self._tasks.discard(task)
            if isinstance(result, Failure) and not result.check(CancelledError):
                self._failed(result)

        return task.addBoth(ended)

    def cancel(self) -> None:
        """Cancel all of them."""
        for task in list(self._tasks):
            task.cancel()
