"""Tests Avro's types and values as columns, without Spark's JVM."""

from __future__ import annotations

import json
from decimal import Decimal
from io import BytesIO
from typing import Any
from unittest import TestCase

import fastavro
import pyarrow as pa
from attrs import define, field
from fastavro.schema import SchemaParseException
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StringType, StructType

from logbus.client.schema.schema_frame import frame
from logbus.pipeline.blocking.schema_registry import NoSuchSchema, RegistryFailed
from logbus.pipeline.errors import OptionError
from logbus.pipeline.functions.writer_schemas import WriterSchemas
from logbus.pipeline.payloads.avro_payload import AvroValueReader, as_arrow
from logbus.pipeline.payloads.avro_types import known_logical_types, spark_schema, type_conflict


@define(eq=False)
class Schemas:
    """A registry of a few schemas."""

    schemas: dict[int, Any]
    asked: list[int] = field(factory=list)
    is_away: bool = False

    def schema(self, schema_id: int) -> str:
        self.asked.append(schema_id)
        if self.is_away:
            raise RegistryFailed("it does not answer")
        if schema_id not in self.schemas:
            raise NoSuchSchema("Schema not found")
        return json.dumps(self.schemas[schema_id])


def record(name: str = "R", **fields: Any) -> dict[str, Any]:
    """A record's schema; fields are nullable where a name ends with ``_``."""
    return {
        "type": "record",
        "name": name,
        "fields": [
            {"name": each, "type": ["null", kind] if each.endswith("_") else kind} for each, kind in fields.items()
        ],
    }


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def column(schema: Any, values: list[dict[str, Any]]) -> list[Any]:
    """What becomes of events in Arrow, with the type that Spark wants."""
    event = StructType.fromJson(spark_schema(schema))
    kind = to_arrow_type(StructType().add("event", event).add("reason", StringType()), timezone="UTC")
    return as_arrow(values, kind).to_pylist(maps_as_pydicts="strict")


def encoded(schema: Any, value: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


SIMPLE = st.sampled_from(
    [
        "boolean",
        "int",
        "long",
        "float",
        "double",
        "bytes",
        "string",
        logical("int", "date"),
        logical("long", "timestamp-millis"),
        logical("long", "timestamp-micros"),
        logical("long", "local-timestamp-micros"),
        logical("string", "uuid"),
        logical("int", "time-millis"),
        logical("bytes", "decimal", precision=9, scale=2),
        ["int", "long"],
        ["null", "float", "double"],
    ]
)


@st.composite
def _named(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> Any:
    """Records, enums and fixeds, each with a name of its own."""
    name = f"N{draw(st.integers(0, 2**60))}"
    kind = draw(st.sampled_from(["enum", "fixed", "record"]))
    if kind == "enum":
        return {"type": "enum", "name": name, "symbols": ["A", "B"]}
    if kind == "fixed":
        return {"type": "fixed", "name": name, "size": draw(st.integers(1, 4))}
    return record(name, **draw(st.dictionaries(st.sampled_from("abcd_"), inner, min_size=1, max_size=3)))


KINDS = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        inner.map(lambda kind: {"type": "array", "items": kind}),
        inner.map(lambda kind: {"type": "map", "values": kind}),
        _named(inner),
    ),
    max_leaves=5,
)
RECORDS = st.dictionaries(st.sampled_from(["a", "b", "c_", "d_"]), KINDS, min_size=1, max_size=3).map(
    lambda fields: record(**{name: kind for name, kind in fields.items() if not _clashes(name, kind)} or {"a": "int"})
)


def _clashes(name: str, kind: Any) -> bool:
    """A union within a union is none of Avro's."""
    return name.endswith("_") and isinstance(kind, list)


