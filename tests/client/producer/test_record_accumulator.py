"""The batches of all partitions."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.client.producer.record_accumulator import BatchWritten, PartitionQueue, ProducerBatch, RecordAccumulator
from logbus.model import TopicPartition
from logbus.records.batch import decode_batch

P0 = TopicPartition("t", 0)


class AccumulatorTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.accumulator = RecordAccumulator(batch_bytes=100)
        self.queue = self.accumulator.queue(P0)

    def append(self, queue: PartitionQueue, now: float, value: bytes = b"x") -> ProducerBatch:
        return self.accumulator.append(queue, now, 5, None, value)

    def test_batches_leave_in_order(self) -> None:
        """Complete batches are ready; a growing one only when it is released."""
        self.assertEqual(list(self.accumulator.ready()), [])
        batches = [self.append(self.queue, 1.0) for _ in range(3)]
        self.assertEqual(list(self.accumulator.ready()), [self.queue])
        self.assertEqual([self.queue.take_next(1, None) for _ in range(2)], batches[:2])
        self.assertEqual(list(self.accumulator.ready()), [])
        self.accumulator.make_all_ready()
        self.assertEqual(list(self.accumulator.ready()), [self.queue])
        self.assertIs(self.queue.take_next(1, None), batches[2])
        self.assertEqual(list(self.accumulator.ready()), [])

    def test_a_record_larger_than_a_batch(self) -> None:
        """
        It has a batch of its own; whether it is too large is for the broker to say.
        """
        batch = self.append(self.queue, 1.0, b"x" * 5000)
        self.assertEqual(decode_batch(batch.builder.build())[0].value, b"x" * 5000)
        self.assertEqual(batch.builder.append_within(100, 5, None, b"x"), -1)
        self.assertEqual(batch.builder.count, 1)

    def test_linger(self) -> None:
        """Batches begun by a time are released; the creation time of the oldest other one is returned."""
        other = self.accumulator.queue(TopicPartition("t", 1))
        self.append(self.queue, 1.0)
        self.append(other, 2.0)
        self.assertEqual(self.accumulator.make_ready(1.5), 2.0)
        self.assertEqual(list(self.accumulator.ready()), [self.queue])
        self.assertIsNone(self.accumulator.make_ready(2.0))
        self.assertEqual(list(self.accumulator.ready()), [self.queue, other])

    def test_partitions_take_turns(self) -> None:
        """
        The partitions take turns.
        """
        other = self.accumulator.queue(TopicPartition("t", 1))
        for queue in (self.queue, self.queue, self.queue, other, other):
            self.append(queue, 1.0)
        self.queue.take_next(1, None)
        self.accumulator.mark_served(self.queue)
        self.assertEqual(list(self.accumulator.ready()), [other, self.queue])

    def test_early_and_late_listeners(self) -> None:
        """A late listener is called at once; the first outcome stays."""
        batch = self.append(self.queue, 1.0)
        heard: list[object] = []
        batch.when_done(heard.append)
        batch.finish(BatchWritten(7, -1))
        batch.finish(BatchWritten(8, -1))
        batch.when_done(heard.append)
        self.assertEqual(heard, [BatchWritten(7, -1)] * 2)
