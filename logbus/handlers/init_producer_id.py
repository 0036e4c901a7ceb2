"""
InitProducerId: allocates producer ids (KIP-98), and starts transactional producers.
"""

from __future__ import annotations

from typing import Self

from attrs import define

from logbus.cluster.producer_id_manager import ProducerIdManager
from logbus.coordination.transactions.transaction_coordinator import TransactionCoordinator
from logbus.coordination.transactions.transaction_metadata import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerIdAndEpoch
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.request_router import serves, task
from logbus.handlers.transactions import error_for_version
from logbus.net.arrivals import Arrivals
from logbus.net.request_context import RequestContext
from logbus.wire.connection import Request
from logbus.wire.messages.transactions import InitProducerIdRequest, InitProducerIdResponse

FENCED_VERSION = 4
"""The first version that knows PRODUCER_FENCED."""


@define(eq=False)
class InitProducerIdHandlers:
    """
    Serves InitProducerId.

    A producer without a transactional id gets a new id with every request, as in Kafka.
    """

    _ids: ProducerIdManager
    _transactions: TransactionCoordinator
    _arrivals: Arrivals

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(broker.producer_ids, broker.transactions, broker.producer_arrivals)

    @serves(22, 0, 5)
    @task
    async def init_producer_id(self, context: RequestContext, request: Request) -> InitProducerIdResponse:
        message: InitProducerIdRequest = request.message
        try:
            expected = _expected(message)
            if message.transactional_id is None:
                producer = ProducerIdAndEpoch(await self._ids.allocate(), 0)
            else:
                producer = await self._transactions.init_producer_id(
                    message.transactional_id, message.transaction_timeout_ms, expected
                )
            if producer.epoch == 0:
                # A new id: a transactional producer that starts again has its old one, and the next epoch.
                self._arrivals.add(context)
            return InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)
        except ApiError as e:
            return InitProducerIdResponse(error_code=error_for_version(e.code, request.api_version, FENCED_VERSION))


def _expected(message: InitProducerIdRequest) -> ProducerIdAndEpoch | None:
    """The producer id and epoch that a producer sends as its present ones (KIP-360)."""
    given = ProducerIdAndEpoch(message.producer_id, message.producer_epoch)
    if given == (NO_PRODUCER_ID, NO_PRODUCER_EPOCH):
        return None
    if NO_PRODUCER_ID in given:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a producer id and its epoch belong together")
    return given
