"""
Streams groups (KIP-1071): StreamsGroupHeartbeat (88), StreamsGroupDescribe (89).
"""

from __future__ import annotations

from logbus.wire.messages.metadata import OPERATIONS_UNKNOWN
from logbus.wire.messages.partitions import TopicPartitions
from logbus.wire.schema import Bool, Int8, Int16, Int32, Int64, String, Uint16, field, message, struct


@struct
class KeyValue:
    """A setting of a topic, or a tag of a client."""

    key: String
    value: String


@struct
class StreamsEndpoint:
    """Where an application answers interactive queries."""

    host: String
    port: Uint16


@struct
class TaskIds:
    """Tasks of a subtopology: one for each partition of its input."""

    subtopology_id: String
    partitions: list[Int32]


@struct
class TaskOffset:
    """An offset in a task's changelog, summed over its partitions."""

    subtopology_id: String
    partition: Int32
    offset: Int64


@struct
class TopicInfo:
    """An internal topic; 0 partitions: not given; 0 replicas: the default."""

    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: list[KeyValue]


@struct
class CopartitionGroupIds:
    """Topics that need equal numbers of partitions, as indexes into the lists of their subtopology."""

    source_topics: list[Int16]
    source_topic_regex: list[Int16]
    repartition_source_topics: list[Int16]


@struct
class SubtopologyInfo:
    """A subtopology: what it reads, writes, and keeps."""

    subtopology_id: String
    source_topics: list[String]
    source_topic_regex: list[String]
    state_changelog_topics: list[TopicInfo]
    repartition_sink_topics: list[String]
    repartition_source_topics: list[TopicInfo]
    copartition_groups: list[CopartitionGroupIds]


@struct
class TopologyInfo:
    """The topology of an application."""

    epoch: Int32
    subtopologies: list[SubtopologyInfo]


@message(88, versions="0", flexible="0+")
class StreamsGroupHeartbeatRequest:
    """Join (epoch 0), stay in, or leave (−1; −2 for a static member that will return) a group; None: unchanged."""

    group_id: String
    member_id: String
    member_epoch: Int32
    endpoint_information_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    topology: TopologyInfo | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    process_id: String | None = None
    user_endpoint: StreamsEndpoint | None = None
    client_tags: list[KeyValue] | None = None
    task_offsets: list[TaskOffset] | None = None
    task_end_offsets: list[TaskOffset] | None = None
    shutdown_application: Bool = False


@struct
class StreamsStatus:
    """
    Something that the application should know.

    The codes: 0 stale topology, 1 missing source topics, 2 incorrectly partitioned topics, 3 missing internal topics,
    4 shutdown of the application, 5 assignment delayed.
    """

    status_code: Int8
    status_detail: String


@struct
class EndpointToPartitions:
    """The partitions whose state an application has."""

    user_endpoint: StreamsEndpoint
    active_partitions: list[TopicPartitions]
    standby_partitions: list[TopicPartitions]


@message(88, versions="0", flexible="0+")
class StreamsGroupHeartbeatResponse:
    """The response to :class:`StreamsGroupHeartbeatRequest`; tasks and endpoints of None: as last time."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String = ""
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    acceptable_recovery_lag: Int32 = 0
    task_offset_interval_ms: Int32 = 0
    status: list[StreamsStatus] | None = field(factory=list)
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    endpoint_information_epoch: Int32 = 0
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None


@message(89, versions="0", flexible="0+")
class StreamsGroupDescribeRequest:
    """Describe streams groups."""

    group_ids: list[String]
    include_authorized_operations: Bool = False


@struct
class DescribedSubtopology:
    """A subtopology with its topics as they are: patterns resolved, and partitions counted."""

    subtopology_id: String
    source_topics: list[String]
    repartition_sink_topics: list[String]
    state_changelog_topics: list[TopicInfo]
    repartition_source_topics: list[TopicInfo]


@struct
class DescribedTopology:
    """The topology of a group; no subtopologies if its topics are not there, or have wrong numbers of partitions."""

    epoch: Int32
    subtopologies: list[DescribedSubtopology] | None = None


@struct
class DescribedTasks:
    """Tasks of a member."""

    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]


@struct
class DescribedStreamsMember:
    """A member: the tasks it has, and those it is to have."""

    member_id: String
    member_epoch: Int32
    instance_id: String | None = None
    rack_id: String | None = None
    client_id: String
    client_host: String
    topology_epoch: Int32
    process_id: String
    user_endpoint: StreamsEndpoint | None = None
    client_tags: list[KeyValue]
    task_offsets: list[TaskOffset] = field(factory=list)
    task_end_offsets: list[TaskOffset] = field(factory=list)
    assignment: DescribedTasks
    target_assignment: DescribedTasks
    is_classic: Bool = False


@struct
class DescribedStreamsGroup:
    """A group; GROUP_ID_NOT_FOUND if it does not exist, or is of another type."""

    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    topology: DescribedTopology | None = None
    members: list[DescribedStreamsMember] = field(factory=list)
    authorized_operations: Int32 = OPERATIONS_UNKNOWN


@message(89, versions="0", flexible="0+")
class StreamsGroupDescribeResponse:
    """The response to :class:`StreamsGroupDescribeRequest`."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribedStreamsGroup]
