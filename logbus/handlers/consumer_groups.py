"""
ConsumerGroupHeartbeat, ConsumerGroupDescribe: groups of the consumer protocol (KIP-848).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from attrs import define

from logbus.coordination.consumer.heartbeat import ConsumerHeartbeat, ConsumerHeartbeatResult
from logbus.coordination.consumer.partition_sets import Partitions, from_wire
from logbus.coordination.consumer_group_service import ConsumerGroupService, consumer_protocol_enabled
from logbus.errors import ApiError
from logbus.handlers.authorization.access import Authorization
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.modern_groups import check_heartbeat_group, describe_all
from logbus.handlers.request_router import serves, task
from logbus.net.request_context import RequestContext
from logbus.security.acl.acls import AclOperation, ResourceType
from logbus.wire.connection import Request
from logbus.wire.messages.consumer_groups import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedAssignment,
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedTopicPartitions,
    HeartbeatAssignment,
)
from logbus.wire.messages.partitions import TopicIdPartitions

#: The first version in which members generate their own ids (KIP-1082).
OWN_MEMBER_ID_VERSION = 1
CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


@define(eq=False)
class ConsumerGroupHandlers:
    """Serves members of groups of the consumer protocol, and describes these groups."""

    _consumers: ConsumerGroupService
    _authorization: Authorization | None = None

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(ConsumerGroupService(broker.group_coordinator), broker.authorization)

    @serves(68, 0, 1, advertised_if=consumer_protocol_enabled)
    @task
    async def heartbeat(self, context: RequestContext, request: Request) -> ConsumerGroupHeartbeatResponse:
        message: ConsumerGroupHeartbeatRequest = request.message
        heartbeat = ConsumerHeartbeat(
            member_id=message.member_id,
            epoch=message.member_epoch,
            instance_id=message.instance_id,
            rack_id=message.rack_id,
            rebalance_timeout_ms=message.rebalance_timeout_ms,
            topics=None if message.subscribed_topic_names is None else tuple(message.subscribed_topic_names),
            regex=message.subscribed_topic_regex,
            assignor=message.server_assignor,
            owned=None if message.topic_partitions is None else from_wire(message.topic_partitions),
            client_id=context.client_id or "",
            client_host=f"/{context.host}",
            requires_member_id=request.api_version >= OWN_MEMBER_ID_VERSION,
            sees=self._sees(context, request),
        )
        try:
            check_heartbeat_group(message.group_id)
            return answered(await self._consumers.heartbeat(message.group_id, heartbeat, context))
        except ApiError as e:
            return ConsumerGroupHeartbeatResponse(error_code=e.code, error_message=e.message)

    def _sees(self, context: RequestContext, request: Request) -> Callable[[str], bool] | None:
        if self._authorization is None:
            return None
        access = self._authorization.access(context, request.api_key)
        return lambda topic: access.may(AclOperation.DESCRIBE, ResourceType.TOPIC, topic)

    @serves(69, 0, 1, advertised_if=consumer_protocol_enabled)
    @task
    async def describe(self, context: RequestContext, request: Request) -> ConsumerGroupDescribeResponse:
        return ConsumerGroupDescribeResponse(
            groups=await describe_all(context, request, self._described, DescribedConsumerGroup)
        )

    def _described(self, group_id: str) -> DescribedConsumerGroup:
        description = self._consumers.describe(group_id)
        return DescribedConsumerGroup(
            group_id=group_id,
            group_state=description.state,
            group_epoch=description.epoch,
            assignment_epoch=description.target_epoch,
            assignor_name=description.assignor,
            members=[
                DescribedConsumer(
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                    rack_id=member.rack_id,
                    member_epoch=position.epoch,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    subscribed_topic_names=list(member.topics),
                    subscribed_topic_regex=member.regex,
                    assignment=with_names(position.assigned, self._consumers.topic_name),
                    target_assignment=with_names(target, self._consumers.topic_name),
                    member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
                )
                for member, position, target in description.members
            ],
        )


def with_names(partitions: Partitions, name_of: Callable[[bytes], str | None]) -> DescribedAssignment:
    """Partitions with topic names, without topics that do not exist any more."""
    names = {topic_id: name_of(topic_id) for topic_id in partitions}
    return DescribedAssignment(
        topic_partitions=[
            DescribedTopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(partitions[topic_id]))
            for topic_id, name in sorted(names.items())
            if name is not None
        ]
    )


def answered(result: ConsumerHeartbeatResult) -> ConsumerGroupHeartbeatResponse:
    """The response to a heartbeat."""
    return ConsumerGroupHeartbeatResponse(
        member_id=result.member_id,
        member_epoch=result.epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=None if result.assignment is None else heartbeat_assignment(result.assignment),
    )


def heartbeat_assignment(partitions: Partitions) -> HeartbeatAssignment:
    """An assignment in the response to a heartbeat."""
    return HeartbeatAssignment(
        topic_partitions=[
            TopicIdPartitions(topic_id=topic_id, partitions=sorted(numbers))
            for topic_id, numbers in sorted(partitions.items())
        ]
    )
