"""
Tests of :mod:`logbus.records.record`.
"""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import DecodeError
from logbus.records.implementations import decode_records, encode_record
from logbus.records.record import Record, max_record_size
from logbus.records.varint import encode_varint
from tests.records.golden import TWO_RECORDS

INT64 = st.integers(-(2**63), 2**63 - 1)
MAYBE_BYTES = st.none() | st.binary(max_size=300)
# Of one byte: much that is random is what Hypothesis stops at.
LONG_BYTES = st.builds(lambda byte, count: byte * count, st.binary(min_size=1, max_size=1), st.integers(8180, 8200))
HEADERS = st.lists(st.tuples(st.text(max_size=70), MAYBE_BYTES), max_size=4).map(tuple)
FIRST, SECOND = TWO_RECORDS[61:77], TWO_RECORDS[77:]


def fields(*parts: int | bytes) -> bytes:
    """A record from numbers, written as varints, and bytes, with the right length in front."""
    body = b"".join(part if isinstance(part, bytes) else encode_varint(part) for part in parts)
    return encode_varint(len(body)) + body


class EncodeTests(SynchronousTestCase):
    """Records into bytes."""

    def test_golden(self) -> None:
        """The golden records are reproduced."""
        self.assertEqual(encode_record(0, 0, b"k", b"value", (("h", None),)), FIRST)
        self.assertEqual(encode_record(5, 1, None, b"", [("abc", b"\x01\x02\x03\x04\x05\x06")]), SECOND)

    def test_smallest(self) -> None:
        """Nothing takes seven bytes."""
        self.assertEqual(encode_record(0, 0, None, None), b"\x0c\x00\x00\x00\x01\x01\x00")

    @given(INT64, st.integers(0, 2**31 - 1), MAYBE_BYTES, MAYBE_BYTES, HEADERS)
    def test_max_size(
        self,
        timestamp_delta: int,
        offset_delta: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[tuple[str, bytes | None], ...],
    ) -> None:
        """No record is larger than foretold."""
        encoded = encode_record(timestamp_delta, offset_delta, key, value, headers)
        self.assertLessEqual(len(encoded), max_record_size(key, value, headers))

    def test_impossible(self) -> None:
        """What cannot be written is a ValueError."""
        self.assertRaises(ValueError, encode_record, 2**63, 0, None, None)
        self.assertRaises(ValueError, encode_record, 0, 0, None, None, [("\ud800", b"")])


