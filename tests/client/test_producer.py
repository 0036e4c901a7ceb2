"""Records out."""

from __future__ import annotations

from random import Random
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.client.cluster import Cluster
from logbus.client.producer import DeliveryFailed, Producer, RecordMetadata
from logbus.client.retry import Unreachable
from logbus.errors import ApiError, ErrorCode
from logbus.records.batch import iter_records
from logbus.records.compression import Codec
from tests.client.memory import MemoryCluster


class ProducerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.brokers = MemoryCluster()
        self.cluster = Cluster(self.brokers.clock, "b1:9092", endpoint=self.brokers.endpoint)

    def producer(self, **options: Any) -> Producer:
        return Producer(self.cluster, wall_clock=lambda: 1.5, random=Random(1), **{"linger": 0.01, **options})

    def lingered(self) -> None:
        """Topics become known, and batches are sent."""
        self.brokers.settle()
        self.brokers.settle(0.011)

    def values(self, name: str = "t", index: int = 0) -> list[bytes | None]:
        return [each.value for each in iter_records(b"".join(self.brokers.topics[name][index].batches))]

    def test_records_sent_together_travel_together(self) -> None:
        """
        What comes within the linger is one batch; each record learns its offset and time.
        """
        self.brokers.add("t")
        producer = self.producer(codec=Codec.GZIP)
        sent = [producer.send("t", b"%d" % i, b"key", headers=[("h", b"1")]) for i in range(3)]
        self.brokers.settle()
        self.assertEqual(self.brokers.requests("Produce"), [])
        self.lingered()
        self.assertEqual(
            [self.successResultOf(each) for each in sent], [RecordMetadata("t", 0, offset, 1500) for offset in range(3)]
        )
        self.assertEqual(len(self.brokers.topics["t"][0].batches), 1)
        self.assertEqual(self.values(), [b"0", b"1", b"2"])
        self.assertEqual(producer.buffered, 0)

    def test_flush_does_not_wait_for_the_linger(self) -> None:
        """
        A flush sends at once, also what still waits for its topic to be known, and fires when all is answered.
        """
        self.brokers.add("t")
        producer = self.producer(linger=100)
        sent = producer.send("t", b"x")
        flushed = producer.flush()
        self.assertNoResult(flushed)
        self.brokers.settle()
        self.successResultOf(flushed)
        self.assertEqual(self.successResultOf(sent).offset, 0)
        self.successResultOf(producer.flush())

    def test_an_unknown_topic(self) -> None:
        """
        It is named, after a moment's patience for topics just created.
        """
        sent = self.producer().send("nope", b"x")
        self.brokers.settle(0.1)
        self.assertNoResult(sent)
        for _ in range(10):
            self.brokers.settle(0.1)
        self.assertEqual(str(self.failureResultOf(sent, ApiError).value), "there is no topic 'nope'")

    def test_a_partition_that_is_not_there(self) -> None:
        """
        The record is refused with the partitions there are.
        """
        self.brokers.add("t", 1, 1)
        sent = self.producer().send("t", b"x", partition=2)
        self.brokers.settle()
        self.assertIn("it has 0 to 1", str(self.failureResultOf(sent, ApiError).value))

    def test_retriable_errors_are_tried_again_in_order(self) -> None:
        """
        A batch that is refused for now is sent again before those behind it.
        """
        self.brokers.add("t")
        self.brokers.produce_errors[:] = [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER]
        producer = self.producer(batch_bytes=100)
        sent = [producer.send("t", b"%d" % i * 60) for i in range(3)]
        for _ in range(10):
            self.brokers.settle(0.1)
        self.assertEqual([self.successResultOf(each).offset for each in sent], [0, 1, 2])
        self.assertEqual(self.values(), [b"0" * 60, b"1" * 60, b"2" * 60])

    def test_other_errors_are_final(self) -> None:
        """
        A refusal reaches each record of the batch, and the next batch goes on.
        """
        self.brokers.add("t")
        self.brokers.produce_errors[:] = [ErrorCode.INVALID_RECORD]
        producer = self.producer()
        refused = [producer.send("t", b"x"), producer.send("t", b"y")]
        self.lingered()
        for each in refused:
            self.assertIs(self.failureResultOf(each, ApiError).value.code, ErrorCode.INVALID_RECORD)
        sent = producer.send("t", b"z")
        self.lingered()
        self.assertEqual(self.successResultOf(sent).offset, 0)

    def test_a_leader_that_moves(self) -> None:
        """
        When the old leader's connections break, the new one is asked for and gets the batch.
        """
        self.brokers.nodes = {1, 2}
        (log,) = self.brokers.add("t", 1).values()
        producer = self.producer()
        self.brokers.settle()
        first = producer.send("t", b"a")
        self.lingered()
        self.successResultOf(first)
        log.leader = 2
        self.brokers.nodes = {2}
        self.brokers.drop(1)
        second = producer.send("t", b"b")
        for _ in range(30):
            self.brokers.settle(0.1)
        self.assertEqual(self.successResultOf(second).offset, 1)

    def test_giving_up_in_time(self) -> None:
        """
        After the delivery timeout a batch fails, saying how often it was tried and why.
        """
        self.brokers.add("t")
        self.brokers.produce_errors[:] = [ErrorCode.NOT_ENOUGH_REPLICAS] * 100
        sent = self.producer(delivery_timeout=3).send("t", b"x")
        for _ in range(40):
            self.brokers.settle(0.1)
        self.assertIn("attempts", str(self.failureResultOf(sent, DeliveryFailed).value))

    def test_nobody_there(self) -> None:
        """
        Without any broker the record fails in the end, with the address that was tried.
        """
        self.brokers.nodes = set()
        sent = self.producer(delivery_timeout=3).send("t", b"x")
        for _ in range(20):
            self.brokers.settle(0.1)
        self.assertNoResult(sent)
        for _ in range(20):
            self.brokers.settle(0.1)
        self.assertIn(
            "cannot connect to b1:9092: connection refused", str(self.failureResultOf(sent, Unreachable).value)
        )

    def test_nobody_asked(self) -> None:
        """
        With acks=0 a record is sent and its offset is not known.
        """
        self.brokers.add("t")
        sent = self.producer(acks=0).send("t", b"x")
        self.lingered()
        self.assertEqual(self.successResultOf(sent).offset, -1)
        self.assertEqual(self.values(), [b"x"])

    def test_room(self) -> None:
        """
        Who has sent more than is kept waits until some of it is answered.
        """
        self.brokers.add("t")
        producer = self.producer(batch_bytes=100, buffer_bytes=100)
        self.assertIsNone(producer.room())
        producer.send("t", b"x")
        self.brokers.settle()
        waiting = producer.room()
        assert waiting is not None
        self.assertNoResult(waiting)
        self.lingered()
        self.successResultOf(waiting)

    def test_closing(self) -> None:
        """
        A closed producer has sent what it had, and takes nothing more; an aborted one fails what it had.
        """
        self.brokers.add("t")
        producer = self.producer()
        sent = producer.send("t", b"x")
        closed = producer.close()
        self.brokers.settle()
        self.successResultOf(closed)
        self.successResultOf(sent)
        self.failureResultOf(producer.send("t", b"y"), DeliveryFailed)
        other = self.producer()
        lost = other.send("t", b"z")
        other.abort()
        self.failureResultOf(lost, DeliveryFailed)

    def test_records_without_keys_spread(self) -> None:
        """
        Batch by batch, all partitions are used; keys go where Java's clients put them.
        """
        self.brokers.add("t", 1, 1, 1)
        producer = self.producer(batch_bytes=100)
        for _ in range(30):
            producer.send("t", b"x" * 60)
        self.lingered()
        self.lingered()
        self.assertTrue(all(log.end for log in self.brokers.topics["t"].values()))
