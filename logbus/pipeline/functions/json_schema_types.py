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

    def type_of(self, schema: Any, depth: int, within: tuple[str, ...] = (), name: str = "") -> Any:
        """
        The type of a part.

        :param within: the references that lead to it.
        :param name: the property that it is of.
        """
        if depth > _DEEPEST:
            raise OptionError(f"{name}: the JSON schema is nested more than {_DEEPEST} deep, which no column can be")
        if not isinstance(schema, dict):
            return "string"
        if isinstance(reference := schema.get("$ref"), str):
            if reference in within or reference == "#":
                raise OptionError(f"{name}: {reference} contains itself, which no column can")
            return self.type_of(self._referenced(reference), depth + 1, (*within, reference), name)
        for keyword in ("oneOf", "anyOf"):
            if isinstance(choices := schema.get(keyword), list):
                some = [each for each in choices if each != {"type": "null"}]
                return self.type_of(some[0], depth + 1, within, name) if len(some) == 1 else "string"
        kind = schema.get("type")
        if isinstance(kind, list):
            some = [each for each in kind if each != "null"]
            kind = some[0] if len(some) == 1 else "number" if set(some) == {"integer", "number"} else None
        if kind == "array":
            element = self.type_of(schema.get("items"), depth + 1, within, name)
            return {"type": "array", "elementType": element, "containsNull": True}
        if kind == "object" or (kind is None and "properties" in schema):
            return self._object(schema, depth, within, name)
        if kind == "string" and schema.get("format") in _FORMATS:
            return _FORMATS[schema["format"]]
        return _SIMPLE.get(str(kind), "string")

    def _object(self, schema: dict[str, Any], depth: int, within: tuple[str, ...], name: str) -> Any:
        properties = schema.get("properties")
        if not isinstance(properties, dict) or not properties:
            value = self.type_of(schema.get("additionalProperties"), depth + 1, within, name)
            return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}
        fields = [
            {"name": own, "type": self.type_of(each, depth + 1, within, own), "nullable": True, "metadata": {}}
            for own, each in properties.items()
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
