"""Tests of :mod:`logbus.admin.record_tail` and :mod:`logbus.admin.event_stream`: streams of records."""

from __future__ import annotations

from collections.abc import Mapping
from unittest import mock

from logbus.admin.authorization import HttpAccess
from logbus.admin.record_reader import PageQuery, RecordReader
from tests.admin.broker_kit import HttpBrokerCase
from tests.admin.event_reader import Stream
from tests.admin.harness import request
from tests.handlers.kit import a_batch

TAIL = "/api/v1/topics/t/records/tail"


class TailTests(HttpBrokerCase):
    """A client follows a topic."""

    config: Mapping[str, str] = {"admin.event.streams": "2"}

    def follow(self, query: str = "", **headers: str) -> Stream:
        connection = self.http.connect()
        connection.send(request("GET", TAIL + query, None, headers))
        stream = Stream(connection)
        self.pass_time(0.1)
        return stream

    def pass_time(self, seconds: float) -> None:
        """Let time pass in small steps, as it does."""
        for _ in range(max(1, int(seconds * 20))):
            self.server.reactor.advance(0.05)

    def values(self, stream: Stream) -> list[str]:
        self.pass_time(0.5)
        return [item["value"]["text"] for _, _, data in stream.events() for item in data["items"]]

    def test_follows(self) -> None:
        """Records come when they are written, from all partitions; earlier ones only on request."""
        self.client.produce(a_batch(b"old"))
        stream, longer = self.follow(), self.follow("?newest=5&partition=0")
        self.assertEqual((self.values(stream), self.values(longer)), ([], ["old"]))
        self.client.produce(a_batch(b"a", b"b"))
        self.client.produce(a_batch(b"c"), partition=1)
        self.assertEqual((self.values(stream), self.values(longer)), (["a", "b", "c"], ["a", "b"]))

    def test_comes_back(self) -> None:
        """A client that was cut off continues where it was."""
        stream = self.follow()
        self.client.produce(a_batch(b"a"))
        self.pass_time(0.5)
        *_, (_, last, _) = stream.events()
        self.assertEqual(last, "0:1,1:0")
        stream.connection.lose()
        self.client.produce(a_batch(b"b"))
        self.assertEqual(self.values(self.follow(**{"Last-Event-ID": last})), ["b"])

    def test_ids_are_whole(self) -> None:
        """No event has an id that would make its client miss records of partitions that were not looked at yet."""
        self.client.produce(a_batch(b"a"))
        stream = self.follow("?newest=1")
        self.client.produce(a_batch(b"b"), partition=1)
        self.pass_time(0.5)
        ids = [event_id for _, event_id, _ in stream.events()]
        self.assertEqual(ids, ["", "0:1,1:0", "0:1,1:1"])

    def test_filter(self) -> None:
        """Only wanted records come."""
        stream = self.follow("?value=x")
        self.client.produce(a_batch(b"a", b"xy"))
        self.assertEqual(self.values(stream), ["xy"])

    def test_heartbeat(self) -> None:
        """While nothing is written, the connection is kept open."""
        stream = self.follow()
        stream.connection.take()
        self.pass_time(11)
        self.assertIn(b": still here", stream.connection.take())

    def test_bounded(self) -> None:
        """There are so many streams, and no more; who leaves makes room."""
        streams = [self.follow(), self.follow()]
        answered = self.http.ask("GET", TAIL)
        self.assertEqual(answered.status, 503)
        self.assertIn("admin.event.streams", answered.json["detail"])
        streams[0].connection.lose()
        self.assertEqual(self.http.site.streams.open, 1)
        self.values(self.follow())
        self.assertEqual(self.http.site.streams.open, 2)

    def test_slow_client(self) -> None:
        """A client that does not read is not written to, and cut off after a while."""
        stream = self.follow()
        producer = stream.connection.transport.producer
        assert producer is not None
        stream.connection.take()
        producer.pauseProducing()
        for _ in range(20):
            self.client.produce(a_batch(b"x" * 1000))
            self.pass_time(0.3)
        self.assertEqual(stream.connection.take(), b"")
        self.pass_time(61)
        self.assertTrue(stream.connection.aborted)

    def test_topic_is_deleted(self) -> None:
        """A stream ends, and says why, when its topic is deleted."""
        stream = self.follow()
        self.http.ask("DELETE", "/api/v1/topics/t?confirm=t")
        self.pass_time(2)
        names = [(name, data["error"]) for name, _, data in stream.events() if name != "records"]
        self.assertEqual(names, [("error", "UNKNOWN_TOPIC_OR_PARTITION")])
        self.assertEqual(self.http.site.streams.open, 0)

    def test_records_are_deleted_meanwhile(self) -> None:
        """A stream goes on whose first records are deleted between the look at the offsets and the read."""
        self.client.produce(a_batch(b"a"))
        self.client.produce(a_batch(b"b"))
        real = RecordReader._start
        looked: list[int] = []

        async def start(reader: RecordReader, access: HttpAccess, topic: str, partition: int, query: PageQuery) -> int:
            found = await real(reader, access, topic, partition, query)
            if not looked:
                self.http.ask("DELETE", "/api/v1/topics/t/partitions/0/records?before=1&confirm=t")
            looked.append(found)
            return found

        with mock.patch.object(RecordReader, "_start", start):
            stream = self.follow("?newest=5&partition=0")
            self.assertEqual(self.values(stream), ["b"])
        self.assertEqual(looked, [0, 1])

    def test_what_is_wrong(self) -> None:
        """An id that is none of this stream is refused."""
        for last in ("x", "7:0", "0:1;1:2", "0:" + "9" * 30):
            answered = self.http.ask("GET", TAIL, headers={"Last-Event-ID": last})
            self.assertEqual(answered.status, 400, last)
        self.assertEqual(self.http.ask("GET", TAIL + "?partition=2").status, 404)
