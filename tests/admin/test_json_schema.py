"""Tests of :mod:`logbus.admin.json_schema`."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.json_schema import (
    JsonSchema,
    array,
    boolean,
    integer,
    mapping,
    nullable,
    object_schema,
    schema_errors,
    string,
)


class JsonSchemaTests(SynchronousTestCase):
    """Violations of schemas, and their messages."""

    def assert_faults(self, shape: JsonSchema, value: Any, *words: str) -> None:
        """There are exactly as many faults as ``words``, each with its word in it."""
        found = list(schema_errors(shape, value))
        self.assertEqual(len(found), len(words), found)
        for sentence, word in zip(found, words, strict=True):
            self.assertIn(word, sentence)

    def test_types(self) -> None:
        """A value is of the type asked for; true is no number, and a whole number is a number."""
        for shape, good, bad in (
            (integer(""), 1, True),
            (integer(""), 1, 1.0),
            ({"type": "number"}, 1, "1"),
            (boolean(""), False, 0),
            (string(""), "", None),
            (nullable(string("")), None, 1),
            (array("", integer("")), [1], {}),
            (mapping("", integer("")), {"a": 1}, []),
        ):
            self.assert_faults(shape, good)
            self.assert_faults(shape, bad, "the body is")

    def test_bounds(self) -> None:
        """A value out of bounds is reported with the bounds."""
        self.assert_faults(integer("", minimum=1, maximum=5), 6, "1 to 5")
        self.assert_faults(integer("", minimum=1), 0, "at least 1")
        self.assert_faults(string("", maxLength=2), "abc", "at most 2")
        self.assert_faults(string("", enum=["a", "b"]), "c", "a, b")
        self.assert_faults(string("", pattern="^a"), "b", "^a")
        self.assert_faults(array("", integer(""), maxItems=1), [1, 2], "at most 1")
        self.assert_faults(mapping("", integer(""), maxProperties=1), {"a": 1, "b": 2}, "at most 1")

    def test_members(self) -> None:
        """Missing and unknown members are named, and faults deep inside say where they are."""
        shape = object_schema(
            "", a=integer(""), b=array("", object_schema("", c=string(""))), d=boolean(""), optional=("d",)
        )
        self.assert_faults(shape, {"a": 1, "b": [{"c": "x"}]})
        self.assert_faults(
            shape, {"b": [{"c": 1}], "e": 1}, "no member 'a'", "body.b[0].c is integer", "'e'; accepted: a"
        )
