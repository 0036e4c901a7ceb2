"""
Spark's types of Avro's, as Spark's own Avro source has them; pure: schemas are JSON on both sides.

A union of a type and null is that type; of int and long long, of float and double double. Other unions, and types that
contain themselves, have no column's type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logbus.pipeline.errors import OptionError

_PRIMITIVE = {
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
}
_LOGICAL = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
}
_WIDER = {frozenset({"integer", "long"}): "long", frozenset({"float", "double"}): "double"}
_MOST_DIGITS = 38


def spark_schema(schema: Any) -> dict[str, Any]:
    """
    The columns of a record.

    :param schema: decoded JSON, checked by an Avro library.
    :raise OptionError: it is no record, or has a type that no column can have; it names the field.
    """
    kind, _ = _type(schema, "", {}, ())
    if not isinstance(kind, dict) or kind["type"] != "struct":
        raise OptionError(f"an event's Avro schema must be a record, to have columns; this one is {_said(schema)}")
    return kind


def _type(schema: Any, path: str, named: dict[str, Any], within: tuple[str, ...]) -> tuple[Any, bool]:
    """The type of a value, and whether it can be null."""
    if isinstance(schema, list):
        return _union(schema, path, named, within)
    if isinstance(schema, str):
        schema = named.get(schema, {"type": schema})
    kind = schema["type"]
    if isinstance(kind, (dict, list)):
        return _type(kind, path, named, within)
    if name := schema.get("name"):
        full = name if "." in name or not schema.get("namespace") else f"{schema['namespace']}.{name}"
        if full in within:
            raise OptionError(f"{_where(path)}: {full} contains itself, which no column can")
        named[full] = named[name] = schema
        within = (*within, full)
    if kind in ("record", "error"):
        return _struct(schema, path, named, within), False
    if kind == "enum":
        return "string", False
    if kind == "array":
        element, nullable = _type(schema["items"], f"{path}[]", named, within)
        return {"type": "array", "elementType": element, "containsNull": nullable}, False
    if kind == "map":
        value, nullable = _type(schema["values"], f"{path}{{}}", named, within)
        return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": nullable}, False
    if kind in ("bytes", "fixed"):
        return _bytes(schema, path), False
    logical = _LOGICAL.get((kind, schema.get("logicalType", "")))
    if logical:
        return logical, False
    if kind == "null":
        return "void", True
    if kind not in _PRIMITIVE:
        raise OptionError(f"{_where(path)}: {kind!r} is no Avro type that is known here")
    return _PRIMITIVE[kind], False


def _struct(schema: Mapping[str, Any], path: str, named: dict[str, Any], within: tuple[str, ...]) -> Any:
    fields = []
    for each in schema["fields"]:
        kind, _ = _type(each["type"], f"{path}.{each['name']}" if path else each["name"], named, within)
        # Of what could not be read, all fields are null.
        fields.append({"name": each["name"], "type": kind, "nullable": True, "metadata": {}})
    return {"type": "struct", "fields": fields}


def _bytes(schema: Mapping[str, Any], path: str) -> str:
    if schema.get("logicalType") != "decimal":
        return "binary"
    precision, scale = schema.get("precision", 0), schema.get("scale", 0)
    if not 0 < precision <= _MOST_DIGITS:
        raise OptionError(f"{_where(path)}: a decimal of {precision} digits; columns have up to {_MOST_DIGITS}")
    return f"decimal({precision},{scale})"


def _union(schemas: list[Any], path: str, named: dict[str, Any], within: tuple[str, ...]) -> tuple[Any, bool]:
    kinds, nullable = [], False
    for each in schemas:
        kind, null = _type(each, path, named, within)
        nullable |= null
        if kind != "void":
            kinds.append(kind)
    if not kinds:
        return "void", True
    if len(kinds) == 1:
        return kinds[0], nullable
    wider = _WIDER.get(frozenset(kinds)) if all(isinstance(each, str) for each in kinds) else None
    if wider is None:
        raise OptionError(f"{_where(path)}: no column can be one of {_said(schemas)}")
    return wider, nullable


def _where(path: str) -> str:
    return f"field {path!r} of the Avro schema" if path else "the Avro schema"


def _said(schema: Any) -> str:
    if isinstance(schema, list):
        return " or ".join(map(_said, schema))
    if isinstance(schema, dict):
        return str(schema.get("name") or _said(schema["type"]))
    return str(schema)
