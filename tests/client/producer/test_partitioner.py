"""Partitioners, and the router that uses them."""

from __future__ import annotations

import uuid
from random import Random

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.cluster.cluster import PartitionMetadata, TopicMetadata
from logbus.client.producer.partitioner import RoundRobin, Uniform, choose, murmur2, partition_for_key
from logbus.client.producer.record_accumulator import RecordAccumulator
from logbus.client.producer.record_router import RecordRouter
from logbus.records import murmur

ZERO = uuid.UUID(int=0)


class PartitionTests(SynchronousTestCase):
    def test_murmur2(self) -> None:
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

    def test_longer_queues_get_fewer_batches(self) -> None:
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
