"""Converts the state of a streams group to and from records of ``__consumer_offsets``. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import frozen

from logbus.coordination.assignment_epochs import aligned
from logbus.coordination.group import Change
from logbus.coordination.streams.streams_group_member import MemberState, StreamsGroupMember, StreamsPosition, Task
from logbus.coordination.streams.tasks import Tasks, TaskSets, from_wire
from logbus.coordination.streams.topology import Topology
from logbus.coordination.streams.wire_topology import read_topology, subtopologies
from logbus.wire.messages.streams_group_log import (
    OwnedTaskIds,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from logbus.wire.messages.streams_groups import KeyValue, StreamsEndpoint, TaskIds

NOT_VALIDATED = -1
"""In place of a topology's epoch: its topics are not all there, or do not fit together."""


@frozen
class GroupEpoch:
    """
    The group epoch, and what it was increased for the last time by, apart from the members.

    :ivar topics_hash: of the topics that the topology names; Kafka has a hash of its own there, and so takes the topics
        for changed when it reads ours.
    :ivar validated_topology: the epoch of the topology if all its topics were right, else :data:`NOT_VALIDATED`.
    :ivar settings: those that assignments depend on.
    """

    epoch: int
    topics_hash: int = 0
    validated_topology: int = NOT_VALIDATED
    settings: tuple[tuple[str, str], ...] = ()


def group_epoch(group_id: str, epoch: GroupEpoch | None) -> Change:
    """The record of the group epoch; None, here and below, makes a tombstone."""
    value = None
    if epoch is not None:
        value = StreamsGroupMetadataValue(
            epoch=epoch.epoch,
            metadata_hash=epoch.topics_hash,
            validated_topology_epoch=epoch.validated_topology,
            last_assignment_configs=[KeyValue(key=key, value=setting) for key, setting in epoch.settings],
        )
    return StreamsGroupMetadataKey(group_id=group_id), value


def read_group_epoch(value: StreamsGroupMetadataValue) -> GroupEpoch:
    """The group epoch in a record."""
    settings = tuple((each.key, each.value) for each in value.last_assignment_configs or ())
    return GroupEpoch(value.epoch, value.metadata_hash, value.validated_topology_epoch, settings)


def topology(group_id: str, described: Topology | None) -> Change:
    """The record of the topology."""
    value = None
    if described is not None:
        value = StreamsGroupTopologyValue(epoch=described.epoch, subtopologies=subtopologies(described))
    return StreamsGroupTopologyKey(group_id=group_id), value


def read_recorded_topology(value: StreamsGroupTopologyValue) -> Topology:
    """
    The topology in a record.

    :raise ApiError: STREAMS_INVALID_TOPOLOGY.
    """
    return read_topology(value.epoch, value.subtopologies)


def target_epoch(group_id: str, epoch: int | None, now_ms: int = 0) -> Change:
    """The record of the epoch that the targets were computed for, and when."""
    value = None
    if epoch is not None:
        value = StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
    return StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), value


def target(group_id: str, member_id: str, tasks: TaskSets | None) -> Change:
    """The record of a member's target."""
    value = None
    if tasks is not None:
        value = StreamsGroupTargetAssignmentMemberValue(
            active_tasks=task_ids(tasks.active),
            standby_tasks=task_ids(tasks.standby),
            warmup_tasks=task_ids(tasks.warmup),
        )
    return StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value


def read_target(value: StreamsGroupTargetAssignmentMemberValue) -> TaskSets:
    """The target in a record."""
    return TaskSets(from_wire(value.active_tasks), from_wire(value.standby_tasks), from_wire(value.warmup_tasks))


def position(group_id: str, member_id: str, where: StreamsPosition | None) -> Change:
    """The record of a member's position."""
    value = None
    if where is not None:
        value = StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=where.epoch,
            previous_member_epoch=where.previous_epoch,
            state=where.state,
            active_tasks=_owned(where.assigned.active, where.since),
            standby_tasks=_owned(where.assigned.standby),
            warmup_tasks=_owned(where.assigned.warmup),
            active_tasks_pending_revocation=_owned(where.revoking.active, where.since),
            standby_tasks_pending_revocation=_owned(where.revoking.standby),
            warmup_tasks_pending_revocation=_owned(where.revoking.warmup),
        )
    return StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), value


def read_position(value: StreamsGroupCurrentMemberAssignmentValue) -> StreamsPosition:
    """The position in a record; an unknown state becomes UNKNOWN."""
    known = value.state in MemberState.__members__.values()
    since: dict[Task, int] = {}
    for tasks in (*value.active_tasks, *value.active_tasks_pending_revocation):
        epochs = aligned(tasks.partitions, tasks.assignment_epochs, value.member_epoch)
        since.update(
            ((tasks.subtopology_id, number), epoch) for number, epoch in zip(tasks.partitions, epochs, strict=True)
        )
    return StreamsPosition(
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state) if known else MemberState.UNKNOWN,
        assigned=TaskSets(from_wire(value.active_tasks), from_wire(value.standby_tasks), from_wire(value.warmup_tasks)),
        revoking=TaskSets(
            from_wire(value.active_tasks_pending_revocation),
            from_wire(value.standby_tasks_pending_revocation),
            from_wire(value.warmup_tasks_pending_revocation),
        ),
        since=since,
    )


def member(group_id: str, member_id: str, described: StreamsGroupMember | None) -> Change:
    """The record of a member."""
    value = None
    if described is not None:
        endpoint = described.endpoint
        value = StreamsGroupMemberMetadataValue(
            instance_id=None,
            rack_id=described.rack_id,
            client_id=described.client_id,
            client_host=described.client_host,
            rebalance_timeout_ms=described.rebalance_timeout_ms,
            topology_epoch=described.topology_epoch,
            process_id=described.process_id,
            user_endpoint=None if endpoint is None else StreamsEndpoint(host=endpoint[0], port=endpoint[1]),
            client_tags=key_values(described.client_tags),
        )
    return StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), value


def read_member(member_id: str, value: StreamsGroupMemberMetadataValue) -> StreamsGroupMember:
    """The member in a record."""
    endpoint = value.user_endpoint
    return StreamsGroupMember(
        member_id=member_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        client_tags=read_tags(value.client_tags),
    )


def key_values(pairs: Iterable[tuple[str, str]]) -> list[KeyValue]:
    """Names and values in the format of messages."""
    return [KeyValue(key=key, value=value) for key, value in pairs]


def read_tags(tags: Iterable[KeyValue]) -> tuple[tuple[str, str], ...]:
    """Client tags from a message, each name once."""
    return tuple(sorted({tag.key: tag.value for tag in tags}.items()))


def task_ids(tasks: Tasks) -> list[TaskIds]:
    """A set of tasks in the format of messages, sorted, so that equal sets are equal bytes."""
    return [TaskIds(subtopology_id=each, partitions=sorted(numbers)) for each, numbers in sorted(tasks.items())]


def _owned(tasks: Tasks, since: Mapping[Task, int] | None = None) -> list[OwnedTaskIds]:
    return [
        OwnedTaskIds(
            subtopology_id=each,
            partitions=sorted(numbers),
            assignment_epochs=None if since is None else [since.get((each, number), 0) for number in sorted(numbers)],
        )
        for each, numbers in sorted(tasks.items())
    ]
