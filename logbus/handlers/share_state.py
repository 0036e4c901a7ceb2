"""
InitializeShareGroupState, ReadShareGroupState, WriteShareGroupState, DeleteShareGroupState,
ReadShareGroupStateSummary: the share coordinator, for other brokers (KIP-932).
"""

from __future__ import annotations

from typing import Any, Self

from attrs import define
from twisted.internet.defer import Deferred, gatherResults, maybeDeferred
from twisted.python.failure import Failure

from logbus.coordination.share_state.share_coordinator import ShareCoordinator
from logbus.coordination.share_state.share_state import SharePartitionKey
from logbus.coordination.share_state.share_state_calls import Call, Result, calls_of, response_of
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.request_router import serves, task
from logbus.net.cancellation import shield_from_cancellation
from logbus.net.request_context import RequestContext
from logbus.wire.connection import Request
from logbus.wire.messages.share_state import (
    DeleteShareGroupStateResponse,
    InitializeShareGroupStateResponse,
    ReadShareGroupStateResponse,
    ReadShareGroupStateSummaryResponse,
    WriteShareGroupStateResponse,
)

UNITS_A_CALL = 10
"""Cost of a call, in units of a time slice."""


@define(eq=False)
class ShareStateHandlers:
    """
    Serves the share coordinator's APIs.

    :param for_clients: an authorizer has said who may send them; without one only brokers may, as anybody could make
        states without end.
    """

    _coordinator: ShareCoordinator
    _for_clients: bool

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(broker.share_coordinator, broker.authorization is not None)

    @serves(83, 0, 0)
    @task
    async def initialize(self, context: RequestContext, request: Request) -> InitializeShareGroupStateResponse:
        response: InitializeShareGroupStateResponse = await self._carried_out(context, request)
        return response

    @serves(84, 0, 0)
    @task
    async def read(self, context: RequestContext, request: Request) -> ReadShareGroupStateResponse:
        response: ReadShareGroupStateResponse = await self._carried_out(context, request)
        return response

    @serves(85, 0, 1)
    @task
    async def write(self, context: RequestContext, request: Request) -> WriteShareGroupStateResponse:
        response: WriteShareGroupStateResponse = await self._carried_out(context, request)
        return response

    @serves(86, 0, 0)
    @task
    async def delete(self, context: RequestContext, request: Request) -> DeleteShareGroupStateResponse:
        response: DeleteShareGroupStateResponse = await self._carried_out(context, request)
        return response

    @serves(87, 0, 1)
    @task
    async def summary(self, context: RequestContext, request: Request) -> ReadShareGroupStateSummaryResponse:
        response: ReadShareGroupStateSummaryResponse = await self._carried_out(context, request)
        return response

    async def _carried_out(self, context: RequestContext, request: Request) -> Any:
        calls = context.time_slice(request).over(calls_of(request.message), UNITS_A_CALL)
        if context.broker is None and not self._for_clients:
            refusal = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "states of share partitions are for brokers")
            return response_of(request.message, [(call.key, refusal) async for call in calls])
        waiting = [self._result(call) async for call in calls]
        # What is under way goes on if the connection is lost.
        results = await shield_from_cancellation(gatherResults(waiting, consumeErrors=True))
        return response_of(request.message, results)

    def _result(self, call: Call) -> Deferred[tuple[SharePartitionKey, Result]]:
        def refused(failure: Failure) -> ApiError:
            failure.trap(ApiError)
            assert isinstance(failure.value, ApiError)
            return failure.value

        return (
            maybeDeferred(self._coordinator.carry_out, call)
            .addErrback(refused)
            .addCallback(lambda result: (call.key, result))
        )
