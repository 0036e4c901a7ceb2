"""The producer at brokers in memory."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.cluster.cluster import Cluster
from logbus.client.producer.producer import BufferFull, DeliveryFailed, Producer, RecordMetadata
from logbus.client.retry import Unreachable
from logbus.errors import ApiError, ErrorCode
from logbus.records.batch import iter_records
from logbus.records.compression import Codec
from logbus.wire.messages.records import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.client.client_warnings import client_warnings
from tests.client.memory_cluster import Log, MemoryCluster


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
        """Records sent within the linger time are one batch; each gets its offset and timestamp."""
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

    def test_linger_within_the_reactors_grain(self) -> None:
        """
        A batch may leave 1.2 ms early, as reactors are late by about so much at most; not before.
        """
        self.brokers.add("t")
        producer = self.producer()
        producer.send("t", b"x")
        self.lingered()
        sent = producer.send("t", b"y")
        self.brokers.settle(0.0087)
        self.assertEqual(len(self.brokers.requests("Produce")), 1)
        self.brokers.settle(0.0002)
        self.successResultOf(sent)

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

    def test_flush_with_lookups_that_end_in_another_order(self) -> None:
        """A flush waits for all topics that are looked up, also one that is known before those asked about first."""
        self.brokers.add("t")
        producer = self.producer()
        unknown, known = producer.send("nope", b"x"), producer.send("t", b"x")
        flushed = producer.flush()
        for _ in range(15):
            self.brokers.settle(0.1)
        self.successResultOf(known)
        self.failureResultOf(unknown, ApiError)
        self.successResultOf(flushed)

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

    def test_unknown_partition(self) -> None:
        """The error lists the partitions there are."""
        self.brokers.add("t", 1, 1)
        sent = self.producer().send("t", b"x", partition=2)
        self.brokers.settle()
        self.assertIn("it has 0 to 1", str(self.failureResultOf(sent, ApiError).value))

    def test_retriable_errors(self) -> None:
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

    def test_final_errors(self) -> None:
        """Each record of the batch gets the error, and the next batch goes on."""
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

    def test_leader_change(self) -> None:
        """When the old leader's connections break, the new one is looked up and gets the batch."""
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

    def test_no_reachable_broker(self) -> None:
        """The record fails after its timeout, with the address that was tried."""
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

    def test_acks_0(self) -> None:
        """
        With acks=0 a record is sent and its offset is not known.
        """
        self.brokers.add("t")
        sent = self.producer(acks=0).send("t", b"x")
        self.lingered()
        self.assertEqual(self.successResultOf(sent).offset, -1)
        self.assertEqual(self.values(), [b"x"])

    def test_room(self) -> None:
        """With a full buffer, callers wait for responses."""
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

    def test_cluster_that_is_closed(self) -> None:
        """
        Records of a topic that is known, or is not, fail at once, and say why, and not after the delivery timeout.
        """
        self.brokers.add("t")
        producer = self.producer()
        sent = producer.send("t", b"x")
        self.lingered()
        self.successResultOf(sent)
        self.cluster.close()
        self.brokers.settle()
        for topic in ("t", "u"):
            late = producer.send(topic, b"y")
            self.lingered()
            self.brokers.settle(1)
            self.assertIn("the client is closed", str(self.failureResultOf(late).value))

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

    def test_batch_too_large(self) -> None:
        """It is split, down to single records; only a record that is too large by itself is refused."""
        self.brokers.add("t")

        def produce(node: int, request: Any) -> Any:
            records = request.topic_data[0].partition_data[0].records
            if len(records) <= 400:
                return None
            self.brokers.produce_errors.insert(0, ErrorCode.MESSAGE_TOO_LARGE)
            return None

        self.brokers.answers[0] = produce
        producer = self.producer()
        sent = [producer.send("t", bytes([i]) * (500 if i == 5 else 100)) for i in range(9)]
        for _ in range(10):
            self.lingered()
        self.assertEqual(producer.metrics.splits, 4)
        self.assertIs(self.failureResultOf(sent.pop(5), ApiError).value.code, ErrorCode.MESSAGE_TOO_LARGE)
        self.assertEqual([self.successResultOf(each).offset for each in sent], list(range(8)))
        self.assertEqual([(each or b"")[0] for each in self.values()], [0, 1, 2, 3, 4, 6, 7, 8])
        self.assertEqual(producer.buffered, 0)

    def test_leader_hint(self) -> None:
        """The batch is sent there at once, without a metadata request (KIP-951)."""
        self.brokers.nodes = {1, 2}
        (log,) = self.brokers.add("t", 1).values()
        producer = self.producer()
        self.brokers.settle()
        self.assertNoResult(producer.send("t", b"a"))
        self.lingered()
        log.leader = 2

        def produce(node: int, request: Any) -> Any:
            if node == 2:
                return None
            moved = PartitionProduceResponse(
                index=0,
                error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=1),
            )
            (topic,) = request.topic_data
            responses = [TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[moved])]
            return ProduceResponse(responses=responses, node_endpoints=[NodeEndpoint(node_id=2, host="b2", port=9092)])

        self.brokers.answers[0] = produce
        asked = len(self.brokers.requests("Metadata"))
        sent = producer.send("t", b"b")
        self.lingered()
        self.assertEqual(self.successResultOf(sent).offset, 1)
        self.assertEqual(len(self.brokers.requests("Metadata")), asked)

    def test_buffer_full(self) -> None:
        """With a full buffer records wait in order; a caller that never waits is refused."""
        self.brokers.add("t")
        producer = self.producer(batch_bytes=700, buffer_bytes=3000)
        sent = [producer.send("t", b"%d" % i * 100) for i in range(9)]
        self.assertGreater(producer.metrics.waits, 0)
        refused = producer.send("t", b"x")
        self.assertGreater(producer.metrics.waits, 0)
        while not refused.called:
            sent.append(refused)
            refused = producer.send("t", b"x")
        self.failureResultOf(refused, BufferFull)
        self.assertLess(len(sent), 30)
        for _ in range(20):
            self.lingered()
        self.assertEqual([self.successResultOf(each).offset for each in sent], list(range(len(sent))))
        self.assertEqual(producer.buffered, 0)

    def test_put_with_a_full_buffer(self) -> None:
        """It is refused when the buffer has twice its size."""
        self.brokers.add("t")
        producer = self.producer(buffer_bytes=1000)
        topic = self.cluster.topic("t")
        self.brokers.settle()
        known = self.successResultOf(topic)
        with self.assertRaises(BufferFull):
            for _ in range(30):
                producer.put(known, b"x" * 100, timestamp=5)
        self.assertLess(producer.buffered, 2200)

    def test_cancelled_at_every_step(self) -> None:
        """
        A record whose Deferred is cancelled is taken back or written, and the others are written once, in order.
        """
        self.brokers.add("t")
        for options in ({}, {"buffer_bytes": 2000}, {"linger": 0}):
            for step in range(12):
                producer = self.producer(batch_bytes=300, **options)
                before = len(self.values())
                sent = [producer.send("t", b"%d" % i * 100) for i in range(8)]
                for each in range(step):
                    self.brokers.clock.advance(0.0 if each % 2 else 0.006)
                cancelled = [each for i, each in enumerate(sent) if i % 3 == 1 and not each.called]
                for each in cancelled:
                    each.cancel()
                    self.failureResultOf(each, CancelledError)
                for _ in range(10):
                    self.lingered()
                kept = [each for each in sent if each not in cancelled]
                self.assertTrue(all(self.successResultOf(each).offset >= 0 for each in kept))
                written = [int((value or b"")[:1]) for value in self.values()[before:]]
                self.assertEqual(written, sorted(set(written)), (options, step))
                self.assertLessEqual({0, 2, 3, 5, 6}, set(written))
                self.assertEqual(producer.buffered, 0, (options, step))
                producer.abort()
        self.assertEqual([call for call in self.brokers.clock.getDelayedCalls() if call.getTime() > 1e9], [])

    def test_cancelled_waits(self) -> None:
        """Waits for room and for a flush can be cancelled; the others go on."""
        self.brokers.add("t")
        producer = self.producer(batch_bytes=100, buffer_bytes=100)
        sent = producer.send("t", b"x")
        self.brokers.settle()
        rooms, flushes = [producer.room() for _ in range(3)], [producer.flush() for _ in range(2)]
        for each in (rooms[1], flushes[0]):
            assert each is not None
            each.cancel()
            self.failureResultOf(each, CancelledError)
        self.lingered()
        for each in (rooms[0], rooms[2], flushes[1]):
            assert each is not None
            self.successResultOf(each)
        self.successResultOf(sent)

    def test_fast_sender_yields_to_the_reactor(self) -> None:
        """
        Now and then room is there only in the next turn, also before the buffer is full.
        """
        self.brokers.add("t")
        producer = self.producer()
        producer.send("t", b"x")
        self.lingered()
        turns = 0
        for _ in range(3000):
            producer.send("t", b"x" * 200)
            room = producer.room()
            if room is not None:
                self.assertNoResult(room)
                turns += 1
                self.brokers.clock.advance(0)
                self.successResultOf(room)
        self.assertTrue(2 < turns < 30, turns)

    def ahead(self) -> tuple[Producer, Deferred[None], list[Any]]:
        """A producer with one batch under way, one that is complete and cannot leave, and room; and the answer."""
        self.brokers.add("t")
        producer = self.producer(batch_bytes=200, acks=1)
        producer.send("t", b"x")
        self.lingered()
        held: list[Any] = []
        self.brokers.deliver = lambda to, key, frame: to.heard(frame) if key else held.append((to, frame))
        for _ in range(3):
            self.assertIsNone(producer.room())
            producer.send("t", b"x" * 100)
        room = producer.room()
        assert room is not None
        self.brokers.settle()
        self.assertNoResult(room)
        return producer, room, held

    def test_fast_sender_waits_for_responses(self) -> None:
        """
        With more complete batches than can leave, there is room again when one is answered.
        """
        producer, room, held = self.ahead()
        ((connection, frame),) = held
        connection.heard(frame)
        self.successResultOf(room)
        self.assertIsNone(producer.room())

    def test_next_batch_is_sent_before_callbacks(self) -> None:
        """After a response the next batch is sent before callbacks run, which may take long."""
        _, room, held = self.ahead()
        ((connection, frame),) = held
        written: list[bytes] = []
        connection.write = written.append
        told: list[int] = []
        room.addCallback(lambda _: told.append(len(written)))
        connection.heard(frame)
        self.assertEqual(told, [1])

    def test_hanging_partition(self) -> None:
        """
        A broker does not answer: after a moment there is room, as records may be for other partitions.
        """
        producer, room, _ = self.ahead()
        self.brokers.clock.advance(0.0101)
        self.successResultOf(room)
        self.assertIsNone(producer.room())

    def test_cancelled_fast_sender(self) -> None:
        """
        A Deferred for room that is cancelled is forgotten, with its timer.
        """
        producer, room, held = self.ahead()
        timers = len(self.brokers.clock.getDelayedCalls())
        room.cancel()
        self.failureResultOf(room, CancelledError)
        self.assertEqual(len(self.brokers.clock.getDelayedCalls()), timers - 1)
        ((connection, frame),) = held
        connection.heard(frame)
        self.assertIsNone(producer.room())

    def test_custom_partitioner(self) -> None:
        """It gets its arguments; its errors, and partitions that do not exist, are raised to the sender."""
        self.brokers.add("t", 1, 1)

        def last(topic: str, key: bytes | None, value: bytes | None, partitions: Sequence[int]) -> int:
            return {b"a": partitions[-1], b"b": 7}[value or b""]

        producer = self.producer(partitioner=last)
        sent = [producer.send("t", value, b"key") for value in (b"a", b"b", b"c")]
        self.lingered()
        self.assertEqual(self.successResultOf(sent[0]).partition, 1)
        self.assertIn("no partition 7", str(self.failureResultOf(sent[1], ApiError).value))
        self.failureResultOf(sent[2], KeyError)
        later = producer.send("t", b"c")
        self.failureResultOf(later, KeyError)

    def test_closing_in_time(self) -> None:
        """Unsent records fail at the timeout; nothing is left behind."""
        self.brokers.add("t")
        self.brokers.produce_errors[:] = [ErrorCode.NOT_ENOUGH_REPLICAS] * 100
        producer = self.producer()
        sent = producer.send("t", b"x")
        self.lingered()
        with capturedLogs() as logged:
            closed = producer.close(2.0)
            for _ in range(19):
                self.brokers.settle(0.1)
            self.assertNoResult(closed)
            self.brokers.settle(0.2)
        self.successResultOf(closed)
        self.failureResultOf(sent, DeliveryFailed)
        self.assertEqual(producer.buffered, 0)
        self.assertIn("the producer was closed after 2.0 s; records not acknowledged: 1", client_warnings(logged))

    def test_closing_before_a_topic_is_known(self) -> None:
        """Records that are in no batch yet, since no broker answers, count among those that are lost."""
        self.brokers.nodes.clear()
        producer = self.producer()
        sent = [producer.send("t", b"x") for _ in range(3)]
        with capturedLogs() as logged:
            closed = producer.close(2.0)
            for _ in range(21):
                self.brokers.settle(0.1)
        self.successResultOf(closed)
        for each in sent:
            self.failureResultOf(each, DeliveryFailed)
        self.assertIn("the producer was closed after 2.0 s; records not acknowledged: 3", client_warnings(logged))

    def test_stopping_at_every_step(self) -> None:
        """
        Every Deferred fires, once, and no call is left behind.
        """
        self.brokers.add("t")
        for step in range(12):
            producer = self.producer(batch_bytes=300, buffer_bytes=4000)
            waiting = [producer.send("t", b"x" * 100) for i in range(8)] + [producer.send("none", b"x")]
            waiting += [producer.flush(), producer.room() or producer.flush()]
            for _ in range(step):
                self.brokers.clock.advance(0.006)
            producer.abort()
            self.brokers.settle()
            for each in waiting:
                self.assertTrue(each.called, step)
                each.addErrback(lambda failure: failure.trap(DeliveryFailed, ApiError))
                self.successResultOf(each)
            self.assertEqual(producer.buffered, 0, step)
            self.failureResultOf(producer.send("t", b"x"), DeliveryFailed)
        self.brokers.settle(60)
        self.assertEqual(self.brokers.clock.getDelayedCalls(), [])

    def test_stopping_with_a_full_buffer(self) -> None:
        """Records that wait for room fail with the others: they do not take the room that these leave."""
        self.brokers.add("t", 1, 1, 1)
        self.brokers.answers[0] = lambda node, message: Deferred()
        for flushes in (False, True):
            for step in range(6):
                producer = self.producer(batch_bytes=300, buffer_bytes=2000)
                waiting: list[Deferred[Any]] = []
                for i in range(6):
                    waiting.append(producer.send("t", b"x" * 100, partition=i % 3))
                    self.brokers.settle()
                waiting += [producer.flush()] if flushes else []
                for _ in range(step):
                    self.brokers.clock.advance(0.006)
                producer.abort()
                for each in waiting:
                    each.addErrback(lambda failure: failure.trap(DeliveryFailed))
                    self.successResultOf(each)
                self.assertEqual(producer.buffered, 0)
        self.brokers.settle(60)
        self.assertEqual(self.brokers.clock.getDelayedCalls(), [])

    def test_acks_0_in_flight_limit(self) -> None:
        """A broker that reads nothing gets no more than five requests with acks=0."""
        self.brokers.add("t")
        producer = self.producer(acks=0, batch_bytes=100, linger=0)
        self.successResultOf(self.settled(producer.send("t", b"x")))
        self.brokers.answers[18] = lambda node, message: Deferred()
        sent = [producer.send("t", b"x" * 100) for _ in range(20)]
        for _ in range(20):
            self.lingered()
        self.assertEqual(len([each for each in sent if each.called]), 5)
        producer.abort()
        for each in sent[5:]:
            self.failureResultOf(each, DeliveryFailed)

    def settled(self, waiting: Deferred[Any]) -> Deferred[Any]:
        self.lingered()
        return waiting

    def test_counting(self) -> None:
        """Counts of records, requests and waits."""
        self.brokers.add("t")
        self.brokers.produce_errors[:] = [ErrorCode.NOT_ENOUGH_REPLICAS]
        producer = self.producer()
        for _ in range(3):
            producer.send("t", b"x")
        for _ in range(5):
            self.brokers.settle(0.1)
        counted = producer.metrics
        self.assertEqual((counted.records, counted.batches, counted.requests, counted.retries), (3, 1, 2, 1))
        self.assertEqual((counted.errors, counted.failed_records), (0, 0))
        self.assertEqual(counted.bytes, 2 * len(self.brokers.topics["t"][0].batches[0]))
        self.assertGreaterEqual(counted.queue_us, 10_000)

    def test_added_partitions(self) -> None:
        """
        They are used once the topic was asked about again, which happens now and then.
        """
        self.brokers.add("t", 1)
        producer = self.producer(metadata_max_age=10)
        producer.send("t", b"x")
        self.lingered()
        log = self.brokers.topics["t"][1] = Log()
        for expected in (False, True, True):
            self.brokers.settle(6)
            for _ in range(20):
                producer.send("t", b"x" * 10_000)
                self.lingered()
            self.assertEqual(log.end > 0, expected)
        self.assertEqual(len(self.brokers.requests("Metadata")), 2)

    def test_partition_that_a_broker_does_not_know_yet(self) -> None:
        """
        Its records wait a few seconds for a broker that knows it, and fail then.
        """
        partitions = self.brokers.add("t", 1, 1)
        producer = self.producer()
        producer.send("t", b"a", partition=1)
        self.lingered()
        for lag, is_written in ((3.0, True), (30.0, False)):
            sent = producer.send("t", b"b", partition=1)
            added = partitions.pop(1)
            self.lingered()
            for _ in range(int(10 * lag)):
                self.brokers.settle(0.1)
                if not is_written and sent.called:
                    break
                self.assertNoResult(sent)
            partitions[1] = added
            if is_written:
                self.brokers.settle(1.1)
                self.successResultOf(sent)
            else:
                error = self.failureResultOf(sent, ApiError).value
                self.assertIs(error.code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                self.assertIn("t-1", str(error))

    def test_contradictory_options(self) -> None:
        """They are refused at once."""
        for options in ({"acks": 2}, {"acks": 1, "enable_idempotence": True}, {"acks": 0, "transactional_id": "x"},
                        {"transactional_id": "x", "enable_idempotence": False}):  # fmt: skip
            with self.assertRaises(ValueError):
                self.producer(**options)
        self.producer(acks="all")
