"""
Tests of :mod:`logbus.records.header`.
"""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import DecodeError
from logbus.records.batch import HEADER_SIZE, BatchHeader, batch_problem, check_crc, iter_batches, read_header
from logbus.records.header import (
    HEADER,
    PREFIX_SIZE,
    batch_crc,
    patched_prefix,
    rewrite_log_append_time,
)
from tests.records.golden import COMMIT_MARKER, TWO_RECORDS


def a_header(**changes: int) -> BatchHeader:
    """The header of the two golden records, with fields replaced."""
    return read_header(TWO_RECORDS)._replace(**changes)


class ReadingTests(SynchronousTestCase):
    """A header's fields and what they mean."""

    def test_fields(self) -> None:
        """Every field is read from its place."""
        self.assertEqual(
            read_header(TWO_RECORDS),
            BatchHeader(
                base_offset=0,
                length=83,
                leader_epoch=-1,
                magic=2,
                crc=0xA1F72503,
                attributes=0,
                last_offset_delta=1,
                base_timestamp=1700000000000,
                max_timestamp=1700000000005,
                producer_id=-1,
                producer_epoch=-1,
                base_sequence=-1,
                record_count=2,
            ),
        )

    def test_anywhere(self) -> None:
        """A header is read at any position, from any kind of buffer."""
        for kind in (bytes, bytearray, memoryview):
            self.assertEqual(read_header(kind(b"???" + COMMIT_MARKER), 3), read_header(COMMIT_MARKER))

    def test_too_short(self) -> None:
        """Fewer bytes than a header has are an error of ours, at every length."""
        for size in range(HEADER_SIZE):
            with self.assertRaises(DecodeError):
                read_header(TWO_RECORDS[:size])

    def test_derived_of_data(self) -> None:
        """An ordinary batch is neither transactional nor control, and has no producer."""
        header = read_header(TWO_RECORDS)
        self.assertEqual((header.size, header.last_offset, header.next_offset, header.codec), (95, 1, 2, 0))
        self.assertFalse(header.log_append_time or header.transactional or header.control or header.has_producer_id)
        self.assertIsNone(header.delete_horizon)
        self.assertEqual(header.last_sequence, -1)

    def test_derived_of_marker(self) -> None:
        """A commit marker is transactional and control."""
        header = read_header(COMMIT_MARKER)
        self.assertTrue(header.transactional and header.control and header.has_producer_id)
        self.assertEqual((header.base_offset, header.last_offset, header.producer_epoch), (7, 7, 5))

    def test_attribute_bits(self) -> None:
        """Each attribute has its own bits."""
        self.assertEqual(a_header(attributes=0x7C & ~0x78).codec, 4)
        self.assertTrue(a_header(attributes=0x08).log_append_time)
        self.assertEqual(a_header(attributes=0x40, base_timestamp=77).delete_horizon, 77)

    def test_sequence_wraps(self) -> None:
        """After sequence 2**31 - 1 comes 0."""
        header = a_header(base_sequence=2**31 - 2, last_offset_delta=3)
        self.assertEqual(header.last_sequence, 1)


class IterBatchesTests(SynchronousTestCase):
    """From batch to batch."""

    def test_whole_batches(self) -> None:
        """Each batch comes with its position."""
        data = TWO_RECORDS + COMMIT_MARKER + TWO_RECORDS
        self.assertEqual([pos for pos, _ in iter_batches(data)], [0, 95, 173])
        self.assertEqual([pos for pos, _ in iter_batches(data, 95)], [95, 173])
        self.assertEqual(list(iter_batches(b"")), [])

    def test_partial_tail(self) -> None:
        """Wherever the last batch is truncated, the whole ones before it are found."""
        for cut in range(len(COMMIT_MARKER)):
            found = list(iter_batches(memoryview(TWO_RECORDS + COMMIT_MARKER[:cut])))
            self.assertEqual(found, [(0, read_header(TWO_RECORDS))])

    def test_nonsense(self) -> None:
        """A length that would not move on, or another magic, is an error rather than the end."""
        for length in (48, 0, -12, -(2**31)):
            with self.assertRaises(DecodeError):
                list(iter_batches(HEADER.pack(*a_header(length=length))))
        with self.assertRaises(DecodeError):
            list(iter_batches(HEADER.pack(*a_header(magic=1)) + bytes(100)))

    @given(st.binary(max_size=300))
    def test_any_bytes(self, data: bytes) -> None:
        """Random bytes end the walk or raise DecodeError; what comes out lies inside them."""
        try:
            for pos, header in iter_batches(data):
                self.assertLessEqual(pos + header.size, len(data))
        except DecodeError:
            pass


