"""Tests Protobuf values without Spark: types, and values in both directions."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.schema.message_place import written_place
from logbus.pipeline.blocking.schema_registry import (
    NoSuchSchema,
    RegisteredSchema,
    RegistryClient,
    SchemaReference,
)
from logbus.pipeline.errors import OptionError
from logbus.pipeline.functions.column_function import Malformed, MalformedValue, converted, python_of
from logbus.pipeline.functions.protobuf import ProtobufDecoder, protobuf_encoder
from logbus.pipeline.functions.protobuf_files import protobuf_files
from logbus.pipeline.functions.protobuf_types import spark_type
from logbus.registry.protobuf_compiler import compiled

PRICE = 'syntax = "proto3"; package shop; message Price { uint64 cents = 1; string currency = 2; }'
ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "price.proto";
message Order {
  enum Kind { TEA = 0; COFFEE = 1; }
  message Line { string what = 1; sint32 count = 2; }
  string id = 1;
  uint32 weight = 2;
  optional int64 seen = 3;
  Kind kind = 4;
  repeated Line lines = 5;
  map<string, Price> prices = 6;
  map<int32, string> notes = 7;
  google.protobuf.Timestamp at = 8;
  google.protobuf.Duration took = 9;
  oneof by { string mail = 10; bytes token = 11; }
  repeated double sizes = 12;
  Price total = 13;
}
message Refund { string id = 1; }
message Tree { Tree left = 1; }
message Empty { }
"""


class Registry(RegistryClient):
    """Has the two schemas; an order is schema 7."""

    asked: list[int] = []

    def find(self, schema_id: int, schema_type: str) -> RegisteredSchema:
        self.asked.append(schema_id)
        if schema_id not in (7, 8):
            raise NoSuchSchema("there is none")
        return order(schema_id)

    def version(self, subject: str, version: int | str, schema_type: str) -> RegisteredSchema:
        assert (subject, version) == ("price", 1)
        return RegisteredSchema(3, "PROTOBUF", serialized(PRICE, {}))


def serialized(text: str, imports: dict[str, str]) -> str:
    """As a registry gives it."""
    return b64encode(compiled(text, imports)[-1].SerializeToString()).decode()


def order(schema_id: int) -> RegisteredSchema:
    """The schema of orders."""
    text = serialized(ORDER, {"price.proto": PRICE})
    return RegisteredSchema(schema_id, "PROTOBUF", text, (SchemaReference("price.proto", "price", 1),))


VALUE: dict[str, Any] = {
    "id": "ü",
    "weight": 2**32 - 1,
    "seen": 0,
    "kind": "COFFEE",
    "lines": [{"what": "mug", "count": -1}],
    "prices": {"a": {"cents": Decimal(2**64 - 1), "currency": "EUR"}},
    "notes": {1: "x"},
    "at": datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    "took": timedelta(seconds=-1.5),
    "mail": None,
    "token": b"\0\xff",
    "sizes": [1.5, 2.0],
    "total": None,
}


