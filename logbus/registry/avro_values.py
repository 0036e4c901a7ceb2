"""
Avro values as people read them: bytes become what JSON has ("Binary Encoding" in
avro.apache.org/docs/1.12.0/specification).

For display, of schemas and values that anybody may have sent: an array of a thousand million nulls takes five bytes,
and a record may contain itself, so the number of values and their depth are bounded. Pure.
"""

from __future__ import annotations

import math
import struct
from decimal import Context, Decimal
from typing import Any

from attrs import define

from logbus.registry.avro_schema import AvroType

MOST_VALUES = 5000
"""Values within a value; reading so many takes some milliseconds."""
DEEPEST = 40

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


def read_value(data: bytes, schema: AvroType) -> Any:
    """
    Return a value of a schema: records and maps as dicts, decimals as text, other bytes as hexadecimal text.

    :raise ValueError: the bytes are none, or are more than is shown.
    """
    reader = _Reader(data)
    value = reader.value(schema, 0)
    if reader.at != len(data):
        raise ValueError(f"{len(data) - reader.at} bytes follow the value")
    return value


@define
class _Reader:
    data: bytes
    at: int = 0
    values: int = 0

    def take(self, length: int) -> bytes:
        if length < 0 or self.at + length > len(self.data):
            raise ValueError(f"it ends at byte {len(self.data)}, within a value")
        self.at += length
        return self.data[self.at - length : self.at]

    def long(self) -> int:
        found = shift = 0
        while True:
            byte = self.take(1)[0]
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)
            shift += 7
            if shift > 63:
                raise ValueError("a number has more than ten bytes")

    def value(self, wanted: AvroType, depth: int) -> Any:
        self.values += 1
        if self.values > MOST_VALUES:
            raise ValueError(f"it has more than {MOST_VALUES} values")
        if depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} deep")
        match wanted.kind:
            case "null":
                return None
            case "boolean":
                return self.take(1) != b"\0"
            case "int" | "long":
                return self.long()
            case "float":
                return _number(_FLOAT.unpack(self.take(4))[0])
            case "double":
                return _number(_DOUBLE.unpack(self.take(8))[0])
            case "string":
                return self.take(self.long()).decode("utf-8", "replace")
            case "bytes":
                return _bytes(self.take(self.long()), wanted)
            case "fixed":
                return _bytes(self.take(wanted.size), wanted)
            case "enum":
                return _chosen(wanted.symbols, self.long())
            case "union":
                return self.value(_chosen(wanted.branches, self.long()), depth + 1)
            case "array":
                return self.array(wanted, depth)
            case "map":
                return self.map(wanted, depth)
        return {each.name: self.value(each.type, depth + 1) for each in wanted.fields}

    def block(self) -> int:
        """The number of items that follow; 0 at the end."""
        count = self.long()
        if count < 0:
            # The block's size in bytes follows, for those that skip it.
            self.long()
            count = -count
        if count > MOST_VALUES:
            raise ValueError(f"it has more than {MOST_VALUES} values")
        return count

    def array(self, wanted: AvroType, depth: int) -> list[Any]:
        assert wanted.element is not None
        found: list[Any] = []
        while count := self.block():
            found += [self.value(wanted.element, depth + 1) for _ in range(count)]
        return found

    def map(self, wanted: AvroType, depth: int) -> dict[str, Any]:
        assert wanted.element is not None
        found: dict[str, Any] = {}
        while count := self.block():
            for _ in range(count):
                key = self.take(self.long()).decode("utf-8", "replace")
                found[key] = self.value(wanted.element, depth + 1)
        return found


def _chosen(choices: tuple[Any, ...], position: int) -> Any:
    if not 0 <= position < len(choices):
        raise ValueError(f"it chooses number {position} of {len(choices)}")
    return choices[position]


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _bytes(data: bytes, wanted: AvroType) -> str:
    if wanted.decimal is None:
        return data.hex(" ")
    unscaled = Decimal(int.from_bytes(data[:64], "big", signed=True))
    scale = min(wanted.decimal[1], 1000)
    return f"{unscaled.scaleb(-scale, Context(prec=400)):f}"
