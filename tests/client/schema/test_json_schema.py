"""JSON Schema serializers with a registry."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from logbus.client.schema.json_schema import JsonSchemaDeserializer, JsonSchemaSerializer
from logbus.client.schema.schema_registry import RegistryError
from logbus.client.schema.schema_serializer import record_name, topic_record_name
from logbus.client.serializers import SerializationError
from logbus.errors import ConfigError
from tests.client.schema.test_schema_registry import RegistryCase

ORDER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "what": {"type": "string"}},
    "required": ["id"],
}
FRAME = b"\0\0\0\0\1"


class JsonSchemaTests(RegistryCase):
    def test_round_trip(self) -> None:
        """
        Behind the five bytes is plain JSON, and the schema is registered as one of JSON.
        """
        writing = JsonSchemaSerializer(self.client, ORDER)
        data = self.get(writing.serialize("orders", {"id": 42, "what": "tea"}))
        self.assertEqual(data, FRAME + b'{"id":42,"what":"tea"}')
        self.assertEqual(self.registry.schemas[0]["schemaType"], "JSON")
        reading = JsonSchemaDeserializer(self.made())
        self.assertIn("not known yet", str(self.assertRaises(SerializationError, reading, "orders", data)))
        self.assertEqual(self.get(reading.deserialize("orders", data)), {"id": 42, "what": "tea"})
        self.assertEqual(reading("orders", data), {"id": 42, "what": "tea"})
        self.assertEqual(writing("orders", {"what": "tea", "id": 42})[-1:], b"}")  # type: ignore[index]

    def test_values_that_do_not_fit(self) -> None:
        """Neither written nor read; the error says which part of the value it is."""
        writing = JsonSchemaSerializer(self.client, ORDER)
        error = self.refused(writing.serialize("orders", {"id": "x"}))
        self.assertEqual(
            str(error), "topic 'orders': the value does not fit the schema: $.id: 'x' is not of type 'integer'"
        )
        reading = JsonSchemaDeserializer(self.client)
        for payload, words in [
            (b'{"id":"x"}', "topic 'orders': not a value of schema 1: $.id: 'x' is not of type 'integer'"),
            (b"{", "topic 'orders': b'{' is not JSON"),
            (b"[" * 100_000, "nested too deeply"),
        ]:
            self.assertIn(words, str(self.refused(reading.deserialize("orders", FRAME + payload))))
        self.assertIn("does not begin", str(self.refused(reading.deserialize("orders", b'{"id":1}'))))

    def test_without_validation(self) -> None:
        """Any JSON passes then, and to read it the registry is not asked."""
        writing = JsonSchemaSerializer(self.client, ORDER, validate=False)
        data = self.get(writing.serialize("orders", {"id": "x"}))
        asked = len(self.registry.seen)
        self.assertEqual(JsonSchemaDeserializer(self.made(), validate=False)("orders", data), {"id": "x"})
        self.assertEqual(len(self.registry.seen), asked)

    def test_schema_of_the_reader(self) -> None:
        """It is what values have to fit, whatever they were written with."""
        reading = JsonSchemaDeserializer(self.client, {"type": "object", "required": ["gift"]})
        self.assertEqual(reading("t", FRAME + b'{"gift":1}'), {"gift": 1})
        error = self.assertRaises(SerializationError, reading, "t", FRAME + b'{"id":1}')
        self.assertIn("not a value of the reader's schema: $: 'gift' is a required property", str(error))
        self.assertEqual(self.registry.seen, [])

    def test_names_and_keys(self) -> None:
        """A title is a schema's name; equal keys have equal bytes."""
        for strategy, subject in [(record_name, "Order"), (topic_record_name, "t-Order")]:
            self.get(JsonSchemaSerializer(self.client, ORDER, subject=strategy).prepare("t"))
            self.assertIn(subject, self.registry.subjects)
        self.assertRaises(ConfigError, JsonSchemaSerializer, self.client, {"type": "object"}, subject=record_name)
        keys = JsonSchemaSerializer(self.client, json.dumps(ORDER), is_key=True)
        self.get(keys.prepare("t"))
        self.assertEqual(keys("t", {"what": "tea", "id": 1}), keys("t", {"id": 1, "what": "tea"}))
        self.assertIn("t-key", self.registry.subjects)

    def test_invalid_schemas(self) -> None:
        """They are refused: the application's when it is given, the registry's when it arrives."""
        for wrong, words in [
            ("{", "is not JSON"),
            ("[1]", "is not a JSON Schema: an object, true or false is"),
            ('{"type": "nothing"}', "is not a JSON Schema: $.type: 'nothing' is not valid"),
        ]:
            for kind in (JsonSchemaSerializer, JsonSchemaDeserializer):
                error = self.assertRaises(ConfigError, kind, self.client, wrong)
                self.assertIn(words, str(error))
        self.registry.schemas.append({"schema": '"string"'})
        error = self.refused(JsonSchemaDeserializer(self.client).deserialize("t", FRAME + b"1"))
        self.assertIsInstance(error, RegistryError)
        self.assertIn("schema 1 is not a JSON Schema", str(error))

    def test_references_are_not_fetched(self) -> None:
        """A schema cannot have the reader fetch something from the network."""
        self.registry.schemas.append({"schema": '{"$ref": "http://127.0.0.1:9/secret"}'})
        error = self.refused(JsonSchemaDeserializer(self.client).deserialize("t", FRAME + b"1"))
        self.assertIn("the schema cannot be applied: Unresolvable: http://127.0.0.1:9/secret", str(error))

    @given(st.binary(max_size=50))
    def test_no_bytes_do_harm(self, payload: bytes) -> None:
        """
        They are read, or refused by topic.
        """
        reading = JsonSchemaDeserializer(self.client, ORDER)
        try:
            reading("t", FRAME + payload)
        except SerializationError as e:
            self.assertIn("topic 't'", str(e))

    def test_without_the_extra(self) -> None:
        """
        One line says what to install.
        """
        program = "import sys; sys.modules['jsonschema'] = None; import logbus.client.schema.json_schema"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        self.assertIn("pip install '.[jsonschema]'", done.stderr.splitlines()[-1])


def test_none_is_none() -> None:
    """A tombstone is neither framed nor checked."""
    registry: Any = None
    assert JsonSchemaSerializer(registry, ORDER)("t", None) is None
    assert JsonSchemaDeserializer(registry)("t", None) is None
