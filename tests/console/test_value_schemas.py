"""Keys and values of the schema registry's schemas in the record browser, over a whole broker in memory."""

from __future__ import annotations

import json
from typing import Any

from logbus.admin.schema_registry import ValueSchema
from logbus.client.schema.schema_frame import frame
from logbus.console import value_schemas as lookups
from logbus.console.record_content import content_of
from logbus.registry import value_schemas
from tests.admin.broker_kit import HttpBrokerCase
from tests.admin.harness import Answered
from tests.console.kit import seen
from tests.handlers.kit import a_batch

CITY = {"type": "record", "name": "geo.City", "fields": [{"name": "name", "type": "string"}]}
TRIP = {
    "type": "record",
    "name": "Trip",
    "fields": [{"name": "to", "type": "geo.City"}, {"name": "km", "type": ["null", "long"]}],
}


class ValueSchemaTests(HttpBrokerCase):
    """A broker with its registry."""

    def setUp(self) -> None:
        super().setUp()
        self.http.site.startFactory()
        self.addCleanup(self.http.site.stopFactory)

    def register(self, subject: str, schema: Any, **more: Any) -> int:
        body = {"schema": json.dumps(schema), **more}
        answered = self.http.ask("POST", f"/registry/subjects/{subject}/versions", body)
        self.assertEqual(answered.status, 200, answered.body)
        return int(json.loads(answered.body)["id"])

    def ask(self, query: str = "") -> Answered:
        return self.http.ask("GET", f"/console/topics/t/records{query}")

    def shown(self, *values: bytes, query: str = "", key: bytes = b"k") -> str:
        self.client.produce(a_batch(*values, key=key))
        answered = self.ask(query)
        self.assertEqual(answered.status, 200, answered.body)
        return seen(answered).text

    def test_avro(self) -> None:
        """Values and keys are shown by their schema, and by what it refers to, as JSON."""
        self.register("city", CITY)
        number = self.register("t-value", TRIP, references=[{"name": "geo.City", "subject": "city", "version": 1}])
        keys = self.register("t-key", "string")
        text = self.shown(frame(number, b"\x08Oslo\x02\xd0\x0f"), key=frame(keys, b"\x0ebus\xc3\xa4\xc3\xb6"))
        self.assertIn('{ "to": { "name": "Oslo" }, "km": 1000 }', " ".join(text.split()))
        self.assertIn('"busäö"', text)
        self.assertIn(f"Avro, 13 B, schema id {number}", text)
        self.assertIn("4f 73 6c 6f", seen(self.ask("?show=hex")).text)

    def test_download(self) -> None:
        """What is saved has the values that are shown, beside their bytes; what cannot be read has its bytes alone."""
        number = self.register("t-value", CITY)
        self.shown(frame(number, b"\x08Oslo"), frame(number, b"\x08Os"), b"plain")
        saved = self.http.ask("GET", "/console/topics/t/records.jsonl?partition=0&from=oldest").body
        values = [json.loads(line)["value"] for line in saved.splitlines()]
        self.assertEqual([each.get("decoded") for each in values], [{"name": "Oslo"}, None, None])
        self.assertEqual([each.get("schema_id") for each in values], [number, None, None])
        self.assertTrue(values[0]["text"].endswith("Oslo"))

    def test_json(self) -> None:
        """The frame is not shown."""
        number = self.register("t-value", {"type": "object"}, schemaType="JSON")
        text = self.shown(frame(number, b'{"a":[1]}'))
        self.assertIn('{ "a": [ 1 ] }', " ".join(text.split()))

    def test_protobuf(self) -> None:
        """Protobuf is shown by its message, with what the schema imports; what is none is shown as bytes."""
        self.register_text("city", 'syntax = "proto3"; package geo; message City { string name = 1; }')
        text = (
            'syntax = "proto3"; import "geo/city.proto"; import "google/protobuf/timestamp.proto"; message Stop {} '
            "message Trip { geo.City to = 1; int64 how_far = 2; google.protobuf.Timestamp at = 3; }"
        )
        number = self.register_text(
            "t-value", text, references=[{"name": "geo/city.proto", "subject": "city", "version": 1}]
        )
        value = b"\x02\x02" + b"\x0a\x06\x0a\x04Oslo\x10\xe8\x07\x1a\x02\x08\x01"
        shown = self.shown(frame(number, value))
        wanted = '{ "to": { "name": "Oslo" }, "howFar": "1000", "at": "1970-01-01T00:00:01Z" }'
        self.assertIn(wanted, " ".join(shown.split()))
        self.assertIn(f"Protobuf, 22 B, schema id {number}", shown)
        self.assertIn("of which it is no value: it is no message Trip", self.shown(frame(number, value[:-1])))
        self.assertIn("no message at 7", self.shown(frame(number, b"\x02\x0e")))
        self.patch(value_schemas, "MOST_REFERENCED", 0)
        self.assertIn("it refers to more than 0 others", self.shown(frame(number, value)))

    def register_text(self, subject: str, text: str, **more: Any) -> int:
        """Register Protobuf."""
        body = {"schema": text, "schemaType": "PROTOBUF", **more}
        answered = self.http.ask("POST", f"/registry/subjects/{subject}/versions", body)
        self.assertEqual(answered.status, 200, answered.body)
        return int(json.loads(answered.body)["id"])

    def test_not_of_the_schema(self) -> None:
        """Bytes that are no value, or of no known schema, are shown as such, with the reason."""
        number = self.register("t-value", CITY)
        self.assertIn("of which it is no value: it ends at byte 2, within", self.shown(frame(number, b"\x08O")))
        self.assertIn(", schema id 4711", self.shown(frame(4711, b"\xff")))
        many = self.register("many", {"type": "array", "items": "null"})
        self.assertIn("more than 5000 values", self.shown(frame(many, b"\xfe\xff\xff\xff\x0f")))
        deep = self.register("deep", {"type": "object"}, schemaType="JSON")
        self.assertIn("nested more than 60 deep", self.shown(frame(deep, b"[" * 2000)))

    def test_bounds(self) -> None:
        """A page does not look up any number of schemas, however large."""
        number = self.register("t-value", CITY)
        self.patch(value_schemas, "MOST_CHARACTERS", 10)
        self.assertIn("it has more than 10 characters", self.shown(frame(number, b"\x08Oslo")))
        self.patch(lookups, "MOST_SCHEMAS", 0)
        self.assertNotIn("characters", self.shown(b"x"))

    def test_reader(self) -> None:
        """What reads a value may refuse it."""

        def refuse(data: bytes) -> Any:
            raise ValueError("it is odd")

        found = content_of({"base64": "AAAAAAdB", "size": 6, "cut": False}, "auto", {7: ValueSchema("Avro", refuse)})
        self.assertEqual((found.form, found.note), ("hex", "6 B, schema id 7, of which it is no value: it is odd"))
