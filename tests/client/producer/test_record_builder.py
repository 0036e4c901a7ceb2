"""A producer's interceptors and serializers."""

from __future__ import annotations

from random import Random
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.client.cluster.cluster import Cluster
from logbus.client.interceptors import ProducerInterceptor, RecordDropped
from logbus.client.producer.producer import Producer, RecordMetadata
from logbus.client.serializers import JsonSerializer, SerializationError, StringSerializer
from logbus.errors import ApiError
from logbus.records.batch import iter_records
from tests.client.memory_cluster import MemoryCluster


class RecordingInterceptor(ProducerInterceptor):
    """Records its calls; drops records with value None, and appends to lists."""

    def __init__(self) -> None:
        self.queued: list[Any] = []
        self.outcomes: list[tuple[RecordMetadata, type | None]] = []

    def on_send(self, record: Any) -> Any:
        return None if record.value is None else record._replace(value=[*record.value, 9])

    def on_queued(self, record: Any) -> None:
        self.queued.append((record.key, record.value))

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        self.outcomes.append((metadata, None if error is None else type(error)))


class RecordBuilderTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.brokers = MemoryCluster()
        self.brokers.add("t")
        self.cluster = Cluster(self.brokers.clock, "b1:9092", endpoint=self.brokers.endpoint)
        self.notes = RecordingInterceptor()

    def producer(self, **options: Any) -> Producer:
        return Producer(self.cluster, wall_clock=lambda: 1.5, random=Random(1), linger=0.0, **options)

    def get(self, waiting: Any) -> Any:
        for _ in range(20):
            self.brokers.settle(0.1)
        return self.successResultOf(waiting)

    def written(self) -> list[tuple[bytes | None, bytes | None]]:
        return [(each.key, each.value) for each in iter_records(b"".join(self.brokers.topics["t"][0].batches))]

    def test_interceptors_before_serializers(self) -> None:
        """
        Interceptors see what the application gave; what is queued and written is bytes.
        """
        producer = self.producer(
            interceptors=[self.notes], key_serializer=StringSerializer(), value_serializer=JsonSerializer()
        )
        self.assertEqual(self.get(producer.send("t", [1], "ann")).offset, 0)
        self.assertEqual(self.get(producer.send("t", [2])).offset, 1)
        self.assertEqual(self.written(), [(b"ann", b"[1,9]"), (None, b"[2,9]")])
        self.assertEqual(self.notes.queued, self.written())
        self.assertEqual(self.notes.outcomes, [(RecordMetadata("t", 0, each, 1500), None) for each in (0, 1)])

    def test_serialization_error(self) -> None:
        """The error names the topic, for any serializer; other records are written."""
        producer = self.producer(value_serializer=JsonSerializer())
        self.assertIn("'t'", str(self.failureResultOf(producer.send("t", {1}), SerializationError).value))
        self.get(producer.send("t", 1))
        self.assertEqual(self.written(), [(None, b"1")])
        for wrong, words in [
            (lambda topic, value: 1 / 0, "ZeroDivisionError"),
            (lambda topic, value: "x", "not bytes"),
        ]:
            sent = self.producer(value_serializer=wrong).send("t", 1)
            self.assertIn(words, str(self.failureResultOf(sent, SerializationError).value))

    def test_a_dropped_record_is_not_written(self) -> None:
        """The sender and interceptors get an error."""
        producer = self.producer(interceptors=[self.notes])
        self.failureResultOf(producer.send("t", None), RecordDropped)
        self.assertEqual(self.written(), [])
        self.assertEqual(self.notes.outcomes, [(RecordMetadata("t", -1, -1, 1500), RecordDropped)])

    def test_interceptors_see_failures(self) -> None:
        """
        With the topic and time of the record, so that they can be counted.
        """
        producer = self.producer(interceptors=[self.notes], value_serializer=JsonSerializer())
        sent = producer.send("nowhere", [1])
        for _ in range(20):
            self.brokers.settle(0.1)
        self.failureResultOf(sent, ApiError)
        self.assertEqual(self.notes.outcomes, [(RecordMetadata("nowhere", -1, -1, 1500), ApiError)])

    def test_failing_interceptor(self) -> None:
        """The record goes on unchanged, and its outcome reaches the sender and the other interceptors."""

        class Broken(ProducerInterceptor):
            def _fail(self, *arguments: Any) -> Any:
                raise ZeroDivisionError

            on_send = on_queued = on_acknowledgement = _fail

        producer = self.producer(interceptors=[Broken(), self.notes], value_serializer=JsonSerializer())
        self.assertEqual(self.get(producer.send("t", [1])).offset, 0)
        self.assertEqual(self.written(), [(None, b"[1,9]")])
        self.failureResultOf(producer.send("t", None), RecordDropped)
        refused = producer.send("t", [1], partition=3)
        for _ in range(20):
            self.brokers.settle(0.1)
        self.failureResultOf(refused, ApiError)
        self.assertEqual([error for _, error in self.notes.outcomes], [None, RecordDropped, ApiError])
        self.assertEqual(len(self.notes.queued), 1, "what is refused was not queued")
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 3 + 2 + 2)

    def test_failing_callback(self) -> None:
        """An exception in a record's callback affects no other records."""
        producer = self.producer()
        sent = [producer.send("t", b"%d" % number) for number in range(3)]
        sent[1].addCallback(lambda _: 1 / 0)
        self.assertEqual([self.get(sent[0]).offset, self.get(sent[2]).offset], [0, 2])
        self.failureResultOf(sent[1], ZeroDivisionError)
        self.assertEqual(self.get(producer.send("t", b"3")).offset, 3)
        self.assertEqual(self.get(producer.flush()), None)
        self.assertEqual(producer.buffered, 0)
