"""Tests of :mod:`logbus.admin.records`: records of a whole broker over HTTP."""

from __future__ import annotations

from typing import Any

from logbus.records.batch import encode_batch
from logbus.records.compression import Codec
from logbus.records.murmur import partition_for_key
from logbus.records.record import Record
from logbus.wire.messages.topics import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tests.admin.broker_kit import HttpBrokerCase
from tests.handlers.kit import NOW_MS, a_batch

PAGE = "/api/v1/topics/t/partitions/0/records"
SEARCH = "/api/v1/topics/t/records"


def texts(answer: Any) -> list[Any]:
    """The values of an answer's records."""
    return [item["value"]["text"] for item in answer["items"]]


class PageTests(HttpBrokerCase):
    """Pages of one partition."""

    def produce(self, *values: bytes, partition: int = 0, **given: Any) -> None:
        self.assertEqual(self.client.produce(a_batch(*values, **given), partition=partition).error_code, 0)

    def test_from_the_beginning(self) -> None:
        """Records come with all they have, and the offset to go on from."""
        headers = (("trace", b"\xff"), ("empty", None))
        record = Record(0, NOW_MS, b"k", '{"a": "ü"}'.encode(), headers)
        self.client.produce(encode_batch([record, Record(0, NOW_MS + 1, None, None)]))
        page = self.http.get(PAGE)
        self.assertEqual((page["next_offset"], page["end_offset"], page["log_start_offset"]), (2, 2, 0))
        first, second = page["items"]
        self.assertEqual(first["value"], {"text": '{"a": "ü"}', "size": 11, "cut": False})
        self.assertEqual(first["key"]["text"], "k")
        self.assertEqual((first["offset"], first["timestamp"], first["partition"]), (0, NOW_MS, 0))
        self.assertEqual(first["headers"][0], {"name": "trace", "value": {"base64": "/w==", "size": 1, "cut": False}})
        self.assertIsNone(first["headers"][1]["value"])
        self.assertEqual((second["key"], second["value"]), (None, None))

    def test_where_to_begin(self) -> None:
        """A page begins at an offset, at a time, or so many before the end; an offset may be within a batch."""
        self.produce(b"a", b"b", b"c")
        self.produce(b"d", timestamp=NOW_MS + 50)
        for query, expected in [
            ("offset=1", "bcd"),
            ("offset=4", ""),
            ("newest=2", "cd"),
            ("newest=999", "abcd"),
            (f"timestamp={NOW_MS + 1}", "d"),
            (f"timestamp={NOW_MS + 51}", ""),
            ("offset=1&limit=2", "bc"),
        ]:
            page = self.http.get(f"{PAGE}?{query}")
            self.assertEqual("".join(texts(page)), expected, query)
            expected_next = page["items"][-1]["offset"] + 1 if expected else 4
            self.assertEqual(page["next_offset"], expected_next, query)

    def test_cut(self) -> None:
        """Long values are cut, at a whole character, with a mark."""
        self.produce("äöü".encode(), b"\xff\xfe\xfd")
        first, second = self.http.get(f"{PAGE}?shown_bytes=3")["items"]
        self.assertEqual(first["value"], {"text": "ä", "size": 6, "cut": True})
        self.assertEqual(second["value"], {"base64": "//79", "size": 3, "cut": False})

    def test_a_page_has_an_end(self) -> None:
        """However long values are, an answer is not much longer than a megabyte."""
        self.produce(*[bytes(100_000)] * 9, codec=Codec.ZSTD)
        self.produce(*[bytes(100_000)] * 9, codec=Codec.ZSTD)
        page = self.http.get(f"{PAGE}?shown_bytes=100000")
        self.assertEqual(len(page["items"]), 11)
        rest = self.http.get(f"{PAGE}?shown_bytes=100000&offset={page['next_offset']}")
        self.assertEqual((rest["items"][0]["offset"], len(rest["items"])), (11, 7))

    def test_what_is_wrong(self) -> None:
        """Errors name what is wrong, and what would be right."""
        for target, status, told in [
            (f"{PAGE}?offset=7", 400, "has the offsets from 0 to below 0, and not 7"),
            (f"{PAGE}?offset=0&newest=1", 400, "offset and newest exclude"),
            (f"{PAGE}?limit=0", 400, "1 to 500"),
            ("/api/v1/topics/t/partitions/2/records", 404, "t has no partition 2; it has 2"),
            ("/api/v1/topics/no/partitions/0/records", 404, "no topic named no"),
            (f"{SEARCH}?cursor=9", 400, "'next' of an answer"),
            (f"{SEARCH}?cursor=x", 400, "'next' of an answer"),
        ]:
            answered = self.http.ask("GET", target)
            self.assertEqual(answered.status, status, answered.body)
            self.assertIn(told, answered.json["detail"])