class ProtobufValuesTests(SynchronousTestCase):
    """Orders as columns."""

    def setUp(self) -> None:
        Registry.asked = []
        self.registry = Registry("http://127.0.0.1:1")
        self.files = protobuf_files(self.registry, order(7))

    def test_round_trip(self) -> None:
        """All kinds of fields come back as they were; null fields are not set; the registry is not asked."""
        encode = protobuf_encoder(self.files, "shop.Order")
        kind = to_arrow_type(spark_type(self.files.message_class("shop.Order").DESCRIPTOR), timezone="UTC")
        decode = ProtobufDecoder(self.registry, self.files, "shop.Order").decode
        data = encode(VALUE)
        self.assertEqual(data[:6], b"\0\0\0\0\7\0")
        found = converted("from_protobuf", pa.array([data, None]), decode, kind, "FAILFAST")
        ready = python_of(kind)
        assert ready is not None
        self.assertEqual(ready(found.to_pylist()[0]), VALUE)
        self.assertIsNone(found.to_pylist()[1])
        self.assertEqual(Registry.asked, [])

    def test_unset(self) -> None:
        """A field without presence is its default where it is not set; others are null."""
        decode = ProtobufDecoder(self.registry, self.files, "shop.Order").decode
        found = decode(b"\0\0\0\0\7\0")
        self.assertEqual([found["id"], found["weight"], found["kind"], found["lines"]], ["", 0, "TEA", []])
        self.assertEqual([found["seen"], found["at"], found["mail"], found["total"]], [None] * 4)

    def test_other_writers(self) -> None:
        """Each writer's schema is requested once, and says which message a value is."""
        decode = ProtobufDecoder(self.registry, self.files, "shop.Order").decode
        for _ in range(2):
            self.assertEqual(decode(b"\0\0\0\0\x08\0\x0a\1x")["id"], "x")
            with self.assertRaisesRegex(Malformed, r"it is a message shop\.Refund of schema 8, not shop\.Order"):
                decode(b"\0\0\0\0\x08" + written_place([1]))
            with self.assertRaisesRegex(Malformed, "schema 9: there is none"):
                decode(b"\0\0\0\0\x09\0")
        self.assertEqual(Registry.asked, [8, 9])

    def test_malformed(self) -> None:
        """What cannot be read is an error that says why, or null."""
        decode = ProtobufDecoder(self.registry, self.files, "shop.Order").decode
        kind = to_arrow_type(spark_type(self.files.message_class("shop.Order").DESCRIPTOR), timezone="UTC")
        for data, why in {
            b"": "does not begin with a byte 0",
            b"\1\0\0\0\7\0": "does not begin with a byte 0",
            b"\0\0\0\0\7": "ends at byte 5, before its message",
            b"\0\0\0\0\7" + b"\xff" * 6: "more than five bytes",
            b"\0\0\0\0\7\x02\x20": r"no message at 16",
            b"\0\0\0\0\7\0\x0a\x05x": "is no message shop.Order",
        }.items():
            with self.assertRaisesRegex(MalformedValue, f"from_protobuf: .*{why}.*; mode='PERMISSIVE' makes"):
                converted("from_protobuf", pa.array([data]), decode, kind, "FAILFAST")
            self.assertEqual(
                converted("from_protobuf", pa.array([data]), decode, kind, "PERMISSIVE").to_pylist(), [None]
            )

    def test_values_that_do_not_fit(self) -> None:
        """An unknown field, an unknown enum and a value of another type are named."""
        encode = protobuf_encoder(self.files, "shop.Order")
        for value, why in [
            ({"ID": "x"}, r"shop\.Order has no field 'ID'; it has id, weight"),
            ({"kind": "MILK"}, "'MILK' is none of TEA, COFFEE"),
            ({"weight": -1}, r"shop\.Order\.weight: "),
            ({"lines": [{"count": "x"}]}, r"shop\.Order\.Line\.count: "),
        ]:
            with self.assertRaisesRegex(Malformed, why):
                encode(value)

    def test_messages(self) -> None:
        """A message is found by its name, with the package or without; nested ones too."""
        self.assertEqual(self.files.place_of(""), [0])
        self.assertEqual(self.files.place_of("shop.Refund"), [1])
        self.assertEqual(self.files.place_of("Order.Line"), [0, 0])
        self.assertEqual(self.files.name_at([0, 0]), "shop.Order.Line")
        with self.assertRaisesRegex(
            OptionError, r"no message 'Reefund'; it has Empty, Order, Order\.Line, Refund, Tree"
        ):
            self.files.place_of("Reefund")

    def test_types_without_columns(self) -> None:
        """A message that contains itself, and one without fields, are refused."""
        for name, why in {"Tree": r"Tree\.left: shop\.Tree contains itself", "Empty": "without fields"}.items():
            with self.assertRaisesRegex(OptionError, why):
                spark_type(self.files.message_class(f"shop.{name}").DESCRIPTOR)

    def test_unknown_import(self) -> None:
        """A file that is not among the references is named; so is a schema that is no descriptor."""
        bare = RegisteredSchema(7, "PROTOBUF", order(7).text)
        with self.assertRaisesRegex(OptionError, r"schema 7 imports 'price\.proto', which is not among its references"):
            protobuf_files(self.registry, bare)
        with self.assertRaisesRegex(OptionError, "schema 7 is no descriptor in base64"):
            protobuf_files(self.registry, RegisteredSchema(7, "PROTOBUF", "syntax"))
