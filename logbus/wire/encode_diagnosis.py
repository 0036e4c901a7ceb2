"""Names the field that cannot be encoded, after an encoder failed."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from struct import error as struct_error
from typing import Any

from logbus.wire.decoder_runtime import MAX_STRING_LENGTH
from logbus.wire.encoder_runtime import EncodeError
from logbus.wire.layout import Array, StructLayout
from logbus.wire.wire_types import BYTES, RECORDS, STRING, UUID, WireType


def diagnose(message: object, layout: StructLayout, error: Exception) -> EncodeError:
    """
    The error that names the first field of ``message`` that its version cannot express.

    :param error: the encoder's, used if no field is found.
    """
    problem = next(_problems(message, layout), str(error))
    return EncodeError(f"{layout.cls.__name__} v{layout.version}: {problem}")


def _problems(value: Any, layout: StructLayout) -> Iterator[str]:
    if not isinstance(value, layout.cls):
        yield f"{_spell(value)} is not a {layout.cls.__name__}"
        return
    for each in layout.absent:
        given = getattr(value, each.name)
        if not each.spec.ignorable and given != each.spec.make_default():
            yield f"{each.name} is {_spell(given)}, but this version has no such field"
    for each in (*layout.fields, *layout.tagged):
        given = getattr(value, each.name)
        if given is None:
            if not each.nullable and each.spec.tag is None:
                yield f"{each.name} is null, which this version does not allow"
        elif isinstance(each.shape, Array):
            yield from _list_problems(each.name, given, each.shape, layout)
        elif isinstance(each.shape, WireType):
            yield from _primitive_problems(each.name, given, each.shape)
        else:
            yield from (f"{each.name}.{problem}" for problem in _problems(given, layout.nested(each.shape)))


def _list_problems(name: str, given: Any, shape: Array, layout: StructLayout) -> Iterator[str]:
    if not isinstance(given, list | tuple):
        yield f"{name} is {_spell(given)}, not a list"
        return
    for index, item in enumerate(given):
        place = f"{name}[{index}]"
        if isinstance(shape.element, WireType):
            yield from _primitive_problems(place, item, shape.element)
        else:
            yield from (f"{place}.{problem}" for problem in _problems(item, layout.nested(shape.element)))


def _primitive_problems(name: str, given: Any, type: WireType) -> Iterator[str]:
    if type == STRING:
        if not isinstance(given, str):
            yield f"{name} is {_spell(given)}, not a string"
            return
        try:
            size = len(given.encode())
        except UnicodeEncodeError as e:
            yield f"{name} is not Unicode text: {e.reason} at {e.start}"
            return
        if size > MAX_STRING_LENGTH:
            yield f"{name} has {size} bytes; a string has at most {MAX_STRING_LENGTH}"
    elif type == UUID:
        if not isinstance(given, bytes) or len(given) != 16:
            yield f"{name} is {_spell(given)}, not 16 bytes"
    elif type == BYTES:
        if not isinstance(given, bytes | bytearray | memoryview):
            yield f"{name} is {_spell(given)}, not bytes"
    elif type == RECORDS:
        for part in given if isinstance(given, list) else [given]:
            if isinstance(part, str) or not hasattr(part, "__len__"):
                yield f"{name} is {_spell(part)}, not bytes or a slice of a file"
    else:
        try:
            Struct(">" + type.code).pack(given)
        except struct_error:
            yield f"{name} is {_spell(given)}, not of type {type.name}"


def _spell(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
