"""
Forwards requests to the controller, if that is another broker (Kafka: forwarding to the controller, KIP-590).
"""

from __future__ import annotations

from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from logbus.cluster.forwarding_manager import ForwardingManager
from logbus.errors import ApiError
from logbus.handlers.request_router import Answer, Handler, response_of
from logbus.net.request_context import NO_TERMS, RequestContext
from logbus.wire.connection import Request


@frozen
class ForwardToController:
    """Wraps the handlers of APIs that only the controller can serve."""

    _forwarder: ForwardingManager

    def wrap(self, handler: Handler) -> Handler:
        """
        Wrap a handler so that its requests are forwarded if another broker is the controller.

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
                    by_delegation_token=context.by_delegation_token,
                    timeout_ms=getattr(message, "timeout_ms", 0),
                    time_slice=context.time_slice(request) if request.sliced else None,
                )
            except ApiError:
                return await response_of(handler(context, request))

        def handle(context: RequestContext, request: Request) -> Answer:
            # A request that another broker has forwarded is not forwarded again, and terms cannot be forwarded: without
            # them, what was only to be checked would be done.
            if context.broker is not None or context.terms is not NO_TERMS or not self._forwarder.is_needed:
                return handler(context, request)
            return Deferred.fromCoroutine(forwarded(context, request))

        return handle
