"""
From a request to the method that serves it.

A family of handlers is a class whose methods say with :func:`serves` which API they answer and at which versions; what
is advertised to clients (``ApiVersions``) is built from the same declarations, so that nothing else can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.net.request_context import RequestContext
from logbus.wire.connection import Request
from logbus.wire.request_template import PRODUCE, CoalescedProduce

Answer = Any
"""A response message, None where the protocol wants silence, or a Deferred of these."""

Handler = Callable[[RequestContext, Request], Answer]
CoalescedHandler = Callable[[RequestContext, CoalescedProduce], bytes | Deferred[bytes] | None]
F = TypeVar("F", bound=Callable[..., Any])
A = TypeVar("A")

VersionRange = tuple[int, int]


def serves(api_key: int, first: int, last: int) -> Callable[[F], F]:
    """
    Declare that a method answers ``api_key`` at versions ``first`` to ``last``.

    The method takes the :class:`RequestContext` and the :class:`Request`, and gives an :data:`Answer`.
    """

    def mark(method: F) -> F:
        method.__serves__ = (api_key, first, last)  # type: ignore[attr-defined]
        return method

    return mark


def serves_coalesced(api_key: int) -> Callable[[F], F]:
    """
    Declare that a method answers runs of requests of ``api_key``.

    The method takes the :class:`RequestContext` and the :class:`CoalescedProduce`, and gives the answers as they go
    out, or a Deferred of them; or None, before it did anything: the first is to be served by itself.
    """

    def mark(method: F) -> F:
        method.__serves_runs__ = api_key  # type: ignore[attr-defined]
        return method

    return mark


def task(method: Callable[[A, RequestContext, Request], Any]) -> Callable[[A, RequestContext, Request], Deferred[Any]]:
    """Let a handler be ``async def``: it starts at once, and its Deferred is the answer."""

    def start(self: A, context: RequestContext, request: Request) -> Deferred[Any]:
        return Deferred.fromCoroutine(method(self, context, request))

    start.__doc__ = method.__doc__
    return start


@define(eq=False)
class RequestRouter:
    """
    The table of all handlers.

    :ivar served: the versions served, by API key.
    :ivar counts: requests so far, by API key.
    """

    served: dict[int, VersionRange] = field(factory=dict, init=False)
    counts: dict[int, int] = field(factory=dict, init=False)
    _handlers: dict[int, Handler] = field(factory=dict, init=False)
    _runs: dict[int, CoalescedHandler] = field(factory=dict, init=False)

    def add(self, families: Iterable[object]) -> None:
        """Take the handlers of ``families`` into the table; two for one API is a mistake of ours."""
        for family in families:
            for name in dir(type(family)):
                method = getattr(type(family), name)
                if getattr(method, "__serves_runs__", None) is not None:
                    self._runs[method.__serves_runs__] = getattr(family, name)
                mark = getattr(method, "__serves__", None)
                if mark is not None:
                    key, first, last = mark
                    if key in self._handlers:
                        raise ValueError(f"API {key} has two handlers, {self._handlers[key]} and {family}.{name}")
                    self.served[key] = (first, last)
                    self.counts[key] = 0
                    self._handlers[key] = getattr(family, name)

    def wrap(self, keys: Iterable[int], wrap: Callable[[Handler], Handler]) -> None:
        """Put something around the handlers of some APIs, those of them that are served."""
        for key in keys:
            if key in self._handlers:
                self._handlers[key] = wrap(self._handlers[key])

    def __call__(self, context: RequestContext, request: Request) -> Answer:
        key = request.api_key
        self.counts[key] += 1
        return self._handlers[key](context, request)

    def run(self, context: RequestContext, run: CoalescedProduce) -> bytes | Deferred[bytes] | None:
        """Serve several requests at once; see :func:`serves_coalesced`."""
        answers = self._runs[PRODUCE](context, run)
        if answers is not None:
            self.counts[PRODUCE] += len(run.batches)
        return answers
