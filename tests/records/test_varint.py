"""
Tests of :mod:`logbus.records.varint`.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import DecodeError
from logbus.records.varint import (
    decode_uvarint,
    decode_varint,
    decode_varlong,
    encode_uvarint,
    encode_varint,
)

UNSIGNED = {0: "00", 1: "01", 127: "7f", 128: "8001", 300: "ac02", 2**32 - 1: "ffffffff0f", 2**64 - 1: "ff" * 9 + "01"}
SIGNED = {0: "00", -1: "01", 1: "02", 63: "7e", -64: "7f", 64: "8001", 2**31 - 1: "feffffff0f", -(2**31): "ffffffff0f"}
Decoder = Callable[[bytes, int], tuple[int, int]]


class VarintTests(SynchronousTestCase):
    """Numbers of variable length."""

    def test_known_bytes(self) -> None:
        """Numbers at the edges have the bytes that Protocol Buffers give them."""
        for number, digits in UNSIGNED.items():
            self.assertEqual(encode_uvarint(number).hex(), digits)
        for number, digits in SIGNED.items():
            self.assertEqual(encode_varint(number).hex(), digits)
        self.assertEqual(encode_varint(-(2**63)).hex(), "ff" * 9 + "01")

    @given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3), st.binary(max_size=3))
    def test_signed_round_trip(self, number: int, before: bytes, after: bytes) -> None:
        """A signed number is read back from wherever it lies, up to its own end."""
        encoded = encode_varint(number)
        self.assertEqual(decode_varlong(before + encoded + after, len(before)), (number, len(before) + len(encoded)))
        if -(2**31) <= number < 2**31:
            self.assertEqual(decode_varint(memoryview(encoded), 0), (number, len(encoded)))
        else:
            self.assertRaises(DecodeError, decode_varint, encoded, 0)

    @given(st.integers(0, 2**64 - 1))
    def test_unsigned_round_trip(self, number: int) -> None:
        """So is an unsigned one, if it has at most 32 bits; as a signed one it is half as much."""
        encoded = encode_uvarint(number)
        if number < 2**32:
            self.assertEqual(decode_uvarint(encoded, 0), (number, len(encoded)))
        else:
            self.assertRaises(DecodeError, decode_uvarint, encoded, 0)
        self.assertEqual(decode_varlong(encoded, 0), ((number >> 1) ^ -(number & 1), len(encoded)))

    def test_every_small_number(self) -> None:
        """The numbers kept ready are the right ones."""
        for number in range(-3000, 3000):
            self.assertEqual(decode_varint(encode_varint(number), 0)[0], number)

    def test_out_of_range(self) -> None:
        """What has no encoding is refused rather than cut."""
        for number in (-1, 2**64):
            self.assertRaises(ValueError, encode_uvarint, number)
        for number in (2**63, -(2**63) - 1):
            self.assertRaises(ValueError, encode_varint, number)

    def test_hostile(self) -> None:
        """Numbers that end early, never end, or are too large are errors of ours."""
        both: list[tuple[Decoder, int]] = [
            (decode_uvarint, 5),
            (decode_varint, 5),
            (decode_varlong, 10),
        ]
        for decode, most in both:
            for data in (b"", b"\x80", b"\xff" * (most - 1), b"\xff" * most, b"\x80" * most + b"\x00", b"\xff" * 1000):
                self.assertRaises(DecodeError, decode, data, 0)
            self.assertRaises(DecodeError, decode, b"\x00", 1)
            self.assertRaises(DecodeError, decode, b"\xff" * (most - 1) + b"\x7f", 0)
