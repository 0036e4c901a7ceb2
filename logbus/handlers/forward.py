"""
Forward: serves the requests that other brokers forward to the controller (Kafka: Envelope).
"""

from __future__ import annotations

from typing import Self

from attrs import define, field

from logbus.cluster.controller.controller import Controller
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.inter_broker_identity import InterBrokerIdentity
from logbus.handlers.request_router import RequestRouter, response_of, serves, task
from logbus.net.factory import ELEMENTS_AT_ONCE
from logbus.net.request_context import RequestContext
from logbus.net.request_errors import RequestErrors
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
    Serves Forward.

    :param router: serves forwarded requests; it must contain all handlers before the first one.
    """

    _router: RequestRouter
    _controller: Controller
    _identity: InterBrokerIdentity
    _errors: RequestErrors
    _wire: ServerConnection | None = field(default=None, init=False)

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(broker.router, broker.controller, InterBrokerIdentity(broker.warning_limiter), broker.request_errors)

    @serves(1005, 0, 0)
    @task
    async def forward(self, context: RequestContext, request: Request) -> ForwardResponse:
        message: ForwardRequest = request.message
        try:
            self._identity.require(context, context.broker, "forwarded a request")
            if self._controller.active is None:
                raise ApiError(ErrorCode.NOT_CONTROLLER)
            if message.api_key not in self._router.apis or not self._router.apis[message.api_key].forwarded:
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
            by_delegation_token=message.by_delegation_token,
            scheduler=context.scheduler,
        )
        time_slice = context.time_slice(request)
        if inner.decoding is not None:
            await time_slice.finish(inner.decoding, ELEMENTS_PER_STEP)
        answer = await response_of(self._router(client, inner))
        if isinstance(answer, bytes):
            return ForwardResponse(body=answer)
        assert self._wire is not None
        await time_slice.finish(self._wire.count_errors_in_steps(inner, answer), ELEMENTS_PER_STEP)
        steps = incremental_encoder(type(answer), inner.api_version)(answer)
        return ForwardResponse(body=joined(await time_slice.finish(steps, ELEMENTS_PER_STEP)))

    def _read(self, message: ForwardRequest) -> Request:
        """Decode the client's request as if it had been sent to this broker, with the same errors."""
        if self._wire is None:
            self._wire = ServerConnection(
                self._router.served, max_elements_at_once=ELEMENTS_AT_ONCE, count_error=self._errors.count
            )
        flexible = api(message.api_key).flexible.includes(message.api_version)
        header = RequestHeader(message.api_key, message.api_version, 0, message.client_id)
        return self._wire.receive(encode_request_header(header, flexible) + message.body)
