"""
Finds the error codes in responses, by functions that are compiled for each version of a response. Pure.

A response has codes of its own, of its elements, or both: ``error_code`` and ``partition_error_code``. For most
responses all of them are 0, and looking is all that is done.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import cache
from typing import Any

from logbus.wire.codegen import ELEMENTS_PER_STEP
from logbus.wire.declaration import MessageSpec, is_struct, message_spec
from logbus.wire.layout import Array, FieldLayout, StructLayout, message_layout
from logbus.wire.messages import api

NAMES = ("error_code", "partition_error_code")

CountError = Callable[[int, int], object]
"""Is called with the API key, and with each code that is not 0."""


@cache
def error_finder(api_key: int, version: int) -> Callable[[Any, CountError], None] | None:
    """Return what counts each error in a response of an API by its second argument; None: it cannot have any."""
    made: Callable[[Any, CountError], None] | None = _compiled(
        message_spec(api(api_key).response), version, in_steps=False
    )
    return made


@cache
def incremental_error_finder(
    api_key: int, version: int
) -> Callable[[Any, CountError], Generator[None, None, None]] | None:
    """Likewise, but what it returns is a generator, which yields after some elements."""
    made: Callable[[Any, CountError], Generator[None, None, None]] | None = _compiled(
        message_spec(api(api_key).response), version, in_steps=True
    )
    return made


def _compiled(spec: MessageSpec, version: int, *, in_steps: bool) -> Any:
    body = _statements(message_layout(spec, version), spec.api_key, "m", 1, in_steps)
    if not body:
        return None
    if in_steps:
        body = [f" left = {ELEMENTS_PER_STEP}", *body, " return", " yield"]
    names: dict[str, Any] = {}
    source = "\n".join(["def find(m, count):", *body])
    exec(compile(source, f"<errors of {spec.cls.__name__} {version}>", "exec"), names)  # made of declared names only
    return names["find"]


def _statements(layout: StructLayout, api_key: int | None, variable: str, depth: int, in_steps: bool) -> list[str]:
    """The lines that look at a struct, which is in a variable; none if it has no codes."""
    indent = " " * depth
    lines: list[str] = []
    for field in (*layout.fields, *layout.tagged):
        value = f"{variable}.{field.name}"
        if field.name in NAMES:
            lines += [f"{indent}if {value}:", f"{indent} count({api_key}, {value})"]
        elif (element := _struct_in(field)) is not None:
            inner = f"{variable}{depth}"
            of_element = _statements(layout.nested(element), api_key, inner, depth + 1, in_steps)
            if not of_element:
                continue
            lines.append(f"{indent}for {inner} in {value} or ():")
            lines += of_element
            if in_steps:
                lines += [f"{indent} left -= 1", f"{indent} if not left:", f"{indent}  yield"]
                lines.append(f"{indent}  left = {ELEMENTS_PER_STEP}")
    return lines


def _struct_in(field: FieldLayout) -> type | None:
    """The struct that a field is an array of."""
    element = field.shape.element if isinstance(field.shape, Array) else None
    return element if isinstance(element, type) and is_struct(element) else None