class TypesTests(TestCase):
    """Schemas become columns."""

    @settings(max_examples=60)
    @given(RECORDS, st.data())
    def test_values_survive(self, schema: Any, data: st.DataObject) -> None:
        """What one Avro library writes is in Arrow what the same library reads."""
        try:
            parsed = fastavro.parse_schema(known_logical_types(schema))
        except SchemaParseException:
            assume(False)
        values = [data.draw(_values(schema)) for _ in range(2)]
        # Through the wire: floats are not what they were.
        payloads = [encoded(known_logical_types(schema), value) for value in values]
        events = [fastavro.schemaless_reader(BytesIO(each), parsed) for each in payloads]
        reader = AvroValueReader(Schemas({7: schema}), json.dumps(schema))  # type: ignore[arg-type]
        read = [reader.read("t", frame(7, each)) for each in payloads]
        self.assertEqual(column(schema, read), [{"event": each, "reason": None} for each in events])
        self.assertEqual(type_conflict(schema, spark_schema(schema)), "")

    def test_types(self) -> None:
        """As Spark's own Avro source has them."""
        inner = record("ns.In", x="int")
        found = spark_schema(
            record(
                a="int",
                b_="string",
                c=logical("int", "date"),
                d=logical("bytes", "decimal", precision=5, scale=1),
                e=["null", "int", "long"],
                f={"type": "map", "values": ["null", inner]},
                g={"type": "array", "items": "ns.In"},
                h=logical("long", "local-timestamp-millis"),
                i=logical("string", "uuid"),
                j={"type": {"type": "long"}},
                k={"type": "enum", "name": "K", "symbols": ["A"]},
            )
        )
        kinds = {each["name"]: each["type"] for each in found["fields"]}
        struct = {"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": True, "metadata": {}}]}
        self.assertEqual(
            kinds,
            {
                "a": "integer",
                "b_": "string",
                "c": "date",
                "d": "decimal(5,1)",
                "e": "long",
                "f": {"type": "map", "keyType": "string", "valueType": struct, "valueContainsNull": True},
                "g": {"type": "array", "elementType": struct, "containsNull": False},
                "h": "timestamp_ntz",
                "i": "string",
                "j": "long",
                "k": "string",
            },
        )

    def test_unsupported_types(self) -> None:
        """The field is named."""
        for schema, words in (
            ("int", "must be a record, to have columns; this one is int"),
            (record(), "the Avro schema: a record without fields"),
            (record(a=record("E")), "field 'a' of the Avro schema: a record without fields"),
            (record(a="null"), "field 'a' of the Avro schema is always null"),
            (record(a={"type": "array", "items": "null"}), r"field 'a\[\]' of the Avro schema is always null"),
            (record(a=["int", "string"]), "field 'a' of the Avro schema: no column can be one of int or string"),
            (record(a_="R"), "field 'a_' of the Avro schema: R contains itself"),
            (record(a=logical("bytes", "decimal", precision=39)), "a decimal of 39 digits; columns have up to 38"),
            (record(a="nonsense"), "'nonsense' is no Avro type that is known here"),
        ):
            with self.subTest(words), self.assertRaisesRegex(OptionError, words):
                spark_schema(schema)

    def test_clashes(self) -> None:
        """A number that means nothing does not become a time, nor a time a number; other fields do not matter."""
        at = logical("long", "timestamp-millis")
        columns = spark_schema(record(a=at, s=record("S", d=logical("int", "date")), l={"type": "array", "items": at}))
        for writer, words in (
            (record(a="long"), "a is long in it, and timestamp in the table"),
            (record(a=at, u=["int", "string"], s=record("S", d="int")), "s.d is integer in it, and date in the table"),
            (record(l={"type": "array", "items": "long"}), "l[] is long in it, and timestamp in the table"),
            (record(a=logical("long", "timestamp-micros"), self="R"), ""),
            (record(a_=at, s=record("S", d=logical("int", "date"), e="int")), ""),
            ("int", ""),
        ):
            with self.subTest(words):
                self.assertEqual(type_conflict(writer, columns), words)
        self.assertIn(
            "decimal(4,1)", type_conflict(record(a=logical("bytes", "decimal", precision=4, scale=1)), columns)
        )
        self.assertEqual(type_conflict(record(a="int"), spark_schema(record(a="long"))), "")


