"""
Tests of :mod:`logbus.records.checksum`.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.records.checksum import crc32c


class Crc32cTests(SynchronousTestCase):
    """CRC-32C as the world computes it."""

    def test_vectors(self) -> None:
        """The examples of RFC 3720, appendix B.4, and the check value of the CRC catalogue."""
        for data, expected in (
            (b"", 0),
            (b"123456789", 0xE3069283),
            (bytes(32), 0x8A9136AA),
            (b"\xff" * 32, 0x62A8AB43),
            (bytes(range(32)), 0x46DD794E),
            (bytes(range(31, -1, -1)), 0x113FDB5C),
        ):
            self.assertEqual(crc32c(data), expected)

    @given(st.binary(), st.binary())
    def test_in_pieces(self, head: bytes, tail: bytes) -> None:
        """Piece by piece, in whatever buffer, gives the checksum of the whole."""
        whole = crc32c(head + tail)
        self.assertEqual(crc32c(memoryview(bytearray(tail)), crc32c(head)), whole)
        self.assertEqual(crc32c(memoryview(b"?" + head + tail)[1:]), whole)
