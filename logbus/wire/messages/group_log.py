"""
Records of ``__consumer_offsets``: groups, their members, and committed offsets.

Each record's key and value begin with their own version (:func:`~logbus.wire.schema.decode_versioned`); the version of
the key gives the kind of record, see :data:`VALUES`. A null value deletes. The formats are those of Kafka
(``GroupMetadataKey.json`` and others), so both can read each other's files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logbus.wire.messages.partitions import TopicIdPartitions
from logbus.wire.messages.streams_group_log import STREAMS_GROUP_VALUES
from logbus.wire.schema import Bytes, Int8, Int32, Int64, String, Uuid, field, message, message_spec, struct

# Committed offsets.


@message(None, versions="0-1", flexible="none")
class OffsetCommitKey:
    """The offset that a group committed for a partition."""

    group: String
    topic: String
    partition: Int32


@message(None, versions="0-4", flexible="4+")
class OffsetCommitValue:
    """A committed offset; ``expire_timestamp`` (−1: none) was set by clients up to OffsetCommit 4. Times in ms."""

    offset: Int64
    leader_epoch: Int32 = field("3+", default=-1, ignorable=True)
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Int64 = field("1", default=-1, ignorable=True)


# Groups of the classic protocol.


@message(None, versions="2", flexible="none")
class GroupMetadataKey:
    """A group of the classic protocol."""

    group: String


@struct
class GroupMemberMetadata:
    """A member of a classic group: its subscription, and its assignment."""

    member_id: String
    group_instance_id: String | None = field("3+", default=None, ignorable=True)
    client_id: String
    client_host: String
    rebalance_timeout: Int32 = field("1+", default=-1, ignorable=True)
    session_timeout: Int32
    subscription: Bytes
    assignment: Bytes


@message(None, versions="0-4", flexible="4+")
class GroupMetadataValue:
    """A group of the classic protocol at one generation; ``current_state_timestamp`` in ms."""

    protocol_type: String
    generation: Int32
    protocol: String | None
    leader: String | None
    current_state_timestamp: Int64 = field("2+", default=-1, ignorable=True)
    members: list[GroupMemberMetadata]


# Groups of the consumer protocol (KIP-848).


@message(None, versions="3", flexible="none")
class ConsumerGroupMetadataKey:
    """A group of the consumer protocol."""

    group_id: String


@message(None, versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    """The group's epoch, which is bumped when members, subscriptions or topics change."""

    epoch: Int32


@message(None, versions="4", flexible="none")
class ConsumerGroupPartitionMetadataKey:
    """The topics a group is subscribed to, as written by Kafka before 4.1; read, and not used."""

    group_id: String


@struct
class PartitionRacks:
    """The racks of a partition's replicas."""

    partition: Int32
    racks: list[String]


@struct
class SubscribedTopic:
    """A topic, as a group saw it."""

    topic_id: Uuid
    topic_name: String
    num_partitions: Int32
    partition_metadata: list[PartitionRacks]


