"""
Cluster and topic metadata: Metadata (3), DescribeCluster (60), DescribeTopicPartitions (75).
"""

from __future__ import annotations

from logbus.wire.schema import ZERO_UUID, Bool, Int8, Int16, Int32, String, Uuid, field, message, struct

#: Authorized operations that were not requested.
OPERATIONS_UNKNOWN = -(2**31)


@struct
class MetadataRequestTopic:
    """A topic to describe, by name or (from version 10) by id."""

    topic_id: Uuid = field("10+", default=ZERO_UUID, ignorable=True)
    name: String | None = field(nullable="10+")


@message(3, versions="0-13", flexible="9+")
class MetadataRequest:
    """Describe topics; None (in version 0 an empty list) stands for all."""

    topics: list[MetadataRequestTopic] | None = field(nullable="1+")
    allow_auto_topic_creation: Bool = field("4+", default=True)
    include_cluster_authorized_operations: Bool = field("8-10", default=False)
    include_topic_authorized_operations: Bool = field("8+", default=False)


@struct
class MetadataResponseBroker:
    """A broker, with its address on the request's listener."""

    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field("1+", default=None, ignorable=True)


@struct
class MetadataResponsePartition:
    """A partition's leader and replicas."""

    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = field("7+", default=-1, ignorable=True)
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    offline_replicas: list[Int32] = field("5+", factory=list, ignorable=True)


@struct
class MetadataResponseTopic:
    """A topic's partitions."""

    error_code: Int16 = 0
    name: String | None = field(nullable="12+")
    topic_id: Uuid = field("10+", default=ZERO_UUID, ignorable=True)
    is_internal: Bool = field("1+", default=False, ignorable=True)
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: Int32 = field("8+", default=OPERATIONS_UNKNOWN, ignorable=True)


@message(3, versions="0-13", flexible="9+")
class MetadataResponse:
    """The response to :class:`MetadataRequest`."""

    throttle_time_ms: Int32 = field("3+", default=0, ignorable=True)
    brokers: list[MetadataResponseBroker]
    cluster_id: String | None = field("2+", default=None, ignorable=True)
    controller_id: Int32 = field("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: Int32 = field("8-10", default=OPERATIONS_UNKNOWN, ignorable=True)
    error_code: Int16 = field("13+", default=0, ignorable=True)


@message(60, versions="0-2", flexible="0+")
class DescribeClusterRequest:
    """Describe the brokers; ``endpoint_type`` 1: brokers, 2: controllers."""

    include_cluster_authorized_operations: Bool = False
    endpoint_type: Int8 = field("1+", default=1)
    include_fenced_brokers: Bool = field("2+", default=False)


@struct
class DescribeClusterBroker:
    """A broker, with its address on the request's listener."""

    broker_id: Int32
    host: String
    port: Int32
    rack: String | None = None
    is_fenced: Bool = field("2+", default=False, ignorable=True)


@message(60, versions="0-2", flexible="0+")
class DescribeClusterResponse:
    """The response to :class:`DescribeClusterRequest`."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    endpoint_type: Int8 = field("1+", default=1, ignorable=True)
    cluster_id: String
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker]
    cluster_authorized_operations: Int32 = OPERATIONS_UNKNOWN


@struct
class Cursor:
    """The partition at which a page begins."""

    topic_name: String
    partition_index: Int32


@struct
class TopicRequest:
    """A topic to describe."""

    name: String


@message(75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    """Describe topics page by page (KIP-966), from the cursor on; no topics stands for all."""

    topics: list[TopicRequest]
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


@struct
class DescribeTopicPartitionsResponsePartition:
    """A partition's leader and replicas."""

    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    eligible_leader_replicas: list[Int32] | None = None
    last_known_elr: list[Int32] | None = None
    offline_replicas: list[Int32] = field(factory=list)


@struct
class DescribeTopicPartitionsResponseTopic:
    """A topic's partitions on this page."""

    error_code: Int16 = 0
    name: String | None
    topic_id: Uuid = ZERO_UUID
    is_internal: Bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: Int32 = OPERATIONS_UNKNOWN


@message(75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    """The response to :class:`DescribeTopicPartitionsRequest`; ``next_cursor`` is None on the last page."""

    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = None
