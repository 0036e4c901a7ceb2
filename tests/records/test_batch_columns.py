"""
Tests of :mod:`logbus.records.batch_columns`: the answer to a fetch as columns.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logbus.errors import ApiError, DecodeError, ErrorCode
from logbus.records import columnar
from logbus.records.batch import encode_batch, encode_marker_batch, read_header, rewrite_batch
from logbus.records.batch_columns import Columns, extend_from_batches
from logbus.records.checksum import Buffer
from logbus.records.compression import Codec
from logbus.records.control_records import ControlType, Marker
from logbus.records.header import ATTRIBUTES_AT, CRC, CRC_AT, batch_crc, iter_batches
from logbus.records.implementations import COLUMNS_ARE_COMPILED
from logbus.records.read_committed import CommittedFilter, committed_records
from logbus.records.record import Record
from tests.records.column_kit import row_of, rows_of

MAX_OFFSET = 2**63 - 1
ENDINGS = ("plain", "abort", "commit")
COMMIT, ABORT = Marker(ControlType.COMMIT, 0), Marker(ControlType.ABORT, 0)


def records(*values: bytes | None) -> list[Record]:
    """Records of these values."""
    return [Record(0, 1000 + n, b"k", value, (("h", b"%d" % n),)) for n, value in enumerate(values)]


def walk(
    columns: Columns, buf: Buffer, first: int = 0, end: int = MAX_OFFSET, aborted: Any = (), **options: Any
) -> tuple[int, int]:
    """One call, without bounds unless they are given."""
    options = {"max_rows": 1 << 30, "max_bytes": 1 << 30, **options}
    return extend_from_batches(columns, buf, CommittedFilter(aborted), first, end, **options)


def taken(columns: Columns) -> list[tuple[int, bytes | None]]:
    """Offsets and values."""
    return [(row.offset, row.value) for row in rows_of(columns.take())]


THREE = (
    encode_batch(records(b"a", b"b", b"c"), base_offset=10)
    + encode_batch(records(b"d", b"e"), base_offset=13, codec=Codec.LZ4)
    + encode_batch(records(b"f"), base_offset=15)
)
SECOND = read_header(THREE).size
THIRD = SECOND + read_header(THREE, SECOND).size


class ExtendFromBatchesTests(SynchronousTestCase):
    """The records read, and the position reached."""

    def test_all(self) -> None:
        """Batch after batch becomes rows; the walk ends with the bytes."""
        columns = Columns()
        self.assertEqual(walk(columns, THREE, 10), (len(THREE), 16))
        self.assertEqual(taken(columns), list(zip(range(10, 16), (b"a", b"b", b"c", b"d", b"e", b"f"), strict=True)))

    def test_codecs(self) -> None:
        """All codecs are read."""
        for codec in Codec:
            columns = Columns(headers=True)
            batch = encode_batch(records(b"a" * 1000, None), codec=codec)
            walk(columns, batch)
            expected = [row_of(record, True) for record in committed_records(batch, ())]
            self.assertEqual(rows_of(columns.take()), expected)

    def test_half_a_batch(self) -> None:
        """Responses may end inside a batch: whole batches are read, and reading goes on at the incomplete one."""
        for size in (THIRD, THIRD + 1, THIRD + 30, len(THREE) - 1):
            columns = Columns()
            self.assertEqual(walk(columns, THREE[:size], 10), (THIRD, 15))
            self.assertEqual(columns.rows, 5)
        self.assertEqual(walk(Columns(), b"", 7), (0, 7))
        self.assertEqual(walk(Columns(), THREE[:20], 7), (0, 7))

    def test_range(self) -> None:
        """Rows below the first offset and from the end on stay out; at the end nothing more is looked at."""
        for first, end, place in ((11, 14, (THIRD, 14)), (13, 15, (THIRD, 15)), (12, 13, (SECOND, 13)), (0, 5, (0, 5))):
            columns = Columns()
            self.assertEqual(walk(columns, THREE[:THIRD] + b"\xff" * 99, first, end), place)
            self.assertEqual([offset for offset, _ in taken(columns)], list(range(max(first, 10), min(end, 15))))

    def test_batches_before_the_first_offset(self) -> None:
        """Batches that end before the first offset are passed over; where to read on never goes back."""
        columns = Columns()
        self.assertEqual(walk(columns, THREE[:THIRD], 20), (THIRD, 20))
        self.assertEqual(columns.rows, 0)

    def test_the_end_lies_in_a_gap(self) -> None:
        """Where the next batch is beyond the end there is nothing more to read below it."""
        columns = Columns()
        later = encode_batch(records(b"x"), base_offset=50)
        self.assertEqual(walk(columns, THREE + later, 10, 30), (len(THREE), 30))
        self.assertEqual(columns.rows, 6)

    def test_full(self) -> None:
        """No batch is begun once there are rows or bytes enough; the next call goes on from there."""
        for options in ({"max_rows": 2}, {"max_rows": 3}, {"max_bytes": 1}):
            columns = Columns()
            pos, next_offset = walk(columns, THREE, 10, **options)
            self.assertEqual((pos, next_offset, columns.rows), (SECOND, 13, 3))
            self.assertEqual(walk(columns, THREE, 13, pos=pos, **options), (SECOND, 13))
            columns.take()
            self.assertGreater(walk(columns, THREE, next_offset, pos=pos, **options), (pos, next_offset))
            self.assertEqual(taken(columns)[:2], [(13, b"d"), (14, b"e")])

    def test_log_append_time(self) -> None:
        """Where the broker stamped a batch, its rows have that time."""
        columns = Columns()
        walk(columns, encode_batch(records(b"a", b"b"), log_append_time=5) + encode_batch(records(b"c"), base_offset=2))
        self.assertEqual([row.timestamp_us for row in rows_of(columns.take())], [5000, 5000, 1_000_000])

    def test_transactions(self) -> None:
        """Markers are never rows, and neither are aborted records to a read_committed consumer."""
        buf = b"".join(
            (
                encode_batch(records(b"a"), base_offset=0, producer_id=1, transactional=True),
                encode_batch(records(b"b"), base_offset=1, producer_id=2, transactional=True),
                encode_batch(records(b"c"), base_offset=2),
                encode_marker_batch(ABORT, producer_id=1, producer_epoch=0, timestamp=0, base_offset=3),
                encode_marker_batch(COMMIT, producer_id=2, producer_epoch=0, timestamp=0, base_offset=4),
                encode_batch(records(b"d"), base_offset=5, producer_id=1, transactional=True),
            )
        )
        columns = Columns()
        self.assertEqual(walk(columns, buf), (len(buf), 6))
        self.assertEqual(taken(columns), [(0, b"a"), (1, b"b"), (2, b"c"), (5, b"d")])
        self.assertEqual(walk(columns, buf, aborted=[(1, 0)]), (len(buf), 6))
        self.assertEqual(taken(columns), [(1, b"b"), (2, b"c"), (5, b"d")])
        # The filter remembers from call to call.
        hidden = CommittedFilter([(1, 0)])
        pos, offset, found = 0, 0, []
        while offset < 6:
            pos, offset = extend_from_batches(columns, buf, hidden, offset, 6, max_rows=1, max_bytes=1000, pos=pos)
            found += taken(columns)
        self.assertEqual(found, [(1, b"b"), (2, b"c"), (5, b"d")])

    def test_thinned_by_compaction(self) -> None:
        """Offsets that compaction took away are passed over, those of a batch without any record too."""
        whole = encode_batch(records(b"a", b"b", b"c"), base_offset=4)
        header = read_header(whole)
        last = Record(6, 0, b"k", b"c")
        columns = Columns()
        self.assertEqual(walk(columns, rewrite_batch(header, [last])), (len(rewrite_batch(header, [last])), 7))
        self.assertEqual(taken(columns), [(6, b"c")])
        self.assertEqual(walk(columns, rewrite_batch(header, [])), (61, 7))
        self.assertEqual(columns.rows, 0)

    def test_room(self) -> None:
        """Before a column outgrows what Arrow's offsets reach the walk ends; taking makes room."""
        columns = columnar.Columns()
        pos, offset, found = 0, 10, []
        with mock.patch.object(columnar, "COLUMN_LIMIT", 100):
            while offset < 16:
                pos, offset = walk(columns, THREE, offset, 16, pos=pos)
                found.append([value for _, value in taken(columns)])
        self.assertEqual(found, [[b"a", b"b", b"c"], [b"d", b"e", b"f"]])

    @given(
        st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3), st.sampled_from(ENDINGS)), max_size=8),
        st.integers(0, 30),
        st.integers(0, 40),
        st.integers(1, 6),
        st.booleans(),
        st.booleans(),
    )
    def test_in_pieces(
        self, drawn: Any, first: int, end: int, max_rows: int, only_committed: bool, in_place: bool
    ) -> None:
        """However it is cut, the rows are what reading the records gives, in the range, also once all are read."""
        buf, offset, aborted = b"", 0, []
        for n, (count, gap, ending) in enumerate(drawn):
            offset += gap
            if ending == "abort":
                aborted.append((n, offset))
            buf += encode_batch(
                records(*(b"%d" % m for m in range(count))),
                base_offset=offset,
                codec=Codec(n % 5),
                producer_id=n,
                transactional=ending != "plain",
            )
            offset += count
            if ending != "plain":
                marker = ABORT if ending == "abort" else COMMIT
                buf += encode_marker_batch(marker, producer_id=n, producer_epoch=0, timestamp=0, base_offset=offset)
                offset += 1
        aborted = aborted if only_committed else []
        expected = [row_of(r, True) for r in committed_records(buf, aborted) if first <= r.offset < end]
        columns, hidden, found = Columns(True), CommittedFilter(aborted), []
        received = memoryview(bytearray(buf))
        pos, at = 0, first
        while pos < len(buf) and at < end:
            before = pos
            pos, at = extend_from_batches(
                columns, received, hidden, at, end, max_rows=max_rows, max_bytes=1 << 20, pos=pos, in_place=in_place
            )
            found.append(columns.take())
            if at < end:
                self.assertGreater(pos, before)
        self.assertEqual([row for part in found for row in rows_of(part)], expected)
        self.assertLessEqual(at, max(first, end))


