"""Records of streams groups (KIP-1071) in ``__consumer_offsets``; see :mod:`logbus.wire.messages.group_log`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logbus.wire.messages.streams_groups import KeyValue, StreamsEndpoint, SubtopologyInfo, TaskIds
from logbus.wire.schema import Int8, Int32, Int64, String, field, message, struct


@message(None, versions="17", flexible="none")
class StreamsGroupMetadataKey:
    """A streams group."""

    group_id: String


@message(None, versions="0", flexible="0+")
class StreamsGroupMetadataValue:
    """
    The group's epoch.

    The hash of its topics is Kafka's (0 here, by which Kafka computes it anew), and so are the topology whose topics
    were found to be right (−1: none), and the settings of the last assignment.
    """

    epoch: Int32
    metadata_hash: Int64 = 0
    validated_topology_epoch: Int32 = field("0+", default=-1, tag=0)
    last_assignment_configs: list[KeyValue] | None = field("0+", default=None, tag=1)


@message(None, versions="19", flexible="none")
class StreamsGroupMemberMetadataKey:
    """A member of a streams group."""

    group_id: String
    member_id: String


@message(None, versions="0", flexible="0+")
class StreamsGroupMemberMetadataValue:
    """A member: one thread's client of an application's process."""

    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    rebalance_timeout_ms: Int32 = -1
    topology_epoch: Int32
    process_id: String
    user_endpoint: StreamsEndpoint | None = None
    client_tags: list[KeyValue]


@message(None, versions="20", flexible="none")
class StreamsGroupTargetAssignmentMetadataKey:
    """The target assignment of a streams group."""

    group_id: String


@message(None, versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMetadataValue:
    """The group epoch that the target assignment was computed for, and when (ms since 1970; KIP-1263)."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = field("0+", default=0, tag=0, ignorable=True)


@message(None, versions="21", flexible="none")
class StreamsGroupTargetAssignmentMemberKey:
    """The target assignment of a member."""

    group_id: String
    member_id: String


@message(None, versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMemberValue:
    """See :class:`StreamsGroupTargetAssignmentMemberKey`."""

    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]


@message(None, versions="22", flexible="none")
class StreamsGroupCurrentMemberAssignmentKey:
    """The current assignment of a member."""

    group_id: String
    member_id: String


@struct
class OwnedTaskIds:
    """Tasks of a subtopology, with the epoch at which the member got each of them; None: not known."""

    subtopology_id: String
    partitions: list[Int32]
    assignment_epochs: list[Int32] | None = field("0+", default=None, tag=0)


@message(None, versions="0", flexible="0+")
class StreamsGroupCurrentMemberAssignmentValue:
    """The tasks a member has, and those it must give up first on its way to the target."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    active_tasks: list[OwnedTaskIds]
    standby_tasks: list[OwnedTaskIds]
    warmup_tasks: list[OwnedTaskIds]
    active_tasks_pending_revocation: list[OwnedTaskIds]
    standby_tasks_pending_revocation: list[OwnedTaskIds]
    warmup_tasks_pending_revocation: list[OwnedTaskIds]


@message(None, versions="23", flexible="none")
class StreamsGroupTopologyKey:
    """The topology of a streams group."""

    group_id: String


@message(None, versions="0", flexible="0+")
class StreamsGroupTopologyValue:
    """See :class:`StreamsGroupTopologyKey`."""

    epoch: Int32
    subtopologies: list[SubtopologyInfo]


STREAMS_GROUP_VALUES: Mapping[type[Any], type[Any]] = {
    StreamsGroupMetadataKey: StreamsGroupMetadataValue,
    StreamsGroupMemberMetadataKey: StreamsGroupMemberMetadataValue,
    StreamsGroupTargetAssignmentMetadataKey: StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTargetAssignmentMemberKey: StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupCurrentMemberAssignmentKey: StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupTopologyKey: StreamsGroupTopologyValue,
}
"""The value class for each key class."""

STREAMS_GROUP_KEYS = tuple(STREAMS_GROUP_VALUES)
"""The key classes of streams groups."""
