"""Awaits Deferreds in asyncio's tasks, with asyncio's cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, ParamSpec, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from logbus.errors import LogbusError

P = ParamSpec("P")
T = TypeVar("T")


class _Outcome(asyncio.Future[T]):
    """
    A future of a Deferred's result. Cancelling it cancels the Deferred at once, not a turn later: nothing can come
    between that would get lost.
    """

    def __init__(self, deferred: Deferred[T]) -> None:
        super().__init__()
        self._deferred = deferred
        deferred.addBoth(self._fired)

    def cancel(self, msg: Any = None) -> bool:
        if not super().cancel(msg):
            return False
        self._deferred.cancel()
        return True

    def _fired(self, result: T | Failure) -> None:
        if self.done():
            return
        if isinstance(result, Failure):
            self.set_exception(_error(result))
        else:
            self.set_result(result)


async def outcome(deferred: Deferred[T]) -> T:
    """
    Wait for a Deferred in an asyncio task; cancelling the task cancels the Deferred.

    :raises LogbusError: the Deferred was cancelled by the client, which was closed.
    """
    found: list[Any] = []

    def keep(result: T | Failure) -> T | Failure:
        found.append(result)
        return result

    deferred.addBoth(keep)
    if not found:
        return await _Outcome(deferred)
    (result,) = found
    if isinstance(result, Failure):
        deferred.addErrback(lambda _: None)
        raise _error(result)
    return result  # type: ignore[no-any-return]


async def run(coroutine: Coroutine[Deferred[Any], Any, T]) -> T:
    """Run a coroutine that awaits Deferreds, as :func:`outcome`."""
    return await outcome(Deferred.fromCoroutine(coroutine))


def awaited(
    method: Callable[Concatenate[Any, P], Deferred[T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A method of an asyncio client from one that returns a Deferred, of the client's ``_core``."""

    @wraps(method)
    async def call(self: Any, *args: P.args, **kwargs: P.kwargs) -> T:
        self._check_loop()
        return await outcome(method(self._core, *args, **kwargs))

    # As it is defined, for the documentation and for debuggers.
    vars(call).pop("__wrapped__")
    shown = signature(method)
    result = str(shown.return_annotation)
    if result.startswith("Deferred["):
        result = result.removeprefix("Deferred[").removesuffix("]")
    vars(call)["__signature__"] = shown.replace(return_annotation=result)
    return call  # type: ignore[return-value]  # mypy takes wraps() for something more special


def deferred_of(awaitable: Awaitable[T]) -> Deferred[T]:
    """A Deferred of what asyncio can await. Cancelling it cancels the task."""
    task = asyncio.ensure_future(awaitable)
    deferred: Deferred[T] = Deferred(lambda _: (task.cancel(), None)[1])

    def done(task: asyncio.Future[T]) -> None:
        if deferred.called:
            return
        if task.cancelled():
            deferred.errback(CancelledError())
        elif (error := task.exception()) is not None:
            deferred.errback(error)
        else:
            deferred.callback(task.result())

    task.add_done_callback(done)
    return deferred


def _error(failure: Failure) -> BaseException:
    error: BaseException = failure.value  # type: ignore[assignment]  # a Failure has one
    # It is no cancellation of the task that waits: Twisted's has nothing to do with asyncio's.
    return LogbusError("given up, since the client was closed") if isinstance(error, CancelledError) else error
