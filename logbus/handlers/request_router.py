"""
Routes a request to the method that serves its API (Kafka: KafkaApis).

A class of handlers declares by :func:`serves` which API each method serves, at which versions. The versions advertised
to clients (``ApiVersions``) come from the same declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from attrs import define, evolve, field, frozen
from twisted.internet.defer import Deferred

from logbus.config import ConfigView
from logbus.metrics import Registry
from logbus.net.prepared_fetches import AnsweredFetches, PreparedFetches
from logbus.net.produce_gatherer import GatheredRuns
from logbus.net.request_context import RequestContext
from logbus.records.file_slice import Parts
from logbus.wire.connection import Request
from logbus.wire.fetch_template import FETCH, RepeatedFetch
from logbus.wire.messages import api_name
from logbus.wire.request_template import PRODUCE, CoalescedProduce
from logbus.wire.version_range import VersionRange

Answer = Any
"""A response message, None if the protocol has no response, or a Deferred of these."""

Handler = Callable[[RequestContext, Request], Answer]
F = TypeVar("F", bound=Callable[..., Any])
A = TypeVar("A")
T = TypeVar("T")


@frozen
class ServedApi:
    """
    An API, and how it is served.

    :ivar forwarded: whether only the controller can serve it; other brokers forward its requests.
    :ivar waits_for_metadata: whether a starting broker serves it only when it has the cluster's metadata.
    :ivar advertised_if: whether clients are told of it, given the configuration.
    """

    api_key: int
    versions: VersionRange
    forwarded: bool = False
    waits_for_metadata: bool = False
    advertised_if: Callable[[ConfigView], bool] = lambda config: True


def serves(
    api_key: int,
    first: int,
    last: int,
    *,
    forwarded: bool = False,
    waits_for_metadata: bool = False,
    advertised_if: Callable[[ConfigView], bool] = lambda config: True,
    at_start: bool = False,
) -> Callable[[F], F]:
    """
    Declare that a method serves ``api_key`` at versions ``first`` to ``last``; the rest is in :class:`ServedApi`.

    :param at_start: the handlers are made at the start, not with their first request (:mod:`.discovery`): others than
        clients need them, or each request should take no detour.

    The method takes the :class:`RequestContext` and the :class:`Request`, and gives an :data:`Answer`.
    """
    api = ServedApi(api_key, VersionRange(first, last), forwarded, waits_for_metadata, advertised_if)

    def mark(method: F) -> F:
        method.__serves__ = api  # type: ignore[attr-defined]
        return method

    return mark


@frozen
class FastPath:
    """
    A way to serve requests of an API that were recognized, not decoded; or what is done before one is served.

    :ivar kind: ``coalesced``: several of one connection; ``gathered``: of several connections; ``repeated``: one;
        ``prepared``: one that was decoded waits before it is served; ``ahead``: the next ones like it are prepared.
    """

    api_key: int
    kind: Literal["coalesced", "gathered", "repeated", "prepared", "ahead"]


def serves_coalesced(api_key: int) -> Callable[[F], F]:
    """
    Declare that a method serves runs of requests of ``api_key``.

    The method takes the :class:`RequestContext` and the :class:`CoalescedProduce`, and returns the encoded responses,
    or a Deferred of them; or None, without any effect, if the first request must be served by itself.
    """

    def mark(method: F) -> F:
        method.__serves__ = FastPath(api_key, "coalesced")  # type: ignore[attr-defined]
        return method

    return mark


def serves_gathered(api_key: int) -> Callable[[F], F]:
    """Declare that a method serves runs of several connections: a :data:`.GatheredProduceRouter`."""

    def mark(method: F) -> F:
        method.__serves__ = FastPath(api_key, "gathered")  # type: ignore[attr-defined]
        return method

    return mark


def serves_repeated(api_key: int) -> Callable[[F], F]:
    """
    Declare that a method serves repeated requests of ``api_key``.

    The method takes the :class:`RequestContext` and the :class:`RepeatedFetch`, and returns the encoded response, or a
    Deferred of it; or None, without any effect, if the request must be decoded.
    """

    def mark(method: F) -> F:
        method.__serves__ = FastPath(api_key, "repeated")  # type: ignore[attr-defined]
        return method

    return mark


def prepares_fetches(api_key: int) -> Callable[[F], F]:
    """
    Declare that a method prepares the responses to the requests of ``api_key`` that will follow one: a
    :data:`.FetchPreparer`.
    """

    def mark(method: F) -> F:
        method.__serves__ = FastPath(api_key, "ahead")  # type: ignore[attr-defined]
        return method

    return mark


def prepares(api_key: int) -> Callable[[F], F]:
    """
    Declare that a method says what requests of ``api_key`` wait for before they are served: a
    :data:`.ProducePreparer`.
    """

    def mark(method: F) -> F:
        method.__serves__ = FastPath(api_key, "prepared")  # type: ignore[attr-defined]
        return method

    return mark


def task(method: Callable[[A, RequestContext, Request], Any]) -> Callable[[A, RequestContext, Request], Deferred[Any]]:
    """Make an ``async def`` method a handler: it starts at once, and its Deferred is the answer."""

    def start(self: A, context: RequestContext, request: Request) -> Deferred[Any]:
        return Deferred.fromCoroutine(method(self, context, request))

    start.__doc__ = method.__doc__
    return start


async def response_of(answer: Answer) -> Answer:
    """Wait for the response that an answer may be a Deferred of."""
    return await answer if isinstance(answer, Deferred) else answer


def marks(cls: type) -> Iterator[tuple[str, ServedApi | FastPath]]:
    """The methods of a class that serve APIs, by name."""
    for name, value in vars(cls).items():
        mark = getattr(value, "__serves__", None)
        if mark is not None:
            yield name, mark


@runtime_checkable
class HasMetrics(Protocol):
    """Handlers with metrics of their own."""

    def register_metrics(self, registry: Registry) -> None:
        """Declare them."""


@define(eq=False)
class LaterHandlers:
    """
    Handlers that are made when the first of their requests comes.

    :param make: makes the objects whose methods serve the APIs. If it fails, the request does, and the next one tries
        again.
    """

    _make: Callable[[], Iterable[object]]
    _made: dict[int, Handler] = field(factory=dict, init=False)

    def serve(self, context: RequestContext, request: Request) -> Answer:
        """Serve a request by the method that declares its API."""
        if not self._made:
            self._made = {
                api.api_key: getattr(handlers, name)
                for handlers in self._make()
                for name, api in marks(type(handlers))
                if isinstance(api, ServedApi)
            }
        return self._made[request.api_key](context, request)


@define(eq=False)
class RequestRouter:
    """
    The table of all handlers.

    :ivar apis: the APIs served, by key.
    :ivar counts: number of requests so far, by API key.
    """

    apis: dict[int, ServedApi] = field(factory=dict, init=False)
    counts: dict[int, int] = field(factory=dict, init=False)
    _handlers: dict[int, Handler] = field(factory=dict, init=False)
    _names: dict[int, str] = field(factory=dict, init=False)
    _fast: dict[tuple[str, int], Callable[..., Any]] = field(factory=dict, init=False)
    _by_class: dict[type, Any] = field(factory=dict, init=False)

    @property
    def served(self) -> dict[int, VersionRange]:
        """The versions served, by API key."""
        return {key: api.versions for key, api in self.apis.items()}

    def add(self, handlers: object) -> None:
        """
        Add the methods of an object that serve APIs.

        :raises ValueError: there is another handler of one of these APIs.
        """
        self._by_class[type(handlers)] = handlers
        for name, api in marks(type(handlers)):
            method = getattr(handlers, name)
            if isinstance(api, FastPath):
                self._fast[api.kind, api.api_key] = method
                continue
            self._add(api, type(handlers).__qualname__, method)

    def add_later(self, apis: Iterable[ServedApi], name: str, make: Callable[[], Iterable[object]]) -> None:
        """
        Add handlers that are made when the first of their requests comes.

        :param apis: those that they serve; ``name``: of all of them, for errors.
        :param make: see :class:`LaterHandlers`.
        :raises ValueError: as :meth:`add`.
        """
        later = LaterHandlers(make)
        for api in apis:
            self._add(api, name, later.serve)

    def _add(self, api: ServedApi, name: str, handler: Handler) -> None:
        key = api.api_key
        if key in self._handlers:
            raise ValueError(f"API {key} has two handlers, {self._names[key]} and {name}")
        self.apis[key] = api
        self._names[key] = name
        self.counts[key] = 0
        self._handlers[key] = handler

    def find(self, cls: type[T]) -> T:
        """The object of class ``cls`` that was added, not later."""
        found: T = self._by_class[cls]
        return found

    def register_metrics(self, registry: Registry) -> None:
        """Declare the metrics of handlers that have some, and the numbers of requests."""
        for handlers in self._by_class.values():
            if isinstance(handlers, HasMetrics):
                handlers.register_metrics(registry)
        requests = registry.counter("logbus_requests_total", "Requests by API.", ("api",))
        for key in self.apis:
            requests.labels(api=api_name(key)).function = partial(self.counts.__getitem__, key)

    def wrap(self, applies: Callable[[ServedApi], bool], wrap: Callable[[Handler], Handler]) -> None:
        """Wrap the handlers of the APIs to which ``applies`` applies."""
        for key, api in self.apis.items():
            if applies(api):
                self._handlers[key] = wrap(self._handlers[key])

    def wrap_each(self, wrap: Callable[[int, Handler], Handler]) -> None:
        """Wrap all handlers, given with the keys of their APIs."""
        for key, handler in self._handlers.items():
            self._handlers[key] = wrap(key, handler)

    def wrap_fast(self, wrap: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> None:
        """Wrap the fast paths, given with their kinds."""
        for (kind, key), handler in self._fast.items():
            self._fast[kind, key] = wrap(kind, handler)

    def __call__(self, context: RequestContext, request: Request) -> Answer:
        key = request.api_key
        self.counts[key] += 1
        return self._handlers[key](context, request)

    def serve_coalesced(self, context: RequestContext, run: CoalescedProduce) -> bytes | Deferred[bytes] | None:
        """Serve several requests at once; see :func:`serves_coalesced`."""
        answers: bytes | Deferred[bytes] | None = self._fast["coalesced", PRODUCE](context, run)
        if answers is not None:
            self.counts[PRODUCE] += len(run.batches)
        return answers

    def serve_gathered(self, runs: GatheredRuns) -> list[bytes | Deferred[bytes]] | None:
        """Serve requests of several connections at once; see :func:`serves_gathered`."""
        answers: list[bytes | Deferred[bytes]] | None = self._fast["gathered", PRODUCE](runs)
        if answers is not None:
            self.counts[PRODUCE] += sum(len(run.batches) for _, run in runs)
        return answers

    def serve_repeated(self, context: RequestContext, request: RepeatedFetch) -> Parts | Deferred[Parts] | None:
        """Serve a request without decoding it; see :func:`serves_repeated`."""
        answer: Parts | Deferred[Parts] | None = self._fast["repeated", FETCH](context, request)
        if answer is not None:
            self.counts[FETCH] += 1
        return answer

    def prepare(self, context: RequestContext, request: Request) -> Deferred[None] | None:
        """The Deferred that a Produce waits for before it is served; see :func:`prepares`."""
        waiting: Deferred[None] | None = self._fast["prepared", PRODUCE](context, request)
        return waiting

    def prepare_fetches(self, context: RequestContext, request: RepeatedFetch) -> PreparedFetches | None:
        """Prepare the responses to the fetches that will follow; see :func:`prepares_fetches`."""
        prepared: PreparedFetches | None = self._fast["ahead", FETCH](context, request)
        if prepared is None:
            return None
        tell = prepared.answered

        def answered(done: AnsweredFetches) -> None:
            self.counts[FETCH] += done.requests
            tell(done)

        return evolve(prepared, answered=answered)
