"""Consuming in share groups (KIP-932): ShareFetch (78), ShareAcknowledge (79)."""

from __future__ import annotations

from logbus.wire.messages.records import LeaderIdAndEpoch, NodeEndpoint
from logbus.wire.schema import (
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    StoredRecords,
    String,
    Uuid,
    field,
    message,
    struct,
)


@struct
class AcknowledgementBatch:
    """What is said of some records: one type for all, or one for each."""

    first_offset: Int64
    last_offset: Int64
    acknowledge_types: list[Int8]


@struct
class ShareFetchPartition:
    """A partition to fetch, and what is said of its records."""

    partition_index: Int32
    acknowledgement_batches: list[AcknowledgementBatch]


@struct
class ShareFetchTopic:
    """The partitions of a topic."""

    topic_id: Uuid
    partitions: list[ShareFetchPartition]


@struct
class ShareForgottenTopic:
    """Partitions that leave the session."""

    topic_id: Uuid
    partitions: list[Int32]


@message(78, versions="1-2", flexible="0+")
class ShareFetchRequest:
    """Acquire records, and acknowledge others. The epoch 0 begins a session, and −1 ends it."""

    group_id: String | None = None
    member_id: String | None
    share_session_epoch: Int32
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = 2**31 - 1
    max_records: Int32
    batch_size: Int32
    share_acquire_mode: Int8 = field("2+", default=0, ignorable=True)
    is_renew_ack: Bool = field("2+", default=False)
    topics: list[ShareFetchTopic]
    forgotten_topics_data: list[ShareForgottenTopic]


@struct
class AcquiredRecords:
    """Records that the member has acquired; of others nothing is said."""

    first_offset: Int64
    last_offset: Int64
    delivery_count: Int16


@struct
class SharePartitionData:
    """The records of a partition, and what became of its acknowledgements."""

    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: String | None = None
    current_leader: LeaderIdAndEpoch = field(factory=LeaderIdAndEpoch)
    records: StoredRecords
    acquired_records: list[AcquiredRecords]


@struct
class ShareFetchableTopicResponse:
    """The partitions of a topic."""

    topic_id: Uuid
    partitions: list[SharePartitionData]


@message(78, versions="1-2", flexible="0+")
class ShareFetchResponse:
    """The response to :class:`ShareFetchRequest`."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Int32 = 0
    responses: list[ShareFetchableTopicResponse] = field(factory=list)
    node_endpoints: list[NodeEndpoint] = field(factory=list)


@struct
class ShareAcknowledgePartition:
    """What is said of a partition's records."""

    partition_index: Int32
    acknowledgement_batches: list[AcknowledgementBatch]


@struct
class ShareAcknowledgeTopic:
    """The partitions of a topic."""

    topic_id: Uuid
    partitions: list[ShareAcknowledgePartition]


@message(79, versions="1-2", flexible="0+")
class ShareAcknowledgeRequest:
    """Acknowledge acquired records without fetching others. The epoch −1 ends the session."""

    group_id: String | None = None
    member_id: String | None
    share_session_epoch: Int32
    is_renew_ack: Bool = field("2+", default=False)
    topics: list[ShareAcknowledgeTopic]


@struct
class AcknowledgedPartition:
    """What became of a partition's acknowledgements."""

    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = None
    current_leader: LeaderIdAndEpoch = field(factory=LeaderIdAndEpoch)


@struct
class ShareAcknowledgeTopicResponse:
    """The partitions of a topic."""

    topic_id: Uuid
    partitions: list[AcknowledgedPartition]


@message(79, versions="1-2", flexible="0+")
class ShareAcknowledgeResponse:
    """The response to :class:`ShareAcknowledgeRequest`."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Int32 = field("2+", default=0, ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = field(factory=list)
    node_endpoints: list[NodeEndpoint] = field(factory=list)