def _values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a schema, as they are on the wire."""
    if isinstance(kind, list):
        return st.one_of(*map(_values, kind))
    if isinstance(kind, dict):
        if kind["type"] == "record":
            return st.fixed_dictionaries({each["name"]: _values(each["type"]) for each in kind["fields"]})
        if kind["type"] == "array":
            return st.lists(_values(kind["items"]), max_size=2)
        if kind["type"] == "map":
            return st.dictionaries(st.text(max_size=3), _values(kind["values"]), max_size=2)
        if kind["type"] == "enum":
            return st.sampled_from(kind["symbols"])
        if kind["type"] == "fixed":
            return st.binary(min_size=kind["size"], max_size=kind["size"])
        if kind.get("logicalType") == "decimal":
            return st.decimals(-1000, 1000, places=2)
        if kind.get("logicalType") in ("time-millis", "uuid"):
            return _values(kind["type"])
        if kind.get("logicalType", "").startswith("local"):
            return st.datetimes()
        if kind.get("logicalType") == "date":
            return st.dates()
        return st.integers(-(10**12), 10**12)
    bits = {"int": 31, "long": 63}.get(kind)
    if bits:
        return st.integers(-(2**bits), 2**bits - 1)
    return {
        "null": st.none(),
        "boolean": st.booleans(),
        "float": st.floats(width=32, allow_nan=False),
        "double": st.floats(allow_nan=False),
        "bytes": st.binary(max_size=4),
        "string": st.text(max_size=4),
    }[kind]


class ReaderTests(TestCase):
    """Values become events, or reasons."""

    def test_reasons(self) -> None:
        """Each kind of value that cannot be read has one, and the others are read."""
        mine = record(a="int", at=logical("long", "timestamp-millis"), p=logical("bytes", "decimal", precision=3))
        mine["fields"].append({"name": "new", "type": "string", "default": "none"})
        good = {"a": 1, "at": 5, "p": Decimal(7)}
        theirs = record(a="int", at=logical("long", "timestamp-millis"), p=logical("bytes", "decimal", precision=3))
        wide = {**theirs, "fields": [{"name": "a", "type": "long"}, *theirs["fields"][1:]]}
        less = record(at=logical("long", "timestamp-millis"), p=logical("bytes", "decimal", precision=3))
        plain = record(a="int", at="long", p=logical("bytes", "decimal", precision=3))
        registry = Schemas({1: theirs, 2: wide, 3: less, 4: plain, 5: "string"})
        reader = AvroValueReader(registry, json.dumps(mine))  # type: ignore[arg-type]
        whole = encoded(theirs, good)
        unfit = "no value of schema {}, or it does not fit the columns: "
        huge = b"\xfe\xff\xff\xff\xff\x1f" + whole[1:]
        cases = [
            (frame(1, whole), None),
            (None, "there is no value"),
            (b"", "topic 't': b'' does not begin with a byte 0 and a schema's id"),
            (b"\x01abcd", "does not begin with a byte 0"),
            (frame(9, whole), "schema 9: Schema not found"),
            (frame(1, whole + b"x"), "1 bytes follow a value of schema 1"),
            (frame(1, whole[:-1]), unfit.format(1)),
            (frame(1, b""), f"{unfit.format(1)}EOFError"),
            (frame(2, encoded(wide, good)), f"{unfit.format(2)}SchemaResolutionError: Schema mismatch"),
            (frame(3, encoded(less, good)), f"{unfit.format(3)}SchemaResolutionError"),
            (frame(4, encoded(plain, {**good, "at": 5})), "schema 4: at is long in it, and timestamp in the table"),
            (frame(5, encoded("string", "s")), f"{unfit.format(5)}SchemaResolutionError"),
            (frame(1, huge), "the value does not fit its column: "),
            (frame(1, encoded(theirs, good | {"p": Decimal(7)})[:-2] + b"\x04\x10\x00"), "the value does not fit"),
        ]
        found = column(mine, [reader.read("t", value) for value, _ in cases])
        for (value, words), each in zip(cases, found, strict=True):
            with self.subTest(value=value):
                if words is None:
                    self.assertEqual((each["event"]["a"], each["event"]["new"], each["reason"]), (1, "none", None))
                    self.assertEqual(each["event"]["at"].timestamp(), 0.005)
                else:
                    self.assertIsNone(each["event"])
                    self.assertIn(words, each["reason"])

    def test_schemas_are_cached(self) -> None:
        """A schema is asked for once; one that is missing again after a while, since it may come; trouble is raised."""
        now = [0.0]
        registry = Schemas({1: record(a="int")})
        writers = WriterSchemas(lambda: now[0])
        reader = AvroValueReader(registry, json.dumps(record(a="int")), writers)  # type: ignore[arg-type]
        for _ in range(3):
            self.assertEqual(reader.read("t", frame(1, b"\x02"))["event"], {"a": 1})
            self.assertIn("not found", reader.read("t", frame(2, b"\x02"))["reason"])
        self.assertEqual(registry.asked, [1, 2])
        registry.schemas[2] = record(a="int")
        now[0] = 31.0
        self.assertEqual(reader.read("t", frame(2, b"\x04"))["event"], {"a": 2})
        for number in range(10, 2500):
            reader.read("t", frame(number, b""))
        self.assertLessEqual(len(writers._missing), 1000)
        registry.is_away = True
        with self.assertRaisesRegex(RegistryFailed, "does not answer"):
            reader.read("t", frame(3, b""))

    def test_schemas_that_cannot_be_used_are_asked_for_once(self) -> None:
        """Such as one that refers to another: not with each record, and the reason says which it is."""
        unusable = [
            record(a="int", b="com.example.Other"),
            {"type": "nothing"},
            None,
            {**record(a="int"), "name": 1},
        ]
        registry = Schemas(dict(enumerate(unusable)))
        reader = AvroValueReader(registry, json.dumps(record(a="int")))  # type: ignore[arg-type]
        for number in range(len(unusable)):
            for _ in range(3):
                read = reader.read("t", frame(number, b"\x02"))
                self.assertIsNone(read["event"])
                self.assertRegex(read["reason"], rf"schema {number}\b")
        self.assertEqual(registry.asked, list(range(len(unusable))))

    def test_values_are_checked_by_arrow(self) -> None:
        """Values that fit are not looked at one by one."""
        kind = pa.struct([("event", pa.int32()), ("reason", pa.string())])
        good, bad = {"event": 1, "reason": None}, {"event": 2**40, "reason": None}
        self.assertEqual(as_arrow([good], kind).to_pylist(), [good])
        self.assertEqual(as_arrow([good, bad], kind)[0].as_py(), good)
        self.assertIn("does not fit", as_arrow([good, bad], kind)[1].as_py()["reason"])
