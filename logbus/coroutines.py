"""Helpers of coroutines that await Deferreds."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from twisted.internet.defer import Deferred, DeferredList
from twisted.python.failure import Failure

if TYPE_CHECKING:
    from twisted.internet.interfaces import IReactorTime

P = ParamSpec("P")
T = TypeVar("T")


def returns_deferred(function: Callable[P, Coroutine[Deferred[Any], Any, T]]) -> Callable[P, Deferred[T]]:
    """
    Decorate a coroutine function: a call runs it up to its first wait, and returns a Deferred of its result. All
    errors are in the Deferred.
    """

    @wraps(function)
    def begin(*args: P.args, **kwargs: P.kwargs) -> Deferred[T]:
        return Deferred.fromCoroutine(function(*args, **kwargs))

    # For the documentation and for debuggers: this is no coroutine function any more.
    shown = signature(function)
    vars(begin).pop("__wrapped__")
    vars(begin)["__signature__"] = shown.replace(return_annotation=f"Deferred[{shown.return_annotation}]")
    return begin


def sleep(clock: IReactorTime, seconds: float) -> Deferred[None]:
    """Fires after this many seconds; cancelling it cancels the delayed call."""
    # deferLater imports much of Twisted's reactors, which a client on another event loop does not need.
    waiting: Deferred[None] = Deferred(lambda _: call.cancel())
    call = clock.callLater(seconds, waiting.callback, None)
    return waiting


def shield(task: Deferred[Any], cancelled: Callable[[], object] = lambda: None) -> Deferred[None]:
    """A Deferred that fires when ``task`` does. Cancelling it calls ``cancelled``, and does not cancel ``task``."""

    def cancel(_: object) -> None:
        cancelled()

    heard: Deferred[None] = Deferred(cancel)

    def pass_on(result: Any) -> Any:
        if heard.called:
            return None
        if isinstance(result, Failure):
            heard.errback(result)
        else:
            heard.callback(None)
        return None

    task.addBoth(pass_on)
    return heard


async def gather(work: Iterable[Coroutine[Deferred[Any], Any, T]]) -> list[T]:
    """Run several coroutines at once; see :func:`results_of`."""
    return await results_of([Deferred.fromCoroutine(each) for each in work])


async def results_of(begun: Sequence[Deferred[T]]) -> list[T]:
    """
    Wait until all have fired; returns their results in order.

    :raise Exception: the first failure itself (not a FirstError, as of gatherResults(), which handlers of the error do
        not know); also then only after all have fired.
    """
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
