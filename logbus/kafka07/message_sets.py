"""
The messages of Kafka 0.7, and sets of them. Pure.

::

    length int32 | magic 0 | crc uint32 | payload
    length int32 | magic 1 | attributes int8 | crc uint32 | payload

``length`` counts the bytes after it; the CRC-32 (zlib's) is of the payload; bits 0-1 of the attributes are the codec: 0
none, 1 gzip, 2 snappy. The payload of a compressed message is a compressed set of messages. A set is its messages, one
after the other; the last one of a fetched set may be cut off.

Source: the design page of Kafka 0.7, "Messages".
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from zlib import crc32

from logbus.errors import ApiError, DecodeError
from logbus.records.compression import Codec, decompress

OVERHEAD = 10
"""Bytes of a message of magic 1 besides its payload."""

MAX_DECOMPRESSED = 16 * 1024 * 1024
"""Upper bound in bytes of what a produced set may become."""

_HELD = 64
"""Bytes that a decoded payload takes in memory besides its content."""

_CODEC_BITS = 0x03
_LENGTH = Struct(">i")
_MAGIC_0 = Struct(">BI")
_MAGIC_1 = Struct(">BBI")
_WHOLE_1 = Struct(">iBBI")


class InvalidMessage(DecodeError):
    """A set of messages is malformed, or a message's CRC does not match."""


def encode_message(payload: bytes) -> bytes:
    """Return a message of magic 1, whose payload is not compressed."""
    return _WHOLE_1.pack(_MAGIC_1.size + len(payload), 1, Codec.NONE, crc32(payload)) + payload


def payloads(data: bytes | memoryview, limit: int = MAX_DECOMPRESSED) -> Iterator[bytes]:
    """
    Iterate over the payloads of a produced set, those of compressed messages in their place.

    :param limit: upper bound in bytes of all payloads, with 64 for each.
    :raises InvalidMessage: it is malformed, or becomes too large.
    """
    room = limit
    for codec, payload in _messages(data):
        inner = [(codec, payload)] if codec is Codec.NONE else _messages(_unpacked(codec, payload, room))
        for inner_codec, content in inner:
            if inner_codec is not Codec.NONE:
                raise InvalidMessage("a compressed set has a compressed message in it")
            room -= _HELD + len(content)
            if room < 0:
                raise InvalidMessage(f"a set of messages becomes more than {limit} bytes, with {_HELD} for each")
            yield content


def _unpacked(codec: Codec, payload: bytes, room: int) -> bytes:
    try:
        return decompress(codec, payload, room)
    except ApiError as error:
        raise InvalidMessage(f"a compressed message: {error}") from error


def _messages(data: bytes | memoryview) -> Iterator[tuple[Codec, bytes]]:
    """
    The messages of a set: codec and payload.

    :raises InvalidMessage: it ends within a message, or one is damaged.
    """
    view, end, pos = memoryview(data), len(data), 0
    while pos < end:
        if end - pos < _LENGTH.size:
            raise InvalidMessage(f"a set of messages ends within a length, {end - pos} bytes long")
        (length,) = _LENGTH.unpack_from(view, pos)
        pos += _LENGTH.size
        if length < _MAGIC_0.size or length > end - pos:
            raise InvalidMessage(f"a message announces {length} bytes, {end - pos} are left")
        yield _message(view[pos : pos + length])
        pos += length


def _message(content: memoryview) -> tuple[Codec, bytes]:
    magic = content[0]
    if magic == 0:
        (_, crc), codec, payload = _MAGIC_0.unpack_from(content), Codec.NONE, bytes(content[_MAGIC_0.size :])
    elif magic == 1:
        if len(content) < _MAGIC_1.size:
            raise InvalidMessage(f"a message of magic 1 has {len(content)} bytes, at least {_MAGIC_1.size} are needed")
        _, attributes, crc = _MAGIC_1.unpack_from(content)
        if attributes & _CODEC_BITS > Codec.SNAPPY:
            raise InvalidMessage("a message has compression codec 3; 0.7 knows 0 to 2: none, gzip, snappy")
        codec, payload = Codec(attributes & _CODEC_BITS), bytes(content[_MAGIC_1.size :])
    else:
        raise InvalidMessage(f"a message has magic {magic}; 0.7 knows 0 and 1")
    if crc32(payload) != crc:
        raise InvalidMessage(f"a message's CRC is {crc:#010x}, but that of its payload {crc32(payload):#010x}")
    return codec, payload