class InPlaceTests(SynchronousTestCase):
    """Values that stay in the buffer with the batches."""

    PLAIN = (
        encode_batch(records(b"a" * 50, None, b"c" * 70), base_offset=10)
        + encode_batch(records(None, b""), base_offset=13)
        + encode_batch(records(b"f" * 90, b"g"), base_offset=15)
    )
    VALUES = (b"a" * 50, None, b"c" * 70, None, b"", b"f" * 90, b"g")

    def setUp(self) -> None:
        if not COLUMNS_ARE_COMPILED:
            raise SkipTest("the Python implementation copies all")

    def test_views(self) -> None:
        """What is taken is a view of the buffer, of the values only; a tombstone first makes no difference."""
        for skipped in (0, 13 - 10):
            received = bytearray(self.PLAIN)
            columns = Columns()
            walk(columns, memoryview(received), 10 + skipped, in_place=True)
            data = columns.take()
            self.assertIs(data.value_data.obj, received)  # type: ignore[union-attr]
            self.assertEqual(tuple(row.value for row in rows_of(data)), self.VALUES[skipped:])

    def test_compressed_in_between(self) -> None:
        """Behind a compressed batch, and behind one in another buffer, all are copied; none is lost."""
        columns = Columns()
        for offset, buf in ((10, THREE), (16, encode_batch(records(b"x", b"y"), base_offset=16))):
            walk(columns, memoryview(bytearray(buf)), offset, in_place=True)
        self.assertEqual([value for _, value in taken(columns)], [b"a", b"b", b"c", b"d", b"e", b"f", b"x", b"y"])

    def test_then_copied(self) -> None:
        """Values that have stayed are copied if the next may not."""
        columns = Columns()
        received = bytearray(self.PLAIN)
        walk(columns, memoryview(received), 10, in_place=True)
        walk(columns, encode_batch(records(b"x"), base_offset=17), 17)
        received[:] = bytes(len(received))
        self.assertEqual(tuple(value for _, value in taken(columns)), (*self.VALUES, b"x"))

    def test_what_cannot_be_written(self) -> None:
        """Bytes, and views of them, are as they were."""
        for buf in (self.PLAIN, memoryview(self.PLAIN), memoryview(bytearray(self.PLAIN)).toreadonly()):
            columns = Columns()
            walk(columns, buf, 10, in_place=True)
            self.assertEqual(bytes(buf), self.PLAIN)
            self.assertEqual(tuple(value for _, value in taken(columns)), self.VALUES)

    def test_damage(self) -> None:
        """A malformed batch, whose checksum is right, is as it was, and the error the same when it is read again."""
        good = encode_batch(records(b"a" * 50, b"b"), base_offset=10)
        header = read_header(encode_batch(records(b"a", b"b"), base_offset=12))
        lying = rewrite_batch(header, [Record(12, 0, None, b"v" * 50), Record(12, 0, None, b"w" * 50)])
        received = bytearray(good + lying)
        columns = Columns()
        self.assertEqual(walk(columns, memoryview(received), 10, in_place=True), (len(good), 12))
        for _ in range(2):
            with self.assertRaisesRegex(DecodeError, "record 1 of 2 in .* is malformed: the offset"):
                walk(columns, memoryview(received), 12, pos=len(good), in_place=True)
        self.assertEqual(received[len(good) :], lying)
        self.assertEqual([value for _, value in taken(columns)], [b"a" * 50, b"b"])


