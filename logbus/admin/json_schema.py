"""
A subset of JSON Schema (2020-12) that both describes and validates the JSON bodies of the REST interface.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

JsonSchema = Mapping[str, Any]
"""A JSON Schema with keywords that :func:`schema_errors` supports."""

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}

KEYWORDS = frozenset(
    {
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "pattern",
        "minItems",
        "maxItems",
        "maxProperties",
        "description",
        "format",
        "examples",
        "default",
    }
)
"""All keywords a schema may use: those that are validated."""


def object_schema(description: str, *, optional: tuple[str, ...] = (), **members: JsonSchema) -> JsonSchema:
    """An object with exactly these members; all but the ``optional`` ones are required."""
    return {
        "type": "object",
        "description": description,
        "properties": members,
        "required": [name for name in members if name not in optional],
        "additionalProperties": False,
    }


def integer(description: str, **more: Any) -> JsonSchema:
    """An integer."""
    return {"type": "integer", "description": description, **more}


def number(description: str, **more: Any) -> JsonSchema:
    """A number."""
    return {"type": "number", "description": description, **more}


def string(description: str, **more: Any) -> JsonSchema:
    """A string."""
    return {"type": "string", "description": description, **more}


def boolean(description: str) -> JsonSchema:
    """True or false."""
    return {"type": "boolean", "description": description}


def array(description: str, items: JsonSchema, **more: Any) -> JsonSchema:
    """An array of items with one schema."""
    return {"type": "array", "description": description, "items": items, **more}


def mapping(description: str, values: JsonSchema, **more: Any) -> JsonSchema:
    """An object with arbitrary member names."""
    return {"type": "object", "description": description, "additionalProperties": values, **more}


def nullable(shape: JsonSchema) -> JsonSchema:
    """``shape``, or null."""
    kinds = shape["type"]
    return {**shape, "type": [*([kinds] if isinstance(kinds, str) else kinds), "null"]}


def schema_errors(shape: JsonSchema, value: Any, where: str = "the body") -> Iterator[str]:
    """
    Yield the violations of a schema by a value, each a sentence that begins with ``where``.
    """
    if "type" not in shape:
        return  # anything
    kinds = [shape["type"]] if isinstance(shape["type"], str) else shape["type"]
    if not any(_is(kind, value) for kind in kinds):
        yield f"{where} is {_kind(value)}, not {' or '.join(kinds)}"
        return
    if "enum" in shape and value not in shape["enum"]:
        yield f"{where} is not one of {', '.join(map(str, shape['enum']))}"
    if isinstance(value, dict):
        yield from _object_faults(shape, value, where)
    elif isinstance(value, list):
        if not shape.get("minItems", 0) <= len(value) <= shape.get("maxItems", len(value)):
            yield f"{where} has {len(value)} elements; accepted: {_span(shape, 'minItems', 'maxItems')}"
            return
        for index, item in enumerate(value):
            yield from schema_errors(shape["items"], item, f"{where}[{index}]")
    elif isinstance(value, str):
        if not shape.get("minLength", 0) <= len(value) <= shape.get("maxLength", len(value)):
            yield f"{where} has {len(value)} characters; accepted: {_span(shape, 'minLength', 'maxLength')}"
        elif "pattern" in shape and not re.search(shape["pattern"], value):
            yield f"{where} does not match {shape['pattern']}"
    elif _is("number", value) and not shape.get("minimum", value) <= value <= shape.get("maximum", value):
        yield f"{where} is {value}; accepted: {_span(shape, 'minimum', 'maximum')}"


def _object_faults(shape: JsonSchema, value: dict[str, Any], where: str) -> Iterator[str]:
    members: Mapping[str, JsonSchema] = shape.get("properties", {})
    for name in shape.get("required", ()):
        if name not in value:
            yield f"{where} has no member {name!r}"
    if len(value) > shape.get("maxProperties", len(value)):
        yield f"{where} has {len(value)} members; at most {shape['maxProperties']} are accepted"
        return
    others: JsonSchema | None = shape.get("additionalProperties") or None
    for name, item in value.items():
        inner = members.get(name, others)
        if inner is None:
            yield f"{where} has the unknown member {name[:100]!r}; accepted: {', '.join(members) or 'none'}"
        else:
            yield from schema_errors(inner, item, f"{where}.{name[:100]}")


def _is(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind])


def _kind(value: Any) -> str:
    return next(kind for kind in ("boolean", "integer", "number", *_TYPES) if _is(kind, value))


def _span(shape: JsonSchema, low: str, high: str) -> str:
    if low not in shape:
        return f"at most {shape[high]}"
    return f"{shape[low]} to {shape[high]}" if high in shape else f"at least {shape[low]}"
