"""
FindCoordinator: the coordinators of groups, transactional ids and share partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from attrs import define

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.coordination.coordinator_runtime import CoordinatorRuntime
from logbus.coordination.internal_topics import InternalTopics
from logbus.coordination.share_state.share_state import SharePartitionKey
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.metadata import reachable
from logbus.handlers.request_router import serves, task
from logbus.model import TopicPartition
from logbus.net.request_context import RequestContext
from logbus.wire.connection import Request
from logbus.wire.messages.groups import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP, TRANSACTION, SHARE = 0, 1, 2
BATCHED_VERSION = 4
SHARE_VERSION = 6
"""From this version on there are coordinators of share partitions (KIP-932)."""


@define(eq=False)
class FindCoordinatorHandlers:
    """Serves FindCoordinator."""

    _coordinators: Mapping[int, CoordinatorRuntime[Any]]
    _topics: InternalTopics
    _metadata: ClusterMetadata

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        coordinators: Mapping[int, CoordinatorRuntime[Any]] = {
            GROUP: broker.group_coordinator,
            TRANSACTION: broker.transactions,
            SHARE: broker.share_coordinator,
        }
        return cls(coordinators, broker.internal_topics, broker.metadata)

    @serves(10, 0, 6, waits_for_metadata=True)
    @task
    async def find_coordinator(self, context: RequestContext, request: Request) -> FindCoordinatorResponse:
        message: FindCoordinatorRequest = request.message
        batched = request.api_version >= BATCHED_VERSION
        keys = context.time_slice(request).over(message.coordinator_keys if batched else [message.key], 4)
        found = [await self._find(context, request.api_version, key, message.key_type) async for key in keys]
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

    async def _find(self, context: RequestContext, version: int, key: str, key_type: int) -> Coordinator:
        try:
            coordinator = self._coordinators.get(key_type)
            if coordinator is None or (key_type == SHARE and version < SHARE_VERSION):
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"there are no coordinators of type {key_type} here; groups (0), transactional ids (1) and, from "
                    f"version {SHARE_VERSION} on, share partitions (2) have",
                )
            if key_type == SHARE:
                _check_share_partition(key)
            await self._topics.ensure(coordinator.topic)
            return self._coordinator_at(context, key, TopicPartition(coordinator.topic, coordinator.partition_of(key)))
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


def _check_share_partition(key: str) -> None:
    try:
        SharePartitionKey.parse(key)
    except ValueError as e:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"{key!r} is not the key of a share partition, GROUP:TOPIC_ID:PARTITION"
        ) from e
