"""Protobuf serializers with a registry."""

from __future__ import annotations

import subprocess
import sys
from base64 import b64decode
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from logbus.client.schema.protobuf import ProtobufDeserializer, ProtobufSerializer
from logbus.client.schema.schema_serializer import record_name
from logbus.client.serializers import SerializationError
from logbus.errors import ConfigError
from logbus.registry.protobuf_compiler import compiled
from logbus.registry.protobuf_schema import pool_of
from tests.client.schema.test_schema_registry import RegistryCase

PRICE = 'syntax = "proto3"; package money; message Price { int64 cents = 1; }'
TAX = 'syntax = "proto3"; package money; import "price.proto"; message Tax { Price price = 1; }'
ORDER = """
    syntax = "proto3";
    package shop;
    import "price.proto";
    import "tax.proto";
    import "google/protobuf/timestamp.proto";
    message Order { string what = 1; money.Price price = 2; money.Tax tax = 3; google.protobuf.Timestamp at = 4; }
    message Basket { message Head { } message Line { repeated Order orders = 1; } }
"""


def message_classes() -> tuple[Any, Any]:
    """A message of a file that imports others; and one within the second of the file."""
    pool = pool_of(compiled(ORDER, {"price.proto": PRICE, "tax.proto": TAX}), "order.proto")
    order, line = (GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}")) for name in ("Order", "Basket.Line"))
    return order, line


class ProtobufTests(RegistryCase):
    order: Any
    line: Any

    @classmethod
    def setUpClass(cls) -> None:
        cls.order, cls.line = message_classes()

    def test_round_trip(self) -> None:
        """
        Behind the five bytes is the message's place in its file, and the message.
        """
        an_order = self.order(what="tea")
        data = self.get(ProtobufSerializer(self.client, self.order).serialize("orders", an_order))
        self.assertEqual(data[:1] + data[5:], b"\0\0" + an_order.SerializeToString())
        self.assertEqual(ProtobufDeserializer(self.order)("orders", data), an_order)
        a_line = self.line(orders=[an_order])
        data = self.get(ProtobufSerializer(self.client, self.line).serialize("lines", a_line))
        self.assertEqual(data[5:], b"\4\2\2" + a_line.SerializeToString())
        self.assertEqual(ProtobufDeserializer(self.line)("lines", data), a_line)

    def test_imports_are_registered(self) -> None:
        """Each once and from the innermost on, but for those of Protobuf; the schema refers to them."""
        self.get(ProtobufSerializer(self.client, self.order).prepare("orders"))
        self.assertEqual(list(self.registry.subjects), ["price.proto", "tax.proto", "orders-value"])
        named = [[each["name"] for each in schema.get("references", ())] for schema in self.registry.schemas]
        self.assertEqual(named, [[], ["price.proto"], ["price.proto", "tax.proto"]])
        file = FileDescriptorProto.FromString(b64decode(self.registry.schemas[2]["schema"]))
        self.assertEqual([each.name for each in file.message_type], ["Order", "Basket"])
        before = len(self.registry.seen)
        found = self.get(ProtobufSerializer(self.made(), self.order, register=False).prepare("orders"))
        self.assertEqual(found, 3)
        self.assertEqual({path.count("versions") for _, path, _ in self.registry.seen[before:]}, {0})
        self.get(ProtobufSerializer(self.client, self.order, subject=record_name).prepare("t"))
        self.assertIn("shop.Order", self.registry.subjects)

    def test_wrong_messages(self) -> None:
        """A line each, with the topic and the type."""
        for wrong in (object, None, self.order()):
            for make in (lambda kind: ProtobufSerializer(self.client, kind), ProtobufDeserializer):
                self.assertIn("no class of Protobuf messages", str(self.assertRaises(ConfigError, make, wrong)))
        writing = ProtobufSerializer(self.client, self.order)
        self.assertIn("await prepare('t')", str(self.assertRaises(SerializationError, writing, "t", self.order())))
        error = self.refused(writing.serialize("orders", Timestamp()))
        self.assertEqual(str(error), "topic 'orders': a value of type Timestamp is no message shop.Order")
        reading = ProtobufDeserializer(self.order)
        for data, words in [
            (b"{}", "topic 't': b'{}' does not begin"),
            (b"\0\0\0\0\1", "topic 't': not a shop.Order, of schema 1: it ends at byte 0"),
            (b"\0\0\0\0\1\0\x0a\x05", "topic 't': not a shop.Order, of schema 1: "),
        ]:
            self.assertIn(words, str(self.assertRaises(SerializationError, reading, "t", data)))

    def test_none_is_none(self) -> None:
        """A tombstone is not framed, and the registry is not asked."""
        self.assertIsNone(ProtobufSerializer(self.client, self.order)("t", None))
        self.assertIsNone(ProtobufDeserializer(self.order)("t", None))
        self.assertEqual(self.registry.seen, [])

    @given(st.binary(max_size=50))
    def test_no_bytes_do_harm(self, payload: bytes) -> None:
        """
        They are read, or refused by topic.
        """
        try:
            ProtobufDeserializer(self.order)("t", b"\0\0\0\0\1" + payload)
        except SerializationError as e:
            self.assertIn("topic 't'", str(e))

    def test_without_the_extra(self) -> None:
        """
        One line says what to install.
        """
        program = "import sys; sys.modules['google.protobuf'] = None; import logbus.client.schema.protobuf"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        self.assertIn("pip install '.[protobuf]'", done.stderr.splitlines()[-1])
