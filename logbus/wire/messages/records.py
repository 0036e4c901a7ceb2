"""Producing and fetching: Produce (0), Fetch (1), ListOffsets (2), OffsetForLeaderEpoch (23)."""

from __future__ import annotations

from logbus.wire.schema import (
    ZERO_UUID,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    StoredRecords,
    String,
    Uuid,
    field,
    message,
    struct,
)


@struct
class LeaderIdAndEpoch:
    """A partition's current leader, sent with errors that would make a client look for it (KIP-951)."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@struct
class NodeEndpoint:
    """The address of a leader named in :class:`LeaderIdAndEpoch` (KIP-951)."""

    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


@struct
class PartitionProduceData:
    """The batch to append to one partition."""

    index: Int32
    records: Records | None


@struct
class TopicProduceData:
    """The batches for one topic, by name up to version 12, by id from 13."""

    name: String = field("0-12", default="", ignorable=True)
    topic_id: Uuid = field("13+", default=ZERO_UUID, ignorable=True)
    partition_data: list[PartitionProduceData]


@message(0, versions="3-13", flexible="9+")
class ProduceRequest:
    """Append batches. ``acks`` 0: no response; −1: the response waits for the in-sync replicas."""

    transactional_id: String | None = field("3+", default=None)
    acks: Int16
    timeout_ms: Int32
    topic_data: list[TopicProduceData]


@struct
class BatchIndexAndErrorMessage:
    """A record because of which its batch was refused (KIP-467)."""

    batch_index: Int32
    batch_index_error_message: String | None = None


@struct
class PartitionProduceResponse:
    """The result for one batch; ``log_append_time_ms`` is −1 unless the log sets the time."""

    index: Int32
    error_code: Int16 = 0
    base_offset: Int64 = -1
    log_append_time_ms: Int64 = field("2+", default=-1, ignorable=True)
    log_start_offset: Int64 = field("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = field("8+", factory=list, ignorable=True)
    error_message: String | None = field("8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch | None = field("10+", default=None, tag=0, ignorable=True)


@struct
class TopicProduceResponse:
    """The result for the batches for one topic."""

    name: String = field("0-12", default="", ignorable=True)
    topic_id: Uuid = field("13+", default=ZERO_UUID, ignorable=True)
    partition_responses: list[PartitionProduceResponse]


@message(0, versions="3-13", flexible="9+")
class ProduceResponse:
    """The response to :class:`ProduceRequest`."""

    responses: list[TopicProduceResponse]
    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    node_endpoints: list[NodeEndpoint] = field("10+", factory=list, tag=0, ignorable=True)


@struct
class ReplicaState:
    """The follower that fetches (KIP-903)."""

    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


@struct
class FetchPartition:
    """The offset to fetch from in one partition."""

    partition: Int32
    current_leader_epoch: Int32 = field("9+", default=-1, ignorable=True)
    fetch_offset: Int64
    last_fetched_epoch: Int32 = field("12+", default=-1)
    log_start_offset: Int64 = field("5+", default=-1, ignorable=True)
    partition_max_bytes: Int32
    replica_directory_id: Uuid = field("17+", default=ZERO_UUID, tag=0, ignorable=True)
    high_watermark: Int64 = field("18+", default=2**63 - 1, tag=1, ignorable=True)


@struct
class FetchTopic:
    """The partitions of one topic to fetch from, by name up to version 12, by id from 13."""

    topic: String = field("0-12", default="", ignorable=True)
    topic_id: Uuid = field("13+", default=ZERO_UUID, ignorable=True)
    partitions: list[FetchPartition]


@struct
class ForgottenTopic:
    """Partitions to be removed from a fetch session (KIP-227)."""

    topic: String = field("7-12", default="", ignorable=True)
    topic_id: Uuid = field("13+", default=ZERO_UUID, ignorable=True)
    partitions: list[Int32]


@message(1, versions="4-18", flexible="12+")
class FetchRequest:
    """Fetch batches, waiting ``max_wait_ms`` for ``min_bytes``. Followers send their broker id, consumers −1."""

    cluster_id: String | None = field("12+", default=None, tag=0, ignorable=True)
    replica_id: Int32 = field("0-14", default=-1)
    replica_state: ReplicaState | None = field("15+", default=None, tag=1)
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = field("3+", default=2**31 - 1, ignorable=True)
    isolation_level: Int8 = field("4+", default=0, ignorable=True)
    session_id: Int32 = field("7+", default=0, ignorable=True)
    session_epoch: Int32 = field("7+", default=-1, ignorable=True)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic] = field("7+", factory=list)
    rack_id: String = field("11+", default="", ignorable=True)


@struct
class EpochAndEndOffset:
    """The largest epoch that a follower and its leader may share, and its end offset: truncate there (KIP-595)."""

    epoch: Int32 = -1
    end_offset: Int64 = -1


@struct
class SnapshotId:
    """A snapshot to fetch instead; only controllers' logs have snapshots."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


