"""Tests of the record browser, over a whole broker in memory."""

from __future__ import annotations

import json
from urllib.parse import urlencode

from logbus.admin.record_json import MAX_SHOWN
from logbus.console import record_download
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

    def test_download_whole_values(self) -> None:
        """Long values are whole in a download, however many parts it takes; one that is too long says so."""
        values = [b"%03d" % number + b"x" * 200_000 for number in range(30)]
        for value in values:
            self.produce(value)
        self.produce(b"y" * (MAX_SHOWN + 1))
        for query in ("partition=0&from=oldest", "partition=0", "", "value=x"):
            answered = self.http.ask("GET", f"/console/topics/t/records.jsonl?{query}")
            told = [json.loads(line)["value"] for line in answered.body.splitlines()]
            self.assertEqual([each["text"].encode() for each in told[:30]], values, query)
            self.assertEqual([each["cut"] for each in told], [False] * 30 + [True] * (query != "value=x"), query)

    def test_download_in_parts(self) -> None:
        """Of all partitions, from the oldest records on, and no further than where it began; at most so many."""
        self.produce(*[b"a%03d" % number for number in range(250)])
        self.produce(*[b"b%03d" % number for number in range(250)], partition=1)
        target = "/console/topics/t/records.jsonl?from=oldest"
        lines = self.http.ask("GET", target).body.splitlines()
        self.assertEqual(len({json.loads(line)["value"]["text"] for line in lines}), 500)
        self.patch(record_download, "MOST_DOWNLOADED", 333)
        self.assertEqual(len(self.http.ask("GET", target).body.splitlines()), 333)

    def test_download_of_values_that_grow(self) -> None:
        """What would be far too long as JSON comes alone, or cut."""
        long = b"\1" * MAX_SHOWN
        for key in (None, None, long):
            self.client.produce(encode_batch([Record(0, NOW_MS, key, long)]))
        answered = self.http.ask("GET", "/console/topics/t/records.jsonl?partition=0&from=oldest")
        told = [json.loads(line)["value"] for line in answered.body.splitlines()]
        self.assertEqual([len(each["text"]) for each in told], [MAX_SHOWN, MAX_SHOWN, 16_384])
        self.assertEqual([each["cut"] for each in told], [False, False, True])

    def test_download_refused(self) -> None:
        """What cannot be had at all is a page, and no file."""
        answered = self.http.ask("GET", "/console/topics/nope/records.jsonl")
        self.assertEqual((answered.status, answered.headers["Content-Disposition"]), (404, None))
        self.assertEqual(self.http.ask("GET", "/console/topics/t/records.jsonl?partition=9").status, 404)

    def test_produce_forms(self) -> None:
        """Keys and values are typed as text, JSON, base64 or hexadecimal digits; a command is shown where lines do."""
        for fields, key, value, shown in (
            ({"value": '{"a": 1}', "value_form": "json"}, None, {"text": '{"a": 1}'}, "logbus produce t"),
            ({"value": "/wA=", "value_form": "base64"}, None, {"base64": "/wA="}, "the body"),
            (
                {"key": "6b 31", "key_form": "hex", "value": "FF", "value_form": "hex"},
                {"text": "k1"},
                {"base64": "/w=="},
                "the body",
            ),
            ({"key": "azE=", "key_form": "base64", "value": "v"}, {"text": "k1"}, {"text": "v"}, "k1"),
        ):
            self.assertIn(shown, seen(self.post({**fields, "partition": "0"})).text)
            answered = self.post({**fields, "partition": "0", "confirmed": "yes"})
            self.assertEqual(answered.status, 303, answered.body)
            record = self.http.get("/api/v1/topics/t/partitions/0/records?newest=1")["items"][0]
            told = [
                each and {form: each[form] for form in ("text", "base64") if form in each}
                for each in (record["key"], record["value"])
            ]
            self.assertEqual(told, [key, value])

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
        self.assertIn("Over HTTP it is POST /api/v1/topics/t/records", seen(self.post(fields)).text)
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
            ({"value": "{", "value_form": "json"}, "This is not JSON: Expecting property name"),
            ({"value": "NaN", "value_form": "json"}, "NaN is no number"),
            ({"value": "[" * 10_000, "value_form": "json"}, "This is not JSON"),
            ({"value": "x", "value_form": "base64"}, "This is not base64."),
            ({"value": "abc", "value_form": "hex"}, "hexadecimal digits, two for each byte"),
            ({"key": "<b>", "key_form": "hex"}, "hexadecimal digits"),
            ({"value": "x", "value_form": "cobol"}, "The form must be one of"),
            ({"key": "k", "value": "x", "tombstone": "yes"}, "A tombstone has no value"),
        ):
            answered = self.post(fields)
            self.assertEqual(answered.status, 400)
            self.assertIn(told, seen(answered).text)
        answered = self.post({"value": "kept text", "partition": "77", "confirmed": "yes"})
        self.assertGreaterEqual(answered.status, 400)
        self.assertIn("kept text", seen(answered).text)
