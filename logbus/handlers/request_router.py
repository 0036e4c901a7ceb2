"""
Routes a request to the method that serves its API (Kafka: KafkaApis).

A class of handlers declares by :func:`serves` which API each method serves, at which versions. The versions advertised
to clients (``ApiVersions``) come from the same declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.metrics import Registry
from logbus.net.request_context import RequestContext
from logbus.wire.connection import Request
from logbus.wire.messages import API_NAMES
from logbus.wire.request_template import PRODUCE, CoalescedProduce

Answer = Any
"""A response message, None if the protocol has no response, or a Deferred of these."""

Handler = Callable[[RequestContext, Request], Answer]
CoalescedHandler = Callable[[RequestContext, CoalescedProduce], bytes | Deferred[bytes] | None]
F = TypeVar("F", bound=Callable[..., Any])
A = TypeVar("A")

VersionRange = tuple[int, int]


def serves(api_key: int, first: int, last: int) -> Callable[[F], F]:
    """
    Declare that a method serves ``api_key`` at versions ``first`` to ``last``.

    The method takes the :class:`RequestContext` and the :class:`Request`, and gives an :data:`Answer`.
    """

    def mark(method: F) -> F:
        method.__serves__ = (api_key, first, last)  # type: ignore[attr-defined]
        return method

    return mark


def serves_coalesced(api_key: int) -> Callable[[F], F]:
    """
    Declare that a method serves runs of requests of ``api_key``.

    The method takes the :class:`RequestContext` and the :class:`CoalescedProduce`, and returns the encoded responses,
    or a Deferred of them; or None, without any effect, if the first request must be served by itself.
    """

    def mark(method: F) -> F:
        method.__serves_coalesced__ = api_key  # type: ignore[attr-defined]
        return method

    return mark


def task(method: Callable[[A, RequestContext, Request], Any]) -> Callable[[A, RequestContext, Request], Deferred[Any]]:
    """Make an ``async def`` method a handler: it starts at once, and its Deferred is the answer."""

    def start(self: A, context: RequestContext, request: Request) -> Deferred[Any]:
        return Deferred.fromCoroutine(method(self, context, request))

    start.__doc__ = method.__doc__
    return start


@define(eq=False)
class RequestRouter:
    """
    The table of all handlers.

    :ivar served: the versions served, by API key.
    :ivar counts: number of requests so far, by API key.
    """

    served: dict[int, VersionRange] = field(factory=dict, init=False)
    counts: dict[int, int] = field(factory=dict, init=False)
    _handlers: dict[int, Handler] = field(factory=dict, init=False)
    _coalesced: dict[int, CoalescedHandler] = field(factory=dict, init=False)

    def add(self, families: Iterable[object]) -> None:
        """Add the handlers of ``families``; two handlers for one API are an error."""
        for family in families:
            for name in dir(type(family)):
                method = getattr(type(family), name)
                if getattr(method, "__serves_coalesced__", None) is not None:
                    self._coalesced[method.__serves_coalesced__] = getattr(family, name)
                mark = getattr(method, "__serves__", None)
                if mark is not None:
                    key, first, last = mark
                    if key in self._handlers:
                        raise ValueError(f"API {key} has two handlers, {self._handlers[key]} and {family}.{name}")
                    self.served[key] = (first, last)
                    self.counts[key] = 0
                    self._handlers[key] = getattr(family, name)

    def register_metrics(self, registry: Registry) -> None:
        """Declare the numbers of requests."""
        requests = registry.counter("logbus_requests_total", "Requests by API.", ("api",))
        for key in self.served:
            requests.labels(api=API_NAMES[key]).function = partial(self.counts.__getitem__, key)

    def wrap(self, keys: Iterable[int], wrap: Callable[[Handler], Handler]) -> None:
        """Wrap the handlers of some APIs, as far as they are served."""
        for key in keys:
            if key in self._handlers:
                self._handlers[key] = wrap(self._handlers[key])

    def __call__(self, context: RequestContext, request: Request) -> Answer:
        key = request.api_key
        self.counts[key] += 1
        return self._handlers[key](context, request)

    def serve_coalesced(self, context: RequestContext, run: CoalescedProduce) -> bytes | Deferred[bytes] | None:
        """Serve several requests at once; see :func:`serves_coalesced`."""
        answers = self._coalesced[PRODUCE](context, run)
        if answers is not None:
            self.counts[PRODUCE] += len(run.batches)
        return answers
