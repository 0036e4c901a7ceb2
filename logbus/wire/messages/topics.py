"""Topics: CreateTopics (19), DeleteTopics (20), DeleteRecords (21), CreatePartitions (37)."""

from __future__ import annotations

from logbus.wire.schema import (
    ZERO_UUID,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    Uuid,
    field,
    message,
    struct,
)


@struct
class CreatableReplicaAssignment:
    """The replicas of one partition."""

    partition_index: Int32
    broker_ids: list[Int32]


@struct
class CreatableTopicConfig:
    """A setting of the new topic."""

    name: String
    value: String | None


@struct
class CreatableTopic:
    """A topic to create; −1 partitions or replicas stand for the broker's default (or for ``assignments``)."""

    name: String
    num_partitions: Int32
    replication_factor: Int16
    assignments: list[CreatableReplicaAssignment] = field(factory=list)
    configs: list[CreatableTopicConfig] = field(factory=list)


@message(19, versions="0-7", flexible="5+")
class CreateTopicsRequest:
    """Create topics, or only validate that."""

    topics: list[CreatableTopic]
    timeout_ms: Int32 = 60_000
    validate_only: Bool = field("1+", default=False)


@struct
class CreatableTopicConfigs:
    """A setting that the new topic has."""

    name: String
    value: String | None
    read_only: Bool
    config_source: Int8 = -1
    is_sensitive: Bool


@struct
class CreatableTopicResult:
    """The result for one topic; describing its settings has an error code of its own."""

    name: String
    topic_id: Uuid = field("7+", default=ZERO_UUID, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = field("1+", default=None, ignorable=True)
    topic_config_error_code: Int16 = field("5+", default=0, tag=0, ignorable=True)
    num_partitions: Int32 = field("5+", default=-1, ignorable=True)
    replication_factor: Int16 = field("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = field("5+", factory=list, ignorable=True)


@message(19, versions="0-7", flexible="5+")
class CreateTopicsResponse:
    """The response to :class:`CreateTopicsRequest`."""

    throttle_time_ms: Int32 = field("2+", default=0, ignorable=True)
    topics: list[CreatableTopicResult]


@struct
class DeleteTopicState:
    """A topic to delete, by name or by id."""

    name: String | None = None
    topic_id: Uuid = ZERO_UUID


@message(20, versions="0-6", flexible="4+")
class DeleteTopicsRequest:
    """Delete topics: ``topic_names`` up to version 5, ``topics`` from 6."""

    topics: list[DeleteTopicState] = field("6+", factory=list)
    topic_names: list[String] = field("0-5", factory=list, ignorable=True)
    timeout_ms: Int32


@struct
class DeletableTopicResult:
    """The result for one topic."""

    name: String | None = field(nullable="6+")
    topic_id: Uuid = field("6+", default=ZERO_UUID, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = field("5+", default=None, ignorable=True)


@message(20, versions="0-6", flexible="4+")
class DeleteTopicsResponse:
    """The response to :class:`DeleteTopicsRequest`."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    responses: list[DeletableTopicResult]


@struct
class DeleteRecordsPartition:
    """The first offset of one partition to keep; −1 deletes up to the high watermark."""

    partition_index: Int32
    offset: Int64


@struct
class DeleteRecordsTopic:
    """The partitions of one topic."""

    name: String
    partitions: list[DeleteRecordsPartition]


@message(21, versions="0-2", flexible="2+")
class DeleteRecordsRequest:
    """Delete the oldest records of partitions."""

    topics: list[DeleteRecordsTopic]
    timeout_ms: Int32


@struct
class DeleteRecordsPartitionResult:
    """The new log start offset of one partition."""

    partition_index: Int32
    low_watermark: Int64
    error_code: Int16 = 0


@struct
class DeleteRecordsTopicResult:
    """The new log start offsets of one topic."""

    name: String
    partitions: list[DeleteRecordsPartitionResult]


@message(21, versions="0-2", flexible="2+")
class DeleteRecordsResponse:
    """The response to :class:`DeleteRecordsRequest`."""

    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult]


@struct
class CreatePartitionsAssignment:
    """The replicas of one new partition."""

    broker_ids: list[Int32]


@struct
class CreatePartitionsTopic:
    """The new total number of a topic's partitions."""

    name: String
    count: Int32
    assignments: list[CreatePartitionsAssignment] | None = None


@message(37, versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    """Add partitions to topics, or only validate that."""

    topics: list[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: Bool = False


@struct
class CreatePartitionsTopicResult:
    """The result for one topic."""

    name: String
    error_code: Int16 = 0
    error_message: String | None = None


@message(37, versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    """The response to :class:`CreatePartitionsRequest`."""

    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult]
