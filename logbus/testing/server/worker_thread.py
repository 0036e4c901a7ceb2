"""Runs what blocks in a thread, one thing after the other."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

T = TypeVar("T")


@define(eq=False)
class WorkerThread:
    """
    :param reactor: where results are delivered.
    """

    _reactor: Any
    _pool: ThreadPoolExecutor = field(init=False)

    @_pool.default
    def _make_pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, "logbus-test-server")

    def run(self, work: Callable[[], T]) -> Deferred[T]:
        """
        Call a function once all earlier ones have returned.

        :return: fires with its result, or its exception.
        """
        result: Deferred[T] = Deferred()

        def done(future: Future[T]) -> None:
            error = future.exception()
            if error is None:
                self._reactor.callFromThread(result.callback, future.result())
            else:
                self._reactor.callFromThread(result.errback, Failure(error))

        self._pool.submit(work).add_done_callback(done)
        return result

    def stop(self) -> None:
        """End the thread, which has nothing to do any more."""
        self._pool.shutdown(wait=False)
