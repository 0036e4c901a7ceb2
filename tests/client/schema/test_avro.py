"""Avro serializers with a registry."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import Any

import fastavro
from hypothesis import given
from hypothesis import strategies as st

from logbus.client.audit.monitoring_event import AVRO_SCHEMA, MonitoringEvent, as_fields, event_of
from logbus.client.schema.avro import AvroDeserializer, AvroSerializer, record_name, topic_record_name
from logbus.client.schema.schema_registry import RegistryError
from logbus.client.serializers import SerializationError
from logbus.errors import ConfigError
from tests.client.schema.test_schema_registry import RegistryCase

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "what", "type": "string", "default": "?"}],
}
OLD_ORDER = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}


class AvroTests(RegistryCase):
    def test_round_trip(self) -> None:
        """
        Framed as others do it: fastavro itself reads what is behind the five bytes.
        """
        writing = AvroSerializer(self.client, ORDER)
        data = self.get(writing.serialize("orders", {"id": 42, "what": "tea"}))
        self.assertEqual(data[:5], b"\0\0\0\0\1")
        parsed = fastavro.parse_schema(ORDER)
        self.assertEqual(fastavro.schemaless_reader(io.BytesIO(data[5:]), parsed, None), {"id": 42, "what": "tea"})
        reading = AvroDeserializer(self.client)
        self.assertEqual(self.get(reading.deserialize("orders", data)), {"id": 42, "what": "tea"})
        self.assertEqual(self.registry.subjects, {"orders-value": [1]})

    def test_schemas_are_cached(self) -> None:
        """
        Then serializers answer without waiting, as a producer and a consumer want it.
        """
        writing, reading = AvroSerializer(self.client, ORDER), AvroDeserializer(self.made())
        self.assertIn("await prepare('t')", str(self.assertRaises(SerializationError, writing, "t", {"id": 1})))
        self.assertEqual(self.get(writing.prepare("t")), 1)
        data = writing("t", {"id": 1})
        assert data is not None
        self.assertIn("not known yet", str(self.assertRaises(SerializationError, reading, "t", data)))
        self.get(reading.deserialize("t", data))
        self.assertEqual(reading("t", data), {"id": 1, "what": "?"})
        self.assertEqual(self.successResultOf(writing.serialize("t", {"id": 1})), data)
        self.assertEqual(self.registry.paths(), ["POST /subjects/t-value/versions", "GET /schemas/ids/1"])

    def test_none_is_none(self) -> None:
        """A tombstone is not framed, and the registry is not asked."""
        writing, reading = AvroSerializer(self.client, ORDER), AvroDeserializer(self.client)
        self.assertIsNone(writing("t", None))
        self.assertIsNone(self.successResultOf(writing.serialize("t", None)))
        self.assertIsNone(reading("t", None))
        self.assertIsNone(self.successResultOf(reading.deserialize("t", None)))
        self.assertEqual(self.registry.seen, [])

    def test_schemas_evolve(self) -> None:
        """
        A reader's schema fills in what the writer did not have yet, and leaves out what it does not want.
        """
        old = self.get(AvroSerializer(self.client, OLD_ORDER).serialize("t", {"id": 1}))
        new = self.get(AvroSerializer(self.client, ORDER).serialize("t", {"id": 2, "what": "tea"}))
        self.assertEqual(self.get(AvroDeserializer(self.client, ORDER).deserialize("t", old)), {"id": 1, "what": "?"})
        self.assertEqual(self.get(AvroDeserializer(self.client, OLD_ORDER).deserialize("t", new)), {"id": 2})

    def test_subject_names(self) -> None:
        """
        Keys have one of their own; records may be named by themselves, so that a topic can have several kinds.
        """
        for options in ({"is_key": True}, {"subject": record_name}, {"subject": topic_record_name}):
            self.get(AvroSerializer(self.client, ORDER, **options).prepare("t"))  # type: ignore[arg-type]
        self.assertEqual(sorted(self.registry.subjects), ["shop.Order", "t-key", "t-shop.Order"])
        error = self.assertRaises(ConfigError, AvroSerializer, self.client, '"string"', subject=record_name)
        self.assertIn("without a name", str(error))

    def test_auto_registration_disabled(self) -> None:
        """A schema that is not there is an error, and none is registered."""
        writing = AvroSerializer(self.client, ORDER, register=False)
        self.assertIsInstance(self.refused(writing.serialize("t", {"id": 1})), RegistryError)
        self.get(self.client.register("t-value", json.dumps(ORDER)))
        self.assertIsNotNone(self.get(writing.serialize("t", {"id": 1})))

    def test_errors_name_the_topic(self) -> None:
        """
        A value that does not fit, bytes without a frame, bytes that are not what their schema says, or more than that.
        """
        writing, reading = AvroSerializer(self.client, ORDER), AvroDeserializer(self.client)
        error = self.refused(writing.serialize("orders", {"id": "x"}))
        self.assertIn("topic 'orders': the value does not fit the schema", str(error))
        for data, words in [
            (b"{}", "topic 'orders': b'{}' does not begin"),
            (b"\0\0\0\0\1\x02", "topic 'orders': not a value of schema 1"),
            (b"\0\0\0\0\1\x02\0x", "topic 'orders': 1 bytes follow"),
        ]:
            self.assertIn(words, str(self.refused(reading.deserialize("orders", data))))
        self.assertEqual(self.refused(reading.deserialize("orders", b"\0\0\0\0\7")).error_code, 40403)

    def test_invalid_schemas(self) -> None:
        """They are refused: the application's when it is given, the registry's when it arrives."""
        for wrong in ("{", '{"type": "nothing"}', "[1]"):
            self.assertRaises(ConfigError, AvroSerializer, self.client, wrong)
            self.assertRaises(ConfigError, AvroDeserializer, self.client, wrong)
        self.registry.schemas.append({"schema": "message Order { }", "schemaType": "PROTOBUF"})
        error = self.refused(AvroDeserializer(self.client).deserialize("t", b"\0\0\0\0\1"))
        self.assertIn("schema 1 is not an Avro schema", str(error))

    @given(st.binary(max_size=50))
    def test_no_bytes_do_harm(self, payload: bytes) -> None:
        """
        They are read, or refused by topic.
        """
        reading = AvroDeserializer(self.client)
        self.get(AvroSerializer(self.client, AVRO_SCHEMA).prepare("t"))
        waiting = reading.deserialize("t", b"\0\0\0\0\1" + payload)
        self.settle()
        failures: list[Any] = []
        waiting.addErrback(failures.append)
        if failures:
            failures[0].trap(SerializationError)

    def test_monitoring_events_have_a_schema(self) -> None:
        """
        An audit may be written in Avro.
        """
        event = MonitoringEvent("1", "shop", "h", "producer", 1000, 1000, {"t": 3}, {}, 0)
        data = self.get(AvroSerializer(self.client, AVRO_SCHEMA).serialize("logbus-audit", as_fields(event)))
        self.assertEqual(event_of(self.get(AvroDeserializer(self.client).deserialize("logbus-audit", data))), event)

    def test_without_the_extra(self) -> None:
        """
        One line says what to install.
        """
        program = "import sys; sys.modules['fastavro'] = None; import logbus.client.schema.avro"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        self.assertIn(
            "ImportError: Avro needs fastavro, which is not installed: run pip install '.[avro]'", done.stderr
        )
