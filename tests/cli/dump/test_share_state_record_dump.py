"""Tests of :mod:`logbus.cli.dump.share_state_record_dump`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.dump.file_dump import dump
from logbus.cli.dump.share_state_record_dump import decoded
from logbus.coordination.share_state.recorded_state import Snapshot, Update
from logbus.coordination.share_state.share_state import ACKNOWLEDGED, SharePartitionKey, ShareState, StateBatch
from logbus.coordination.share_state.share_state_records import encode_record, encode_tombstone
from logbus.records.batch import encode_batch
from logbus.records.record import Record

KEY = SharePartitionKey("workers", UUID(int=1), 3)
BATCH = StateBatch(4, 5, ACKNOWLEDGED, 2)
OF = {"group": "workers", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partition": 3}
BATCHES = [{"first_offset": 4, "last_offset": 5, "state": "acknowledged", "delivery_count": 2}]


def told(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    return decoded(Record(0, 0, key, value))


class DecodingTests(SynchronousTestCase):
    """Items of records."""

    def test_snapshot(self) -> None:
        """A whole state."""
        snapshot = Snapshot(1, ShareState(2, 7, 4, (BATCH,), 2), 1_700_000_000_000, 1_700_000_000_500)
        self.assertEqual(
            told(*encode_record(KEY, snapshot)),
            {
                "kind": "share_snapshot",
                **OF,
                "snapshot_epoch": 1,
                "state_epoch": 2,
                "leader_epoch": 7,
                "start_offset": 4,
                "delivery_complete_count": 2,
                "create_timestamp": 1_700_000_000_000,
                "write_timestamp": 1_700_000_000_500,
                "batches": BATCHES,
            },
        )

    def test_update(self) -> None:
        """A change."""
        self.assertEqual(
            told(*encode_record(KEY, Update(1, 7, -1, 2, (BATCH,)))),
            {
                "kind": "share_update",
                **OF,
                "snapshot_epoch": 1,
                "leader_epoch": 7,
                "start_offset": -1,
                "delivery_complete_count": 2,
                "batches": BATCHES,
            },
        )

    def test_tombstone(self) -> None:
        """A state that was removed."""
        self.assertEqual(told(*encode_tombstone(KEY)), {"kind": "share_snapshot", **OF, "tombstone": True})

    def test_undecodable(self) -> None:
        """Bytes stay, with the reason."""
        item = told(b"\0\x09x", b"y")
        self.assertIn("version 9", item["undecodable"])
        self.assertNotIn("kind", item)

    def test_file(self) -> None:
        """The records of a segment of the topic are decoded."""
        with TemporaryDirectory() as home:
            path = Path(home) / "__share_group_state-3" / "00000000000000000000.log"
            path.parent.mkdir()
            path.write_bytes(encode_batch([Record(0, 0, *encode_record(KEY, Update(1, 7, -1, 2)))]))
            (item,) = dump(path, records=True)
            self.assertEqual(item["records"][0]["kind"], "share_update")
