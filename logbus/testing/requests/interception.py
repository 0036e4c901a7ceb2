"""Puts something between the connections of a Kafka listener and the handlers of its requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, cast

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProtocolFactory
from twisted.plugin import IPlugin
from zope.interface import implementer

from logbus.ilogbus import IBroker, IProtocolPlugin, Listener
from logbus.net.factory import KafkaServerFactory
from logbus.net.produce_gatherer import GatheredRuns
from logbus.net.request_context import RequestContext
from logbus.records.file_slice import Parts
from logbus.testing.requests.recorder import Recorder
from logbus.wire.connection import Request
from logbus.wire.fetch_template import FETCH, RepeatedFetch
from logbus.wire.request_template import PRODUCE, CoalescedProduce

Serve: TypeAlias = Callable[[RequestContext, Request], Any]
"""Has a request answered: a response message, ``bytes``, None, or a Deferred of these."""


class Interceptor(Protocol):
    """Something between connections and handlers."""

    def concerns(self, api_key: int, client_id: str | None) -> bool:
        """Whether it wants requests of this API and client, so that they take no fast path."""

    def serve(self, context: RequestContext, request: Request, serve: Serve) -> Any:
        """Answer a request, or have it answered by ``serve``."""


@define(eq=False)
class KafkaListeners:
    """
    The Kafka listeners of a broker.

    :ivar factories: of their connections; empty until they are there.
    """

    factories: list[KafkaServerFactory] = field(factory=list, init=False)

    def abort(self, connection_id: int) -> None:
        """Close a connection at once."""
        for factory in self.factories:
            factory.abort_connection(connection_id)


@implementer(IPlugin, IProtocolPlugin)
@define(eq=False)
class InterceptedKafka:
    """The Kafka protocol, with a recorder and an interceptor before each request."""

    _recorder: Recorder
    _interceptor: Interceptor
    _listeners: KafkaListeners
    name = "kafka"
    summary = "the Kafka protocol, as a test wants it"

    def factory(self, broker: IBroker, listener: Listener) -> IProtocolFactory:
        made = cast(KafkaServerFactory, broker.kafka_factory(listener))
        intercept(made, self._recorder, self._interceptor)
        self._listeners.factories.append(made)
        return made


def intercept(factory: KafkaServerFactory, recorder: Recorder, interceptor: Interceptor) -> None:
    """
    Have an interceptor serve the requests of a listener, and all of them recorded.

    The fast paths stay as they are for clients and APIs that do not concern the interceptor; for others they refuse, so
    that each request is decoded, and served by itself.
    """
    serve, concerns = factory.router, interceptor.concerns
    coalesced, gathered, repeated = factory.coalesced_router, factory.gathered_router, factory.repeated_router

    def router(context: RequestContext, request: Request) -> Any:
        recorded = recorder.received(context, request)
        answer = interceptor.serve(context, request, serve)
        return answer if recorded is None else recorder.watch(recorded, answer)

    def coalesced_router(context: RequestContext, run: CoalescedProduce) -> bytes | Deferred[bytes] | None:
        if coalesced is None or concerns(PRODUCE, run.template.client_id):
            return None
        answer = coalesced(context, run)
        return None if answer is None else recorder.run(context, run, answer)

    def gathered_router(runs: GatheredRuns) -> list[bytes | Deferred[bytes]] | None:
        if gathered is None or any(concerns(PRODUCE, run.template.client_id) for _, run in runs):
            return None
        answers = gathered(runs)
        if answers is None:
            return None
        return [recorder.run(context, run, answer) for (context, run), answer in zip(runs, answers, strict=True)]

    def repeated_router(context: RequestContext, request: RepeatedFetch) -> Parts | Deferred[Parts] | None:
        if repeated is None or concerns(FETCH, request.template.client_id):
            return None
        answer = repeated(context, request)
        return None if answer is None else recorder.repeated(context, request, answer)

    factory.router = router
    factory.coalesced_router = coalesced_router if coalesced is not None else None
    factory.gathered_router = gathered_router if gathered is not None else None
    factory.repeated_router = repeated_router if repeated is not None else None
    factory.fetch_preparer = None  # What a thread answers is not recorded.
