"""
States of producers and transactions (KIP-664): DescribeProducers (61), DescribeTransactions (65), ListTransactions
(66).
"""

from __future__ import annotations

from logbus.wire.messages.partitions import TopicPartitionIndexes, TopicPartitions
from logbus.wire.schema import Int16, Int32, Int64, String, field, message, struct


@message(61, versions="0", flexible="0+")
class DescribeProducersRequest:
    """List the producers that write to partitions. Sent to their leaders."""

    topics: list[TopicPartitionIndexes]


@struct
class ProducerState:
    """
    A partition's state of one producer.

    −1 where it knows nothing: ``last_sequence``, ``last_timestamp`` (ms), ``coordinator_epoch``, and
    ``current_txn_start_offset`` when no transaction is open.
    """

    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = -1


@struct
class DescribeProducersPartitionResponse:
    """The producers of one partition."""

    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = None
    active_producers: list[ProducerState]


@struct
class DescribeProducersTopicResponse:
    """The producers of the partitions of one topic."""

    name: String
    partitions: list[DescribeProducersPartitionResponse]


@message(61, versions="0", flexible="0+")
class DescribeProducersResponse:
    """The response to :class:`DescribeProducersRequest`."""

    throttle_time_ms: Int32 = 0
    topics: list[DescribeProducersTopicResponse]


@message(65, versions="0", flexible="0+")
class DescribeTransactionsRequest:
    """Describe transactional ids. Sent to their coordinator."""

    transactional_ids: list[String]


@struct
class DescribedTransactionState:
    """The state of one transactional id; ``transaction_start_time_ms`` is −1 when no transaction runs."""

    error_code: Int16 = 0
    transactional_id: String
    transaction_state: String
    transaction_timeout_ms: Int32
    transaction_start_time_ms: Int64
    producer_id: Int64
    producer_epoch: Int16
    topics: list[TopicPartitions]


@message(65, versions="0", flexible="0+")
class DescribeTransactionsResponse:
    """The response to :class:`DescribeTransactionsRequest`."""

    throttle_time_ms: Int32 = 0
    transaction_states: list[DescribedTransactionState]


@message(66, versions="0-2", flexible="0+")
class ListTransactionsRequest:
    """
    Which transactional ids has this coordinator? No filter lets all pass.

    ``duration_filter`` (ms, 0 and less: none) asks for those that run longer (KIP-994), ``transactional_id_pattern``
    for those whose id matches a regular expression (KIP-1152).
    """

    state_filters: list[String]
    producer_id_filters: list[Int64]
    duration_filter: Int64 = field("1+", default=-1)
    transactional_id_pattern: String | None = field("2+", default=None)


@struct
class ListedTransactionState:
    """One transactional id and its state."""

    transactional_id: String
    producer_id: Int64
    transaction_state: String


@message(66, versions="0-2", flexible="0+")
class ListTransactionsResponse:
    """The response to :class:`ListTransactionsRequest`; ``unknown_state_filters`` are no states there are."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[String] = field(factory=list)
    transaction_states: list[ListedTransactionState] = field(factory=list)
