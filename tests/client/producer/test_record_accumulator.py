"""The batches of all partitions."""

from __future__ import annotations

import uuid
from random import Random

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.cluster.addresses import parse_bootstrap
from logbus.client.cluster.cluster import PartitionMetadata, TopicMetadata
from logbus.client.producer.partitioner import RoundRobin, Uniform, choose, murmur2, partition_for_key
from logbus.client.producer.record_accumulator import BatchWritten, PartitionQueue, ProducerBatch, RecordAccumulator
from logbus.client.producer.record_router import RecordRouter
from logbus.client.retry import Backoff, Unreachable, api_error, is_retriable
from logbus.errors import ApiError, ConfigError, Disconnected, ErrorCode
from logbus.model import TopicPartition
from logbus.records import murmur
from logbus.records.batch import decode_batch

P0 = TopicPartition("t", 0)
ZERO = uuid.UUID(int=0)


class AddressTests(SynchronousTestCase):
    def test_forms(self) -> None:
        """
        Hosts with and without ports, several of them, and IPv6 in brackets.
        """
        self.assertEqual(parse_bootstrap("a:1, b,[::1]:3,[::1]"), [("a", 1), ("b", 9092), ("::1", 3), ("::1", 9092)])

    def test_what_is_no_address_is_named(self) -> None:
        """
        The part that cannot be read is in the message.
        """
        for wrong in ("a:b", "a:0", "a:70000", ":9092", "::1", "::1:9092", "a:-1"):
            self.assertIn(repr(wrong), str(self.assertRaises(ConfigError, parse_bootstrap, f"ok:1,{wrong}")))
        self.assertRaises(ConfigError, parse_bootstrap, " , ")


class PartitionTests(SynchronousTestCase):
    def test_murmur2_as_java_has_it(self) -> None:
        """
        The hashes are those that Kafka's own tests expect, as signed numbers.
        """
        for data, signed in {
            b"21": -973932308,
            b"foobar": -790332482,
            b"a-little-bit-long-string": -985981536,
            b"a-little-bit-longer-string": -1486304829,
            b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
            b"abc": 479470107,
        }.items():
            self.assertEqual(murmur2(data), signed & 0xFFFFFFFF, data)
            for count in (1, 6, 1000, 2**31 - 1):
                # Also by the compiled twin, if there is one.
                self.assertEqual(partition_for_key(data, count), (signed & 0x7FFFFFFF) % count)

    @given(st.binary(max_size=70), st.integers(min_value=-2, max_value=2**31 - 1))
    def test_twins(self, key: bytes, count: int) -> None:
        """
        The compiled one says what the other says, and refuses what it refuses.
        """
        if count <= 0:
            for twin in (partition_for_key, murmur.partition_for_key):
                self.assertIn("partitions", str(self.assertRaises(ValueError, twin, key, count)))
        else:
            self.assertEqual(partition_for_key(key, count), murmur.partition_for_key(key, count))

    @given(st.binary(max_size=40), st.integers(min_value=1, max_value=50))
    def test_keys_stay_in_range(self, key: bytes, count: int) -> None:
        """
        Every key has a partition, always the same.
        """
        self.assertTrue(0 <= partition_for_key(key, count) < count)
        self.assertEqual(partition_for_key(key, count), partition_for_key(key, count))

    def test_without_a_key_another_partition_for_each_batch(self) -> None:
        """
        It changes when as many bytes as a batch has were taken, to a partition that can be written to.
        """
        queues = RecordAccumulator(100)
        router = RecordRouter(queues, Random(3), 100)
        places = [PartitionMetadata(i, 1, 0, (1,), (1,)) for i in range(3)]
        topic = TopicMetadata("t", ZERO, False, {each.index: each for each in places})
        first = router.find(topic, None, None, None)
        first.taken += 99
        self.assertIs(router.find(topic, None, None, None), first)
        first.taken += 1
        self.assertIsNot(router.find(topic, None, None, None), first)
        left = evolve(topic, partitions={i: evolve(each, leader=1 if i == 2 else -1) for i, each in enumerate(places)})
        chosen = {str(router.find(left, None, None, None).partition) for _ in range(3)}
        self.assertEqual(chosen, {"t-2"})

    def test_where_many_batches_wait_fewer_go(self) -> None:
        """
        The chance of a partition falls with what waits for it, and never to nothing.
        """
        random = Random(3)
        chosen = [choose(random, [5, 6], [9, 0]) for _ in range(1100)]
        self.assertTrue(50 < chosen.count(5) < 150, chosen.count(5))
        chosen = [choose(random, [5, 6], [0, 0]) for _ in range(1000)]
        self.assertTrue(400 < chosen.count(5) < 600, chosen.count(5))

    def test_other_partitioners(self) -> None:
        """
        In turns, and some records at a time, whatever the keys.
        """
        turns = RoundRobin()
        self.assertEqual([turns("t", b"k", None, [3, 4]) for _ in range(4)], [3, 4, 3, 4])
        self.assertEqual(turns("u", b"k", None, [3, 4]), 3)
        uniform = Uniform(Random(1), records=3)
        chosen = [uniform("t", b"k", None, [3, 4]) for _ in range(9)]
        self.assertEqual([len(set(chosen[i : i + 3])) for i in (0, 3, 6)], [1, 1, 1])
        self.assertEqual((chosen[0], chosen[3]), (chosen[6], 7 - chosen[0]))


class AccumulatorTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.accumulator = RecordAccumulator(batch_bytes=100)
        self.queue = self.accumulator.queue(P0)

    def append(self, queue: PartitionQueue, now: float, value: bytes = b"x") -> ProducerBatch:
        return self.accumulator.append(queue, now, 5, None, value)

    def test_batches_leave_in_order(self) -> None:
        """
        One that does not grow any more is to be sent; one that grows, only when it is told to.
        """
        self.assertEqual(list(self.accumulator.ready()), [])
        batches = [self.append(self.queue, 1.0) for _ in range(3)]
        self.assertEqual(list(self.accumulator.ready()), [self.queue])
        self.assertEqual([self.queue.depart(1, None) for _ in range(2)], batches[:2])
        self.assertEqual(list(self.accumulator.ready()), [])
        self.accumulator.make_all_ready()
        self.assertEqual(list(self.accumulator.ready()), [self.queue])
        self.assertIs(self.queue.depart(1, None), batches[2])
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
        """
        Batches begun by a time may leave; the oldest of the others is told.
        """
        other = self.accumulator.queue(TopicPartition("t", 1))
        self.append(self.queue, 1.0)
        self.append(other, 2.0)
        self.assertEqual(self.accumulator.make_ready(1.5), 2.0)
        self.assertEqual(list(self.accumulator.ready()), [self.queue])
        self.assertIsNone(self.accumulator.make_ready(2.0))
        self.assertEqual(list(self.accumulator.ready()), [self.queue, other])

    def test_who_was_served_waits(self) -> None:
        """
        The partitions take turns.
        """
        other = self.accumulator.queue(TopicPartition("t", 1))
        for queue in (self.queue, self.queue, self.queue, other, other):
            self.append(queue, 1.0)
        self.queue.depart(1, None)
        self.accumulator.served(self.queue)
        self.assertEqual(list(self.accumulator.ready()), [other, self.queue])

    def test_outcomes_are_told_to_early_and_late_listeners(self) -> None:
        """
        Who asks after the fact is told at once; the first outcome is the last.
        """
        batch = self.append(self.queue, 1.0)
        heard: list[object] = []
        batch.when_done(heard.append)
        batch.finish(BatchWritten(7, -1))
        batch.finish(BatchWritten(8, -1))
        batch.when_done(heard.append)
        self.assertEqual(heard, [BatchWritten(7, -1)] * 2)


class ErrorTests(SynchronousTestCase):
    def test_sentences(self) -> None:
        """
        The broker's words are kept; the thing is named once; an unknown code is told as a number.
        """
        self.assertEqual(str(api_error(36, "topic a", "topic 'a' exists already")), "topic 'a' exists already")
        self.assertEqual(str(api_error(36, "topic a", "no")), "topic a: no")
        self.assertIn("(LEADER_NOT_AVAILABLE)", str(api_error(5, "a-0")))
        self.assertIn("999", str(api_error(999, "a-0")))
        self.assertIs(api_error(999, "a-0").code, ErrorCode.UNKNOWN_SERVER_ERROR)

    def test_what_may_be_tried_again(self) -> None:
        """
        Lost connections and Kafka's retriable codes are; refusals and bugs are not.
        """
        for error in (Disconnected(), Unreachable(), ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)):
            self.assertTrue(is_retriable(error))
        for error in (ApiError(ErrorCode.MESSAGE_TOO_LARGE), ValueError()):
            self.assertFalse(is_retriable(error))

    def test_backoff_doubles_up_to_a_limit(self) -> None:
        """
        0.1, 0.2, 0.4, 0.8, 1, 1, … seconds, however many attempts there were.
        """
        waits = [Backoff().before(attempt) for attempt in (1, 2, 3, 4, 5, 10_000)]
        self.assertEqual(waits, [0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


class PackageTests(SynchronousTestCase):
    def test_every_public_name_is_there(self) -> None:
        """
        The package's names are imported when they are asked for, and others are refused as usual.
        """
        import logbus.client

        for name in logbus.client.__all__:
            self.assertIsNotNone(getattr(logbus.client, name))
        self.assertRaises(AttributeError, getattr, logbus.client, "nonsense")
