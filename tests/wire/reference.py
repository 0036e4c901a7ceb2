"""
A second codec, slow and plain, to hold the generated ones against: it walks the layout, field by field.

It can also put unknown tags into every tag section, which ours never does.
"""

from __future__ import annotations

import struct
from typing import Any

from logbus.wire.layout import Array, FieldLayout, StructLayout
from logbus.wire.wire_types import STRING, WireType


def varint(value: int) -> bytes:
    """An unsigned varint."""
    out = b""
    while value >= 0x80:
        out += bytes([value % 128 + 128])
        value //= 128
    return out + bytes([value])


def spell(value: Any, layout: StructLayout, unknown: tuple[tuple[int, bytes], ...] = ()) -> bytes:
    """
    Spell a struct.

    :param unknown: tags to add to every tag section; their numbers must be above the known ones.
    """
    out = b"".join(_field(getattr(value, each.name), each, layout, unknown) for each in layout.fields)
    if not layout.flexible:
        return out
    tags = []
    for each in layout.tagged:
        given = getattr(value, each.name)
        default = each.spec.make_default()
        if given == default or (default is None and isinstance(each.shape, type) and given == each.shape()):
            continue
        tags.append((each.spec.tag, _field(given, each, layout, unknown)))
    tags.extend(unknown)
    return out + varint(len(tags)) + b"".join(varint(tag or 0) + varint(len(body)) + body for tag, body in tags)


def _field(value: Any, each: FieldLayout, layout: StructLayout, unknown: tuple[tuple[int, bytes], ...]) -> bytes:
    shape = each.shape
    if isinstance(shape, Array):
        head = _length(None if value is None else len(value), layout.flexible, ">i")
        return head + b"".join(_value(item, shape.element, layout, unknown) for item in value or ())
    if not isinstance(shape, WireType) and each.marked:
        null = b"\xff" if each.spec.tag is None else b"\0"
        return null if value is None else b"\x01" + _value(value, shape, layout, unknown)
    return _value(value, shape, layout, unknown)


def _value(value: Any, shape: Any, layout: StructLayout, unknown: tuple[tuple[int, bytes], ...]) -> bytes:
    if not isinstance(shape, WireType):
        return spell(value, layout.nested(shape), unknown)
    if shape.code:
        return struct.pack(">" + shape.code, value)
    if value is None:
        return _length(None, layout.flexible, ">h" if shape == STRING else ">i")
    content = value.encode() if shape == STRING else bytes(value)
    return _length(len(content), layout.flexible, ">h" if shape == STRING else ">i") + content


def _length(length: int | None, compact: bool, code: str) -> bytes:
    if compact:
        return varint(0 if length is None else length + 1)
    return struct.pack(code, -1 if length is None else length)
