"""Converts JSON schemas to Spark's types, both as JSON. Pure."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from logbus.pipeline.errors import OptionError

_SIMPLE = {"string": "string", "integer": "long", "number": "double", "boolean": "boolean"}
_FORMATS = {"date-time": "timestamp", "date": "date"}
_DEEPEST = 40


def spark_schema(schema: Any) -> dict[str, Any]:
    """
    The type of a JSON schema's objects: a property is a column. Objects without ``properties`` are maps. What may be of
    several types is a string: its text, if it is an object or an array.

    :param schema: decoded JSON.
    :raise OptionError: it is not of an object with properties.
    """
    kind = _JsonSchema(schema).type_of(schema, 0)
    if not isinstance(kind, dict) or kind["type"] != "struct":
        raise OptionError("a JSON schema must be of an object with properties, to have columns")
    return kind


@frozen
class _JsonSchema:
    whole: Any

    def type_of(self, schema: Any, depth: int) -> Any:
        if depth > _DEEPEST:
            raise OptionError("the JSON schema refers to itself, or is nested more than 40 deep, which no column can")
        if not isinstance(schema, dict):
            return "string"
        if isinstance(reference := schema.get("$ref"), str):
            return self.type_of(self._referenced(reference), depth + 1)
        for name in ("oneOf", "anyOf"):
            if isinstance(choices := schema.get(name), list):
                some = [each for each in choices if each != {"type": "null"}]
                return self.type_of(some[0], depth + 1) if len(some) == 1 else "string"
        kind = schema.get("type")
        if isinstance(kind, list):
            some = [each for each in kind if each != "null"]
            kind = some[0] if len(some) == 1 else "number" if set(some) == {"integer", "number"} else None
        if kind == "array":
            element = self.type_of(schema.get("items"), depth + 1)
            return {"type": "array", "elementType": element, "containsNull": True}
        if kind == "object" or (kind is None and "properties" in schema):
            return self._object(schema, depth)
        if kind == "string" and schema.get("format") in _FORMATS:
            return _FORMATS[schema["format"]]
        return _SIMPLE.get(str(kind), "string")

    def _object(self, schema: dict[str, Any], depth: int) -> Any:
        properties = schema.get("properties")
        if not isinstance(properties, dict) or not properties:
            value = self.type_of(schema.get("additionalProperties"), depth + 1)
            return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}
        fields = [
            {"name": name, "type": self.type_of(each, depth + 1), "nullable": True, "metadata": {}}
            for name, each in properties.items()
        ]
        return {"type": "struct", "fields": fields}

    def _referenced(self, reference: str) -> Any:
        found = self.whole
        if not reference.startswith("#"):
            raise OptionError(f"the JSON schema refers to {reference!r}; only references within it are known here")
        for part in filter(None, reference[1:].split("/")):
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                raise OptionError(f"the JSON schema has nothing at {reference!r}")
            found = found[name]
        return found
