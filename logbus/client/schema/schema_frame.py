"""Confluent's wire format: a record's value begins with the id of its schema."""

from __future__ import annotations

import struct

from logbus.client.serializers import SerializationError

MAGIC = 0
_FRAME = struct.Struct(">bI")


def frame(schema_id: int, payload: bytes) -> bytes:
    """Prepend the magic byte 0 and the schema id, in four bytes, to a payload."""
    return _FRAME.pack(MAGIC, schema_id) + payload


def unframe(topic: str, data: bytes) -> tuple[int, bytes]:
    """
    Split off the schema id.

    :raise SerializationError: the data has no such frame.
    """
    if len(data) < _FRAME.size or data[0] != MAGIC:
        raise SerializationError(
            f"topic {topic!r}: {bytes(data[:8])!r} does not begin with a byte 0 and a schema's id in four bytes"
        )
    return _FRAME.unpack_from(data)[1], bytes(data[_FRAME.size :])
