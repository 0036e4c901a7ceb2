"""Tests of the record browser, over a whole broker in memory."""

from __future__ import annotations

import json
from urllib.parse import urlencode

from logbus.records.batch import encode_batch
from logbus.records.record import Record
from tests.admin.broker_kit import HttpBrokerCase
from tests.admin.harness import Answered
from tests.console.kit import SAME_ORIGIN, Seen, seen
from tests.handlers.kit import NOW_MS, a_batch

PATH = "/console/topics/t/records"


class RecordPageTests(HttpBrokerCase):
    """Pages of records."""

    def produce(self, *values: bytes, partition: int = 0) -> None:
        self.assertEqual(self.client.produce(a_batch(*values), partition=partition).error_code, 0)

    def page(self, query: str = "", status: int = 200) -> Seen:
        answered = self.http.ask("GET", f"{PATH}{query}")
        self.assertEqual(answered.status, status, answered.body)
        return seen(answered)

    def post(self, fields: dict[str, str]) -> Answered:
        return self.http.ask("POST", "/console/topics/t/produce", urlencode(fields).encode(), SAME_ORIGIN)

    def test_newest(self) -> None:
        """The newest records of all partitions, which the script refreshes."""
        self.produce(b"alpha", b"beta")
        self.produce(b"gamma", partition=1)
        page = self.page()
        for word in ("alpha", "beta", "gamma"):
            self.assertIn(word, page.text)
        self.assertEqual(len(page.having("section", id="found", data_live="")), 1)

    def test_through_a_partition(self) -> None:
        """A long partition is gone through page by page, in both directions."""
        self.produce(*[b"v%03d" % each for each in range(120)])
        page = self.page("?partition=0&from=oldest")
        self.assertIn("v049", page.text)
        self.assertNotIn("v050", page.text)
        following = next(path for path in page.links if "at=50" in path)
        page = seen(self.http.ask("GET", following))
        self.assertIn("v099", page.text)
        self.assertIn("at=0", " ".join(page.links))

    def test_search(self) -> None:
        """A filter finds records, and says how many were read."""
        self.produce(b"red apple", b"green pear", b"red cherry")
        page = self.page("?from=oldest&value=red")
        self.assertIn("2 records found in 3 read", page.text)
        self.assertNotIn("green", page.text)
        self.assertIn("No record here fits.", self.page("?from=oldest&value=blue").text)

    def test_hostile_records(self) -> None:
        """Records are text, whatever is in them."""
        script = b"<script>alert(1)</script>"
        self.client.produce(encode_batch([Record(0, NOW_MS, script, script, ((script.decode(), script), ("n", None)))]))
        self.client.produce(encode_batch([Record(0, NOW_MS, None, None), Record(0, NOW_MS, b"\xff", b"\0" * 5000)]))
        page = self.page()
        self.assertEqual(len(page.having("script")), 1)
        self.assertIn("<script>alert(1)</script>", page.text)
        self.assertIn("tombstone", page.text)

    def test_wrong_fields(self) -> None:
        """What is wrong with the form is told beside its field; what the API refuses, in place."""
        self.assertIn("An offset needs the number", self.page("?from=offset&at=3", 400).text)
        self.page("?partition=99", 404)
        self.page("?cursor=nonsense", 400)
        self.assertEqual(self.http.ask("GET", "/console/topics/nope/records").status, 404)

    def test_download(self) -> None:
        """What is shown is saved as lines of JSON."""
        self.produce(b"a", b"b")
        answered = self.http.ask("GET", "/console/topics/t/records.jsonl?partition=0&from=oldest")
        self.assertEqual([json.loads(line)["value"]["text"] for line in answered.body.splitlines()], ["a", "b"])
        self.assertIn("attachment", answered.headers["Content-Disposition"])
        self.assertEqual(self.http.ask("GET", "/console/topics/t/records.jsonl?partition=x").status, 400)

    def test_produce(self) -> None:
        """A record is written after a question with the command, and then shown."""
        fields = {"key": "k 1", "value": "it's", "headers": "trace=7", "partition": "1"}
        page = seen(self.post(fields))
        self.assertIn("logbus produce t --key-separator", page.text)
        self.assertIn("--header trace=7", page.text)
        answered = self.post({**fields, "confirmed": "yes"})
        self.assertEqual(answered.status, 303, answered.body)
        page = seen(self.http.ask("GET", answered.headers["Location"]))
        self.assertIn("The record was written.", page.text)
        self.assertIn("it's", page.text)
        (record,) = self.http.get("/api/v1/topics/t/partitions/1/records?offset=0")["items"]
        self.assertEqual((record["key"]["text"], record["headers"][0]["name"]), ("k 1", "trace"))

    def test_produce_lines(self) -> None:
        """A value of several lines keeps them, and no command is shown that would not."""
        fields = {"key": "", "value": "a\r\nb"}
        self.assertIn("over HTTP only", seen(self.post(fields)).text)
        self.assertEqual(self.post({**fields, "partition": "0", "confirmed": "yes"}).status, 303)
        (record,) = self.http.get("/api/v1/topics/t/partitions/0/records?offset=0")["items"]
        self.assertEqual((record["key"], record["value"]["text"]), (None, "a\nb"))

    def test_tombstone(self) -> None:
        """A tombstone has no value."""
        self.assertEqual(self.post({"key": "k", "tombstone": "yes", "partition": "0", "confirmed": "yes"}).status, 303)
        (record,) = self.http.get("/api/v1/topics/t/partitions/0/records?offset=0")["items"]
        self.assertIsNone(record["value"])

    def test_produce_wrong(self) -> None:
        """Wrong fields are told, and what was typed is kept."""
        for fields, told in (
            ({"value": "x", "headers": "nonsense"}, "not of the form name=value"),
            ({"value": "x", "partition": "-1"}, "the number of a partition"),
        ):
            answered = self.post(fields)
            self.assertEqual(answered.status, 400)
            self.assertIn(told, seen(answered).text)
        answered = self.post({"value": "kept text", "partition": "77", "confirmed": "yes"})
        self.assertGreaterEqual(answered.status, 400)
        self.assertIn("kept text", seen(answered).text)