class SearchTests(HttpBrokerCase):
    """Searches of a topic."""

    def fill(self, codec: Codec = Codec.NONE) -> None:
        for partition in (0, 1):
            for number in range(10):
                record = Record(0, NOW_MS, b"key-%d" % number, b"value-%d" % number, (("h", b"x-%d" % (number % 2)),))
                self.client.produce(encode_batch([record] * 3, codec=codec), partition=partition)

    def walk(self, query: str) -> list[Any]:
        """All records that a search finds, part by part."""
        found, cursor, scanned = [], "", 0
        for _ in range(100):
            part = self.http.get(f"{SEARCH}?{query}{cursor}")
            found += part["items"]
            scanned += part["scanned"]
            if part["done"]:
                self.assertIsNone(part["next"])
                self.scanned = scanned
                return found
            cursor = f"&cursor={part['next']}"
        raise AssertionError("the search has no end")

    def test_all(self) -> None:
        """Without a filter, all records of all partitions come, in pages."""
        self.fill()
        found = self.walk("limit=7")
        places = [(item["partition"], item["offset"]) for item in found]
        self.assertEqual(places, [(partition, offset) for partition in (0, 1) for offset in range(30)])

    def test_filters(self) -> None:
        """Records are found by their keys, values and headers, whatever the codec."""
        for codec in (Codec.NONE, Codec.ZSTD):
            self.fill(codec)
        self.assertEqual({item["key"]["text"] for item in self.walk("key=y-3")}, {"key-3"})
        self.assertEqual(len(self.walk("value=value-3")), 12)
        self.assertEqual(self.scanned, 120)
        self.assertEqual(len(self.walk("header=x-1")), 60)
        self.assertEqual(len(self.walk("header=x-1&key=4")), 0)
        self.assertEqual(len(self.walk("header=h&key=key-4&value=4&limit=1")), 12)

    def test_ends_where_it_began(self) -> None:
        """What is written during a search is not part of it; and it goes on where records were deleted."""
        self.fill()
        part = self.http.get(f"{SEARCH}?limit=1")
        self.assertEqual((part["partition"], part["offset"], part["end_offset"]), (0, 1, 30))
        self.client.produce(a_batch(b"late"))
        rest = self.http.get(f"{SEARCH}?limit=500&cursor={part['next']}")
        self.assertEqual(len(rest["items"]), 59)

    def test_a_part_has_an_end(self) -> None:
        """A part of a search ends after about a megabyte, in whichever partition."""
        for partition in (0, 1):
            for _ in range(4):
                self.client.produce(a_batch(b"x" * 200_000), partition=partition)
        first = self.http.get(f"{SEARCH}?shown_bytes=200000")
        second = self.http.get(f"{SEARCH}?shown_bytes=200000&cursor={first['next']}")
        self.assertEqual((len(first["items"]), len(second["items"]), second["done"]), (6, 2, True))

    def test_deleted_meanwhile(self) -> None:
        """A search goes on with what is left where records were deleted behind its back."""
        self.fill()
        part = self.http.get(f"{SEARCH}?limit=1")
        gone = DeleteRecordsPartition(partition_index=0, offset=20)
        topics = [DeleteRecordsTopic(name="t", partitions=[gone])]
        self.client.ask(DeleteRecordsRequest(topics=topics, timeout_ms=1000), 2)
        rest = self.http.get(f"{SEARCH}?limit=500&cursor={part['next']}")
        self.assertEqual([item["offset"] for item in rest["items"] if item["partition"] == 0], list(range(20, 30)))
        self.assertEqual(len(rest["items"]), 40)


