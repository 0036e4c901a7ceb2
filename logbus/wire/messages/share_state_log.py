"""
Records of ``__share_group_state``: snapshots of the states of share partitions, and updates of them.

Keys and values begin with a version (:func:`~logbus.wire.schema.decode_versioned`); that of a key says which kind it
is: 0 a snapshot, 1 an update of the snapshot before it. A snapshot with a null value removes the state. The formats are
those of Kafka (``ShareSnapshotKey.json`` and others), so both can read each other's files.
"""

from __future__ import annotations

from logbus.wire.messages.share_state import ShareStateBatch
from logbus.wire.schema import Int32, Int64, String, Uuid, field, message

SNAPSHOT_KEY, UPDATE_KEY = 0, 1
"""The versions of the keys."""


@message(None, versions="0-1", flexible="none")
class SharePartitionRecordKey:
    """A share partition: the key of snapshots in version 0, of updates in version 1."""

    group_id: String
    topic_id: Uuid
    partition: Int32


@message(None, versions="0", flexible="0+")
class ShareSnapshotValue:
    """The whole state of a share partition. Times in ms since 1970."""

    snapshot_epoch: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field("0+", default=-1, tag=0)
    create_timestamp: Int64
    write_timestamp: Int64
    state_batches: list[ShareStateBatch]


@message(None, versions="0", flexible="0+")
class ShareUpdateValue:
    """A change of a state since the snapshot with that epoch; start offset −1: unchanged."""

    snapshot_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field("0+", default=-1, tag=0)
    state_batches: list[ShareStateBatch]
