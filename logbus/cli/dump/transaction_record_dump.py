"""
Decodes records of ``__transaction_state`` for :mod:`logbus.cli.dump.file_dump`.

An item has the transactional id, and its state or ``tombstone``. A record that cannot be decoded (a newer broker may
have written it) stays bytes, with the reason in ``undecodable``.
"""

from __future__ import annotations

from typing import Any

from logbus.cli.output import as_text
from logbus.coordination.transactions.transaction_records import STATUS
from logbus.errors import DecodeError
from logbus.records.record import Record
from logbus.wire.messages.transaction_log import TransactionLogKey, TransactionLogValue
from logbus.wire.schema import decode_versioned

Item = dict[str, Any]

_STATES = {number: state.value for state, number in STATUS.items()}


def decoded(record: Record) -> Item:
    """Decode a record into an item."""
    try:
        if record.key is None:
            raise DecodeError("the record has no key")
        key, _ = decode_versioned(TransactionLogKey, record.key)
        value = None if record.value is None else decode_versioned(TransactionLogValue, record.value)[0]
    except DecodeError as e:
        return {**as_text("key", record.key), **as_text("value", record.value), "undecodable": str(e)}
    item: Item = {"kind": "transaction", "transactional_id": key.transactional_id}
    return item | ({"tombstone": True} if value is None else _value_item(value))


def _value_item(value: TransactionLogValue) -> Item:
    item: Item = {
        "state": _STATES.get(value.transaction_status, value.transaction_status),
        "producer_id": value.producer_id,
        "producer_epoch": value.producer_epoch,
    }
    # The previous and the next producer id, where they differ.
    for name, producer_id in (("previous", value.previous_producer_id), ("next", value.next_producer_id)):
        if producer_id >= 0:
            item[f"{name}_producer_id"] = producer_id
    return item | {
        "timeout_ms": value.transaction_timeout_ms,
        "start_timestamp": value.transaction_start_timestamp_ms,
        "last_update_timestamp": value.transaction_last_update_timestamp_ms,
        "partitions": {each.topic: list(each.partition_ids) for each in value.transaction_partitions or ()},
        "client_transaction_version": value.client_transaction_version,
    }
