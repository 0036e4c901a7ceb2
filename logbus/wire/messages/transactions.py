"""
Transactions: InitProducerId (22), AddPartitionsToTxn (24), AddOffsetsToTxn (25), EndTxn (26), WriteTxnMarkers (27),
TxnOffsetCommit (28).
"""

from __future__ import annotations

from logbus.wire.schema import Bool, Int8, Int16, Int32, Int64, String, field, message, struct

# Of a producer: its id, and what its transaction holds.


@message(22, versions="0-5", flexible="2+")
class InitProducerIdRequest:
    """Get a producer id, or (from version 3) the next epoch of the one the producer has (KIP-360)."""

    transactional_id: String | None
    transaction_timeout_ms: Int32
    producer_id: Int64 = field("3+", default=-1)
    producer_epoch: Int16 = field("3+", default=-1)


@message(22, versions="0-5", flexible="2+")
class InitProducerIdResponse:
    """The answer to :class:`InitProducerIdRequest`."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0


@struct
class AddPartitionsToTxnTopic:
    """The partitions of one topic that are to be in a transaction."""

    name: String
    partitions: list[Int32]


@struct
class AddPartitionsToTxnTransaction:
    """One transaction of several; with ``verify_only``, nothing is added (KIP-890)."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    verify_only: Bool = False
    topics: list[AddPartitionsToTxnTopic]


@message(24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest:
    """Add partitions: clients to one transaction up to version 3, brokers to several from version 4."""

    transactions: list[AddPartitionsToTxnTransaction] = field("4+", factory=list)
    v3_and_below_transactional_id: String = field("0-3", default="")
    v3_and_below_producer_id: Int64 = field("0-3", default=0)
    v3_and_below_producer_epoch: Int16 = field("0-3", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field("0-3", factory=list)


@struct
class AddPartitionsToTxnPartitionResult:
    """Whether a partition is in the transaction."""

    partition_index: Int32
    partition_error_code: Int16 = 0


@struct
class AddPartitionsToTxnTopicResult:
    """Which partitions of one topic are in the transaction."""

    name: String
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


@struct
class AddPartitionsToTxnResult:
    """Which partitions are in one transaction of several."""

    transactional_id: String
    topic_results: list[AddPartitionsToTxnTopicResult]


@message(24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse:
    """The answer to :class:`AddPartitionsToTxnRequest`."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = field("4+", default=0, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field("4+", factory=list)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field("0-3", factory=list)


@message(25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    """Add the offsets of a group to a transaction: the partition of ``__consumer_offsets`` that holds the group's."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


@message(25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    """The answer to :class:`AddOffsetsToTxnRequest`."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


@message(26, versions="0-5", flexible="3+")
class EndTxnRequest:
    """Commit a transaction, or abort it."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


@message(26, versions="0-5", flexible="3+")
class EndTxnResponse:
    """The answer to :class:`EndTxnRequest`; from version 5, with the id and epoch to go on with (KIP-890)."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = field("5+", default=-1, ignorable=True)
    producer_epoch: Int16 = field("5+", default=-1, ignorable=True)


@struct
class TxnOffsetCommitRequestPartition:
    """The offset to commit for one partition, that of the next record to read."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field("2+", default=-1, ignorable=True)
    committed_metadata: String | None


@struct
class TxnOffsetCommitRequestTopic:
    """The offsets to commit for one topic."""

    name: String
    partitions: list[TxnOffsetCommitRequestPartition]


@message(28, versions="0-5", flexible="3+")
class TxnOffsetCommitRequest:
    """
    Commit offsets when the transaction commits.

    From version 5, the group is added to the transaction by that (KIP-890); before, AddOffsetsToTxn has added it.
    """

    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Int32 = field("3+", default=-1)
    member_id: String = field("3+", default="")
    group_instance_id: String | None = field("3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic]


@struct
class TxnOffsetCommitResponsePartition:
    """What became of the commit for one partition."""

    partition_index: Int32
    error_code: Int16 = 0


@struct
class TxnOffsetCommitResponseTopic:
    """What became of the commits for one topic."""

    name: String
    partitions: list[TxnOffsetCommitResponsePartition]


@message(28, versions="0-5", flexible="3+")
class TxnOffsetCommitResponse:
    """The answer to :class:`TxnOffsetCommitRequest`."""

    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic]


# From the coordinator to the leaders of the partitions.


@struct
class WritableTxnMarkerTopic:
    """The partitions of one topic that get a marker."""

    name: String
    partition_indexes: list[Int32]


@struct
class WritableTxnMarker:
    """
    The end of one transaction.

    ``transaction_result`` is true for a commit. ``coordinator_epoch`` is the leader epoch of the partition of
    ``__transaction_state``. ``transaction_version`` 2 says that the epoch grows with each transaction (KIP-1228).
    """

    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Bool
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: Int32
    transaction_version: Int8 = field("2+", default=0, ignorable=True)


@message(27, versions="0-2", flexible="1+")
class WriteTxnMarkersRequest:
    """End transactions in partitions, by a marker in each."""

    markers: list[WritableTxnMarker]


@struct
class WritableTxnMarkerPartitionResult:
    """Whether the marker is in one partition."""

    partition_index: Int32
    error_code: Int16 = 0


@struct
class WritableTxnMarkerTopicResult:
    """Whether the markers are in the partitions of one topic."""

    name: String
    partitions: list[WritableTxnMarkerPartitionResult]


@struct
class WritableTxnMarkerResult:
    """Whether the markers of one transaction are written."""

    producer_id: Int64
    topics: list[WritableTxnMarkerTopicResult]


@message(27, versions="0-2", flexible="1+")
class WriteTxnMarkersResponse:
    """The answer to :class:`WriteTxnMarkersRequest`."""

    markers: list[WritableTxnMarkerResult]
