"""
FindCoordinator: the coordinators of groups and transactional ids.
"""

from __future__ import annotations

from typing import Self

from attrs import define

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.coordination.group_coordinator import GroupCoordinator
from logbus.coordination.internal_topics import InternalTopics
from logbus.coordination.transactions.transaction_coordinator import TransactionCoordinator
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.metadata import reachable
from logbus.handlers.request_router import serves, task
from logbus.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from logbus.net.request_context import RequestContext
from logbus.wire.connection import Request
from logbus.wire.messages.groups import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP = 0
TRANSACTION = 1
BATCHED_VERSION = 4


@define(eq=False)
class FindCoordinatorHandlers:
    """Serves FindCoordinator."""

    _groups: GroupCoordinator
    _transactions: TransactionCoordinator
    _topics: InternalTopics
    _metadata: ClusterMetadata

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(broker.group_coordinator, broker.transactions, broker.internal_topics, broker.metadata)

    @serves(10, 0, 6, waits_for_metadata=True)
    @task
    async def find_coordinator(self, context: RequestContext, request: Request) -> FindCoordinatorResponse:
        message: FindCoordinatorRequest = request.message
        batched = request.api_version >= BATCHED_VERSION
        keys = context.time_slice(request).over(message.coordinator_keys if batched else [message.key], 4)
        found = [await self._find(context, key, message.key_type) async for key in keys]
        if batched:
            return FindCoordinatorResponse(coordinators=found)
        only = found[0]
        return FindCoordinatorResponse(
            error_code=only.error_code,
            error_message=only.error_message,
            node_id=only.node_id,
            host=only.host,
            port=only.port,
        )

    async def _find(self, context: RequestContext, key: str, key_type: int) -> Coordinator:
        try:
            if key_type not in (GROUP, TRANSACTION):
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"there are no coordinators of type {key_type} here; groups (0) and transactional ids (1) have",
                )
            topic = OFFSETS_TOPIC if key_type == GROUP else TRANSACTIONS_TOPIC
            await self._topics.ensure(topic)
            coordinator = self._groups if key_type == GROUP else self._transactions
            return self._coordinator_at(context, key, TopicPartition(topic, coordinator.partition_of(key)))
        except ApiError as e:
            return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=e.code, error_message=e.message)

    def _coordinator_at(self, context: RequestContext, key: str, partition: TopicPartition) -> Coordinator:
        """The leader of a partition, with its address on the client's listener."""
        image = self._metadata.partition(partition)
        for broker, at in reachable(self._metadata, context.listener):
            if image is not None and broker.broker_id == image.leader:
                return Coordinator(key=key, node_id=broker.broker_id, host=at.host, port=at.port)
        raise ApiError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{partition} has no leader that listener {context.listener} reaches"
        )
