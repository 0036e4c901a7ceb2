"""Tests of JSON Schemas: validity and compatibility."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.registry.errors import RegistryRefusal
from logbus.registry.limits import RegistryLimits
from logbus.registry.parsed_schema import ParsedSchema, incompatibilities, read_schema
from logbus.registry.requests import run

DRAFT_4, LATEST = "http://json-schema.org/draft-04/schema#", "https://json-schema.org/draft/2020-12/schema"
WORDS = ("a", "b", "c")


def schema(value: Any) -> ParsedSchema:
    """A schema of its JSON."""
    found = run(read_schema(json.dumps(value), "JSON", (), lambda reference: None, RegistryLimits()))
    found.check()
    return found


def wrong(reader: Any, writer: Any) -> list[str]:
    """Why not all that one accepts is shown to be accepted by the other."""
    return incompatibilities(schema(reader), schema(writer))


class SchemaTests(SynchronousTestCase):
    """Parsing."""

    def test_bad_schemas(self) -> None:
        """Invalid schemas are refused with the place of the error."""
        for value, words in (
            ([], "an object, or true or false"),
            ({"type": "text"}, "at '/type'"),
            ({"properties": {"a": {"minimum": "1"}}}, "at '/properties/a/minimum'"),
            ({"$schema": "http://example.org/mine"}, "known are http://json-schema.org/draft-04/schema"),
            ({"$ref": "#/definitions/gone"}, "there is nothing at '#/definitions/gone'"),
            ({"$ref": "other.json"}, "neither the schema nor among its references"),
            ({"$ref": "#nowhere"}, "has the anchor 'nowhere'"),
        ):
            error = self.assertRaises(RegistryRefusal, schema, value)
            self.assertEqual(error.code, 42201, value)
            self.assertIn(words, error.message, value)


class ReadableTests(SynchronousTestCase):
    """Compatibility of schemas."""

    def test_wider(self) -> None:
        """Types, ranges, lengths and sets may get wider, and not narrower."""
        for narrow, wide in (
            ({"type": "integer"}, {"type": "number"}),
            ({"type": "string"}, {"type": ["string", "null"]}),
            ({"type": "string"}, True),
            (False, {"type": "string"}),
            ({"minimum": 3}, {"minimum": 2}),
            ({"exclusiveMinimum": 3}, {"minimum": 3}),
            ({"maximum": 3, "exclusiveMaximum": 9}, {"maximum": 4}),
            ({"minLength": 2, "maxLength": 3}, {"minLength": 1, "maxLength": 4}),
            ({"type": "array", "minItems": 2, "uniqueItems": True}, {"type": "array", "minItems": 1}),
            ({"multipleOf": 6}, {"multipleOf": 3}),
            ({"enum": ["a", "b"]}, {"enum": ["c", "b", "a"]}),
            ({"const": "a"}, {"enum": ["b", "a"]}),
            ({"const": "a"}, {"type": "string"}),
            ({"type": "object", "required": ["a", "b"]}, {"type": "object", "required": ["b"]}),
            ({"items": {"type": "integer"}}, {"items": {"type": "number"}}),
            ({"items": [{"type": "integer"}]}, {"items": [{"type": "number"}]}),
            ({"items": {"type": "integer"}}, {"items": [{"type": "number"}]}),
            ({"additionalProperties": {"type": "integer"}}, {"additionalProperties": {"type": "number"}}),
            ({"additionalProperties": {"type": "integer"}}, {"properties": {"a": {"type": "number"}}}),
            ({"additionalProperties": False}, {"properties": {"a": {"type": "number"}}}),
            ({"patternProperties": {"^a": {"const": 1}}}, {"patternProperties": {"^a": {"type": "integer"}}}),
            ({"type": "string"}, {"anyOf": [{"type": "null"}, {"type": "string"}]}),
            ({"type": "string"}, {"oneOf": [{"type": "null"}, {"type": "string"}]}),
            ({"oneOf": [{"const": 1}, {"const": 2}]}, {"type": "integer"}),
            ({"allOf": [{"minimum": 3}, {"type": "integer"}]}, {"type": "number", "minimum": 2}),
            ({"type": "integer", "minimum": 4}, {"allOf": [{"minimum": 3}, {"type": "integer"}]}),
            ({"type": "string"}, {"minimum": 5, "type": ["string", "integer"], "x-owner": "me", "title": "t"}),
            ({"format": "date", "minLength": 3}, {"format": "date"}),
        ):
            self.assertEqual(wrong(wide, narrow), [], (wide, narrow))
            self.assertNotEqual(wrong(narrow, wide), [], (narrow, wide))

    def test_open_and_closed(self) -> None:
        """A property that is described now may have been anything before, unless objects were closed."""
        old = {"type": "object", "properties": {"a": {"type": "string"}}}
        new = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
        self.assertEqual(wrong(new, old), ["$.b: the reader's 'type' (\"integer\") does not follow"])
        self.assertEqual(wrong({**new, "additionalProperties": False}, {**old, "additionalProperties": False}), [])
        self.assertEqual(wrong(old, new), [])
        self.assertIn("$.b: the reader accepts nothing here", wrong({**old, "additionalProperties": False}, new))

    def test_paths(self) -> None:
        """Sentences name the place."""
        old = {"properties": {"lines": {"type": "array", "items": {"properties": {"n": {"type": "number"}}}}}}
        new = {"properties": {"lines": {"type": "array", "items": {"properties": {"n": {"type": "integer"}}}}}}
        self.assertIn("$.lines[].n: the reader's 'type'", wrong(new, old)[0])

    def test_references(self) -> None:
        """References are followed, also in circles."""

        def tree(value: str) -> Any:
            return {
                "$ref": "#/definitions/tree",
                "definitions": {
                    "tree": {
                        "type": "object",
                        "properties": {"v": {"type": value}, "next": {"$ref": "#/definitions/tree"}},
                    }
                },
            }

        self.assertEqual(wrong(tree("number"), tree("integer")), [])
        self.assertIn("$.v", wrong(tree("integer"), tree("number"))[0])
        endless = {"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/a"}}}
        self.assertTrue(wrong(endless, {"type": "string"}))
        self.assertTrue(wrong({"type": "string"}, endless))

    def test_rare_keywords(self) -> None:
        """Keywords without a rule must be equal, with the same meaning."""
        for one in ({"not": {"type": "string"}}, {"contains": {"const": 1}}, {"propertyNames": {"maxLength": 3}}):
            self.assertEqual(wrong(one, {**one, "minimum": 3}), [])
            self.assertNotEqual(wrong(one, {}), [])
        one = {"not": {"$ref": "#/definitions/x"}, "definitions": {"x": {"type": "string"}}}
        self.assertEqual(wrong(one, one), [])
        self.assertNotEqual(wrong(one, {**one, "definitions": {"x": {"type": "null"}}}), [])
        closed = {"$schema": LATEST, "properties": {"a": True}, "unevaluatedProperties": False}
        self.assertEqual(wrong(closed, closed), [])
        self.assertNotEqual(wrong({**closed, "properties": {}}, closed), [])

    def test_dialects(self) -> None:
        """Versions of JSON Schema say different things with the same words, and are not compared."""
        self.assertIn("different versions", wrong({"$schema": DRAFT_4}, {"$schema": LATEST})[0])
        bounds = {"$schema": DRAFT_4, "minimum": 3}
        self.assertEqual(wrong(bounds, {**bounds, "exclusiveMinimum": True}), [])
        self.assertNotEqual(wrong({**bounds, "exclusiveMinimum": True}, bounds), [])
        items = {"$schema": LATEST, "prefixItems": [{"type": "string"}], "items": {"type": "integer"}}
        self.assertEqual(wrong({**items, "items": True}, items), [])
        self.assertNotEqual(wrong(items, {**items, "items": True}), [])

    @settings(max_examples=150)
    @given(st.data())
    def test_accepted_is_accepted(self, data: Any) -> None:
        """A schema found compatible accepts every value of the other."""
        writer = data.draw(schemas())
        reader = data.draw(st.one_of(schemas(), turned(writer)))
        both = {"definitions": {"d": {"type": ["integer", "null"]}, "e": {"minimum": 1}}}
        wide, narrow = ({**each, **both} if isinstance(each, dict) else each for each in (reader, writer))
        try:
            refused = wrong(wide, narrow)
        except RegistryRefusal:
            assume(False)
        event("refused" if refused else "accepted")
        if not refused:
            old, new = jsonschema.Draft7Validator(narrow), jsonschema.Draft7Validator(wide)
            for _ in range(10):
                value = data.draw(values)
                self.assertTrue(not accepts(old, value) or accepts(new, value), value)


def accepts(validator: Any, value: Any) -> bool:
    """Whether a value is valid, by jsonschema."""
    try:
        return bool(validator.is_valid(value))
    except TypeError:
        # It fails at "additionalItems" beside "items" that are true or false (jsonschema 4.26).
        assume(False)
        raise


values = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 2, 3, -1, 1.5, 2.0, "", "a", "ab", "abc"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3),
    max_leaves=6,
)

_small = st.sampled_from([0, 1, 2])
_types = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])


def schemas() -> st.SearchStrategy[Any]:
    """Schemas of draft 7 over few words and numbers, so that they often have to do with each other."""

    def wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        lists = st.lists(inner, min_size=1, max_size=2)
        return st.fixed_dictionaries(
            {},
            optional={
                "type": _types | st.lists(_types, min_size=1, max_size=3, unique=True),
                "minimum": _small,
                "exclusiveMaximum": _small,
                "multipleOf": st.sampled_from([1, 2, 4]),
                "minLength": _small,
                "maxItems": _small,
                "uniqueItems": st.booleans(),
                "enum": st.lists(st.sampled_from([None, 1, 2, "a", [], {}]), min_size=1, unique_by=repr),
                "const": st.sampled_from([1, "a", None]),
                "required": st.lists(st.sampled_from(WORDS), max_size=2, unique=True),
                "minProperties": _small,
                "properties": st.dictionaries(st.sampled_from(WORDS), inner, max_size=2),
                "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), inner, max_size=1),
                "additionalProperties": inner,
                "items": inner | lists,
                "additionalItems": inner,
                "anyOf": lists,
                "oneOf": lists,
                "allOf": lists,
                "not": inner,
                "$ref": st.sampled_from(["#/definitions/d", "#/definitions/e"]),
            },
        ).map(lambda made: dict(list(made.items())[-3:]))

    return st.recursive(st.booleans() | st.builds(dict) | _types.map(lambda kind: {"type": kind}), wider, max_leaves=6)


@st.composite
def turned(draw: st.DrawFn, one: Any) -> Any:
    """A schema with something taken out of it, or put into it."""
    if not isinstance(one, dict):
        return draw(schemas())
    made = dict(one)
    for name in list(made):
        if draw(st.integers(0, 3)) == 0:
            del made[name]
        elif isinstance(made[name], dict) and name != "properties":
            made[name] = draw(turned(made[name]))
    return {**made, **draw(st.sampled_from([{}, {"title": "t"}, {"properties": {"c": True}}, {"minimum": 0}]))}
