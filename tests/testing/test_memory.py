"""Brokers in memory, as users have them: :mod:`logbus.testing.memory`."""

from __future__ import annotations

import gc
import os

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.client import Cluster, Consumer, Producer, Unreachable
from logbus.errors import ConfigError
from logbus.testing.memory import MemoryCluster


class MemoryClusterTests(SynchronousTestCase):
    def started(self, brokers: int = 1, **config: int) -> MemoryCluster:
        cluster = MemoryCluster.started(brokers, {key.replace("_", "."): value for key, value in config.items()})
        self.addCleanup(cluster.close)
        return cluster

    def test_group(self) -> None:
        """Producers, groups and committed offsets work, and minutes cost nothing."""
        brokers = self.started(num_partitions=3)
        cluster = brokers.client()
        producer = Producer(cluster, create_topics=True)
        sent = [producer.send("orders", b"%d" % i) for i in range(10)]
        self.assertEqual([brokers.result(each).topic for each in sent], ["orders"] * 10)
        consumer = Consumer(cluster, "billing", auto_offset_reset="earliest")
        consumer.subscribe(["orders"])
        found: list[bytes | None] = []
        while len(found) < 10:
            for records in brokers.result(consumer.poll()).values():
                found += [each.value for each in records]
        self.assertEqual(sorted(found, key=str), [b"%d" % i for i in range(10)])
        self.assertEqual(len(consumer.assignment), 3)
        brokers.result(consumer.close())
        brokers.result(producer.close())

    def test_failover(self) -> None:
        """Another broker takes over from one that was killed, which has its records when it is back."""
        brokers = self.started(3, default_replication_factor=3)
        brokers[0].create("orders", 1)
        producer = Producer(brokers.client())
        brokers.result(producer.send("orders", b"1"))
        leader = brokers.metadata(0).topic("orders").partitions[0].leader  # type: ignore[union-attr]
        brokers.kill(leader)
        self.assertEqual(brokers.result(producer.send("orders", b"2"), 60).offset, 1)
        brokers.boot(leader)
        self.assertEqual(brokers.alive, [0, 1, 2])
        brokers.result(producer.close())

    def test_cut(self) -> None:
        """A client that is cut off waits, and goes on when the network is mended."""
        brokers = self.started()
        cluster = brokers.client(timeout=2.0)
        producer = Producer(cluster, create_topics=True)
        brokers.result(producer.send("orders", b"1"))
        brokers.cut(101, 0)
        sent = producer.send("orders", b"2")
        brokers.settle(10)
        self.assertNoResult(sent)
        brokers.mend()
        self.assertEqual(brokers.result(sent, 60).offset, 1)
        brokers.result(producer.close())
        self.flushLoggedErrors()

    def test_own_cluster(self) -> None:
        """A program makes its own connections with the clock as its reactor."""
        brokers = self.started()
        cluster = Cluster(brokers.clock, brokers.bootstrap, endpoint=brokers.endpoint)
        self.assertEqual(brokers.result(Producer(cluster, create_topics=True).send("t", b"")).offset, 0)
        brokers.result(cluster.close())
        elsewhere = Cluster(brokers.clock, "10.1.0.9:9092", endpoint=brokers.endpoint)
        with self.assertRaises(AssertionError) as caught:
            brokers.result(Producer(elsewhere).send("t", b""))
        self.assertIn("no result within 5 s of the virtual clock", str(caught.exception))
        brokers.result(elsewhere.close())
        self.flushLoggedErrors(Unreachable)

    def test_mistakes(self) -> None:
        """A wrong number, setting or argument is one clear error."""
        with self.assertRaisesRegex(ValueError, "brokers is 0; a cluster in memory has 1 to 100"):
            MemoryCluster.started(0)
        with self.assertRaisesRegex(ConfigError, "num.partitions"):
            MemoryCluster.started(1, {"num.partitions": "many"})
        brokers = self.started()
        with self.assertRaises(KeyError):
            brokers[1]
        with self.assertRaisesRegex(AssertionError, "no result within 1 s"):
            brokers.result(Deferred(), 1)

    def test_nothing_stays(self) -> None:
        """Closed clusters hold no descriptors."""

        def one() -> None:
            brokers = MemoryCluster.started()
            producer = Producer(brokers.client(), create_topics=True)
            brokers.result(producer.send("t", b""))
            brokers.close()

        one()
        gc.collect()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            one()
        gc.collect()
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)
