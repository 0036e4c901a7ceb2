"""
Tests of :mod:`logbus.records.packing` and its compiled implementation: columns to records.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logbus.records import implementations, packing
from logbus.records.batch import HEADER_SIZE, BatchBuilder, decode_batch
from logbus.records.batch_columns import ColumnData, Columns
from logbus.records.column_batch import ColumnBatch
from logbus.records.implementations import encode_columns, encode_record, partitions_of_keys
from logbus.records.murmur import partition_for_key
from tests.records.golden import TWO_RECORDS

INT64 = st.integers(-(2**63), 2**63 - 1)
MS = st.integers(-(10**15), 10**15) | st.just(-1)
MAYBE_BYTES = st.none() | st.binary(max_size=80)
HEADERS = st.lists(st.tuples(st.text(max_size=10), MAYBE_BYTES), max_size=3).map(tuple)
ORDERS = st.none() | st.lists(st.integers(-1, 8), max_size=9)
ROWS = st.lists(st.tuples(MS, MAYBE_BYTES, MAYBE_BYTES, HEADERS), max_size=8)
SECTION = TWO_RECORDS[61:]
ALL = -(2**63), 2**63 - 1
WIDE = 1 << 40


def columns_of(rows: Any, headers: bool = True) -> ColumnData:
    """Rows of timestamp, key, value and headers as columns."""
    section = b"".join(encode_record(row[0], n, *row[1:]) for n, row in enumerate(rows))
    columns = Columns(headers)
    columns.extend(section, len(rows), 0, len(rows), 0, None, *ALL)
    return columns.take()


def outcome(fn: Any, *args: Any) -> Any:
    """What a call gives, or that it fails."""
    try:
        return fn(*args)
    except ValueError:
        return "ValueError"


class PlainTests(SynchronousTestCase):
    """Tests of both implementations: here of the Python one."""

    encode_columns = staticmethod(packing.encode_columns)
    partitions_of_keys = staticmethod(packing.partitions_of_keys)

    def test_golden(self) -> None:
        """The golden records come back from their columns."""
        columns = Columns(headers=True)
        columns.extend(SECTION, 2, 0, 1, 1000, None, *ALL)
        self.assertEqual(self.encode_columns(columns.take(), 0, 2, len(SECTION)), (SECTION, 2, 1000, 1005))

    def test_room(self) -> None:
        """As many rows as fit are taken, to the byte."""
        data = columns_of([(n, b"k", b"v" * n, ()) for n in range(4)])
        sizes = [len(encode_record(n, n, b"k", b"v" * n, ())) for n in range(4)]
        for room in range(sum(sizes) + 2):
            section, taken, base, highest = self.encode_columns(data, 0, 4, room)
            self.assertEqual(taken, max(n for n in range(5) if sum(sizes[:n]) <= room))
            self.assertEqual(len(section), sum(sizes[:taken]))
            self.assertEqual((base, highest), (0, taken - 1) if taken else (-1, -1))
        self.assertEqual(self.encode_columns(data, 0, 4, -5), (b"", 0, -1, -1))
        self.assertEqual(self.encode_columns(data, 2, 2, 100), (b"", 0, -1, -1))

    def test_timestamps(self) -> None:
        """A row's own time is rounded down to milliseconds; one for all is taken as it is."""
        data = evolve(columns_of([(0, None, b"", ())] * 3), timestamps_us=struct.pack("=3q", 1999, -1, -1000))
        section, *rest = self.encode_columns(data, 0, 3, 100)
        self.assertEqual(rest, [3, 1, 1])
        self.assertEqual(section, b"".join(encode_record(delta, n, None, b"") for n, delta in enumerate((0, -2, -2))))
        section, *rest = self.encode_columns(evolve(data, timestamps_us=b""), 0, 3, 100, 40)
        self.assertEqual(rest, [3, 40, 40])
        self.assertEqual(section, b"".join(encode_record(0, n, None, b"") for n in range(3)))

    def test_order(self) -> None:
        """Rows are taken in the order given, also more than once, and zero bytes left in front of them."""
        data = columns_of([(n, b"k", b"v" * n, (("h", b"%d" % n),)) for n in range(4)])
        rows = [3, 0, 0, 2]
        wanted = [encode_record(row, n, b"k", b"v" * row, (("h", b"%d" % row),)) for n, row in enumerate(rows)]
        order = struct.pack("=4q", *rows)
        found = self.encode_columns(evolve(data, timestamps_us=bytes(32)), 0, 4, WIDE, None, order, 3)
        self.assertEqual(found[0][:3], bytes(3))
        again = [encode_record(0, n, b"k", b"v" * row, (("h", b"%d" % row),)) for n, row in enumerate(rows)]
        self.assertEqual((found[0][3:], found[1]), (b"".join(again), 4))
        self.assertEqual(self.encode_columns(data, 3, 4, WIDE, None, order)[1:], (1, 2, 2))
        self.assertEqual(len(wanted[0]), len(self.encode_columns(data, 0, 4, len(wanted[0]), None, order)[0]))
        self.assertEqual(self.encode_columns(data, 0, 1, WIDE, None, order)[2:], (3, 3))
        for wrong in (4, -1, 2**62, -(2**63)):
            bad = struct.pack("=2q", 0, wrong)
            self.assertRaises(ValueError, self.encode_columns, data, 0, 2, WIDE, None, bad)
        self.assertRaises(ValueError, self.encode_columns, data, 0, 5, WIDE, None, order)

    def test_impossible(self) -> None:
        """Rows that are not there, and numbers beyond 64 bits."""
        data = columns_of([(0, b"key", b"value", (("h", b"c"),))] * 9)
        assert data.headers is not None
        for start, stop in ((-1, 2), (0, 10), (3, 2)):
            self.assertRaises(ValueError, self.encode_columns, data, start, stop, 100)
            self.assertRaises(ValueError, self.partitions_of_keys, data, start, stop, 1)
        for now in (2**63, -(2**63) - 1):
            self.assertRaises(ValueError, self.encode_columns, data, 0, 1, 100, now)
        self.assertRaises(ValueError, self.partitions_of_keys, data, 0, 1, 0)
        wrong = struct.pack("=10i", *range(9), 99)
        falling = struct.pack("=10i", 0, 5, 2, *range(3, 10))
        negative = struct.pack("=10i", -3, *range(9))
        for change in (
            {"timestamps_us": bytes(71)},
            {"key_offsets": bytes(39)},
            {"key_validity": bytes(1)},
            {"value_offsets": wrong},
            {"value_offsets": falling},
            {"key_offsets": negative},
            {"headers": evolve(data.headers, offsets=wrong)},
            {"headers": evolve(data.headers, offsets=falling)},
            {"headers": evolve(data.headers, offsets=negative)},
            {"headers": evolve(data.headers, name_offsets=wrong)},
            {"headers": evolve(data.headers, content_offsets=falling)},
            {"headers": evolve(data.headers, content_offsets=bytes(8))},
            {"headers": evolve(data.headers, count=10)},
            {"headers": evolve(data.headers, count=-1)},
            {"headers": evolve(data.headers, count=2**62)},
        ):
            self.assertRaises(ValueError, self.encode_columns, evolve(data, **change), 0, 9, WIDE)
        self.assertRaises(ValueError, self.partitions_of_keys, evolve(data, key_offsets=negative), 0, 9, 4)

    def test_null_columns(self) -> None:
        """A column of nothing but nulls needs no data."""
        nulls = {"key_validity": bytes(1), "key_offsets": bytes(12), "key_data": b""}
        data = evolve(columns_of([(0, b"k", b"v", ())] * 2, headers=False), **nulls)
        section, *_ = self.encode_columns(data, 0, 2, 100)
        self.assertEqual(section, encode_record(0, 0, None, b"v") + encode_record(0, 1, None, b"v"))
        self.assertEqual(bytes(self.partitions_of_keys(data, 0, 2, 8)), struct.pack("=2i", -1, -1))

    def test_partitions(self) -> None:
        """Keys go where Kafka's clients send them, whatever their length; rows without a key are marked."""
        keys = [None, *(bytes(range(250, 250 - n, -1)) for n in range(20)), "\u0107 key".encode(), None]
        data = columns_of([(0, key, None, ()) for key in keys], headers=False)
        for count in (1, 7, 2**31 - 1):
            found = struct.unpack("=21i", self.partitions_of_keys(data, 1, 22, count))
            self.assertEqual(list(found), [partition_for_key(key or b"", count) for key in keys[1:22]])
        self.assertEqual(bytes(self.partitions_of_keys(data, 0, 1, 3)), struct.pack("=i", -1))


