"""Tests JSON schemas as Spark's types."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.pipeline.errors import OptionError
from logbus.pipeline.functions.json_schema_types import spark_schema


def columns(**properties: Any) -> dict[str, Any]:
    """The types of the columns."""
    whole = {"type": "object", "properties": properties, "$defs": {"a/b": {"type": "integer"}}}
    return {each["name"]: each["type"] for each in spark_schema(whole)["fields"]}


class JsonSchemaTypesTests(SynchronousTestCase):
    """Types of properties."""

    def test_types(self) -> None:
        """Simple types, nullable ones, formats, arrays, maps, objects and references."""
        found = columns(
            a={"type": "string"},
            b={"type": ["null", "integer"]},
            c={"oneOf": [{"type": "null"}, {"type": "number"}]},
            d={"type": "string", "format": "date-time"},
            e={"type": "array", "items": {"$ref": "#/$defs/a~1b"}},
            f={"type": "object", "additionalProperties": {"type": "boolean"}},
            g={"properties": {"x": {"type": "string"}}},
            h={"type": ["integer", "number"]},
        )
        inner = found.pop("g")
        self.assertEqual((inner["type"], inner["fields"][0]["name"]), ("struct", "x"))
        self.assertEqual(
            found,
            {
                "a": "string",
                "b": "long",
                "c": "double",
                "d": "timestamp",
                "e": {"type": "array", "elementType": "long", "containsNull": True},
                "f": {"type": "map", "keyType": "string", "valueType": "boolean", "valueContainsNull": True},
                "h": "double",
            },
        )

    def test_of_several_types(self) -> None:
        """What may be of several types is text."""
        found = columns(a={"type": ["string", "integer"]}, b={"anyOf": [{"type": "object"}, {"type": "array"}]}, c=True)
        self.assertEqual(found, dict.fromkeys("abc", "string"))

    def test_refused(self) -> None:
        """No object, a reference to another schema or to nothing, and one that refers to itself."""
        for schema in ({"type": "string"}, True, {"type": "object"}):
            with self.assertRaisesRegex(OptionError, "must be of an object with properties"):
                spark_schema(schema)
        for reference, why in {
            "other.json": "only references within it",
            "#/$defs/none": "has nothing at '#/.defs/none'",
            "#": "a: # contains itself",
        }.items():
            with self.assertRaisesRegex(OptionError, why):
                columns(a={"$ref": reference})

    def test_contains_itself(self) -> None:
        """A type that contains itself is refused by the name of the property, however far in, or by way of others."""
        node = {"type": "object", "properties": {"next": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}
        twice = {"type": "object", "properties": {"l": {"$ref": "#/$defs/leaf"}, "r": {"$ref": "#/$defs/leaf"}}}
        whole = {"$defs": {"node": node, "leaf": {"type": "integer"}}, **twice}
        self.assertEqual([each["type"] for each in spark_schema(whole)["fields"]], ["long", "long"])
        whole["properties"] = {"tree": {"$ref": "#/$defs/node"}}
        with self.assertRaisesRegex(OptionError, "^next: #/.defs/node contains itself, which no column can$"):
            spark_schema(whole)
        deep: dict[str, Any] = {"type": "integer"}
        for _ in range(50):
            deep = {"type": "object", "properties": {"in": deep}}
        with self.assertRaisesRegex(OptionError, "^in: the JSON schema is nested more than 40 deep"):
            spark_schema(deep)
