"""
Forwards requests to the controller, and serves the requests that other brokers forward (API Forward; Kafka: Envelope).
"""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.cluster.controller.controller import Controller
from logbus.cluster.forwarding_manager import FORWARDED_API_KEYS, ForwardingManager
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.inter_broker_identity import InterBrokerIdentity
from logbus.handlers.request_router import Answer, Handler, RequestRouter, serves, task
from logbus.net.factory import ELEMENTS_AT_ONCE
from logbus.net.request_context import RequestContext
from logbus.records.file_slice import joined
from logbus.wire.codegen import ELEMENTS_PER_STEP
from logbus.wire.connection import Request, ServerConnection
from logbus.wire.headers import RequestHeader, encode_request_header
from logbus.wire.messages import api
from logbus.wire.messages.inter_broker import ForwardRequest, ForwardResponse
from logbus.wire.schema import incremental_encoder


@define(eq=False)
class ForwardHandlers:
    """
    Both ends of forwarding.

    :param router: serves forwarded requests; it must contain all handlers before the first one.
    """

    _router: RequestRouter
    _controller: Controller
    _forwarder: ForwardingManager
    _identity: InterBrokerIdentity
    _wire: ServerConnection | None = field(default=None, init=False)

    def wrap(self, handler: Handler) -> Handler:
        """
        Wrap the handler of an API in :data:`.FORWARDED_API_KEYS`: forward its requests if another broker is the
        controller.

        If the controller does not answer, the request is served here, so that its API responds with NOT_CONTROLLER.
        """

        async def forwarded(context: RequestContext, request: Request) -> Answer:
            message: Any = request.message
            try:
                return await self._forwarder.send(
                    message,
                    request.api_version,
                    principal=context.principal,
                    client_id=context.client_id,
                    host=context.host,
                    timeout_ms=getattr(message, "timeout_ms", 0),
                    time_slice=context.time_slice(request) if request.sliced else None,
                )
            except ApiError:
                return await _done(handler(context, request))

        def handle(context: RequestContext, request: Request) -> Answer:
            # A request that another broker has forwarded is not forwarded again.
            if context.broker is not None or not self._forwarder.is_needed:
                return handler(context, request)
            return Deferred.fromCoroutine(forwarded(context, request))

        return handle

    @serves(1005, 0, 0)
    @task
    async def forward(self, context: RequestContext, request: Request) -> ForwardResponse:
        message: ForwardRequest = request.message
        try:
            self._identity.require(context, context.broker, "forwarded a request")
            if self._controller.active is None:
                raise ApiError(ErrorCode.NOT_CONTROLLER)
            if message.api_key not in FORWARDED_API_KEYS or message.api_key not in self._router.served:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"requests of API {message.api_key} are not forwarded")
        except ApiError as e:
            return ForwardResponse(error_code=e.code, error_message=e.message)
        inner = self._read(message)
        client = RequestContext(
            context.connection_id,
            context.listener,
            message.host,
            0,
            principal=message.principal,
            client_id=message.client_id,
            broker=context.broker,
            scheduler=context.scheduler,
        )
        time_slice = context.time_slice(request)
        if inner.decoding is not None:
            await time_slice.finish(inner.decoding, ELEMENTS_PER_STEP)
        answer = await _done(self._router(client, inner))
        if isinstance(answer, bytes):
            return ForwardResponse(body=answer)
        steps = incremental_encoder(type(answer), inner.api_version)(answer)
        return ForwardResponse(body=joined(await time_slice.finish(steps, ELEMENTS_PER_STEP)))

    def _read(self, message: ForwardRequest) -> Request:
        """Decode the client's request as if it had been sent to this broker, with the same errors."""
        if self._wire is None:
            self._wire = ServerConnection(self._router.served, max_elements_at_once=ELEMENTS_AT_ONCE)
        flexible = api(message.api_key).flexible.includes(message.api_version)
        header = RequestHeader(message.api_key, message.api_version, 0, message.client_id)
        return self._wire.receive(encode_request_header(header, flexible) + message.body)


async def _done(answer: Answer) -> Answer:
    return await answer if isinstance(answer, Deferred) else answer