class DamageTests(SynchronousTestCase):
    """Bytes that are not what they should be."""

    def damaged(self, at: int, by: int = 1) -> bytes:
        damaged = bytearray(THREE)
        damaged[at] ^= by
        return bytes(damaged)

    def test_crc(self) -> None:
        """The error about a wrong CRC has the batch's offset."""
        error = self.assertRaises(DecodeError, walk, Columns(), self.damaged(SECOND - 1), 10)
        self.assertIn("the batch at offset 10", str(error))

    def test_intact_batches_come_first(self) -> None:
        """Batches before the damaged one are rows; the call that begins at it raises, and adds nothing."""
        for at in (THIRD - 1, SECOND + 16):  # a byte of the records; the magic
            columns = Columns()
            self.assertEqual(walk(columns, self.damaged(at), 10), (SECOND, 13))
            self.assertEqual(columns.rows, 3)
            self.assertRaises(DecodeError, walk, columns, self.damaged(at), 13, pos=SECOND)
            self.assertEqual(columns.rows, 3)

    def test_records(self) -> None:
        """Malformed records with a right CRC are refused by both implementations."""
        header = read_header(encode_batch(records(b"a", b"b")))
        lying = rewrite_batch(header, [Record(0, 0, None, b"v"), Record(0, 0, None, b"v")])
        for implementation in {columnar.Columns, Columns}:
            columns = implementation()
            self.assertRaises(DecodeError, walk, columns, lying)
            self.assertEqual(columns.rows, 0)

    def test_too_large(self) -> None:
        """What would become larger than allowed is refused, compressed or not."""
        for codec in Codec:
            batch = encode_batch(records(bytes(100_000)), codec=codec)
            error = self.assertRaises(ApiError, walk, Columns(), batch, limit=50_000)
            self.assertEqual(error.code, ErrorCode.MESSAGE_TOO_LARGE)

    def test_unknown_codec(self) -> None:
        """Attributes that name a codec which is none."""
        unknown = bytearray(encode_batch(records(b"a")))
        unknown[ATTRIBUTES_AT + 1] = 7
        CRC.pack_into(unknown, CRC_AT, batch_crc(unknown, 0, len(unknown)))
        error = self.assertRaises(ApiError, walk, Columns(), bytes(unknown))
        self.assertEqual(error.code, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)

    @given(st.lists(st.tuples(st.integers(0, len(THREE) - 1), st.integers(0, 255)), max_size=4), st.integers(0, 20))
    def test_mutations(self, changes: Any, first: int) -> None:
        """Whatever bytes change, nothing but DecodeError and ApiError is raised, and the walk comes to an end."""
        buf = bytearray(THREE)
        for at, byte in changes:
            buf[at] = byte
        columns = Columns(True)
        pos, offset = 0, first
        for _ in range(4):
            try:
                pos, offset = walk(columns, bytes(buf), offset, pos=pos)
            except (ApiError, DecodeError):
                break
        else:
            self.assertEqual(walk(columns, bytes(buf), offset, pos=pos)[0], pos)
        rows_of(columns.take())

    @given(
        st.lists(st.tuples(st.integers(0, 3 * SECOND), st.integers(0, 255)), max_size=3),
        st.integers(0, 20),
        st.integers(0, 20),
        st.integers(1, 6),
        st.booleans(),
    )
    def test_both_implementations(self, changes: Any, first: int, end: int, max_rows: int, in_place: bool) -> None:
        """
        Whatever bytes change, though each checksum is right: both come to the same position with the same rows, call by
        call, and refuse the same.
        """
        buf = bytearray(
            encode_batch(records(b"a", b"b", b"c"), base_offset=10)
            + encode_batch(records(b"d", None), base_offset=13, log_append_time=5)
            + encode_batch(records(b"f"), base_offset=15)
            + encode_batch(records(b"g"), base_offset=16, producer_id=1, transactional=True)
            + encode_batch(records(b"h"), base_offset=17)
        )
        places = [pos for pos, _ in iter_batches(bytes(buf))]
        for at, byte in changes:
            buf[at] = byte
        for pos, following in pairwise([*places, len(buf)]):
            CRC.pack_into(buf, pos + CRC_AT, batch_crc(buf, pos, following - pos))
        found = []
        for columns in (columnar.Columns(), Columns()):
            received, steps = memoryview(bytearray(buf)), list[Any]()
            pos, offset = 0, first
            for _ in range(6):
                try:
                    pos, offset = walk(
                        columns, received, offset, end, pos=pos, max_rows=max_rows, max_bytes=99, in_place=in_place
                    )
                except (ApiError, DecodeError) as e:
                    steps.append(type(e))
                    break
                steps.append((pos, offset, rows_of(columns.take())))
            found.append(steps)
        self.assertEqual(*found)