class ProduceTests(HttpBrokerCase):
    """Records that are produced."""

    def produce(self, *records: Any, target: str = SEARCH, **more: Any) -> Any:
        return self.http.ask("POST", target, {"records": list(records), **more})

    def test_and_read_back(self) -> None:
        """Text, JSON, base64 and null are written as they are; the answer says where."""
        answered = self.produce(
            {"key": {"text": "a"}, "value": {"json": {"n": 1}}, "partition": 0, "timestamp": 77},
            {"value": {"base64": "/w=="}, "headers": [{"name": "h", "value": {"text": "x"}}], "partition": 0},
            {"key": {"text": "gone"}, "value": None, "partition": 1},
            acks=1,
        )
        self.assertEqual(answered.status, 201, answered.body)
        places = [(item["partition"], item["offset"]) for item in answered.json["items"]]
        self.assertEqual(places, [(0, 0), (0, 1), (1, 0)])
        first, second = self.http.get(PAGE)["items"]
        self.assertEqual((first["key"]["text"], first["value"]["text"], first["timestamp"]), ("a", '{"n":1}', 77))
        self.assertEqual((second["key"], second["value"]["base64"]), (None, "/w=="))
        self.assertGreaterEqual(second["timestamp"], NOW_MS)
        self.assertEqual(second["headers"][0]["name"], "h")

    def test_partitions(self) -> None:
        """A key has the partition that Kafka's producers give it; records without one go to partitions in turn."""
        for key in ("a", "b", "c", "d"):
            (item,) = self.produce({"key": {"text": key}, "value": None}).json["items"]
            self.assertEqual(item["partition"], partition_for_key(key.encode(), 2))
        turns = [self.produce({"value": None}, {"value": None}).json["items"] for _ in range(4)]
        self.assertEqual({len({item["partition"] for item in items}) for items in turns}, {1})
        self.assertEqual({items[0]["partition"] for items in turns}, {0, 1})

    def test_location(self) -> None:
        """One record has a place where it can be read."""
        answered = self.produce({"value": {"text": "here"}}, target=PAGE)
        self.assertEqual(texts(self.http.get(answered.headers["Location"])), ["here"])

    def test_one_of_two_is_refused(self) -> None:
        """What is refused says why; the rest is written."""
        self.server.create("tiny", 2, max_message_bytes="200")
        records = [
            {"value": {"text": "x" * 300}, "partition": 0},
            {"value": {"text": "x"}, "partition": 1},
        ]
        answered = self.produce(*records, target="/api/v1/topics/tiny/records")
        self.assertEqual(answered.status, 201)
        wrong, right = answered.json["items"]
        self.assertEqual((wrong["offset"], wrong["error"]["error"]), (None, "MESSAGE_TOO_LARGE"))
        self.assertEqual(right, {"partition": 1, "offset": 0, "error": None})
        answered = self.produce(records[0], target="/api/v1/topics/tiny/records")
        self.assertEqual((answered.status, answered.json["error"]), (400, "MESSAGE_TOO_LARGE"))
        self.assertFalse(answered.json["retriable"])

    def test_what_is_wrong(self) -> None:
        """Errors name what is wrong, and what would be right."""
        for body, target, status, told in [
            ({"records": []}, SEARCH, 400, "The body.records has 0 elements; accepted: 1 to 500"),
            ({"records": [{"value": {"text": "a", "json": 1}}]}, SEARCH, 400, "must have one of text, json and base64"),
            ({"records": [{"value": {"base64": "?"}}]}, SEARCH, 400, "The body.records[0].value.base64 is not base64"),
            ({"records": [{"value": None, "partition": 2}]}, SEARCH, 404, "t has 2, numbered from 0"),
            ({"records": [{"value": None, "partition": 1}]}, PAGE, 400, "but the path says 0"),
            ({"records": [{"value": None}], "acks": 0}, SEARCH, 400, "not one of -1, 1"),
            ({"records": [{"value": None}]}, "/api/v1/topics/no/records", 404, "no topic named no"),
        ]:
            answered = self.http.ask("POST", target, body)
            self.assertEqual(answered.status, status, answered.body)
            self.assertIn(told, answered.json["detail"])
            self.assertRegex(answered.json["detail"], "^(The body|There is no topic)")

    def test_internal_topics(self) -> None:
        """Nobody writes to internal topics."""
        self.server.create("__consumer_offsets", 1)
        answered = self.produce({"value": None}, target="/api/v1/topics/__consumer_offsets/records")
        self.assertEqual((answered.status, answered.json["error"]), (400, "INVALID_TOPIC_EXCEPTION"))