@message(None, versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    """See :class:`ConsumerGroupPartitionMetadataKey`."""

    topics: list[SubscribedTopic]


@message(None, versions="5", flexible="none")
class ConsumerGroupMemberMetadataKey:
    """A member of a consumer group."""

    group_id: String
    member_id: String


@struct
class ClassicProtocol:
    """An assignment strategy that a member of the classic protocol supports."""

    name: String
    metadata: Bytes


@struct
class ClassicMemberMetadata:
    """The join data of a member that still uses the classic protocol."""

    session_timeout_ms: Int32 = 0
    supported_protocols: list[ClassicProtocol] = field(factory=list)


@message(None, versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    """A member's subscription; ``classic_member_metadata`` is None unless it uses the classic protocol."""

    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: String | None
    # For Kafka, an absent tag means an empty struct: null must be written.
    classic_member_metadata: ClassicMemberMetadata | None = field(
        "0+", factory=ClassicMemberMetadata, tag=0, nullable="0+"
    )


@message(None, versions="6", flexible="none")
class ConsumerGroupTargetAssignmentMetadataKey:
    """The target assignment of a consumer group."""

    group_id: String


@message(None, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    """The group epoch that the target assignment was computed for, and when (ms since 1970; KIP-1263)."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = field("0+", default=0, tag=0, ignorable=True)


@message(None, versions="7", flexible="none")
class ConsumerGroupTargetAssignmentMemberKey:
    """The target assignment of a member."""

    group_id: String
    member_id: String


@message(None, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    """See :class:`ConsumerGroupTargetAssignmentMemberKey`."""

    topic_partitions: list[TopicIdPartitions]


@message(None, versions="8", flexible="none")
class ConsumerGroupCurrentMemberAssignmentKey:
    """The current assignment of a member."""

    group_id: String
    member_id: String


@struct
class OwnedTopicPartitions:
    """Partitions of a topic, with the epoch at which the member got each of them (KIP-1251); None: not known."""

    topic_id: Uuid
    partitions: list[Int32]
    assignment_epochs: list[Int32] | None = field("0+", default=None, tag=0)


@message(None, versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    """The partitions a member owns, and those it must revoke first on its way to the target."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[OwnedTopicPartitions]
    partitions_pending_revocation: list[OwnedTopicPartitions]


@message(None, versions="16", flexible="none")
class ConsumerGroupRegularExpressionKey:
    """A regular expression that members of a group subscribe to."""

    group_id: String
    regular_expression: String


@message(None, versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue:
    """The topics that an expression matched, with the metadata version and the time (ms)."""

    topics: list[String]
    version: Int64
    timestamp: Int64


# Share groups (KIP-932).


@message(None, versions="10", flexible="none")
class ShareGroupMemberMetadataKey:
    """A member of a share group."""

    group_id: String
    member_id: String


@message(None, versions="0", flexible="0+")
class ShareGroupMemberMetadataValue:
    """A member's subscription."""

    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]


@message(None, versions="11", flexible="none")
class ShareGroupMetadataKey:
    """A share group."""

    group_id: String


@message(None, versions="0", flexible="0+")
class ShareGroupMetadataValue:
    """The group's epoch; the hash of its topics is Kafka's (0 here, by which Kafka computes it anew)."""

    epoch: Int32
    metadata_hash: Int64 = 0


@message(None, versions="12", flexible="none")
class ShareGroupTargetAssignmentMetadataKey:
    """The assignment of a share group."""

    group_id: String


@message(None, versions="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue:
    """The group epoch that the assignment was computed for, and when (ms since 1970; KIP-1263)."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = field("0+", default=0, tag=0, ignorable=True)


@message(None, versions="13", flexible="none")
class ShareGroupTargetAssignmentMemberKey:
    """The assignment of a member."""

    group_id: String
    member_id: String


@message(None, versions="0", flexible="0+")
class ShareGroupTargetAssignmentMemberValue:
    """See :class:`ShareGroupTargetAssignmentMemberKey`."""

    topic_partitions: list[TopicIdPartitions]


@message(None, versions="14", flexible="none")
class ShareGroupCurrentMemberAssignmentKey:
    """What a member was told."""

    group_id: String
    member_id: String


@message(None, versions="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue:
    """A member's epoch, and the partitions that it has; the state is always stable (0)."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[TopicIdPartitions]


@message(None, versions="15", flexible="none")
class ShareGroupStatePartitionMetadataKey:
    """The share partitions of a group that have a state at the share coordinator."""

    group_id: String


@struct
class SharePartitions:
    """Partitions of a topic."""

    topic_id: Uuid
    topic_name: String
    partitions: list[Int32]


@struct
class ShareTopic:
    """A topic."""

    topic_id: Uuid
    topic_name: String


@message(None, versions="0", flexible="0+")
class ShareGroupStatePartitionMetadataValue:
    """The share partitions whose state is being made, is there, or is being deleted."""

    initializing_topics: list[SharePartitions]
    initialized_topics: list[SharePartitions]
    deleting_topics: list[ShareTopic]


VALUES: Mapping[type[Any], type[Any]] = {
    OffsetCommitKey: OffsetCommitValue,
    GroupMetadataKey: GroupMetadataValue,
    ConsumerGroupMetadataKey: ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey: ConsumerGroupPartitionMetadataValue,
    ConsumerGroupMemberMetadataKey: ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey: ConsumerGroupTargetAssignmentMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey: ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupCurrentMemberAssignmentKey: ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupRegularExpressionKey: ConsumerGroupRegularExpressionValue,
    ShareGroupMemberMetadataKey: ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey: ShareGroupMetadataValue,
    ShareGroupTargetAssignmentMetadataKey: ShareGroupTargetAssignmentMetadataValue,
    ShareGroupTargetAssignmentMemberKey: ShareGroupTargetAssignmentMemberValue,
    ShareGroupCurrentMemberAssignmentKey: ShareGroupCurrentMemberAssignmentValue,
    ShareGroupStatePartitionMetadataKey: ShareGroupStatePartitionMetadataValue,
    **STREAMS_GROUP_VALUES,
}
"""The value class for each key class."""

KEYS: Mapping[int, type[Any]] = {
    0: OffsetCommitKey,
    1: OffsetCommitKey,
    2: GroupMetadataKey,
    3: ConsumerGroupMetadataKey,
    4: ConsumerGroupPartitionMetadataKey,
    5: ConsumerGroupMemberMetadataKey,
    6: ConsumerGroupTargetAssignmentMetadataKey,
    7: ConsumerGroupTargetAssignmentMemberKey,
    8: ConsumerGroupCurrentMemberAssignmentKey,
    10: ShareGroupMemberMetadataKey,
    11: ShareGroupMetadataKey,
    12: ShareGroupTargetAssignmentMetadataKey,
    13: ShareGroupTargetAssignmentMemberKey,
    14: ShareGroupCurrentMemberAssignmentKey,
    15: ShareGroupStatePartitionMetadataKey,
    16: ConsumerGroupRegularExpressionKey,
    **{message_spec(key).versions.min: key for key in STREAMS_GROUP_VALUES},
}
"""The key class by its version."""

SHARE_GROUP_KEYS = tuple(KEYS[version] for version in range(10, 16))
"""The key classes of share groups."""
