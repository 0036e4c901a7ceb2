"""
Encodes and decodes the records of ``__transaction_state`` (Kafka: TransactionLog). Pure.

The versions are those of Kafka 4, so that each can load the other's log.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache

from logbus.coordination.transactions.transaction_metadata import TransactionMetadata
from logbus.coordination.transactions.transaction_state import TransactionState
from logbus.errors import DecodeError
from logbus.model import TopicPartition
from logbus.wire.messages.transaction_log import TransactionLogKey, TransactionLogPartitions, TransactionLogValue
from logbus.wire.schema import decode_versioned, encode_versioned

KEY_VERSION = 0
VALUE_VERSION = 1

STATUS = {
    TransactionState.EMPTY: 0,
    TransactionState.ONGOING: 1,
    TransactionState.PREPARE_COMMIT: 2,
    TransactionState.PREPARE_ABORT: 3,
    TransactionState.COMPLETE_COMMIT: 4,
    TransactionState.COMPLETE_ABORT: 5,
}
"""Kafka's ids of the states that are written."""

_STATES = {number: state for state, number in STATUS.items()}


@lru_cache(maxsize=1000)
def encode_key(transactional_id: str) -> bytes:
    """
    The key of an id's records.

    :raise EncodeError: it is longer than a record can hold.
    """
    return encode_versioned(TransactionLogKey(transactional_id=transactional_id), KEY_VERSION)


def encode_value(transaction: TransactionMetadata) -> bytes:
    """The value of the record of an id's state."""
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(transaction.partitions):
        by_topic[topic].append(partition)
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=STATUS[transaction.state],
        transaction_partitions=None
        if transaction.state is TransactionState.EMPTY
        else [TransactionLogPartitions(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()],
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.client_version,
    )
    return encode_versioned(value, VALUE_VERSION)


def decode_key(key: bytes | None) -> str:
    """
    The transactional id of a record.

    :raise DecodeError: it cannot be decoded.
    """
    if key is None:
        raise DecodeError("a record of a transactional id has no key")
    return decode_versioned(TransactionLogKey, key)[0].transactional_id


def decode_value(transactional_id: str, value: bytes) -> TransactionMetadata:
    """
    The state of an id in a record. The last producer epoch is not stored: a producer that has it must start anew.

    :raise DecodeError: it cannot be decoded.
    """
    found, _ = decode_versioned(TransactionLogValue, value)
    state = _STATES.get(found.transaction_status)
    if state is None:
        raise DecodeError(f"a transactional id has the state {found.transaction_status}; we know {sorted(_STATES)}")
    return TransactionMetadata(
        transactional_id,
        found.producer_id,
        found.producer_epoch,
        found.transaction_timeout_ms,
        state,
        frozenset(
            TopicPartition(one.topic, number)
            for one in found.transaction_partitions or ()
            for number in one.partition_ids
        ),
        previous_producer_id=found.previous_producer_id,
        next_producer_id=found.next_producer_id,
        started_ms=found.transaction_start_timestamp_ms,
        updated_ms=found.transaction_last_update_timestamp_ms,
        client_version=found.client_transaction_version,
    )
