"""Hypothesis strategies for messages: any content that a version can express."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from logbus.wire.declaration import MessageSpec
from logbus.wire.layout import Array, FieldLayout, StructLayout, message_layout
from logbus.wire.wire_types import RECORDS, STRING, UUID, WireType

INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
}

# Lengths around 127 matter: there the compact length takes its second byte.
TEXT = st.one_of(
    st.text(max_size=12),
    st.integers(124, 131).map("x".__mul__),
    st.sampled_from(["", "é" * 64, "\N{SNOWMAN}", "x" * 300]),
)
BLOBS = st.one_of(st.binary(max_size=20), st.integers(124, 131).map(bytes), st.just(bytes(range(256)) * 70))
UUIDS = st.one_of(st.just(bytes(16)), st.binary(min_size=16, max_size=16))

#: Says how to fill a field, given its path of names, or None for "anything of its type".
Chooser = Callable[[tuple[str, ...]], "st.SearchStrategy[Any] | None"]


def anything(path: tuple[str, ...]) -> st.SearchStrategy[Any] | None:
    """The chooser without preferences."""
    return None


def messages(spec: MessageSpec, version: int, choose: Chooser = anything) -> st.SearchStrategy[Any]:
    """Messages that ``version`` can say."""
    return structs(message_layout(spec, version), choose, ())


def structs(layout: StructLayout, choose: Chooser, path: tuple[str, ...]) -> st.SearchStrategy[Any]:
    """Structs that the version of ``layout`` can say, with defaults where it lacks a field."""
    fields = {each.name: _field(each, layout, choose, (*path, each.name)) for each in (*layout.fields, *layout.tagged)}
    return st.builds(layout.cls, **fields)


def primitives(type: WireType) -> st.SearchStrategy[Any]:
    """Values of a primitive type."""
    if type.name in INTEGERS:
        low, high = INTEGERS[type.name]
        return st.one_of(st.integers(low, high), st.sampled_from([low, -1 if low else 0, 0, 1, high]))
    if type == STRING:
        return TEXT
    if type == UUID:
        return UUIDS
    if type.name == "bool":
        return st.booleans()
    if type.name == "float64":
        return st.floats(allow_nan=False)
    return BLOBS


def _field(each: FieldLayout, layout: StructLayout, choose: Chooser, path: tuple[str, ...]) -> st.SearchStrategy[Any]:
    values = choose(path)
    if values is not None:
        return values
    shape = each.shape
    if isinstance(shape, Array):
        element = shape.element
        if isinstance(element, WireType):
            values = st.lists(primitives(element), max_size=3)
        else:
            values = st.lists(structs(layout.nested(element), choose, path), max_size=3)
    elif isinstance(shape, WireType):
        values = primitives(shape)
        if shape == RECORDS:
            values = st.one_of(values, values.map(memoryview))  # type: ignore[arg-type]
    else:
        values = structs(layout.nested(shape), choose, path)
        if each.spec.tag is not None and each.spec.default is None and not each.marked:
            # Equal to its default, the struct would not be sent.
            default = shape()
            values = st.one_of(st.none(), values.filter(lambda value: value != default))
    return st.one_of(st.none(), values) if each.nullable else values
