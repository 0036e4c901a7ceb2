"""Helpers that generated encoders call: long lengths, lists of numbers, records in several parts."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any

from logbus.errors import LogbusError
from logbus.records.file_slice import FileSlice, Part, Parts
from logbus.wire.decoder_runtime import MAX_STRING_LENGTH
from logbus.wire.wire_types import FORMAT_SIZES

_SHORT_LISTS = 32
#: The bytes of one-byte varints.
BYTES = [bytes((n,)) for n in range(128)]

PACKERS = {code: [Struct(f">{n}{code}").pack for n in range(_SHORT_LISTS)] for code in FORMAT_SIZES if code != "16s"}


class EncodeError(LogbusError, ValueError):
    """A message has a value that its version cannot express: our error, not the peer's."""


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint."""
    if value < 128:
        return BYTES[value]
    spelt = bytearray()
    while value > 127:
        spelt.append(value & 127 | 128)
        value >>= 7
    spelt.append(value)
    return bytes(spelt)


def string_length(size: int) -> bytes:
    """
    Encode the compact length of a string.

    :param size: one more than its bytes, which are more than 126.
    :raises ValueError: the string is too long for Kafka.
    """
    if size > MAX_STRING_LENGTH + 1:
        raise ValueError(f"a string has {size - 1} bytes; at most {MAX_STRING_LENGTH} can be sent")
    return uvarint(size)


def numbers(values: Sequence[Any], code: str) -> bytes:
    """Pack numbers of one format."""
    count = len(values)
    if count < _SHORT_LISTS:
        packed: bytes = PACKERS[code][count](*values)
        return packed
    return Struct(f">{count}{code}").pack(*values)


def put_records(out: Parts, value: Part | list[Part]) -> bool:
    """
    Append records that consist of several parts.

    :returns: whether some of them are slices of files.
    """
    if isinstance(value, list):
        sliced = False
        for part in value:
            sliced = put_records(out, part) or sliced
        return sliced
    out.append(value)
    return isinstance(value, FileSlice)


def join_bytes(out: Parts) -> Parts:
    """Join the bytes between slices of files."""
    parts: Parts = []
    run: list[bytes | memoryview] = []
    for part in out:
        if not isinstance(part, FileSlice):
            run.append(part)
        elif part.length:
            if run:
                parts.append(b"".join(run))
                run.clear()
            parts.append(part)
    if run:
        parts.append(b"".join(run))
    return parts
