"""
The place of a Protobuf message in its file, behind the schema id of Confluent's wire format. Pure.

It is the indexes of messages, from the outer to the inner ones, preceded by their number, as zigzag varints. A single 0
stands for the first message.
"""

from __future__ import annotations

DEEPEST = 40
"""Indexes of a place."""


def read_place(data: bytes, start: int = 0) -> tuple[list[int], int]:
    """
    Read the place of a message.

    :return: also where the message begins.
    :raise ValueError: the bytes are none.
    """
    count, at = _varint(data, start)
    if not 0 <= count <= DEEPEST:
        raise ValueError(f"its message is nested {count} deep in the schema")
    indexes = list[int]()
    for _ in range(count):
        index, at = _varint(data, at)
        indexes.append(index)
    return indexes or [0], at


def written_place(indexes: list[int]) -> bytes:
    """The bytes that :func:`read_place` reads."""
    if indexes == [0]:
        return b"\0"
    written = bytearray()
    for each in [len(indexes), *indexes]:
        number = each << 1
        while number > 0x7F:
            written.append(number & 0x7F | 0x80)
            number >>= 7
        written.append(number)
    return bytes(written)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    found = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            raise ValueError(f"it ends at byte {len(data)}, before its message")
        found |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return (found >> 1) ^ -(found & 1), at
    raise ValueError("a number before its message has more than five bytes")
