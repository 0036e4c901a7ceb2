"""Encodes and decodes the records of ``__remote_log_metadata`` (Kafka: RemoteLogMetadataSerde). Pure."""

from __future__ import annotations

from uuid import UUID

from attrs import frozen

from logbus.errors import DecodeError
from logbus.model import TopicPartition
from logbus.storage.remote.remote_log_segment import RemoteLogSegment, RemoteLogSegmentState
from logbus.wire.messages.remote_log import (
    RemoteLogSegmentIdEntry,
    RemoteLogSegmentKey,
    RemoteLogSegmentMetadataRecord,
    SegmentLeaderEpochEntry,
    TopicIdPartitionEntry,
)
from logbus.wire.schema import decode, decode_versioned, encode, encode_versioned

_PREFIX = b"\x01\x00\x00"
"""A frame of version 1 (Kafka: AbstractApiMessageSerde), and in it a record of type 0, in version 0."""
_EARLIER_PREFIX = b"\x00\x00"
"""Until then the frame's version was left out."""


@frozen
class SegmentKey:
    """The subject of a record: a segment of a partition."""

    topic_id: UUID
    partition: int
    segment_id: UUID


def encode_key(segment: RemoteLogSegment) -> bytes:
    """The key of a segment's records."""
    return encode_versioned(
        RemoteLogSegmentKey(
            topic_id=segment.topic_id.bytes,
            partition=segment.partition.partition,
            segment_id=segment.segment_id.bytes,
        ),
        0,
    )


def decode_key(key: bytes | None) -> SegmentKey:
    """
    The segment of a record.

    :raise DecodeError: it cannot be decoded.
    """
    if key is None:
        raise DecodeError("a record of remote log metadata has no key")
    found = decode_versioned(RemoteLogSegmentKey, key)[0]
    return SegmentKey(UUID(bytes=bytes(found.topic_id)), found.partition, UUID(bytes=bytes(found.segment_id)))


def encode_value(segment: RemoteLogSegment) -> bytes:
    """The value of the record of a segment's state."""
    name, number = segment.partition
    record = RemoteLogSegmentMetadataRecord(
        remote_log_segment_id=RemoteLogSegmentIdEntry(
            topic_id_partition=TopicIdPartitionEntry(name=name, id=segment.topic_id.bytes, partition=number),
            id=segment.segment_id.bytes,
        ),
        start_offset=segment.start_offset,
        end_offset=segment.end_offset - 1,
        broker_id=segment.broker_id,
        max_timestamp=segment.max_timestamp,
        event_timestamp=segment.event_ms,
        segment_leader_epochs=[SegmentLeaderEpochEntry(leader_epoch=e, offset=o) for e, o in segment.epochs],
        segment_size_in_bytes=segment.size,
        custom_metadata=None,
        remote_log_segment_state=segment.state,
        txn_index_empty=not segment.has_aborted,
    )
    return _PREFIX + b"".join(bytes(part) for part in encode(record, 0))  # type: ignore[arg-type]


def decode_value(value: bytes) -> RemoteLogSegment:
    """
    The state of a segment in a record.

    :raise DecodeError: it cannot be decoded.
    """
    prefix = next((each for each in (_PREFIX, _EARLIER_PREFIX) if value.startswith(each)), None)
    if prefix is None:
        raise DecodeError(f"a record of remote log metadata begins with {value[:3].hex()}; we know {_PREFIX.hex()}")
    found, _ = decode(RemoteLogSegmentMetadataRecord, 0, value, len(prefix))
    segment_id = found.remote_log_segment_id
    of = segment_id.topic_id_partition
    try:
        state = RemoteLogSegmentState(found.remote_log_segment_state)
    except ValueError:
        raise DecodeError(f"a remote segment has the state {found.remote_log_segment_state}; 3 is the last") from None
    return RemoteLogSegment(
        UUID(bytes=bytes(of.id)),
        TopicPartition(of.name, of.partition),
        UUID(bytes=bytes(segment_id.id)),
        found.start_offset,
        found.end_offset + 1,
        found.max_timestamp,
        found.segment_size_in_bytes,
        tuple((each.leader_epoch, each.offset) for each in found.segment_leader_epochs),
        found.broker_id,
        found.event_timestamp,
        not found.txn_index_empty,
        state,
    )