class CompiledTests(PlainTests):
    """The same of the compiled implementation."""

    encode_columns = staticmethod(encode_columns)
    partitions_of_keys = staticmethod(partitions_of_keys)

    def setUp(self) -> None:
        if not implementations.PACKING_IS_COMPILED:
            raise SkipTest("LOGBUS_PURE is set, or the installation found no C compiler")


class PropertiesTests(SynchronousTestCase):
    """What holds of any rows, for whatever is used."""

    @given(
        ROWS, st.integers(0, 8), st.integers(0, 8), st.integers(0, 400), st.none() | INT64, ORDERS, st.integers(0, 9)
    )
    def test_twins(self, rows: Any, start: int, stop: int, room: int, now: Any, order: Any, front: int) -> None:
        """Both implementations make the same bytes, or both fail."""
        packed = None if order is None else struct.pack(f"={len(order)}q", *order)
        args = columns_of(rows), start, stop, room, now, packed, front
        self.assertEqual(outcome(encode_columns, *args), outcome(packing.encode_columns, *args))
        if 0 <= start <= stop <= len(rows):
            found = implementations.partitions_of_keys(args[0], start, stop, 5)
            self.assertEqual(bytes(found), packing.partitions_of_keys(args[0], start, stop, 5))

    @given(ROWS, st.data())
    def test_twins_of_wrong_buffers(self, rows: Any, data: st.DataObject) -> None:
        """Arbitrary offsets, and buffers of any length: both implementations refuse them or give the same result."""
        columns = columns_of(rows)
        assert columns.headers is not None

        def some(buf: Any) -> bytes:
            found = bytearray(buf)
            if found and data.draw(st.booleans()):
                found[data.draw(st.integers(0, len(found) - 1))] = data.draw(st.integers(0, 255))
            return bytes(found[: data.draw(st.just(len(found)) | st.integers(0, len(found)))])

        names = ("key_offsets", "key_data", "value_offsets", "value_data")
        columns = evolve(columns, **{name: some(getattr(columns, name)) for name in names})
        names = ("offsets", "name_offsets", "name_data", "content_offsets", "content_data")
        headers = evolve(columns.headers, **{name: some(getattr(columns.headers, name)) for name in names})
        args = evolve(columns, headers=headers), 0, len(rows), data.draw(st.just(WIDE) | st.integers(0, 300))
        self.assertEqual(outcome(encode_columns, *args), outcome(packing.encode_columns, *args))

    @given(ROWS, st.integers(HEADER_SIZE, 400))
    def test_batches(self, rows: Any, limit: int) -> None:
        """Rows that go into batches come out of them as records, and no batch of more than one outgrows its limit."""
        columns = columns_of(rows)
        start, found = 0, []
        while start < len(rows):
            batch, one_by_one = ColumnBatch(columns, start, len(rows), limit), BatchBuilder()
            self.assertGreater(batch.count, 0)
            for timestamp, key, value, headers in rows[start : start + batch.count]:
                self.assertGreaterEqual(one_by_one.append_within(limit, timestamp, key, value, headers), 0)
            if (start := start + batch.count) < len(rows):
                self.assertEqual(one_by_one.append_within(limit, *rows[start]), -1)
            self.assertEqual(batch.build(), one_by_one.build())
            self.assertEqual((batch.count, batch.size), (one_by_one.count, one_by_one.size))
            self.assertTrue(batch.size <= limit or batch.count == 1)
            found += [record[1:] for record in decode_batch(batch.build())]
        self.assertEqual(found, [tuple(row) for row in rows])


