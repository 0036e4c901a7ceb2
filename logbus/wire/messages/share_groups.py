"""
Share groups (KIP-932): ShareGroupHeartbeat (76), ShareGroupDescribe (77), and their offsets:
DescribeShareGroupOffsets (90), AlterShareGroupOffsets (91), DeleteShareGroupOffsets (92).
"""

from __future__ import annotations

from logbus.wire.messages.consumer_groups import DescribedAssignment, HeartbeatAssignment
from logbus.wire.messages.metadata import OPERATIONS_UNKNOWN
from logbus.wire.schema import Bool, Int16, Int32, Int64, String, Uuid, field, message, struct


@message(76, versions="1", flexible="0+")
class ShareGroupHeartbeatRequest:
    """Join (epoch 0), stay in, or leave (−1) a share group; None: unchanged."""

    group_id: String
    member_id: String
    member_epoch: Int32
    rack_id: String | None = None
    subscribed_topic_names: list[String] | None = None


@message(76, versions="1", flexible="0+")
class ShareGroupHeartbeatResponse:
    """The response to :class:`ShareGroupHeartbeatRequest`; an assignment of None: as last time."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: HeartbeatAssignment | None = None


@message(77, versions="1", flexible="0+")
class ShareGroupDescribeRequest:
    """Describe share groups."""

    group_ids: list[String]
    include_authorized_operations: Bool = False


@struct
class DescribedShareMember:
    """A member, and what it is assigned."""

    member_id: String
    rack_id: String | None = None
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    assignment: DescribedAssignment


@struct
class DescribedShareGroup:
    """A group; GROUP_ID_NOT_FOUND if it does not exist, or is of another type."""

    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: list[DescribedShareMember] = field(factory=list)
    authorized_operations: Int32 = OPERATIONS_UNKNOWN


@message(77, versions="1", flexible="0+")
class ShareGroupDescribeResponse:
    """The response to :class:`ShareGroupDescribeRequest`."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribedShareGroup]


@struct
class DescribeShareGroupOffsetsRequestTopic:
    """Partitions of a topic."""

    topic_name: String
    partitions: list[Int32]


@struct
class DescribeShareGroupOffsetsRequestGroup:
    """A group; None: all topics that it has read."""

    group_id: String
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None


@message(90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest:
    """Where share groups are; the lag from version 1 on (KIP-1226)."""

    groups: list[DescribeShareGroupOffsetsRequestGroup]


@struct
class DescribeShareGroupOffsetsResponsePartition:
    """A start offset, −1 if it is not known, and the number of records that are not done, −1 if it is not known."""

    partition_index: Int32
    start_offset: Int64
    leader_epoch: Int32
    lag: Int64 = field("1+", default=-1, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = None


@struct
class DescribeShareGroupOffsetsResponseTopic:
    """The start offsets of a topic."""

    topic_name: String
    topic_id: Uuid
    partitions: list[DescribeShareGroupOffsetsResponsePartition]


@struct
class DescribeShareGroupOffsetsResponseGroup:
    """The start offsets of a group, or its error."""

    group_id: String
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(factory=list)
    error_code: Int16 = 0
    error_message: String | None = None


@message(90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse:
    """The response to :class:`DescribeShareGroupOffsetsRequest`."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup]


@struct
class AlterShareGroupOffsetsRequestPartition:
    """A new start offset."""

    partition_index: Int32
    start_offset: Int64


@struct
class AlterShareGroupOffsetsRequestTopic:
    """New start offsets of a topic."""

    topic_name: String
    partitions: list[AlterShareGroupOffsetsRequestPartition]


@message(91, versions="0", flexible="0+")
class AlterShareGroupOffsetsRequest:
    """Set the start offsets of a group without members."""

    group_id: String
    topics: list[AlterShareGroupOffsetsRequestTopic]


@struct
class AlterShareGroupOffsetsResponsePartition:
    """The result for a partition."""

    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = None


@struct
class AlterShareGroupOffsetsResponseTopic:
    """The results for a topic."""

    topic_name: String
    topic_id: Uuid
    partitions: list[AlterShareGroupOffsetsResponsePartition]


@message(91, versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse:
    """The response to :class:`AlterShareGroupOffsetsRequest`."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(factory=list)


@struct
class DeleteShareGroupOffsetsRequestTopic:
    """A topic."""

    topic_name: String


@message(92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest:
    """Remove the offsets of a group without members; it reads the topics anew if it is used again."""

    group_id: String
    topics: list[DeleteShareGroupOffsetsRequestTopic]


@struct
class DeleteShareGroupOffsetsResponseTopic:
    """The result for a topic."""

    topic_name: String
    topic_id: Uuid
    error_code: Int16 = 0
    error_message: String | None = None


@message(92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse:
    """The response to :class:`DeleteShareGroupOffsetsRequest`."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(factory=list)
