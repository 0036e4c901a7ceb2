"""
Decodes records of ``__share_group_state`` for :mod:`logbus.cli.dump.file_dump`.

An item has the share partition, and a whole state, a change of one, or ``tombstone``. A record that cannot be decoded
(a newer broker may have written it) stays bytes, with the reason in ``undecodable``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from logbus.cli.output import as_text
from logbus.coordination.share_state.recorded_state import Snapshot
from logbus.coordination.share_state.share_state import ACKNOWLEDGED, ARCHIVED, AVAILABLE, StateBatch
from logbus.coordination.share_state.share_state_records import decode_record
from logbus.errors import DecodeError
from logbus.metastore.znode_json import uuid_text
from logbus.records.record import Record

Item = dict[str, Any]

_STATES = {AVAILABLE: "available", ACKNOWLEDGED: "acknowledged", ARCHIVED: "archived"}


def decoded(record: Record) -> Item:
    """Decode a record into an item."""
    try:
        key, found = decode_record(record.key, record.value)
    except DecodeError as e:
        return {**as_text("key", record.key), **as_text("value", record.value), "undecodable": str(e)}
    kind = "share_snapshot" if found is None or isinstance(found, Snapshot) else "share_update"
    item: Item = {
        "kind": kind,
        "group": key.group_id,
        "topic_id": uuid_text(key.topic_id),
        "partition": key.partition,
    }
    if found is None:
        return item | {"tombstone": True}
    if isinstance(found, Snapshot):
        state = found.state
        return item | {
            "snapshot_epoch": found.snapshot_epoch,
            "state_epoch": state.state_epoch,
            "leader_epoch": state.leader_epoch,
            "start_offset": state.start_offset,
            "delivery_complete_count": state.delivery_complete_count,
            "create_timestamp": found.created_ms,
            "write_timestamp": found.written_ms,
            "batches": _batches(state.batches),
        }
    return item | {
        "snapshot_epoch": found.snapshot_epoch,
        "leader_epoch": found.leader_epoch,
        "start_offset": found.start_offset,
        "delivery_complete_count": found.delivery_complete_count,
        "batches": _batches(found.batches),
    }


def _batches(batches: Iterable[StateBatch]) -> list[Item]:
    return [
        {
            "first_offset": each.first_offset,
            "last_offset": each.last_offset,
            "state": _STATES.get(each.delivery_state, each.delivery_state),
            "delivery_count": each.delivery_count,
        }
        for each in batches
    ]
