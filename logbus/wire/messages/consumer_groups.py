"""
Groups of the consumer protocol (KIP-848): ConsumerGroupHeartbeat (68), ConsumerGroupDescribe (69).
"""

from __future__ import annotations

from logbus.wire.messages.metadata import OPERATIONS_UNKNOWN
from logbus.wire.messages.partitions import TopicIdPartitions
from logbus.wire.schema import Bool, Int8, Int16, Int32, String, Uuid, field, message, struct


@message(68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest:
    """
    Join (epoch 0), stay in, or leave a group (−1; −2 for a static member that will return); None: unchanged.

    From version 1 the member generates its own id (KIP-1082).
    """

    group_id: String
    member_id: String
    member_epoch: Int32
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[String] | None = None
    subscribed_topic_regex: String | None = field("1+", default=None)
    server_assignor: String | None = None
    topic_partitions: list[TopicIdPartitions] | None = None


@struct
class HeartbeatAssignment:
    """The partitions that a member is to own."""

    topic_partitions: list[TopicIdPartitions]


@message(68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse:
    """The response to :class:`ConsumerGroupHeartbeatRequest`; an assignment of None: as last time."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: HeartbeatAssignment | None = None


@message(69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest:
    """Describe groups of the consumer protocol."""

    group_ids: list[String]
    include_authorized_operations: Bool = False


@struct
class DescribedTopicPartitions:
    """Partitions of one topic."""

    topic_id: Uuid
    topic_name: String
    partitions: list[Int32]


@struct
class DescribedAssignment:
    """The partitions that a member owns, or is to own."""

    topic_partitions: list[DescribedTopicPartitions] = field(factory=list)


@struct
class DescribedConsumer:
    """A member; its type from version 1: 0 classic, 1 consumer, −1 unknown."""

    member_id: String
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None = None
    assignment: DescribedAssignment
    target_assignment: DescribedAssignment
    member_type: Int8 = field("1+", default=-1, ignorable=True)


@struct
class DescribedConsumerGroup:
    """A group; GROUP_ID_NOT_FOUND if it does not exist, or uses another protocol."""

    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: list[DescribedConsumer] = field(factory=list)
    authorized_operations: Int32 = OPERATIONS_UNKNOWN


@message(69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse:
    """The response to :class:`ConsumerGroupDescribeRequest`."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribedConsumerGroup]
