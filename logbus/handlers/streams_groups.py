"""
StreamsGroupHeartbeat, StreamsGroupDescribe: streams groups (KIP-1071).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Self

from attrs import define

from logbus.coordination.streams.configured_topology import ConfiguredTopology
from logbus.coordination.streams.endpoints import EndpointPartitions, TopicPartitions
from logbus.coordination.streams.heartbeat import StreamsHeartbeat, StreamsHeartbeatResult
from logbus.coordination.streams.records import key_values, read_tags, task_ids
from logbus.coordination.streams.streams_group import StreamsGroupDescription
from logbus.coordination.streams.streams_group_member import Endpoint, StreamsGroupMember, StreamsPosition
from logbus.coordination.streams.target_assignment import MAX_TASKS
from logbus.coordination.streams.tasks import TaskSets, from_wire
from logbus.coordination.streams.topology import Topology
from logbus.coordination.streams.wire_topology import MAX_SUBTOPOLOGIES, check_size, read_topology, topic_infos
from logbus.coordination.streams_group_service import StreamsGroupService
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.authorization.access import Authorization
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.modern_groups import check_heartbeat_group, describe_all
from logbus.handlers.request_router import serves, task
from logbus.net.request_context import RequestContext
from logbus.security.acl.acls import CLUSTER_NAME, AclOperation, ResourceType
from logbus.wire.connection import Request
from logbus.wire.messages import partitions
from logbus.wire.messages.streams_groups import (
    DescribedStreamsGroup,
    DescribedStreamsMember,
    DescribedSubtopology,
    DescribedTasks,
    DescribedTopology,
    EndpointToPartitions,
    StreamsEndpoint,
    StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsStatus,
)


@define(eq=False)
class StreamsGroupHandlers:
    """Serves members of streams groups, and describes these groups."""

    _groups: StreamsGroupService
    _authorization: Authorization | None = None

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(broker.streams_groups, broker.authorization)

    @serves(88, 0, 0)
    @task
    async def heartbeat(self, context: RequestContext, request: Request) -> StreamsGroupHeartbeatResponse:
        message: StreamsGroupHeartbeatRequest = request.message
        try:
            check_heartbeat_group(message.group_id)
            heartbeat = read_heartbeat(message, context.client_id or "", f"/{context.host}")
            may_create = self._may_create(context, request)
            return answered(await self._groups.heartbeat(message.group_id, heartbeat, context, may_create))
        except ApiError as e:
            return StreamsGroupHeartbeatResponse(error_code=e.code, error_message=e.message)

    def _may_create(self, context: RequestContext, request: Request) -> Callable[[str], bool]:
        if self._authorization is None:
            return lambda topic: True
        access = self._authorization.access(context, request.api_key)
        if access.may(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME):
            return lambda topic: True
        return lambda topic: access.allows(AclOperation.CREATE, ResourceType.TOPIC, topic)

    @serves(89, 0, 0)
    @task
    async def describe(self, context: RequestContext, request: Request) -> StreamsGroupDescribeResponse:
        def described(group_id: str) -> DescribedStreamsGroup:
            return _described(group_id, self._groups.describe(group_id))

        return StreamsGroupDescribeResponse(
            groups=await describe_all(context, request, described, DescribedStreamsGroup)
        )


def read_heartbeat(message: StreamsGroupHeartbeatRequest, client_id: str, client_host: str) -> StreamsHeartbeat:
    """
    The heartbeat in a message.

    :raise ApiError: INVALID_REQUEST: tasks of one role are given without the others; STREAMS_INVALID_TOPOLOGY.
    """
    topology, endpoint = message.topology, message.user_endpoint
    if topology is not None:
        check_size(topology.subtopologies)
    return StreamsHeartbeat(
        member_id=message.member_id,
        epoch=message.member_epoch,
        instance_id=message.instance_id,
        rack_id=message.rack_id,
        rebalance_timeout_ms=message.rebalance_timeout_ms,
        topology=None if topology is None else read_topology(topology.epoch, topology.subtopologies),
        owned=_owned(message),
        process_id=message.process_id,
        endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        client_tags=None if message.client_tags is None else read_tags(message.client_tags),
        endpoint_epoch=message.endpoint_information_epoch,
        shutdown=message.shutdown_application,
        gives_offsets=message.task_offsets is not None or message.task_end_offsets is not None,
        client_id=client_id,
        client_host=client_host,
    )


def _owned(message: StreamsGroupHeartbeatRequest) -> TaskSets | None:
    active, standby, warmup = message.active_tasks, message.standby_tasks, message.warmup_tasks
    if active is None and standby is None and warmup is None:
        return None
    if active is None or standby is None or warmup is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, "tasks must be given in all three roles, or in none")
    # Lists of tasks that no group can have would keep the broker from other work.
    given = (*active, *standby, *warmup)
    tasks = sum(len(each.partitions) for each in given)
    if len(given) > 3 * MAX_SUBTOPOLOGIES or tasks > MAX_TASKS:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"the member gives {tasks} tasks in {len(given)} lists: a group has at most {MAX_TASKS} tasks of "
            f"{MAX_SUBTOPOLOGIES} subtopologies",
        )
    return TaskSets(from_wire(active), from_wire(standby), from_wire(warmup))


def answered(result: StreamsHeartbeatResult) -> StreamsGroupHeartbeatResponse:
    """The response to a heartbeat."""
    tasks, endpoints = result.tasks, result.endpoints
    return StreamsGroupHeartbeatResponse(
        member_id=result.member_id,
        member_epoch=result.epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        status=[StreamsStatus(status_code=each.code, status_detail=each.detail) for each in result.statuses],
        active_tasks=None if tasks is None else task_ids(tasks.active),
        standby_tasks=None if tasks is None else task_ids(tasks.standby),
        warmup_tasks=None if tasks is None else task_ids(tasks.warmup),
        endpoint_information_epoch=result.endpoint_epoch,
        partitions_by_user_endpoint=None if endpoints is None else _endpoints(endpoints),
    )


def _endpoints(endpoints: Iterable[EndpointPartitions]) -> list[EndpointToPartitions]:
    return [
        EndpointToPartitions(
            user_endpoint=_endpoint(each.endpoint),
            active_partitions=_topics(each.active),
            standby_partitions=_topics(each.standby),
        )
        for each in endpoints
    ]


def _endpoint(endpoint: Endpoint) -> StreamsEndpoint:
    return StreamsEndpoint(host=endpoint[0], port=endpoint[1])


def _topics(topics: TopicPartitions) -> list[partitions.TopicPartitions]:
    return [partitions.TopicPartitions(topic=name, partitions=list(numbers)) for name, numbers in topics.items()]


def _described(group_id: str, description: StreamsGroupDescription) -> DescribedStreamsGroup:
    topology = description.topology
    return DescribedStreamsGroup(
        group_id=group_id,
        group_state=description.state,
        group_epoch=description.epoch,
        assignment_epoch=description.target_epoch,
        topology=None if topology is None else _topology(topology, description.configured),
        members=[_member(*each) for each in description.members],
    )


def _topology(topology: Topology, configured: ConfiguredTopology | None) -> DescribedTopology:
    """The topology with numbers of partitions, or as the application described it."""
    subtopologies = topology.subtopologies if configured is None else configured.subtopologies.values()
    return DescribedTopology(
        epoch=topology.epoch,
        subtopologies=[
            DescribedSubtopology(
                subtopology_id=each.subtopology_id,
                source_topics=list(each.source_topics),
                repartition_sink_topics=list(each.repartition_sink_topics),
                state_changelog_topics=topic_infos(each.state_changelog_topics),
                repartition_source_topics=topic_infos(each.repartition_source_topics),
            )
            for each in subtopologies
        ],
    )


def _member(member: StreamsGroupMember, position: StreamsPosition, target: TaskSets) -> DescribedStreamsMember:
    return DescribedStreamsMember(
        member_id=member.member_id,
        member_epoch=position.epoch,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if member.endpoint is None else _endpoint(member.endpoint),
        client_tags=key_values(member.client_tags),
        assignment=_tasks(position.assigned),
        target_assignment=_tasks(target),
    )


def _tasks(tasks: TaskSets) -> DescribedTasks:
    return DescribedTasks(
        active_tasks=task_ids(tasks.active),
        standby_tasks=task_ids(tasks.standby),
        warmup_tasks=task_ids(tasks.warmup),
    )
