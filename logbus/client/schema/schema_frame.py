"""How a record names the schema that it is written with, as Confluent's serializers do."""

from __future__ import annotations

import struct

from logbus.client.serializers import SerializationError

MAGIC = 0
_FRAME = struct.Struct(">bI")


def frame(schema_id: int, payload: bytes) -> bytes:
    """Say before a payload which schema it is written with: a byte 0, and the id in four bytes."""
    return _FRAME.pack(MAGIC, schema_id) + payload


def unframe(topic: str, data: bytes) -> tuple[int, bytes]:
    """
    The schema's id, and the payload.

    :raise SerializationError: it is not framed so.
    """
    if len(data) < _FRAME.size or data[0] != MAGIC:
        raise SerializationError(
            f"topic {topic!r}: {bytes(data[:8])!r} does not begin with a byte 0 and a schema's id in four bytes"
        )
    return _FRAME.unpack_from(data)[1], bytes(data[_FRAME.size :])
