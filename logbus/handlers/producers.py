"""
InitProducerId: numbers for idempotent producers (KIP-98).
"""

from __future__ import annotations

from attrs import define

from logbus.cluster.producerids import ProducerIds
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.routing import serves, task
from logbus.net.context import RequestContext
from logbus.wire.connection import Request
from logbus.wire.messages.transactions import InitProducerIdRequest, InitProducerIdResponse


@define(eq=False)
class ProducerHandlers:
    """
    Serves InitProducerId, for producers without a transactional id.

    Such a producer gets a new id each time it asks, whatever id it had before, as with Kafka.
    """

    _ids: ProducerIds

    @serves(22, 0, 5)
    @task
    async def init_producer_id(self, context: RequestContext, request: Request) -> InitProducerIdResponse:
        message: InitProducerIdRequest = request.message
        try:
            if message.transactional_id is not None:
                # Nobody coordinates transactions here; a client that insists is told for good, not to try again.
                raise ApiError(ErrorCode.INVALID_REQUEST, "transactions are not served by this broker")
            return InitProducerIdResponse(producer_id=await self._ids.allocate(), producer_epoch=0)
        except ApiError as e:
            return InitProducerIdResponse(error_code=e.code)
