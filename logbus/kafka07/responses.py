"""
Encodes the responses of Kafka 0.7. Pure.

::

    Fetch       size int32 | error int16 | set
    MultiFetch  size int32 | error int16 | as many of Fetch's
    Offsets     size int32 | error int16 | count int32 | positions int64 …

``size`` counts the bytes after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct, pack

from logbus.errors import ApiError, ErrorCode

_HEAD = Struct(">ih")
_CODE = 2


class Code(IntEnum):
    """The error codes of 0.7."""

    UNKNOWN = -1
    NO_ERROR = 0
    OFFSET_OUT_OF_RANGE = 1
    INVALID_MESSAGE = 2
    WRONG_PARTITION = 3
    INVALID_FETCH_SIZE = 4


_CODES = {
    ErrorCode.OFFSET_OUT_OF_RANGE: Code.OFFSET_OUT_OF_RANGE,
    ErrorCode.CORRUPT_MESSAGE: Code.INVALID_MESSAGE,
    ErrorCode.INVALID_RECORD: Code.INVALID_MESSAGE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Code.WRONG_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Code.WRONG_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE: Code.WRONG_PARTITION,
    ErrorCode.INVALID_FETCH_SIZE: Code.INVALID_FETCH_SIZE,
}


def code_of(error: ApiError) -> Code:
    """Return 0.7's code for an error; −1 for those that it has none for, such as a missing right."""
    return _CODES.get(error.code, Code.UNKNOWN)


def encode_messages(code: Code, messages: bytes = b"") -> bytes:
    """Return the response to Fetch, or a part of one to MultiFetch."""
    return _HEAD.pack(_CODE + len(messages), code) + messages


def encode_multi(parts: Sequence[bytes]) -> bytes:
    """Return the response to MultiFetch; each part has its own code."""
    return _HEAD.pack(_CODE + sum(map(len, parts)), Code.NO_ERROR) + b"".join(parts)


def encode_offsets(code: Code, positions: Sequence[int] = ()) -> bytes:
    """Return the response to Offsets."""
    body = pack(f">i{len(positions)}q", len(positions), *positions) if code is Code.NO_ERROR else b""
    return _HEAD.pack(_CODE + len(body), code) + body