@struct
class AbortedTransaction:
    """An aborted transaction whose records in the response read_committed consumers must skip."""

    producer_id: Int64
    first_offset: Int64


@struct
class PartitionData:
    """The records and offsets of one partition."""

    partition_index: Int32
    error_code: Int16 = 0
    high_watermark: Int64
    last_stable_offset: Int64 = field("4+", default=-1, ignorable=True)
    log_start_offset: Int64 = field("5+", default=-1, ignorable=True)
    diverging_epoch: EpochAndEndOffset | None = field("12+", default=None, tag=0)
    current_leader: LeaderIdAndEpoch | None = field("12+", default=None, tag=1, ignorable=True)
    snapshot_id: SnapshotId | None = field("12+", default=None, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field("4+", default=None, ignorable=True)
    preferred_read_replica: Int32 = field("11+", default=-1)
    records: StoredRecords | None


@struct
class FetchableTopicResponse:
    """The partitions of one topic."""

    topic: String = field("0-12", default="", ignorable=True)
    topic_id: Uuid = field("13+", default=ZERO_UUID, ignorable=True)
    partitions: list[PartitionData]


@message(1, versions="4-18", flexible="12+")
class FetchResponse:
    """The response to :class:`FetchRequest`."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = field("7+", default=0, ignorable=True)
    session_id: Int32 = field("7+", default=0)
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint] = field("16+", factory=list, tag=0, ignorable=True)


@struct
class ListOffsetsPartition:
    """A timestamp to find in one partition, or one of the special ones (−1 latest, −2 earliest, −3 largest time, …)."""

    partition_index: Int32
    current_leader_epoch: Int32 = field("4+", default=-1, ignorable=True)
    timestamp: Int64
    max_num_offsets: Int32 = field("0", default=1, ignorable=True)


@struct
class ListOffsetsTopic:
    """The timestamps to find in one topic."""

    name: String
    partitions: list[ListOffsetsPartition]


@message(2, versions="0-11", flexible="6+")
class ListOffsetsRequest:
    """Find offsets by timestamp. Version 0 returns several offsets, those of segments."""

    replica_id: Int32 = -1
    isolation_level: Int8 = field("2+", default=0)
    topics: list[ListOffsetsTopic]
    timeout_ms: Int32 = field("10+", default=0, ignorable=True)


@struct
class ListOffsetsPartitionResponse:
    """The offset found in one partition; (−1, −1) without one."""

    partition_index: Int32
    error_code: Int16 = 0
    old_style_offsets: list[Int64] = field("0", factory=list)
    timestamp: Int64 = field("1+", default=-1)
    offset: Int64 = field("1+", default=-1)
    leader_epoch: Int32 = field("4+", default=-1, ignorable=True)


@struct
class ListOffsetsTopicResponse:
    """The offsets found in one topic."""

    name: String
    partitions: list[ListOffsetsPartitionResponse]


@message(2, versions="0-11", flexible="6+")
class ListOffsetsResponse:
    """The response to :class:`ListOffsetsRequest`."""

    throttle_time_ms: Int32 = field("2+", default=0, ignorable=True)
    topics: list[ListOffsetsTopicResponse]


@struct
class OffsetForLeaderPartition:
    """The epoch to find in one partition."""

    partition: Int32
    current_leader_epoch: Int32 = field("2+", default=-1, ignorable=True)
    leader_epoch: Int32


@struct
class OffsetForLeaderTopic:
    """The epochs to find in one topic."""

    topic: String
    partitions: list[OffsetForLeaderPartition]


@message(23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    """
    Find the end offsets of leader epochs. Followers (``replica_id``) and consumers (−1) ask, to find a divergence.
    """

    replica_id: Int32 = field("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic]


@struct
class EpochEndOffset:
    """The end offset of the largest epoch up to the requested one; −1: unknown."""

    error_code: Int16 = 0
    partition: Int32
    leader_epoch: Int32 = field("1+", default=-1, ignorable=True)
    end_offset: Int64 = -1


@struct
class OffsetForLeaderTopicResult:
    """The end offsets of epochs in one topic."""

    topic: String
    partitions: list[EpochEndOffset]


@message(23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    """The response to :class:`OffsetForLeaderEpochRequest`."""

    throttle_time_ms: Int32 = field("2+", default=0, ignorable=True)
    topics: list[OffsetForLeaderTopicResult]
