"""
Tests of :mod:`logbus.records.batch_validation`.
"""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ApiError, ErrorCode
from logbus.records.batch import HEADER_SIZE, read_header
from logbus.records.batch_validation import validate_produced
from logbus.records.header import HEADER, batch_crc, header_of
from tests.records.golden import COMMIT_MARKER, TWO_RECORDS


def a_batch(**changes: int) -> bytes:
    """The two golden records with header fields replaced, and the right CRC."""
    header = read_header(TWO_RECORDS)._replace(**changes)
    data = bytearray(HEADER.pack(*header) + TWO_RECORDS[HEADER_SIZE:])
    struct.pack_into(">I", data, 17, batch_crc(data, 0, len(data)))
    return bytes(data)


class ValidateProducedTests(SynchronousTestCase):
    """The gate that every produced batch passes."""

    def assert_refused(self, code: ErrorCode, data: bytes, word: str = "", zstd_allowed: bool = True) -> None:
        """``data`` is refused with ``code``, and the message has ``word`` in it."""
        error = self.assertRaises(ApiError, validate_produced, data, zstd_allowed=zstd_allowed)
        self.assertEqual((error.code, word in error.message), (code, True), error.message)

    def test_accepts(self) -> None:
        """An ordinary batch passes, in any kind of buffer, and its header is returned."""
        for kind in (bytes, bytearray, memoryview):
            self.assertEqual(validate_produced(kind(TWO_RECORDS)), read_header(TWO_RECORDS))

    def test_accepts_what_clients_send(self) -> None:
        """What real clients leave in fields that do not matter is no reason to refuse."""
        for changes in (
            {"leader_epoch": 0},
            {"base_offset": 42},
            {"producer_id": -1, "producer_epoch": 0, "base_sequence": 0},
            {"max_timestamp": 1},
            {"base_timestamp": -1, "max_timestamp": -1},
            {"producer_id": 0, "producer_epoch": 0, "base_sequence": 0},
            {"producer_id": 1, "producer_epoch": 1, "base_sequence": 2**31 - 1},
            {"producer_id": 1, "producer_epoch": 1, "base_sequence": 0, "attributes": 0x10},
            {"attributes": 4},
        ):
            validate_produced(a_batch(**changes))

    def test_empty(self) -> None:
        """No batch at all is refused."""
        self.assert_refused(ErrorCode.INVALID_RECORD, b"", "none")

    def test_truncated(self) -> None:
        """A batch cut short anywhere is invalid, not corrupt: the same bytes should not be sent again."""
        for size in range(1, len(TWO_RECORDS)):
            self.assert_refused(ErrorCode.INVALID_RECORD, TWO_RECORDS[:size])

    def test_second_batch(self) -> None:
        """Anything after the first batch is refused, be it a second one or rubbish."""
        self.assert_refused(ErrorCode.INVALID_RECORD, TWO_RECORDS + TWO_RECORDS, "exactly one")
        self.assert_refused(ErrorCode.INVALID_RECORD, TWO_RECORDS + b"x", "1 bytes follow")

    def test_magic(self) -> None:
        """The old formats have a code of their own, even when shorter than today's header."""
        for magic in (0, 1):
            self.assert_refused(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, a_batch(magic=magic), f"format {magic}")
            self.assert_refused(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, a_batch(magic=magic)[:30])
        for magic in (3, 127, -1, -128):
            self.assert_refused(ErrorCode.CORRUPT_MESSAGE, a_batch(magic=magic), "magic")

    def test_length(self) -> None:
        """A length below the least is corrupt; one beyond the data is that of a batch that was cut short."""
        for length in (48, 0, -1, -(2**31)):
            self.assert_refused(ErrorCode.CORRUPT_MESSAGE, a_batch(length=length))
        for length in (84, 2**31 - 1):
            self.assert_refused(ErrorCode.INVALID_RECORD, a_batch(length=length), "are there")

    def test_crc(self) -> None:
        """Every flipped bit from the CRC on is found."""
        for bit in range(17 * 8, len(TWO_RECORDS) * 8):
            damaged = bytearray(TWO_RECORDS)
            damaged[bit // 8] ^= 1 << bit % 8
            self.assert_refused(ErrorCode.CORRUPT_MESSAGE, bytes(damaged), "CRC")

    def test_count(self) -> None:
        """The number of records must be that of the offsets, positive, and possible."""
        for count, delta in ((1, 1), (3, 1), (0, -1), (0, 1), (-1, -2), (2**31 - 1, 1), (-(2**31), 2**31 - 1)):
            self.assert_refused(ErrorCode.INVALID_RECORD, a_batch(record_count=count, last_offset_delta=delta))

    def test_count_that_does_not_fit(self) -> None:
        """More records than there are bytes for are refused, compressed or not."""
        self.assert_refused(ErrorCode.INVALID_RECORD, a_batch(record_count=5, last_offset_delta=4), "do not fit")
        huge = a_batch(record_count=2**31 - 1, last_offset_delta=2**31 - 2, attributes=1)
        self.assert_refused(ErrorCode.INVALID_RECORD, huge, "do not fit")

    def test_attributes(self) -> None:
        """Bits that are not a producer's are refused, each with its own words."""
        self.assert_refused(ErrorCode.INVALID_RECORD, COMMIT_MARKER, "control")
        self.assert_refused(ErrorCode.INVALID_RECORD, a_batch(attributes=0x20), "control")
        self.assert_refused(ErrorCode.INVALID_RECORD, a_batch(attributes=0x40), "delete horizon")
        self.assert_refused(ErrorCode.INVALID_TIMESTAMP, a_batch(attributes=0x08), "LogAppendTime")
        for bit in range(7, 15):
            self.assert_refused(ErrorCode.INVALID_RECORD, a_batch(attributes=1 << bit), "reserved")
        self.assert_refused(ErrorCode.INVALID_RECORD, a_batch(attributes=-(2**15)), "reserved")

    def test_codecs(self) -> None:
        """Codecs 5 to 7 do not exist; zstd only where the request's version has it."""
        for codec in (5, 6, 7):
            self.assert_refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, a_batch(attributes=codec))
        zstd = a_batch(attributes=4)
        self.assert_refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, zstd, "version 7", zstd_allowed=False)
        for codec in (0, 1, 2, 3):
            validate_produced(a_batch(attributes=codec), zstd_allowed=False)

    def test_timestamps(self) -> None:
        """Times before 1970 are refused, but for the -1 that stands for none."""
        for ms in (-2, -(2**63)):
            self.assert_refused(ErrorCode.INVALID_TIMESTAMP, a_batch(base_timestamp=ms))
            self.assert_refused(ErrorCode.INVALID_TIMESTAMP, a_batch(max_timestamp=ms))

    def test_producer(self) -> None:
        """A producer id goes with an epoch and a sequence, and a transaction with a producer id."""
        for producer_id, epoch, sequence in ((1, -1, 0), (1, 0, -1), (-2, 0, 0), (1, -(2**15), -(2**31))):
            batch = a_batch(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
            self.assert_refused(ErrorCode.INVALID_RECORD, batch, "do not go together")
        self.assert_refused(ErrorCode.INVALID_RECORD, a_batch(attributes=0x10), "producer id")

    @given(st.binary(max_size=200))
    def test_any_bytes(self, data: bytes) -> None:
        """Random bytes are refused, with an error for the client."""
        self.assertRaises(ApiError, validate_produced, data)

    @given(st.integers(0, HEADER_SIZE - 1), st.integers(0, 255))
    def test_any_header_byte(self, at: int, value: int) -> None:
        """Whatever byte of the header changes under a right CRC: accepted or refused, nothing else is raised."""
        data = bytearray(TWO_RECORDS)
        data[at] = value
        struct.pack_into(">I", data, 17, batch_crc(data, 0, len(data)))
        try:
            self.assertEqual(header_of(validate_produced(data)).size, len(data))
        except ApiError:
            pass
