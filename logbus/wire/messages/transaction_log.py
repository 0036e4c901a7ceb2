"""
Records of ``__transaction_state``: one record per transactional id, with its latest state.

Key and value begin with their own version (:func:`~logbus.wire.schema.decode_versioned`). A null value deletes. The
formats are those of Kafka (``TransactionLogKey.json``, ``TransactionLogValue.json``), so both can read each other's
files.
"""

from __future__ import annotations

from logbus.wire.schema import Int8, Int16, Int32, Int64, String, field, message, struct


@message(None, versions="0", flexible="none")
class TransactionLogKey:
    """A transactional id."""

    transactional_id: String


@struct
class TransactionLogPartitions:
    """The partitions of one topic in the transaction."""

    topic: String
    partition_ids: list[Int32]


@message(None, versions="0-1", flexible="1+")
class TransactionLogValue:
    """
    The state of a transactional id. Times in ms, −1 for never.

    Version 0 is written where transactions have version 0, version 1 from there on: it can say which id the producer
    had before and gets next when the epochs of one are used up, and by which version of transactions the client works
    (KIP-890).
    """

    producer_id: Int64
    previous_producer_id: Int64 = field("1+", default=-1, tag=0)
    next_producer_id: Int64 = field("1+", default=-1, tag=1)
    producer_epoch: Int16
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: list[TransactionLogPartitions] | None
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Int16 = field("1+", default=0, tag=2)
