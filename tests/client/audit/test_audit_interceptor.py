"""Interceptors that count records and publish the counts."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.client.audit.audit_comparison import AuditVerdict, compare
from logbus.client.audit.audit_interceptor import AUDIT_TOPIC, CONSUMER, PRODUCER, AuditInterceptor
from logbus.client.audit.monitoring_event import MonitoringEvent, decode_event, encode_event
from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.client.producer.producer import DeliveryFailed, Producer, RecordMetadata
from logbus.records.batch import iter_records
from tests.client.memory_cluster import MemoryCluster


def record(topic: str, timestamp: int) -> ConsumerRecord:
    """A record as consumers have it."""
    return ConsumerRecord(topic, 0, 0, timestamp, None, b"v", ())


class AuditTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.brokers = MemoryCluster()
        self.brokers.add(AUDIT_TOPIC)
        self.cluster = Cluster(self.brokers.clock, "b1:9092", endpoint=self.brokers.endpoint)
        self.ids = (str(number) for number in count(1))

    def audit(self, role: str = PRODUCER, **options: Any) -> AuditInterceptor:
        producer = Producer(self.cluster, wall_clock=lambda: 1.5, random=Random(1), linger=0.0, delivery_timeout=5.0)
        options = {"window": 1.0, "interval": 60.0, "host": "h", "new_id": lambda: next(self.ids), **options}
        return AuditInterceptor(self.cluster, application="shop", role=role, producer=producer, **options)

    def events(self) -> list[MonitoringEvent]:
        """The published events."""
        batches = self.brokers.topics[AUDIT_TOPIC][0].batches
        return [decode_event(each.value) for each in iter_records(b"".join(batches))]

    def pass_time(self, seconds: float) -> None:
        """Let time pass in small steps, as what is begun in one takes more."""
        for _ in range(int(seconds * 10) + 1):
            self.brokers.settle(0.1)

    def close(self, audit: AuditInterceptor) -> None:
        closing = audit.close()
        self.pass_time(15)
        self.successResultOf(closing)

    def check_no_timer_is_left(self) -> None:
        self.assertEqual(self.brokers.clock.getDelayedCalls(), [])

    def test_acknowledged_records_are_counted(self) -> None:
        """
        By topic and window of the records' time; failed records are counted separately. The events are sent on time.
        """
        audit = self.audit()
        for timestamp in (1000, 1999, 2000):
            audit.on_acknowledgement(RecordMetadata("t", 0, 1, timestamp), None)
        audit.on_acknowledgement(RecordMetadata("u", 0, -1, 2500), DeliveryFailed("late"))
        self.pass_time(59)
        self.assertEqual(self.events(), [])
        self.pass_time(2)
        common = {"application": "shop", "host": "h", "role": "producer", "window_ms": 1000}
        self.assertEqual(
            self.events(),
            [
                MonitoringEvent(id="1", window_start=1000, counts={"t": 2}, **common),  # type: ignore[arg-type]
                MonitoringEvent(id="2", window_start=2000, counts={"t": 1}, failed={"u": 1}, **common),  # type: ignore[arg-type]
            ],
        )
        self.close(audit)

    def test_consumed_records_are_counted(self) -> None:
        """In the same windows, so that the two can be compared."""
        producing, consuming = self.audit(), self.audit(CONSUMER)
        records = [record("t", timestamp) for timestamp in (1000, 1999, 2000)]
        for each in records:
            producing.on_acknowledgement(RecordMetadata("t", 0, 1, each.timestamp), None)
        consuming.on_consume(records[:2])
        consuming.on_consume(records[2:])
        self.close(producing)
        self.close(consuming)
        self.assertEqual([each.verdict for each in compare(self.events())], [AuditVerdict.COMPLETE] * 2)

    def test_own_events_are_not_counted(self) -> None:
        """Otherwise every event would cause another."""
        audit = self.audit()
        audit.on_acknowledgement(RecordMetadata(AUDIT_TOPIC, 0, 1, 1000), None)
        audit.on_consume([record(AUDIT_TOPIC, 1000)])
        self.check_no_timer_is_left()
        self.close(audit)
        self.assertEqual(self.events(), [])

    def test_no_events_without_records(self) -> None:
        """
        After a publication there is no timer until something is counted again.
        """
        audit = self.audit()
        audit.on_consume([record("t", 1000)])
        self.pass_time(70)
        self.assertEqual(len(self.events()), 1)
        self.check_no_timer_is_left()
        audit.on_consume([record("t", 1000)])
        self.pass_time(70)
        self.assertEqual([each.counts for each in self.events()], [{"t": 1}, {"t": 1}])
        self.close(audit)

    def test_failed_events_are_repeated(self) -> None:
        """With the same id, so that readers recognize a duplicate; later counts follow it."""
        log = self.brokers.topics.pop(AUDIT_TOPIC)
        audit = self.audit()
        audit.on_consume([record("t", 1000)])
        self.pass_time(61)
        audit.on_consume([record("t", 1000)])
        self.brokers.topics[AUDIT_TOPIC] = log
        self.pass_time(121)
        self.assertEqual([(each.id, each.counts) for each in self.events()], [("1", {"t": 1}), ("2", {"t": 1})])
        self.close(audit)

    def test_memory_is_bounded(self) -> None:
        """
        Where there is no room, records are counted as not counted; the full counts go out at once.
        """
        audit = self.audit(limit=2)
        audit.on_consume([record(each, 1000) for each in "abcc"])
        self.pass_time(1)
        (event,) = self.events()
        self.assertEqual((event.counts, event.uncounted), ({"a": 1, "b": 1}, 2))
        self.close(audit)

    def test_full_count_does_not_hasten_retries(self) -> None:
        """
        Without the topic there is one attempt an interval, however much is counted.
        """
        self.brokers.topics.pop(AUDIT_TOPIC)
        attempts: list[MonitoringEvent] = []

        def encode(event: MonitoringEvent) -> bytes:
            attempts.append(event)
            return encode_event(event)

        audit = self.audit(limit=1, encode=encode)
        for _ in range(50):
            audit.on_consume([record("a", 1000), record("b", 1000)])
            self.pass_time(1)
        self.assertEqual(len(attempts), 1)
        self.close(audit)

    def test_closing_publishes_remaining_counts(self) -> None:
        """Closing publishes counts since the last event; closing again does nothing."""
        audit = self.audit()
        audit.on_consume([record("t", 1000)])
        closing = audit.close()
        self.pass_time(1)
        self.successResultOf(closing)
        self.check_no_timer_is_left()
        self.assertEqual([each.counts for each in self.events()], [{"t": 1}])
        self.close(audit)
        self.check_no_timer_is_left()

    def test_closing_times_out(self) -> None:
        """Without a reachable broker it gives up in time, and logs what was lost."""
        audit = self.audit()
        audit.on_consume([record("t", 1000)])
        self.brokers.nodes.clear()
        self.close(audit)
        self.check_no_timer_is_left()

    def test_failing_encoder(self) -> None:
        """The events are kept, and counting goes on."""

        def encode(event: MonitoringEvent) -> bytes:
            raise ZeroDivisionError

        audit = self.audit(encode=encode)
        audit.on_consume([record("t", 1000)])
        self.pass_time(61)
        self.close(audit)
        self.assertEqual(self.events(), [])

    def test_options_are_checked(self) -> None:
        """Invalid options are refused at once."""
        for wrong in [{"window": 0.0}, {"interval": 0.0}, {"limit": 0}, {"role": ""}]:
            self.assertRaises(ValueError, self.audit, **wrong)