class DecodeTests(SynchronousTestCase):
    """Bytes into records."""

    def test_golden(self) -> None:
        """The golden records are read."""
        self.assertEqual(
            decode_records(FIRST + SECOND, 2, 100, 1, 1000),
            [
                Record(100, 1000, b"k", b"value", (("h", None),)),
                Record(101, 1005, None, b"", (("abc", b"\x01\x02\x03\x04\x05\x06"),)),
            ],
        )

    @given(
        st.lists(
            st.tuples(
                st.integers(-(2**62), 2**62) | st.integers(-10000, 10000),
                st.integers(1, 2**20) | st.just(1),
                MAYBE_BYTES | st.binary(min_size=60, max_size=70) | LONG_BYTES,
                MAYBE_BYTES | st.binary(min_size=60, max_size=70) | LONG_BYTES,
                HEADERS,
            ),
            max_size=5,
        )
    )
    def test_round_trip(
        self,
        drawn: list[tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
    ) -> None:
        """Records come back as they went in, gaps between the offsets included."""
        data = b""
        expected = []
        delta = -1
        for timestamp, gap, key, value, headers in drawn:
            delta += gap
            data += encode_record(timestamp, delta, key, value, headers)
            expected.append(Record(7 + delta, 50 + timestamp, key, value, headers))
        self.assertEqual(decode_records(data, len(drawn), 7, max(delta, 0), 50), expected)

    def test_append_time(self) -> None:
        """A batch that the broker stamped gives all its records that time."""
        records = decode_records(FIRST + SECOND, 2, 0, 1, 1000, 7777)
        self.assertEqual([record.timestamp for record in records], [7777, 7777])
        self.assertEqual((type(records[1]), records[1].value), (Record, b""))

    def test_header_names(self) -> None:
        """A name that is not UTF-8 survives reading and writing."""
        data = fields(b"\0", 0, 0, -1, -1, 1, 2, b"\xff\xfe", -1)
        (record,) = decode_records(data, 1, 0, 0, 0)
        self.assertEqual(encode_record(0, 0, None, None, record.headers), data)


class HostileTests(SynchronousTestCase):
    """Nothing malformed is tolerated."""

    def assert_malformed(self, data: bytes, count: int = 1, last: int = 0, base_timestamp: int = 0) -> None:
        self.assertRaises(DecodeError, decode_records, data, count, 0, last, base_timestamp)

    def test_control(self) -> None:
        """The builder of these tests makes records that are read when nothing is wrong."""
        sound = fields(b"\0", 0, 0, 1, b"k", 1, b"v", 1, 1, b"h", 1, b"x")
        self.assertEqual(decode_records(sound, 1, 0, 0, 0), [Record(0, 0, b"k", b"v", (("h", b"x"),))])

    def test_counts(self) -> None:
        """Fewer or more records than announced, negative and huge numbers of them."""
        for count in (0, 1, 3, -1, 2**31 - 1, -(2**31)):
            self.assert_malformed(FIRST + SECOND, count, 5)
        self.assertEqual(decode_records(b"", 0, 0, 0, 0), [])
        self.assert_malformed(b"\0", 0)

    def test_truncated(self) -> None:
        """Records cut short anywhere."""
        for size in range(len(FIRST + SECOND)):
            self.assert_malformed((FIRST + SECOND)[:size], 2, 1)

    def test_lengths(self) -> None:
        """Lengths that are negative, reach beyond the record, or stop short of its end."""
        for data in (
            fields(b"\0", 0, 0, -2, -1, 0),
            fields(b"\0", 0, 0, -1, -2, 0),
            fields(b"\0", 0, 0, -70, -1, 0),
            fields(b"\0", 0, 0, -1, -70, 0),
            fields(b"\0", 0, 0, 5, -1, 0),
            fields(b"\0", 0, 0, -1, 5, 0),
            fields(b"\0", 0, 0, 2**31 - 1, -1, 0),
            fields(b"\0", 0, 0, -1, 2**31 - 1, 0),
            fields(b"\0", 0, 0, -1, -1, 0, b"more"),
            fields(b"\0", 0, 0, -1, -1, -1),
            fields(b"\0", 0, 0, -1, -1, 2**31 - 1),
            fields(b"\0", 0, 0, -1, -1, 1, -1, -1),
            fields(b"\0", 0, 0, -1, -1, 1, 100, -1),
            fields(b"\0", 0, 0, -1, -1, 1, 0, -2),
            fields(b"\0", 0, 0, -1, -1, 1, 0, 100),
            fields(b"\0", 0, 0, -1, -1, b"\xff" * 9),
            fields(b"\0", b"\xff" * 11, 0, -1, -1, 0),
            fields(b"\0", 0, b"\xff" * 6, -1, -1, 0),
            b"\x0d\0\0\0\x01\x01\0",
            b"\x81\x01\0\0\0\x01\x01\0",
            b"\x0e\0\0\0\x01\x01\0",
            b"\xff" * 12,
            b"\xfe\xff\xff\xff\x0f" + bytes(10),
        ):
            self.assert_malformed(data)

    def test_a_field_reaching_into_the_next_record(self) -> None:
        """A value that takes the next record's bytes as its own."""
        first = bytearray(encode_record(0, 0, None, b"value"))
        first[5] += 2
        self.assert_malformed(bytes(first) + encode_record(0, 1, None, b"value"), 2, 1)

    def test_a_record_that_is_longer_than_its_fields(self) -> None:
        """A length that is wrong is malformed even where the next record would fit on."""
        first = bytearray(encode_record(0, 0, None, b"value"))
        first[0] -= 2
        self.assert_malformed(bytes(first) + encode_record(0, 1, None, b"value"), 2, 1)
        first[0] += 4
        self.assert_malformed(bytes(first) + encode_record(0, 1, None, b"value"), 2, 1)

    def test_offsets(self) -> None:
        """Offsets that do not rise, are negative, or pass the batch's last."""
        for deltas in ((0, 0), (1, 0), (-1, 0), (0, 2), (0, -200), (0, 2**31 - 1)):
            self.assert_malformed(b"".join(encode_record(0, delta, None, b"v") for delta in deltas), 2, 1)

    def test_timestamps(self) -> None:
        """Timestamps that leave 64 bits; those at the edge do not."""
        edge = 2**63 - 1
        for base, delta in ((edge, 1), (-edge - 1, -1), (2**62, 2**62), (-1, -(2**63))):
            self.assert_malformed(encode_record(delta, 0, None, None), 1, 0, base)
        (record,) = decode_records(encode_record(-3, 0, None, None), 1, 0, 0, edge)
        self.assertEqual(record.timestamp, edge - 3)

    def test_memory(self) -> None:
        """A few bytes that announce millions of records or headers cost nothing."""
        for data, count in ((FIRST, 2**31 - 1), (fields(b"\0", 0, 0, -1, -1, 2**30), 1)):
            tracemalloc.start()
            self.assert_malformed(data, count, 2**31 - 1)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            self.assertLess(peak, 2**20)

    @given(st.binary(max_size=100), st.integers(-1, 10))
    def test_any_bytes(self, data: bytes, count: int) -> None:
        """Random bytes raise nothing but DecodeError."""
        try:
            decode_records(data, count, 0, 2**31 - 1, 0)
        except DecodeError:
            pass

    @given(st.data(), st.lists(st.tuples(MAYBE_BYTES, MAYBE_BYTES, HEADERS), min_size=1, max_size=3))
    def test_mutations(
        self,
        data: st.DataObject,
        drawn: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
    ) -> None:
        """Whatever bytes change, only DecodeError is raised, and the records read could be written."""
        encoded = bytearray(b"".join(encode_record(n * 1000, n, *record) for n, record in enumerate(drawn)))
        for _ in range(data.draw(st.integers(1, 3))):
            encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
        try:
            records = decode_records(bytes(encoded), len(drawn), 0, 2**31 - 1, 0)
        except DecodeError:
            return
        again = b"".join(encode_record(r.timestamp, r.offset, r.key, r.value, r.headers) for r in records)
        self.assertEqual(decode_records(again, len(records), 0, 2**31 - 1, 0), records)
