"""Tests of :mod:`logbus.coordination.transactions.marker_writer`."""

from __future__ import annotations

from typing import Any, cast

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.transactions.end_transaction_marker import EndTransactionMarker
from logbus.coordination.transactions.marker_writer import MarkerWriter
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.model import TopicPartition
from logbus.records.control_records import ControlType, Marker

OFFSETS = TopicPartition("__consumer_offsets", 2)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@define(eq=False)
class Partition:
    """A replica whose records are durable when the test says so."""

    problem: Exception | None = None
    waiting: list[Deferred[None]] = field(factory=list)
    markers: list[Any] = field(factory=list)

    def append_marker(self, *given: Any) -> Any:
        if self.problem is not None:
            raise self.problem
        self.markers.append(given)
        return self

    base_offset = 41

    def durable(self) -> Deferred[None]:
        self.waiting.append(Deferred())
        return self.waiting[-1]


class WriterTests(SynchronousTestCase):
    """One marker for several partitions."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.partitions = {T0: Partition(), T1: Partition(), OFFSETS: Partition()}
        self.heard: list[Any] = []
        self.writer = MarkerWriter(
            cast(Any, self), lambda *given: self.heard.append(given), self.clock, lambda: 9, lambda: 3000
        )

    def leader(self, topic: str, partition: int) -> Partition:
        try:
            return self.partitions[TopicPartition(topic, partition)]
        except KeyError:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from None

    def test_outcome_per_partition(self) -> None:
        """The response has immediate errors, later errors and successes, when all are known."""
        missing = TopicPartition("t", 9)
        self.partitions[T0].problem = StorageError("the disk is gone")
        asked = self.writer.write(EndTransactionMarker(7, 3, True, 5, 2), [missing, T0, T1, OFFSETS])
        self.assertEqual(self.partitions[T1].markers, [(7, 3, Marker(ControlType.COMMIT, 5), 9, 2)])
        self.partitions[T1].waiting[0].errback(ApiError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
        self.assertNoResult(asked)
        self.assertEqual(self.heard, [])
        self.partitions[OFFSETS].waiting[0].callback(None)
        self.assertEqual(
            self.successResultOf(asked),
            {
                missing: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                T0: ErrorCode.KAFKA_STORAGE_ERROR,
                T1: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                OFFSETS: ErrorCode.NONE,
            },
        )

    def test_groups_are_notified(self) -> None:
        """When the marker is durable, groups are notified of their own partitions."""
        asked = self.writer.write(EndTransactionMarker(7, 3, False, 5), [T0, OFFSETS])
        for partition in (T0, OFFSETS):
            self.partitions[partition].waiting[0].callback(None)
        self.assertEqual(self.heard, [(2, 7, False, 41)])
        self.assertEqual(set(self.successResultOf(asked).values()), {ErrorCode.NONE})

    def test_timeout(self) -> None:
        """The outcome of the write is unknown then, and the coordinator retries."""
        asked = self.writer.write(EndTransactionMarker(7, 3, False, 5), [T0])
        self.clock.advance(2.9)
        self.assertNoResult(asked)
        self.clock.advance(0.2)
        self.assertEqual(self.successResultOf(asked), {T0: ErrorCode.REQUEST_TIMED_OUT})

    def test_mistakes_of_ours(self) -> None:
        """They are said in the log, and leave the others alone."""
        asked = self.writer.write(EndTransactionMarker(7, 3, False, 5), [T0, T1])
        self.partitions[T0].waiting[0].errback(ValueError("a bug"))
        self.partitions[T1].waiting[0].callback(None)
        self.assertEqual(self.successResultOf(asked), {T0: ErrorCode.UNKNOWN_SERVER_ERROR, T1: ErrorCode.NONE})
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
