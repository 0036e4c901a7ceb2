"""Tests of Avro schemas: validity, equality, compatibility."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.registry.errors import RegistryRefusal
from logbus.registry.limits import RegistryLimits
from logbus.registry.parsed_schema import ParsedSchema, incompatibilities, read_schema
from logbus.registry.requests import run
from tests.registry.avros import avro_types, changed, data_of


def avro(value: Any) -> ParsedSchema:
    """A schema of its JSON."""
    text = value if isinstance(value, str) and value[:1] in '"[{' else json.dumps(value)
    found = run(read_schema(text, "AVRO", (), lambda reference: None, RegistryLimits()))
    found.check()
    return found


def record(*fields: Any, name: str = "Order", **more: Any) -> dict[str, Any]:
    """A record; fields are names with types."""
    told = [each if isinstance(each, dict) else {"name": each[0], "type": each[1]} for each in fields]
    return {"type": "record", "name": name, "fields": told, **more}


class SchemaTests(SynchronousTestCase):
    """Parsing."""

    def test_same(self) -> None:
        """White space, the order of members, and how a name is spelled make no difference."""
        one = avro('{"type": "record", "name": "a.R", "fields": [{"name": "x", "type": {"type": "int"}}]}')
        other = avro('{"namespace":"a","name":"R","type":"record","fields":[{"type":"int","name":"x"}]}')
        self.assertEqual(one.schema, other.schema)
        self.assertEqual(one.schema.guid, other.schema.guid)
        self.assertNotEqual(one.schema.text, other.schema.text)

    def test_not_the_same(self) -> None:
        """Defaults, aliases, documentation and the order of fields do make a difference."""
        field = {"name": "x", "type": "int"}
        schemas = [
            record(field),
            record({**field, "default": 0}),
            record({**field, "aliases": ["y"]}),
            record({**field, "doc": "how many"}),
            record(field, ("y", "int")),
            record(("y", "int"), field),
            record(field, namespace="a"),
        ]
        self.assertEqual(len({avro(each).schema for each in schemas}), len(schemas))

    def test_bad_schemas(self) -> None:
        """Invalid schemas are refused with the place of the error."""
        fixed = {"type": "fixed", "name": "F", "size": 2}
        for value, words in (
            ("{", "it is not JSON"),
            ('{"type": "int", "type": "long"}', "'type' is there twice"),
            ("[1e999]", "too large"),
            ("[NaN]", "NaN is not a JSON value"),
            ('"\\ud800"', "surrogate"),
            ("[" * 101 + "]" * 101, "deeper than 100 levels"),
            ({"type": "what"}, "of type 'what', which nothing before it defines"),
            ({"fields": []}, "has no 'type'"),
            ({"type": ["int"]}, "has no 'type' that is a name"),
            ("[]", "a union of nothing"),
            ('["int", ["null"]]', "a union that has a union in it"),
            ('["int", "int"]', "has 'int' twice"),
            ('[{"type": "array", "items": "int"}, {"type": "array", "items": "long"}]', "has 'array' twice"),
            ({"type": "array"}, "without 'items'"),
            ({"type": "record", "name": "R"}, "no array of 'fields'"),
            (record(("x", "int"), ("x", "int")), "the field 'Order.x' is there twice"),
            (record(("1x", "int")), "the name '1x', which is none"),
            (record({"name": "x"}), "the field 'Order.x' has no 'type'"),
            (record(("x", "int"), name="a..b"), "names are letters"),
            (record(("x", "int"), name="int"), "which is a type of Avro's"),
            (record({"name": "x", "type": "int", "default": "1"}), "default of 'Order.x' is '1'"),
            (record({"name": "x", "type": "int", "default": True}), "default of 'Order.x' is True"),
            (record({"name": "x", "type": "int", "default": 1 << 31}), "default of 'Order.x'"),
            (record({"name": "x", "type": ["int", "null"], "default": "a"}), "default of 'Order.x'"),
            (record({"name": "x", "type": fixed, "default": "abc"}), "default of 'Order.x'"),
            (record({"name": "x", "type": record(("y", "int"), name="I"), "default": {}}), "default of 'Order.x'"),
            (record(("x", fixed), ("y", fixed)), "defines 'F', which is defined already"),
            ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "has a symbol twice"),
            ({"type": "enum", "name": "E", "symbols": ["a-b"]}, "no array of 'symbols'"),
            ({"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}, "default of the enum 'E' is 'B'"),
            ({"type": "fixed", "name": "F", "size": -1}, "a number of bytes"),
        ):
            error = self.assertRaises(RegistryRefusal, avro, value)
            self.assertEqual(error.status, 422, value)
            self.assertIn(words, error.message, value)

    def test_too_large(self) -> None:
        """A schema longer than the limit is refused before it is read."""
        error = self.assertRaises(RegistryRefusal, avro, '"' + "x" * RegistryLimits().schema_bytes + '"')
        self.assertEqual(error.code, 42209)

    @settings(max_examples=200)
    @given(
        st.one_of(
            st.text(),
            st.recursive(
                st.none()
                | st.booleans()
                | st.integers()
                | st.text(max_size=5)
                | st.sampled_from(["record", "name", "R", "int"]),
                lambda inner: (
                    st.lists(inner, max_size=3)
                    | st.dictionaries(
                        st.sampled_from(
                            ["type", "name", "fields", "items", "symbols", "size", "default", "aliases", "namespace"]
                        ),
                        inner | st.sampled_from(["record", "enum", "fixed", "array", "R"]),
                        max_size=5,
                    )
                ),
                max_leaves=10,
            ).map(json.dumps),
        )
    )
    def test_arbitrary_schemas(self, text: str) -> None:
        """Whatever is sent, it is a schema or a refusal."""
        try:
            run(read_schema(text, "AVRO", (), lambda reference: None, RegistryLimits())).check()
        except RegistryRefusal as e:
            self.assertIn(e.status, (422,))


class ReadableTests(SynchronousTestCase):
    """Compatibility of schemas."""

    def wrong(self, reader: Any, writer: Any) -> list[str]:
        """Why it cannot."""
        return incompatibilities(avro(reader), avro(writer))

    def test_promotions(self) -> None:
        """Exactly the specification's promotions are taken."""
        allowed = {
            "int": "int long float double",
            "long": "long float double",
            "float": "float double",
            "double": "double",
            "string": "string bytes",
            "bytes": "bytes string",
            "boolean": "boolean",
            "null": "null",
        }
        for writer, readers in allowed.items():
            for reader in allowed:
                self.assertEqual(not self.wrong(reader, writer), reader in readers.split(), (reader, writer))

    def test_sentences(self) -> None:
        """A sentence names the place, what is written, and what the reader wants."""
        line = record(("price", "int"), name="Line")
        longer = record(("price", "string"), ("tax", "int"), name="Line")
        writer = record(("lines", {"type": "array", "items": line}), ("more", {"type": "map", "values": "Line"}))
        reader = record(("lines", {"type": "array", "items": longer}), ("more", {"type": "map", "values": "Line"}))
        self.assertEqual(
            self.wrong(reader, writer)[:2],
            [
                "Order.lines[].price: 'int' is written, and cannot be read as 'string'",
                "Order.lines[].tax: the field is not written, and the reader has no default for it",
            ],
        )
        self.assertIn("Order.more{}.price", self.wrong(reader, writer)[2])

    def test_fields(self) -> None:
        """Fields come and go with defaults, in any order, and under other names by aliases."""
        old = record(("a", "int"), ("b", "string"))
        self.assertEqual(self.wrong(record(("b", "string"), ("a", "long")), old), [])
        self.assertEqual(self.wrong(record(("b", "string")), old), [])
        self.assertEqual(self.wrong(record({"name": "c", "type": "int", "default": 1}), old), [])
        self.assertEqual(self.wrong(record({"name": "c", "type": "int", "aliases": ["a"]}), old), [])
        self.assertIn("Order.c: the field is not written", self.wrong(record(("c", "int")), old)[0])

    def test_open_aliases(self) -> None:
        """Fields that are ambiguous by names and aliases are incompatible, since readers differ."""
        old = record(("a", "int"), ("b", "int"))
        self.assertIn("leave open", self.wrong(record({"name": "a", "type": "int", "aliases": ["b"]}), old)[0])
        twice = record({"name": "x", "type": "int", "aliases": ["b"]}, ("b", "int"))
        self.assertIn("leave open", self.wrong(twice, old)[0])

    def test_enums(self) -> None:
        """A symbol that is not known is read as the default, if there is one."""
        few, more = ({"type": "enum", "name": "E", "symbols": list(each)} for each in ("AB", "ABC"))
        self.assertEqual(self.wrong(more, few), [])
        self.assertIn("the symbols C may be written", self.wrong(few, more)[0])
        self.assertEqual(self.wrong({**few, "default": "A"}, more), [])

    def test_names(self) -> None:
        """Names match without their namespaces, or by an alias of the reader's."""
        old = record(("a", "int"), name="x.Old")
        self.assertEqual(self.wrong(record(("a", "int"), name="y.Old"), old), [])
        self.assertIn("record x.Old is written", self.wrong(record(("a", "int"), name="x.New"), old)[0])
        self.assertEqual(self.wrong(record(("a", "int"), name="x.New", aliases=["Old"]), old), [])

    def test_fixed_and_decimal(self) -> None:
        """A fixed has its size, and a decimal its precision and scale."""
        fixed = {"type": "fixed", "name": "F", "size": 4}
        self.assertIn("4 bytes are written", self.wrong({**fixed, "size": 5}, fixed)[0])
        decimal = {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}
        self.assertIn("decimal(8, 2) is written", self.wrong({**decimal, "scale": 3}, decimal)[0])
        self.assertEqual(self.wrong("bytes", decimal), [])

    def test_unions(self) -> None:
        """Each branch that may be written must be read as some branch."""
        self.assertEqual(self.wrong(["null", "string"], "string"), [])
        self.assertEqual(self.wrong(["null", "long"], ["int", "null"]), [])
        self.assertEqual(self.wrong("long", ["int", "long"]), [])
        self.assertIn("the reader's union has only 'null', 'int'", self.wrong(["null", "int"], ["string", "null"])[0])
        same_names = [record(("a", "int"), name="v1.R"), record(("b", "int"), name="v2.R")]
        self.assertEqual(self.wrong(same_names, same_names), [])

    def test_recursion(self) -> None:
        """Types that have themselves in them are compared to the end, and no further."""

        def tree(value: str, name: str = "Tree") -> dict[str, Any]:
            return record(("value", value), ("left", ["null", name]), ("right", ["null", name]), name=name)

        self.assertEqual(self.wrong(tree("long"), tree("int")), [])
        self.assertIn("Tree.value", self.wrong(tree("int"), tree("long"))[0])

    def test_recursive_pairs_are_checked_again(self) -> None:
        """A pair that was readable only as long as another was taken for it is looked at again."""
        # The reader's first branch fails after B has been compared with the help of A.
        writer = record(("b", record(("a", ["null", "A"]), name="B")), ("x", "string"), name="A")
        reader = [record(("b", record(("a", ["null", "A"]), name="B")), ("x", "int"), name="A"), "null"]
        self.assertTrue(self.wrong(reader, writer))
        both = record(("one", writer), ("two", "B"), name="Both")
        wrong = self.wrong(record(("one", reader), ("two", "B"), name="Both"), both)
        self.assertTrue(any("Both.two" in each for each in wrong), wrong)

    def test_too_intricate(self) -> None:
        """Schemas that would take for ever to compare are refused instead."""
        names = [f"R{index}" for index in range(30)]

        def many(kind: str) -> list[Any]:
            return [
                record(*[(f"f{each}", ["null", *names[:index]]) for each in range(10)], ("last", kind), name=name)
                for index, name in enumerate(names)
            ]

        wrong = self.wrong(many("int"), many("string"))
        self.assertTrue(any("too intricate" in each for each in wrong))

    @settings(max_examples=200)
    @given(st.data())
    def test_accepted_can_be_read(self, data: Any) -> None:
        """fastavro reads what is compatible, and every schema is compatible with itself."""
        writer = data.draw(avro_types())
        reader = data.draw(changed(writer))
        try:
            old, new = avro(writer), avro(reader)
        except RegistryRefusal:
            assume(False)
        self.assertEqual(incompatibilities(old, old), [])
        if incompatibilities(new, old):
            event("refused")
            return
        event("same" if old.schema == new.schema else "accepted")
        for _ in range(3):
            value = data.draw(data_of(writer))
            written = io.BytesIO()
            fastavro.schemaless_writer(written, fastavro.parse_schema(writer), value)
            written.seek(0)
            fastavro.schemaless_reader(written, fastavro.parse_schema(writer), fastavro.parse_schema(reader))
            self.assertEqual(written.read(), b"")
