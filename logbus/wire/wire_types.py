"""The primitive types of the Kafka protocol: their Python types and their encodings."""

from __future__ import annotations

from typing import Annotated

from attrs import frozen

from logbus.records.file_slice import Part


@frozen
class WireType:
    """
    A primitive type of the Kafka protocol.

    :ivar name: Kafka's name.
    :ivar code: its :mod:`struct` format, or "" when a length comes first.
    :ivar size: bytes on the wire, 0 when a length comes first.
    """

    name: str
    code: str = ""
    size: int = 0


STRING = WireType("string")
BYTES = WireType("bytes")
RECORDS = WireType("records")
UUID = WireType("uuid", "16s", 16)
BOOL = WireType("bool", "?", 1)

Int8 = Annotated[int, WireType("int8", "b", 1)]
Int16 = Annotated[int, WireType("int16", "h", 2)]
Int32 = Annotated[int, WireType("int32", "i", 4)]
Int64 = Annotated[int, WireType("int64", "q", 8)]
Uint16 = Annotated[int, WireType("uint16", "H", 2)]
Uint32 = Annotated[int, WireType("uint32", "I", 4)]
Float64 = Annotated[float, WireType("float64", "d", 8)]
Bool = Annotated[bool, BOOL]
String = Annotated[str, STRING]
Bytes = Annotated[bytes, BYTES]
#: 16 raw bytes; :data:`ZERO_UUID` means "none".
Uuid = Annotated[bytes, UUID]

#: Record batches as they came: decoded, a memoryview into the buffer that was given.
Records = Annotated[bytes | memoryview, RECORDS]
#: Record batches to be sent, which may lie in files; decoded, a memoryview as for :data:`Records`.
StoredRecords = Annotated[Part | list[Part], RECORDS]

ZERO_UUID = bytes(16)

#: Bytes of each :mod:`struct` format that codecs use; ``B`` is the first byte of a varint.
FORMAT_SIZES = {"b": 1, "B": 1, "?": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}
