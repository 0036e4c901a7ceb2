"""Tests of :mod:`logbus.records.read_committed`."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import DecodeError
from logbus.records.batch import encode_batch, encode_marker_batch, iter_records
from logbus.records.control_records import ControlType, Marker
from logbus.records.read_committed import committed_records
from logbus.records.record import Record


def batch(offset: int, producer_id: int = -1, *values: bytes) -> bytes:
    """A batch at an offset; transactional if it has a producer id."""
    return encode_batch(
        [Record(offset + n, 0, None, value) for n, value in enumerate(values)],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 0,
        base_sequence=-1 if producer_id < 0 else 0,
        transactional=producer_id >= 0,
    )


def marker(offset: int, producer_id: int, type: ControlType) -> bytes:
    return encode_marker_batch(
        Marker(type, 0), producer_id=producer_id, producer_epoch=0, base_offset=offset, timestamp=0
    )


class CommittedRecordsTests(SynchronousTestCase):
    """committed_records: as the reader of an answer that names the aborted transactions."""

    def values(self, data: bytes, *aborted: tuple[int, int]) -> list[bytes | None]:
        return [record.value for record in committed_records(data, aborted)]

    def test_nothing_aborted(self) -> None:
        """Records of transactions and plain ones are seen, markers never."""
        data = batch(0, 7, b"a") + batch(1, -1, b"b", b"c") + marker(3, 7, ControlType.COMMIT) + batch(4, 8, b"d")
        self.assertEqual(self.values(data), [b"a", b"b", b"c", b"d"])

    def test_aborted(self) -> None:
        """An aborted transaction is hidden from its first offset to its marker; the producer's next one is seen."""
        data = (
            batch(0, 7, b"kept")
            + marker(1, 7, ControlType.COMMIT)
            + batch(2, 7, b"gone")
            + batch(3, -1, b"plain")
            + batch(4, 8, b"other")
            + batch(5, 7, b"gone too")
            + marker(6, 7, ControlType.ABORT)
            + batch(7, 7, b"again")
        )
        self.assertEqual(self.values(data, (7, 2)), [b"kept", b"plain", b"other", b"again"])
        self.assertEqual(len(list(iter_records(data))), 6)

    def test_begins_inside(self) -> None:
        """A transaction that began before what was read is hidden, too; the order of the names does not matter."""
        data = batch(5, 7, b"gone") + batch(6, 8, b"gone") + marker(7, 8, ControlType.ABORT) + batch(8, 8, b"seen")
        self.assertEqual(self.values(data, (8, 6), (7, 1)), [b"seen"])

    def test_commit_between_aborted_transactions(self) -> None:
        """Of one producer several transactions may be aborted; a commit between them hides nothing."""
        data = (
            batch(0, 7, b"gone")
            + marker(1, 7, ControlType.ABORT)
            + batch(2, 7, b"seen")
            + marker(3, 7, ControlType.COMMIT)
            + batch(4, 7, b"gone")
        )
        self.assertEqual(self.values(data, (7, 0), (7, 4)), [b"seen"])

    def test_damaged(self) -> None:
        """A batch whose CRC does not match is an error, hidden or not."""
        data = bytearray(batch(0, 7, b"gone"))
        data[-1] ^= 1
        self.assertRaises(DecodeError, self.values, bytes(data), (7, 0))
