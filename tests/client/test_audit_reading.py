"""Reading an audit topic."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.client.audit_check import Ledger
from logbus.client.audit_events import AUDIT_TOPIC, MonitoringEvent, encode_event
from logbus.client.audit_reading import AuditRead, read_audit
from logbus.client.cluster import Cluster
from logbus.errors import ApiError
from logbus.wire.messages.records import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.client.memory import MemoryCluster

_LIST_OFFSETS = 2


def event(name: str) -> bytes:
    """An event with this id."""
    return encode_event(MonitoringEvent(name, "shop", "h", "producer", 0, 1000, {"t": 1}))


class ReadingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.brokers = MemoryCluster()
        self.cluster = Cluster(self.brokers.clock, "b1:9092", endpoint=self.brokers.endpoint)

    def read(self, **options: Any) -> AuditRead:
        reading = read_audit(self.cluster, Ledger(), **options)
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
        self.assertEqual((found.events, found.ledger.doubled, found.unreadable), (3, 1, 1))
        self.assertIn("logbus-audit-1 at offset 1: ", found.problem)

    def test_it_ends_where_the_topic_ended_when_it_began(self) -> None:
        """
        What is published meanwhile waits for the next time, also if it came with the rest.
        """
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

    def test_an_empty_topic(self) -> None:
        """
        It is read at once; one that is not there is an error.
        """
        self.brokers.add(AUDIT_TOPIC)
        self.assertEqual(self.read().events, 0)
        reading = read_audit(self.cluster, Ledger(), "nowhere")
        for _ in range(50):
            self.brokers.settle(0.1)
        self.failureResultOf(reading, ApiError)
