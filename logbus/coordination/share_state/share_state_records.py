"""
Encodes and decodes the records of ``__share_group_state`` (Kafka: ShareCoordinatorRecordHelpers). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from logbus.coordination.share_state.recorded_state import Snapshot, Update
from logbus.coordination.share_state.share_state import SharePartitionKey, ShareState, StateBatch
from logbus.errors import DecodeError
from logbus.wire.messages.share_state import ShareStateBatch
from logbus.wire.messages.share_state_log import (
    SNAPSHOT_KEY,
    UPDATE_KEY,
    SharePartitionRecordKey,
    ShareSnapshotValue,
    ShareUpdateValue,
)
from logbus.wire.schema import decode_versioned, encode_versioned

VALUE_VERSION = 0


def encode_record(key: SharePartitionKey, record: Snapshot | Update) -> tuple[bytes, bytes]:
    """
    The key and value of a record.

    :raise EncodeError: the group id is longer than a record can hold, or a number does not fit.
    """
    if isinstance(record, Snapshot):
        state = record.state
        snapshot = ShareSnapshotValue(
            snapshot_epoch=record.snapshot_epoch,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
            create_timestamp=record.created_ms,
            write_timestamp=record.written_ms,
            state_batches=wire_batches(state.batches),
        )
        return _key(key, SNAPSHOT_KEY), encode_versioned(snapshot, VALUE_VERSION)
    update = ShareUpdateValue(
        snapshot_epoch=record.snapshot_epoch,
        leader_epoch=record.leader_epoch,
        start_offset=record.start_offset,
        delivery_complete_count=record.delivery_complete_count,
        state_batches=wire_batches(record.batches),
    )
    return _key(key, UPDATE_KEY), encode_versioned(update, VALUE_VERSION)


def encode_tombstone(key: SharePartitionKey) -> tuple[bytes, None]:
    """The key and value of the record that removes a state."""
    return _key(key, SNAPSHOT_KEY), None


def decode_record(key: bytes | None, value: bytes | None) -> tuple[SharePartitionKey, Snapshot | Update | None]:
    """
    A record; None: it removes the state.

    :raise DecodeError: it cannot be decoded.
    """
    if key is None:
        raise DecodeError("a record of a share partition has no key")
    found, version = decode_versioned(SharePartitionRecordKey, key)
    share_partition = SharePartitionKey(found.group_id, UUID(bytes=bytes(found.topic_id)), found.partition)
    if value is None:
        return share_partition, None
    if version == SNAPSHOT_KEY:
        snapshot, _ = decode_versioned(ShareSnapshotValue, value)
        state = ShareState(
            snapshot.state_epoch,
            snapshot.leader_epoch,
            snapshot.start_offset,
            state_batches(snapshot.state_batches),
            snapshot.delivery_complete_count,
        )
        return share_partition, Snapshot(
            snapshot.snapshot_epoch, state, snapshot.create_timestamp, snapshot.write_timestamp
        )
    update, _ = decode_versioned(ShareUpdateValue, value)
    return share_partition, Update(
        update.snapshot_epoch,
        update.leader_epoch,
        update.start_offset,
        update.delivery_complete_count,
        state_batches(update.state_batches),
    )


def wire_batches(batches: Iterable[StateBatch]) -> list[ShareStateBatch]:
    """Batches as they are in messages."""
    return [
        ShareStateBatch(
            first_offset=each.first_offset,
            last_offset=each.last_offset,
            delivery_state=each.delivery_state,
            delivery_count=each.delivery_count,
        )
        for each in batches
    ]


def state_batches(batches: Iterable[ShareStateBatch]) -> tuple[StateBatch, ...]:
    """The batches in a message."""
    return tuple(
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in batches
    )


def _key(key: SharePartitionKey, version: int) -> bytes:
    return encode_versioned(
        SharePartitionRecordKey(group_id=key.group_id, topic_id=key.topic_id.bytes, partition=key.partition), version
    )