class ProblemTests(SynchronousTestCase):
    """What may stand in a log."""

    def repacked(self, **changes: int) -> bytes:
        """The golden batch with fields replaced, and the right CRC."""
        data = bytearray(HEADER.pack(*a_header(**changes)) + TWO_RECORDS[HEADER_SIZE:])
        struct.pack_into(">I", data, 17, batch_crc(data, 0, len(data)))
        return bytes(data)

    def problem(self, data: bytes) -> str | None:
        return batch_problem(data, 0, read_header(data))

    def test_sound(self) -> None:
        """Data, markers and batches thinned out by compaction are sound."""
        for data in (TWO_RECORDS, COMMIT_MARKER, self.repacked(last_offset_delta=9, record_count=0)):
            self.assertIsNone(self.problem(data))

    def test_each_problem(self) -> None:
        """Each thing that is wrong is named."""
        for changes, word in (
            ({"magic": 1}, "magic"),
            ({"length": 48}, "length"),
            ({"length": 84}, "announced"),
            ({"base_offset": -1}, "negative"),
            ({"last_offset_delta": -1}, "negative"),
            ({"record_count": 3}, "3 records"),
            ({"record_count": -1}, "-1 records"),
        ):
            self.assertIn(word, self.problem(self.repacked(**changes)) or "", changes)

    def test_every_flipped_bit(self) -> None:
        """Any flipped bit that the CRC covers is found."""
        for bit in range(21 * 8, len(TWO_RECORDS) * 8):
            damaged = bytearray(TWO_RECORDS)
            damaged[bit // 8] ^= 1 << bit % 8
            self.assertIsNotNone(self.problem(bytes(damaged)), bit)


class PatchingTests(SynchronousTestCase):
    """Fields the broker fills in."""

    @given(st.integers(0, 2**63 - 1), st.integers(-1, 2**31 - 1))
    def test_offset_and_epoch(self, offset: int, epoch: int) -> None:
        """Assigning an offset and epoch changes these two and nothing else; the CRC still holds."""
        data = patched_prefix(a_header(), offset, epoch) + TWO_RECORDS[PREFIX_SIZE:]
        header = read_header(data)
        self.assertEqual(header, a_header(base_offset=offset, leader_epoch=epoch))
        self.assertTrue(check_crc(data, 0, header))

    def test_log_append_time(self) -> None:
        """Stamping sets the bit and the time, and renews the CRC, of that batch only."""
        data = bytearray(COMMIT_MARKER + TWO_RECORDS + COMMIT_MARKER)
        rewrite_log_append_time(data, 78, 1800000000000)
        header = read_header(data, 78)
        self.assertTrue(header.log_append_time)
        self.assertEqual(header.max_timestamp, 1800000000000)
        self.assertNotEqual(header.crc, a_header().crc)
        self.assertTrue(check_crc(data, 78, header))
        self.assertEqual(header._replace(crc=0), a_header(attributes=8, max_timestamp=1800000000000, crc=0))
        self.assertEqual((data[:78], data[78 + 95 :]), (COMMIT_MARKER, COMMIT_MARKER))
