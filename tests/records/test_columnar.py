"""
Tests of :mod:`logbus.records.columnar` and its compiled implementation: records to columns.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logbus.errors import DecodeError
from logbus.records import columnar
from logbus.records.columnar import COLUMN_LIMIT, ColumnData
from logbus.records.implementations import COLUMNS_ARE_COMPILED, Columns, decode_records, encode_record
from logbus.records.record import Record
from logbus.records.varint import encode_varint
from tests.records.column_kit import MAX_MS, CompiledTwin, PlainTwin, Row, row_of, rows_of
from tests.records.golden import TWO_RECORDS

INT64 = st.integers(-(2**63), 2**63 - 1)
MAYBE_BYTES = st.none() | st.binary(max_size=200)
NAMES = st.text(max_size=10) | st.binary(max_size=4).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
HEADERS = st.lists(st.tuples(NAMES, MAYBE_BYTES), max_size=3).map(tuple)
RECORDS = st.lists(st.tuples(INT64, st.integers(1, 3), MAYBE_BYTES, MAYBE_BYTES, HEADERS), max_size=12)
BOUNDS = st.integers(-1, 30) | INT64
ALL = -(2**63), 2**63 - 1
SECTION = TWO_RECORDS[61:]
IMPLEMENTATIONS: tuple[Any, ...] = (columnar.Columns, Columns) if COLUMNS_ARE_COMPILED else (columnar.Columns,)


@st.composite
def sections(draw: st.DrawFn, damaged: bool = False) -> tuple[Any, ...]:
    """What :meth:`Columns.extend` takes, but for the range: records, some of them damaged when asked for."""
    records = draw(RECORDS)
    delta = -1
    encoded = bytearray()
    for timestamp_delta, step, *rest in records:
        delta += step
        encoded += encode_record(timestamp_delta, delta, *rest)
    base_offset = draw(st.integers(0, 20) | INT64)
    count = len(records)
    base_timestamp = draw(st.just(0) | INT64)
    if damaged:
        for _ in range(draw(st.integers(0, 2))):
            if encoded:
                encoded[draw(st.integers(0, len(encoded) - 1))] = draw(st.integers(0, 255))
        del encoded[len(encoded) - draw(st.integers(0, min(3, len(encoded)))) :]
        count += draw(st.sampled_from((0, 0, 0, -1, 1)))
        delta += draw(st.sampled_from((0, 0, 0, -1, 1)))
    return bytes(encoded), count, base_offset, max(delta, 0), base_timestamp, draw(st.none() | INT64)


def fields(*parts: int | bytes) -> bytes:
    """A record from numbers, written as varints, and bytes, with the right length in front."""
    body = b"".join(part if isinstance(part, bytes) else encode_varint(part) for part in parts)
    return encode_varint(len(body)) + body


class ColumnsTests:
    """Tests of both implementations."""

    def test_golden(self: Any) -> None:
        """The golden records become these bytes."""
        columns = self.Columns(headers=True)
        self.assertEqual(columns.extend(SECTION, 2, 100, 1, 1000, None, *ALL), 2)
        data = columns.take()
        self.assertEqual(bytes(data.offsets), (100).to_bytes(8, sys.byteorder) + (101).to_bytes(8, sys.byteorder))
        self.assertEqual(
            bytes(data.timestamps_us), (1_000_000).to_bytes(8, sys.byteorder) + (1_005_000).to_bytes(8, sys.byteorder)
        )
        self.assertEqual((bytes(data.key_validity), bytes(data.key_data)), (b"\x01", b"k"))
        self.assertEqual((data.value_validity, bytes(data.value_data)), (None, b"value"))
        self.assertEqual(
            rows_of(data),
            [
                Row(100, 1_000_000, b"k", b"value", (("h", None),)),
                Row(101, 1_005_000, None, b"", (("abc", b"\x01\x02\x03\x04\x05\x06"),)),
            ],
        )

    def test_nothing(self: Any) -> None:
        """Columns of no rows are columns."""
        for headers in (False, True):
            columns = self.Columns(headers)
            self.assertEqual((columns.rows, columns.nbytes), (0, 0))
            self.assertEqual(columns.extend(b"", 0, 0, 0, 0, None, *ALL), 0)
            self.assertEqual(rows_of(columns.take()), [])

    def test_a_batch_that_ends_before_it_begins(self: Any) -> None:
        """A last offset below the first is refused, without any record too."""
        self.assertRaises(DecodeError, self.Columns().extend, b"", 0, 0, -2, 0, None, *ALL)
        self.assertRaises(DecodeError, self.Columns().extend, SECTION, 2, 0, -1, 0, None, *ALL)

    def test_taking_empties(self: Any) -> None:
        """What was taken stays as it is while the columns fill again."""
        columns = self.Columns(True)
        columns.extend(SECTION, 2, 100, 1, 1000, None, *ALL)
        held = columns.nbytes
        taken = columns.take()
        before = rows_of(taken)
        self.assertEqual((columns.rows, columns.nbytes), (0, 0))
        columns.extend(SECTION, 2, 7, 1, 0, None, *ALL)
        self.assertEqual((columns.rows, columns.nbytes), (2, held))
        self.assertEqual(rows_of(taken), before)
        self.assertEqual([row.offset for row in rows_of(columns.take())], [7, 8])

    def test_trimmed(self: Any) -> None:
        """Rows below the first offset, and from the end on, are left out."""
        data = b"".join(encode_record(0, n, b"%d" % n, None) for n in range(10))
        columns = self.Columns()
        self.assertEqual(columns.extend(data, 10, 50, 9, 0, None, 53, 56), 3)
        self.assertEqual(
            [(row.offset, row.key) for row in rows_of(columns.take())], [(53, b"3"), (54, b"4"), (55, b"5")]
        )
        self.assertEqual(columns.extend(data, 10, 50, 9, 0, None, 60, 70), 0)
        self.assertEqual(columns.extend(data, 10, 50, 9, 0, None, 0, 50), 0)

    def test_unwanted_rows_are_checked(self: Any) -> None:
        """A damaged record is reported even where its row is not wanted."""
        data = encode_record(0, 0, None, b"v") + b"\x0c\x00\x00\x02\x01\x01\x02"
        self.assertRaises(DecodeError, self.Columns().extend, data, 2, 0, 1, 0, None, 0, 1)

    def test_append_time(self: Any) -> None:
        """A batch that the broker stamped gives all its rows that time."""
        columns = self.Columns()
        columns.extend(SECTION, 2, 0, 1, 1000, 7777, *ALL)
        self.assertEqual([row.timestamp_us for row in rows_of(columns.take())], [7_777_000] * 2)

    def test_no_timestamp(self: Any) -> None:
        """A record without a time, −1 ms, keeps that; times that microseconds cannot hold are cut."""
        columns = self.Columns()
        for base in (-1, -(2**63), 2**63 - 1, MAX_MS, MAX_MS + 1):
            columns.extend(encode_record(0, 0, None, None), 1, 0, 0, base, None, *ALL)
        times = [row.timestamp_us for row in rows_of(columns.take())]
        self.assertEqual(times, [-1000, -MAX_MS * 1000, MAX_MS * 1000, MAX_MS * 1000, MAX_MS * 1000])

    def test_names(self: Any) -> None:
        """A header's name that is not UTF-8 is a name all the same; its neighbours stay what they are."""
        names = (b"plain", b"\xff\xfe", b"", "gr\u00fc\u00df".encode(), b"\xe2\x82", b"\x82\xac", b"last")
        data = fields(b"\0", 0, 0, -1, -1, len(names), *(part for name in names for part in (len(name), name, -1)))
        columns = self.Columns(True)
        columns.extend(SECTION, 2, 0, 1, 0, None, *ALL)
        columns.extend(data, 1, 2, 0, 0, None, *ALL)
        columns.extend(SECTION, 2, 3, 1, 0, None, *ALL)
        rows = rows_of(columns.take())
        expected = ["plain", "\ufffd\ufffd", "", "gr\u00fc\u00df", "\ufffd", "\ufffd\ufffd", "last"]
        self.assertEqual([name for name, _ in rows[2].headers], expected)
        self.assertEqual([name for row in (rows[1], rows[3]) for name, _ in row.headers], ["abc", "h"])

    def test_names_that_grow(self: Any) -> None:
        """Names that become three times as long when they are mended have room."""
        name = b"\xff" * 5000
        data = fields(b"\0", 0, 0, -1, -1, 1, len(name), name, -1)
        columns = self.Columns(True)
        for n in range(3):
            columns.extend(data, 1, n, 0, 0, None, *ALL)
        self.assertEqual([row.headers for row in rows_of(columns.take())], [(("\ufffd" * 5000, None),)] * 3)

    def test_wrong_lengths(self: Any) -> None:
        """A record is as long as its fields are, even where the next one would fit on."""
        for change in (-2, 2):
            first = bytearray(encode_record(0, 0, None, b"value"))
            first[0] += change
            data = bytes(first) + encode_record(0, 1, None, b"value")
            self.assertRaises(DecodeError, self.Columns().extend, data, 2, 0, 1, 0, None, *ALL)

    def test_numbers_longer_than_they_need_be(self: Any) -> None:
        """Numbers with idle bytes are read; a key or value may not be null in that way, a header's content may."""
        idle = b"\x84\x80\x80\x80\x00"  # 2, in five bytes
        for good in (
            fields(b"\0", 0, 0, idle, b"kk", idle, b"vv", b"\x82\x00", idle, b"nn", b"\x81\x00"),
            fields(b"\0", b"\x80" * 9 + b"\x01", 0, -1, -1, b"\x80\x00"),
        ):
            columns = self.Columns(True)
            columns.extend(good, 1, 0, 0, -1 if good[2] else 0, None, *ALL)
            records = decode_records(good, 1, 0, 0, -1 if good[2] else 0)
            self.assertEqual(rows_of(columns.take()), [row_of(record, True) for record in records])
        for bad in (
            fields(b"\0", 0, 0, b"\x81\x00", -1, 0),
            fields(b"\0", 0, 0, -1, b"\x81\x00", 0),
            fields(b"\0", 0, 0, -1, -1, 1, b"\x81\x00", -1),
            fields(b"\0", 0, 0, -1, -1, b"\x80\x80\x80\x80\x10"),
            fields(b"\0", b"\x80" * 9 + b"\x02", 0, -1, -1, 0),
        ):
            self.assertRaises(DecodeError, decode_records, bad, 1, 0, 0, 0)
            self.assertRaises(DecodeError, self.Columns(True).extend, bad, 1, 0, 0, 0, None, *ALL)

    def test_a_failure_in_between(self: Any) -> None:
        """A damaged section leaves nothing behind, not a bit among the nulls either."""
        nulls = b"".join(encode_record(0, n, None, None) for n in range(3))
        full = b"".join(encode_record(0, n, b"k", b"v", [("h", b"c")]) for n in range(6))
        columns = self.Columns(True)
        columns.extend(nulls, 3, 0, 2, 0, None, *ALL)
        self.assertRaises(DecodeError, columns.extend, full + b"\0", 6, 3, 5, 0, None, *ALL)
        self.assertRaises(DecodeError, columns.extend, full[:-1], 6, 3, 5, 0, None, *ALL)
        columns.extend(nulls, 3, 3, 2, 0, None, *ALL)
        rows = rows_of(columns.take())
        self.assertEqual(rows, [Row(n, 0, None, None, ()) for n in range(6)])

    def test_many_small_and_large(self: Any) -> None:
        """Columns grow as they must, whatever comes."""
        columns = self.Columns(True)
        expected = []
        for n in range(300):
            size = (0, 1, 1000, 70_000)[n % 4]
            record = Record(n, n, b"k" * (n % 3), bytes(size), (("h", b"c" * (n % 7)),) * (n % 2))
            columns.extend(encode_record(0, 0, *record[2:]), 1, n, 0, n, None, *ALL)
            expected.append(row_of(record, True))
        self.assertEqual(rows_of(columns.take()), expected)

    def test_room(self: Any) -> None:
        """A section that could take a column beyond what Arrow's offsets reach is refused, not cut."""
        columns = self.Columns()
        self.assertTrue(columns.has_room(COLUMN_LIMIT))
        self.assertFalse(columns.has_room(COLUMN_LIMIT + 1))
        columns.extend(SECTION, 2, 0, 1, 0, None, *ALL)
        self.assertTrue(columns.has_room(COLUMN_LIMIT - columns.nbytes))
        self.assertFalse(columns.has_room(COLUMN_LIMIT - columns.nbytes + 1))
        self.assertFalse(self.Columns(True).has_room(COLUMN_LIMIT // 2))

    def test_memory(self: Any) -> None:
        """A few bytes that announce millions of records or headers cost nothing."""
        for data, count in ((SECTION, 2**31 - 1), (fields(b"\0", 0, 0, -1, -1, 2**30), 1), (b"", 2**62)):
            tracemalloc.start()
            self.assertRaises(DecodeError, self.Columns(True).extend, data, count, 0, 2**31 - 1, 0, None, *ALL)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            self.assertLess(peak, 2**20)

    def test_any_buffer(self: Any) -> None:
        """Views and byte arrays are as good as bytes."""
        for data in (bytearray(SECTION), memoryview(SECTION), memoryview(b"xx" + SECTION)[2:]):
            columns = self.Columns()
            self.assertEqual(columns.extend(data, 2, 0, 1, 0, None, *ALL), 2)


class PlainColumnsTests(ColumnsTests, PlainTwin):
    """The Python implementation."""


class PropertiesTests(SynchronousTestCase):
    """Properties for any bytes, of both implementations."""

    @given(st.lists(st.tuples(sections(damaged=True), BOUNDS, BOUNDS), max_size=4), st.booleans())
    def test_the_rows_are_the_records(self, batches: Any, headers: bool) -> None:
        """The rows are what decoding to records gives, in the range; where that raises nothing is kept."""
        for implementation in IMPLEMENTATIONS:
            columns = implementation(headers)
            expected: list[Row] = []
            for section, first, end in batches:
                held = columns.rows, columns.nbytes
                try:
                    records = decode_records(*section)
                except DecodeError:
                    self.assertRaises(DecodeError, columns.extend, *section, first, end)
                    self.assertEqual((columns.rows, columns.nbytes), held)
                else:
                    kept = [row_of(record, headers) for record in records if first <= record.offset < end]
                    self.assertEqual(columns.extend(*section, first, end), len(kept))
                    expected += kept
            self.assertEqual(columns.rows, len(expected))
            self.assertEqual(rows_of(columns.take()), expected)

    @given(st.binary(max_size=60), st.integers(-1, 8))
    def test_noise(self, noise: bytes, count: int) -> None:
        """Bytes that are no records are refused, as decoding to records does."""
        for implementation in IMPLEMENTATIONS:
            columns = implementation(True)
            try:
                records = decode_records(noise, count, 0, 100, 0)
            except DecodeError:
                self.assertRaises(DecodeError, columns.extend, noise, count, 0, 100, 0, None, *ALL)
            else:
                self.assertEqual(columns.extend(noise, count, 0, 100, 0, None, *ALL), len(records))

    @given(st.lists(sections(damaged=True), max_size=4), st.booleans())
    def test_the_same_buffers(self, batches: Any, headers: bool) -> None:
        """The buffers of both implementations are identical after each batch."""
        taken = []
        for implementation in IMPLEMENTATIONS:
            columns = implementation(headers)
            held = []
            for section in batches:
                try:
                    columns.extend(*section, *ALL)
                except DecodeError:
                    pass
                held.append((columns.rows, columns.nbytes))
            taken.append((held, columns.take()))
        self.assertEqual(taken[0], taken[-1])


class CompiledColumnsTests(ColumnsTests, CompiledTwin):
    """The compiled implementation."""

    def test_used_again(self) -> None:
        """Memory of values is reused once they are released, and not before."""
        spares: list[bytearray] = []
        columns = self.Columns(spares=spares)
        held: list[tuple[ColumnData, list[Row]]] = []
        pieces = []
        for n in range(60):
            for _ in range(3):
                columns.extend(encode_record(0, 0, b"k", bytes([n]) * 200_000, ()), 1, n, 0, n, None, *ALL)
            held.append((columns.take(), []))
            pieces.append(id(memoryview(held[-1][0].value_data).obj))
            held[-1] = held[-1][0], rows_of(held[-1][0])
            for data, rows in held:
                self.assertEqual(rows_of(data), rows)
            data = held[-1][0]
            del held[: max(len(held) - 2, 0)]
            self.assertLessEqual(len(spares), 4)
        self.assertLessEqual(len(set(pieces[-20:])), 4)

    def test_used_while_extended(self) -> None:
        """Reentrant calls are refused, and the rows do not change."""
        if sys.version_info < (3, 12):
            raise SkipTest("Python code cannot come in between before Python 3.12, but for finalizers")
        columns = self.Columns()
        refused = []

        class Meddler:
            def __buffer__(self, flags: int) -> memoryview:
                for call in (columns.take, lambda: columns.extend(SECTION, 2, 0, 1, 0, None, *ALL)):
                    try:
                        call()
                    except RuntimeError as e:
                        refused.append(str(e))
                return memoryview(SECTION)

        columns.extend(Meddler(), 2, 5, 1, 0, None, *ALL)
        self.assertEqual(refused, ["columns are used while they are being extended"] * 2)
        self.assertEqual([row.offset for row in rows_of(columns.take())], [5, 6])


GUARDED = """
import ctypes, mmap, random, sys
from logbus.errors import DecodeError
from logbus.records.implementations import COLUMNS_ARE_COMPILED, Columns, encode_record
assert COLUMNS_ARE_COMPILED
page = mmap.PAGESIZE
area = mmap.mmap(-1, 2 * page)
start = ctypes.addressof(ctypes.c_char.from_buffer(area))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.mprotect(ctypes.c_void_p(start + page), ctypes.c_size_t(page), 0) == 0
view = memoryview(area)
random = random.Random(int(sys.argv[1]))
some = lambda: random.choice((None, b"", b"k", bytes(random.randrange(200))))
read = refused = 0
for _ in range(int(sys.argv[2])):
    count = random.randrange(1, 6)
    data = bytearray().join(
        encode_record(random.choice((0, 2**40)), n, some(), some(), [("n" * random.randrange(4), some())] * (n % 3))
        for n in range(count)
    )
    for _ in range(random.randrange(4)):
        data[random.randrange(len(data))] = random.choice((0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, random.randrange(256)))
    del data[len(data) - random.choice((0, 0, 0, random.randrange(len(data)))) :]
    data = data[:page]
    area[page - len(data) : page] = data
    columns = Columns(random.random() < 0.7)
    end = random.choice((1, 2**62))
    for _ in range(2):
        try:
            read += columns.extend(view[page - len(data) : page], count, 0, count - 1, 0, None, 0, end)
        except DecodeError:
            refused += 1
    columns.take()
print(read, refused)
"""


class GuardedTests(SynchronousTestCase):
    """Where a byte too far would end the process."""

    def setUp(self) -> None:
        CompiledTwin.setUp(self)  # type: ignore[arg-type]

    def test_no_byte_beyond(self) -> None:
        """
        Sections that end where memory does, many of them damaged, are read or refused: nothing beyond is looked at; and
        nothing is written beside what was set aside, which the interpreter's own memory checks would tell.
        """
        rounds = "200000" if os.environ.get("LOGBUS_HYPOTHESIS_PROFILE") == "long" else "10000"
        done = subprocess.run(
            [sys.executable, "-c", GUARDED, "1", rounds],
            env={**os.environ, "PYTHONMALLOC": "debug"},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        read, refused = map(int, done.stdout.split())
        self.assertGreater(min(read, refused), 1000)


class ArrowTests(SynchronousTestCase):
    """Arrow itself takes the buffers."""

    def test_arrow_takes_them(self) -> None:
        """Arrays made of the buffers, without a copy, are valid and hold what the rows do."""
        try:
            import pyarrow as pa
        except ImportError:
            raise SkipTest("pyarrow is not installed (pip install '.[spark]')") from None

        def array(kind: Any, count: int, *buffers: Any) -> Any:
            made = pa.Array.from_buffers(kind, count, [None if buf is None else pa.py_buffer(buf) for buf in buffers])
            made.validate(full=True)
            return made

        def lists(data: ColumnData) -> Any:
            held = data.headers
            assert held is not None
            names = array(pa.string(), held.count, None, held.name_offsets, held.name_data)
            contents = array(pa.binary(), held.count, held.content_validity, held.content_offsets, held.content_data)
            pairs = pa.StructArray.from_arrays([names, contents], ["key", "value"])
            made = pa.Array.from_buffers(
                pa.list_(pairs.type), data.rows, [None, pa.py_buffer(held.offsets)], children=[pairs]
            )
            made.validate(full=True)
            return [tuple((pair["key"], pair["value"]) for pair in pairs) for pairs in made.to_pylist()]

        @given(st.lists(sections(), max_size=3))
        def valid(batches: Any) -> None:
            for implementation in IMPLEMENTATIONS:
                columns = implementation(True)
                for section in batches:
                    try:
                        columns.extend(*section, *ALL)
                    except DecodeError:
                        continue
                data = columns.take()
                rows = rows_of(data)
                self.assertEqual(array(pa.int64(), data.rows, None, data.offsets).to_pylist(), [row[0] for row in rows])
                times = array(pa.timestamp("us", "UTC"), data.rows, None, data.timestamps_us).cast(pa.int64())
                self.assertEqual(times.to_pylist(), [row[1] for row in rows])
                keys = array(pa.binary(), data.rows, data.key_validity, data.key_offsets, data.key_data)
                self.assertEqual(keys.to_pylist(), [row[2] for row in rows])
                values = array(pa.binary(), data.rows, data.value_validity, data.value_offsets, data.value_data)
                self.assertEqual(values.to_pylist(), [row[3] for row in rows])
                self.assertEqual(lists(data), [row[4] for row in rows])

        valid()
