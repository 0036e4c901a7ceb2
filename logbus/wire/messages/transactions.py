"""
Transactions: InitProducerId (22), AddPartitionsToTxn (24), AddOffsetsToTxn (25), EndTxn (26), WriteTxnMarkers (27),
TxnOffsetCommit (28).
"""

from __future__ import annotations

from logbus.wire.messages.partitions import NamedTopicPartitions, TopicErrorCodes, TopicPartitionIndexes
from logbus.wire.schema import Bool, Int8, Int16, Int32, Int64, String, field, message, struct

# From producers.


@message(22, versions="0-5", flexible="2+")
class InitProducerIdRequest:
    """Get a producer id, or (from version 3) bump the epoch of an existing one (KIP-360)."""

    transactional_id: String | None
    transaction_timeout_ms: Int32
    producer_id: Int64 = field("3+", default=-1)
    producer_epoch: Int16 = field("3+", default=-1)


@message(22, versions="0-5", flexible="2+")
class InitProducerIdResponse:
    """The response to :class:`InitProducerIdRequest`."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0


@struct
class AddPartitionsToTxnTransaction:
    """One of several transactions; with ``verify_only``, nothing is added (KIP-890)."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    verify_only: Bool = False
    topics: list[NamedTopicPartitions]


@message(24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest:
    """Add partitions: clients to one transaction up to version 3, brokers to several from version 4."""

    transactions: list[AddPartitionsToTxnTransaction] = field("4+", factory=list)
    v3_and_below_transactional_id: String = field("0-3", default="")
    v3_and_below_producer_id: Int64 = field("0-3", default=0)
    v3_and_below_producer_epoch: Int16 = field("0-3", default=0)
    v3_and_below_topics: list[NamedTopicPartitions] = field("0-3", factory=list)


@struct
class AddPartitionsToTxnPartitionResult:
    """The result for one partition."""

    partition_index: Int32
    partition_error_code: Int16 = 0


@struct
class AddPartitionsToTxnTopicResult:
    """The results for one topic."""

    name: String
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


@struct
class AddPartitionsToTxnResult:
    """The results for one of several transactions."""

    transactional_id: String
    topic_results: list[AddPartitionsToTxnTopicResult]


@message(24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse:
    """The response to :class:`AddPartitionsToTxnRequest`."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = field("4+", default=0, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field("4+", factory=list)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field("0-3", factory=list)


@message(25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    """Add a group's offsets to a transaction: the group's partition of ``__consumer_offsets``."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


@message(25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    """The response to :class:`AddOffsetsToTxnRequest`."""

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
    """
    The response to :class:`EndTxnRequest`; from version 5, with the producer id and epoch for the next transaction
    (KIP-890).
    """

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
    Commit offsets as part of a transaction.

    From version 5 that adds the group to the transaction (KIP-890); before, AddOffsetsToTxn must come first.
    """

    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Int32 = field("3+", default=-1)
    member_id: String = field("3+", default="")
    group_instance_id: String | None = field("3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic]


@message(28, versions="0-5", flexible="3+")
class TxnOffsetCommitResponse:
    """The response to :class:`TxnOffsetCommitRequest`."""

    throttle_time_ms: Int32 = 0
    topics: list[TopicErrorCodes]


# From coordinators to the leaders of partitions.


@struct
class WritableTxnMarker:
    """
    The marker of one transaction.

    ``transaction_result`` is true for a commit. ``coordinator_epoch`` is the leader epoch of the partition of
    ``__transaction_state``. With ``transaction_version`` 2 the producer epoch grows with each transaction (KIP-1228).
    """

    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Bool
    topics: list[TopicPartitionIndexes]
    coordinator_epoch: Int32
    transaction_version: Int8 = field("2+", default=0, ignorable=True)


@message(27, versions="0-2", flexible="1+")
class WriteTxnMarkersRequest:
    """End transactions in partitions, by writing markers."""

    markers: list[WritableTxnMarker]


@struct
class WritableTxnMarkerResult:
    """The results for the markers of one transaction."""

    producer_id: Int64
    topics: list[TopicErrorCodes]


@message(27, versions="0-2", flexible="1+")
class WriteTxnMarkersResponse:
    """The response to :class:`WriteTxnMarkersRequest`."""

    markers: list[WritableTxnMarkerResult]
