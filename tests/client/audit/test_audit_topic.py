"""Reading an audit topic."""

from __future__ import annotations

import sys
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import fail
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.audit import event_decoder
from logbus.client.audit.audit_comparison import AuditTotals
from logbus.client.audit.audit_topic import AuditRead, read_audit
from logbus.client.audit.event_decoder import EventDecoder, encode_avro
from logbus.client.audit.monitoring_event import AUDIT_TOPIC, AVRO_SCHEMA, MonitoringEvent, as_fields, encode_event
from logbus.client.cluster.cluster import Cluster
from logbus.client.schema.avro import AvroSerializer
from logbus.client.schema.registry_http import RegistryError, RegistryUnreachable
from logbus.client.schema.schema_registry import frame
from logbus.client.serializers import SerializationError
from logbus.errors import ApiError
from logbus.wire.messages.records import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.client.memory_cluster import MemoryCluster
from tests.client.schema.test_schema_registry import RegistryCase

_LIST_OFFSETS = 2


def event(name: str) -> bytes:
    """An event with this id."""
    return encode_event(MonitoringEvent(name, "shop", "h", "producer", 0, 1000, {"t": 1}))


class ReadingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.brokers = MemoryCluster()
        self.cluster = Cluster(self.brokers.clock, "b1:9092", endpoint=self.brokers.endpoint)

    def read(self, **options: Any) -> AuditRead:
        reading = read_audit(self.cluster, AuditTotals(), **options)
        for _ in range(50):
            self.brokers.settle(0.1)
        return self.successResultOf(reading)

    def test_all_partitions_are_read(self) -> None:
        """
        Each event counts once; what is no event is counted, and the first is described.
        """
        first, second = self.brokers.add(AUDIT_TOPIC, 1, 1).values()
        first.put(event("a"), event("b"))
        second.put(event("b"), b"hello")
        found = self.read()
        self.assertEqual((found.events, found.totals.doubled, found.unreadable), (3, 1, 1))
        self.assertIn("logbus-audit-1 at offset 1: ", found.problem)

    def test_reading_ends_at_the_former_end(self) -> None:
        """Events published meanwhile are left out, even if they were fetched with the others."""
        log = self.brokers.add(AUDIT_TOPIC)[0]
        log.put(event("a"), event("b"))

        def answer(node: int, message: Any) -> Any:
            if message.topics[0].partitions[0].timestamp != -1:
                return None
            partition = ListOffsetsPartitionResponse(partition_index=0, error_code=0, offset=1)
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=AUDIT_TOPIC, partitions=[partition])])

        self.brokers.answers[_LIST_OFFSETS] = answer
        self.assertEqual(self.read().events, 1)

    def test_older_events_can_be_left_out(self) -> None:
        """
        By when they were published; a time after the last one leaves nothing.
        """
        self.brokers.add(AUDIT_TOPIC)[0].put(event("a"), event("b"))
        self.assertEqual(self.read(since_ms=1001).events, 1)
        self.assertEqual(self.read(since_ms=9000).events, 0)

    def test_events_in_avro(self) -> None:
        """
        They count as those in JSON do, and each that cannot be read is left out.
        """
        value = MonitoringEvent("c", "shop", "h", "producer", 0, 1000, {"t": 1})
        self.brokers.add(AUDIT_TOPIC)[0].put(event("a"), encode_avro(value), frame(7, encode_avro(value)))
        found = self.read()
        self.assertEqual((found.events, found.unreadable), (2, 1))
        self.assertIn("the schema 7 of a schema registry: say where the registry is", found.problem)

    def test_unreachable_registry(self) -> None:
        """Reading ends with the error, without a partial result."""

        def decode(data: bytes | None) -> Any:
            return fail(RegistryUnreachable("nobody there"))

        self.brokers.add(AUDIT_TOPIC)[0].put(event("a"))
        reading = read_audit(self.cluster, AuditTotals(), decode=decode)
        for _ in range(50):
            self.brokers.settle(0.1)
        self.failureResultOf(reading, RegistryUnreachable)

    def test_an_empty_topic(self) -> None:
        """
        It is read at once; one that is not there is an error.
        """
        self.brokers.add(AUDIT_TOPIC)
        self.assertEqual(self.read().events, 0)
        reading = read_audit(self.cluster, AuditTotals(), "nowhere")
        for _ in range(50):
            self.brokers.settle(0.1)
        self.failureResultOf(reading, ApiError)


