"""Coroutines that go on by themselves, with nobody who waits for them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure


class Tasks:
    """
    :param failed: called with what one of them fails with, unless it was cancelled.
    """

    def __init__(self, failed: Callable[[Failure], object]) -> None:
        self._failed = failed
        self._tasks: set[Deferred[None]] = set()

    def start(self, coroutine: Coroutine[Deferred[Any], Any, None]) -> None:
        """Begin one."""
        task = Deferred.fromCoroutine(coroutine)
        self._tasks.add(task)

        def ended(result: object) -> None:
            self._tasks.discard(task)
            if isinstance(result, Failure) and not result.check(CancelledError):
                self._failed(result)

        task.addBoth(ended)

    def cancel(self) -> None:
        """End them all."""
        for task in list(self._tasks):
            task.cancel()
