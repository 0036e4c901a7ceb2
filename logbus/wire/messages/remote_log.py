"""
Records of ``__remote_log_metadata``: one record per remote segment, with its latest state (KIP-405).

A value begins with the version of its frame, the number of its record type, and its version, all unsigned varints, as
in Kafka (``RemoteLogSegmentMetadataRecord.json``). Kafka's records have no key; ours have, since the topic is
compacted: a null value deletes.
"""

from __future__ import annotations

from logbus.wire.schema import Bool, Bytes, Int8, Int32, Int64, String, Uuid, field, message, struct


@message(None, versions="0", flexible="none")
class RemoteLogSegmentKey:
    """A remote segment, within its partition."""

    topic_id: Uuid
    partition: Int32
    segment_id: Uuid


@struct
class TopicIdPartitionEntry:
    """The partition that a remote segment belongs to."""

    name: String
    id: Uuid
    partition: Int32


@struct
class RemoteLogSegmentIdEntry:
    """The identity of a remote segment."""

    topic_id_partition: TopicIdPartitionEntry
    id: Uuid


@struct
class SegmentLeaderEpochEntry:
    """A leader epoch, and its first offset in the segment."""

    leader_epoch: Int32
    offset: Int64


@message(None, versions="0", flexible="0+")
class RemoteLogSegmentMetadataRecord:
    """
    A remote segment. Times in ms since 1970.

    ``end_offset`` is that of the last record. States: 0 the copy has begun, 1 it is complete, 2 the deletion has begun,
    3 it is complete.
    """

    remote_log_segment_id: RemoteLogSegmentIdEntry
    start_offset: Int64
    end_offset: Int64
    broker_id: Int32
    max_timestamp: Int64
    event_timestamp: Int64
    segment_leader_epochs: list[SegmentLeaderEpochEntry]
    segment_size_in_bytes: Int32
    custom_metadata: Bytes | None
    remote_log_segment_state: Int8
    txn_index_empty: Bool = field(default=False, tag=0)
