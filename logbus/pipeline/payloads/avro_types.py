"""
Converts Avro schemas to Spark's types, as Spark's Avro source does; both are JSON. Pure.

A union of a type and null becomes that type; of int and long, long; of float and double, double. Other unions, and
recursive types, cannot be columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field

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
_DECIMAL = "decimal"
_VOID = "void"
_WIDER = {frozenset({"integer", "long"}): "long", frozenset({"float", "double"}): "double"}
_MOST_DIGITS = 38
_MEANT = frozenset(_LOGICAL.values())
"""Types of columns whose values Avro encodes as numbers."""


def known_logical_types(schema: Any) -> Any:
    """
    A schema without the logical types that columns lack, such as ``uuid`` and ``time-millis``: their values keep the
    underlying type.
    """
    if isinstance(schema, list):
        return [known_logical_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    logical = schema.get("logicalType")
    known = logical == _DECIMAL or (schema["type"], logical) in _LOGICAL if isinstance(schema["type"], str) else False
    inner = {
        key: known_logical_types(value)
        for key, value in schema.items()
        if key in ("type", "items", "values") and (known or key != "logicalType")
    }
    if "fields" in schema:
        inner["fields"] = [{**each, "type": known_logical_types(each["type"])} for each in schema["fields"]]
    return {key: value for key, value in {**schema, **inner}.items() if known or key != "logicalType"}


def type_conflict(writer: Any, columns: Any) -> str:
    """
    The reason why values of a writer's schema would be misread as columns; "" if there is none.

    Avro's schema resolution ignores logical types: a plain long would become a timestamp, in an arbitrary unit.

    :param writer: decoded JSON, checked by an Avro library.
    :param columns: what :func:`spark_schema` gives of the columns' schema.
    """
    return _clash(_Types(lenient=True).of(writer, "", ())[0], columns, "")


def _clash(writer: Any, columns: Any, path: str) -> str:
    if isinstance(writer, str) and isinstance(columns, str):
        if writer != columns and any(each in _MEANT or each.startswith(_DECIMAL) for each in (writer, columns)):
            return f"{path} is {writer} in it, and {columns} in the table"
    elif isinstance(writer, dict) and isinstance(columns, dict) and writer["type"] == columns["type"]:
        if writer["type"] == "struct":
            known = {each["name"]: each["type"] for each in columns["fields"]}
            inner = [(each["name"], each["type"], known.get(each["name"])) for each in writer["fields"]]
            return next(
                filter(None, (_clash(mine, theirs, f"{path}.{name}".lstrip(".")) for name, mine, theirs in inner)), ""
            )
        key = "elementType" if writer["type"] == "array" else "valueType"
        return _clash(writer[key], columns[key], f"{path}[]")
    return ""


def spark_schema(schema: Any) -> dict[str, Any]:
    """
    The columns of a record schema.

    :param schema: decoded JSON, checked by an Avro library.
    :raise OptionError: it is not a record, or has a type that columns cannot have; it names the field.
    """
    kind, _ = _Types().of(schema, "", ())
    if not isinstance(kind, dict) or kind["type"] != "struct":
        raise OptionError(f"an event's Avro schema must be a record, to have columns; this one is {_said(schema)}")
    return kind


@define
class _Types:
    """
    Converts the types of one schema.

    :ivar lenient: a type that columns cannot have becomes void, instead of an error.
    :ivar named: the named types of the schema so far.
    """

    lenient: bool = False
    named: dict[str, Any] = field(factory=dict)

    def of(self, schema: Any, path: str, within: tuple[str, ...]) -> tuple[Any, bool]:
        """
        The type of a value, and whether it can be null.

        :param within: names of the types around it.
        """
        try:
            return self._of(schema, path, within)
        except OptionError:
            if self.lenient:
                return _VOID, True
            raise

    def _of(self, schema: Any, path: str, within: tuple[str, ...]) -> tuple[Any, bool]:
        if isinstance(schema, list):
            return self._union(schema, path, within)
        if isinstance(schema, str):
            schema = self.named.get(schema, {"type": schema})
        kind = schema["type"]
        if isinstance(kind, (dict, list)):
            return self.of(kind, path, within)
        if name := schema.get("name"):
            full = name if "." in name or not schema.get("namespace") else f"{schema['namespace']}.{name}"
            if full in within:
                raise OptionError(f"{_where(path)}: {full} contains itself, which no column can")
            self.named[full] = self.named[name] = schema
            within = (*within, full)
        if kind in ("record", "error"):
            return self._struct(schema, path, within), False
        if kind == "enum":
            return "string", False
        if kind == "array":
            element, nullable = self._column(schema["items"], f"{path}[]", within)
            return {"type": "array", "elementType": element, "containsNull": nullable}, False
        if kind == "map":
            value, nullable = self._column(schema["values"], f"{path}{{}}", within)
            return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": nullable}, False
        if kind in ("bytes", "fixed"):
            return _bytes(schema, path), False
        if kind == "null":
            return _VOID, True
        if kind not in _PRIMITIVE:
            raise OptionError(f"{_where(path)}: {kind!r} is no Avro type that is known here")
        return _LOGICAL.get((kind, schema.get("logicalType", "")), _PRIMITIVE[kind]), False

    def _column(self, schema: Any, path: str, within: tuple[str, ...]) -> tuple[Any, bool]:
        kind, nullable = self.of(schema, path, within)
        if kind == _VOID and not self.lenient:
            raise OptionError(f"{_where(path)} is always null, which no column can be")
        return kind, nullable

    def _struct(self, schema: Mapping[str, Any], path: str, within: tuple[str, ...]) -> Any:
        fields = []
        for each in schema["fields"]:
            kind, _ = self._column(each["type"], f"{path}.{each['name']}" if path else each["name"], within)
            # If a value cannot be read, all fields are null.
            fields.append({"name": each["name"], "type": kind, "nullable": True, "metadata": {}})
        if not fields:
            raise OptionError(f"{_where(path)}: a record without fields, which no column can be")
        return {"type": "struct", "fields": fields}

    def _union(self, schemas: list[Any], path: str, within: tuple[str, ...]) -> tuple[Any, bool]:
        kinds, nullable = [], False
        for each in schemas:
            kind, null = self.of(each, path, within)
            nullable |= null
            if kind != _VOID:
                kinds.append(kind)
        if not kinds:
            return _VOID, True
        if len(kinds) == 1:
            return kinds[0], nullable
        wider = _WIDER.get(frozenset(kinds)) if all(isinstance(each, str) for each in kinds) else None
        if wider is None:
            raise OptionError(f"{_where(path)}: no column can be one of {_said(schemas)}")
        return wider, nullable


def _bytes(schema: Mapping[str, Any], path: str) -> str:
    if schema.get("logicalType") != _DECIMAL:
        return "binary"
    precision, scale = schema.get("precision", 0), schema.get("scale", 0)
    if not 0 < precision <= _MOST_DIGITS:
        raise OptionError(f"{_where(path)}: a decimal of {precision} digits; columns have up to {_MOST_DIGITS}")
    return f"decimal({precision},{scale})"


def _where(path: str) -> str:
    return f"field {path!r} of the Avro schema" if path else "the Avro schema"


def _said(schema: Any) -> str:
    if isinstance(schema, list):
        return " or ".join(map(_said, schema))
    if isinstance(schema, dict):
        return str(schema.get("name") or _said(schema["type"]))
    return str(schema)