GUARDED = """
import random, struct, sys
from attrs import evolve
from logbus.records.batch_columns import ColumnData, HeaderData
from logbus.records.implementations import PACKING_IS_COMPILED, encode_columns, partitions_of_keys
assert PACKING_IS_COMPILED
random = random.Random(int(sys.argv[1]))
done = refused = 0
def ends(count, size):
    found = sorted(random.randrange(size + 1) for _ in range(count + 1))
    if random.random() < 0.1:
        found[random.randrange(count + 1)] = random.choice((-1, size, size + 1, 2**31 - 1, -2**31))
    return struct.pack(f"={count + 1}i", *found)[: 4 * (count + 1) - random.choice((0,) * 30 + (1, 4))]
def cells(count):
    data = bytes(random.randrange(200))
    return random.choice((None, random.randbytes((count + 7) // 8))), ends(count, len(data)), data
for _ in range(int(sys.argv[2])):
    rows, headers = random.randrange(1, 9), random.randrange(9)
    held = HeaderData(headers, ends(rows, headers), *cells(headers)[1:], *cells(headers))
    data = ColumnData(rows, b"", bytes(8 * rows), *cells(rows), *cells(rows), random.choice((None, held)))
    start = random.randrange(rows)
    try:
        encode_columns(data, start, rows, random.randrange(2000))
        order = [random.randrange(rows + (random.random() < 0.1)) for _ in range(rows)]
        encode_columns(data, start, rows, random.randrange(2000), None, struct.pack(f"={rows}q", *order), 61)
        partitions_of_keys(data, start, rows, 7)
        done += 1
    except ValueError:
        refused += 1
print(done, refused)
"""


class GuardedTests(SynchronousTestCase):
    """With the interpreter's own memory checks."""

    def test_wrong_offsets(self) -> None:
        """Offsets that are anything: nothing is written beside what was set aside."""
        if not implementations.PACKING_IS_COMPILED:
            raise SkipTest("LOGBUS_PURE is set, or the installation found no C compiler")
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
        good, refused = map(int, done.stdout.split())
        self.assertGreater(min(good, refused), 1000)