TEXTS = st.text(min_size=1, max_size=70)
EVENTS = st.builds(
    MonitoringEvent,
    TEXTS,
    TEXTS,
    TEXTS,
    TEXTS,
    st.integers(0, 1 << 40).map(lambda number: number * 1000),
    st.just(1000),
    st.dictionaries(TEXTS, st.integers(0, 2**63 - 1), max_size=3),
)


class CodingTests(RegistryCase):
    """Events in any coding."""

    def setUp(self) -> None:
        super().setUp()
        self.reader = EventDecoder(self.client)

    @given(EVENTS)
    def test_codings_are_recognized(self, value: MonitoringEvent) -> None:
        """By the first byte, whatever the event."""
        self.assertEqual(self.reader(encode_event(value)), value)
        self.assertEqual(self.reader(encode_avro(value)), value)

    def test_lengths_like_white_space(self) -> None:
        """An id of Avro may begin as JSON does after a line break or a space; JSON may begin so, too."""
        for length in (5, 16):
            value = MonitoringEvent("{" + "0" * (length - 1), "shop", "h", "producer", 0, 1000, {})
            self.assertIn(encode_avro(value)[:1], (b"\n", b" "))
            self.assertEqual(self.reader(encode_avro(value)), value)
            self.assertEqual(self.reader(b"\n " + encode_event(value)), value)
        for data in (b"\n{", b"\n{0000", b' {"id": 1}'):
            self.assertRaises(SerializationError, self.reader, data)

    @given(st.binary(max_size=60))
    def test_invalid_events(self, data: bytes) -> None:
        """They are counted as unreadable, and raise no other errors."""
        try:
            self.assertIsInstance(EventDecoder()(data), MonitoringEvent)
        except SerializationError:
            pass

    def test_framed_events(self) -> None:
        """
        Their schema is asked for once; fields that are not known are left out, and those that lack have their defaults.
        """
        value = MonitoringEvent("a", "shop", "h", "producer", 0, 1000, {"t": 1})
        fields = [each for each in AVRO_SCHEMA["fields"] if each["name"] != "uncounted"]
        other = {**AVRO_SCHEMA, "fields": [*fields, {"name": "site", "type": "string"}]}
        data = self.get(AvroSerializer(self.client, other).serialize("a", {**as_fields(value), "site": "north"}))
        self.registry.seen.clear()
        self.reader = EventDecoder(self.made())
        for _ in range(2):
            self.assertEqual(self.get(self.reader(data)), value)
        self.assertEqual(self.registry.paths(), ["GET /schemas/ids/1"])

    def test_unusable_schemas(self) -> None:
        """A missing or unsuitable schema makes a record unreadable; a failing registry ends the reading."""
        self.assertIn("no schema 9", str(self.refused(self.reader(frame(9, b"x")))))
        number = self.get(AvroSerializer(self.client, {"type": "string"}).serialize("a", "tea"))
        self.assertIsInstance(self.refused(self.reader(number)), SerializationError)
        self.registry.troubles.append((401, b"{}"))
        self.assertIsInstance(self.refused(self.reader(frame(8, b"x"))), RegistryError)
        self.agent.down.add("registry:8081")
        waiting = self.reader(frame(10, b"x"))
        for _ in range(10):
            self.settle(10)
        self.assertIsInstance(self.failureResultOf(waiting).value, RegistryUnreachable)  # type: ignore[arg-type]

    def test_without_fastavro(self) -> None:
        """
        Events in Avro are no events, and it is said what is missing; those in JSON are read.
        """
        value = MonitoringEvent("a", "shop", "h", "producer", 0, 1000, {"t": 1})
        data = encode_avro(value)
        event_decoder._avro.cache_clear()
        self.addCleanup(event_decoder._avro.cache_clear)
        self.addCleanup(sys.modules.__setitem__, "logbus.client.schema.avro", sys.modules["logbus.client.schema.avro"])
        sys.modules["logbus.client.schema.avro"] = None  # type: ignore[assignment]
        self.assertIn("pip install '.[avro]'", str(self.assertRaises(SerializationError, self.reader, data)))
        self.assertIn("pip install '.[avro]'", str(self.refused(self.reader(frame(1, data)))))
        self.assertEqual(self.reader(encode_event(value)), value)
