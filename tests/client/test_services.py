"""The client as services of a Twisted application."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.client import EARLIEST, ClientClosed, Consumer, ConsumerRecord
from logbus.client.services import ClusterService, ConsumerService
from logbus.client.validators import InvalidOption
from logbus.model import TopicPartition
from tests.client.memory_cluster import MemoryCluster


class ServiceCase(SynchronousTestCase):
    """Services of brokers in memory."""

    def setUp(self) -> None:
        self.brokers = MemoryCluster()
        self.log = self.brokers.add("t", 1)[0]
        self.service = ClusterService(self.brokers.clock, "b1:9092", endpoint=self.brokers.endpoint)

    def stop(self) -> None:
        stopping = self.service.stopService()
        for _ in range(100):
            self.brokers.settle(0.1)
        self.successResultOf(stopping)
        self.assertEqual(self.brokers.connections, [])


class ClusterServiceTests(ServiceCase):
    def test_ready(self) -> None:
        """It is ready once a broker answers, however long that takes."""
        self.brokers.nodes.clear()
        self.service.startService()
        ready = self.service.ready()
        self.brokers.settle(100)
        self.assertNoResult(ready)
        self.brokers.nodes.add(1)
        self.brokers.settle(100)
        self.assertIsNone(self.successResultOf(ready))
        self.stop()
        self.flushLoggedErrors()

    def test_producers_are_closed(self) -> None:
        """A stop writes what its producers have not sent yet."""
        producer = self.service.producer(linger=1000.0)
        self.service.startService()
        sent = producer.send("t", b"1")
        self.brokers.settle(1)
        self.assertNoResult(sent)
        self.stop()
        self.assertEqual(self.successResultOf(sent).offset, 0)


class ConsumerServiceTests(ServiceCase):
    def setUp(self) -> None:
        super().setUp()
        self.log.put(b"a", b"b", b"c")
        self.seen: list[bytes | None] = []
        self.waiting: list[Deferred[None]] = []
        self.consumers: list[Consumer] = []

    def consumer(self) -> Consumer:
        consumer = Consumer(self.service.cluster)
        consumer.assign({TopicPartition("t", 0): EARLIEST})
        self.consumers.append(consumer)
        return consumer

    def process(self, record: ConsumerRecord) -> Deferred[None]:
        self.seen.append(record.value)
        self.waiting.append(Deferred())
        return self.waiting[-1]

    def begin(self, process: Any, **options: Any) -> None:
        ConsumerService(self.service.cluster, self.consumer, process, **options).setServiceParent(self.service)
        self.service.startService()
        self.brokers.settle(0.5)

    def test_one_after_another(self) -> None:
        """The next record waits until the last one is processed."""
        self.begin(self.process)
        self.assertEqual(self.seen, [b"a"])
        self.waiting[0].callback(None)
        self.assertEqual(self.seen, [b"a", b"b"])
        self.waiting[1].callback(None)
        self.waiting[2].callback(None)
        self.stop()

    def test_stop_waits(self) -> None:
        """A stop waits for the record in hand, reads no other one, and hangs up last."""
        self.begin(self.process)
        stopping = self.service.stopService()
        self.brokers.settle(1)
        self.assertNoResult(stopping)
        self.assertTrue(self.brokers.connections)
        self.waiting[0].callback(None)
        self.brokers.settle(2)
        self.successResultOf(stopping)
        self.assertEqual(self.seen, [b"a"])

    def test_side_by_side(self) -> None:
        """Several records are processed at a time on demand; a stop waits for all of them."""
        self.begin(self.process, concurrency=2)
        self.assertEqual(self.seen, [b"a", b"b"])
        stopping = self.service.stopService()
        self.waiting[1].callback(None)
        self.brokers.settle(1)
        self.assertNoResult(stopping)
        self.waiting[0].callback(None)
        for _ in range(100):
            self.brokers.settle(0.1)
        self.successResultOf(stopping)
        self.assertEqual(self.seen, [b"a", b"b"])

    def test_cluster_that_is_closed(self) -> None:
        """It ends, and says so once, instead of beginning again and again."""
        self.log.batches.clear()
        self.begin(self.process)
        self.service.cluster.close()
        self.brokers.settle(30)
        self.assertLess(len(self.consumers), 3)
        made = len(self.consumers)
        self.brokers.settle(30)
        self.assertEqual(len(self.consumers), made)
        self.assertTrue(self.flushLoggedErrors(ClientClosed))
        self.stop()

    def test_failure(self) -> None:
        """A failure is logged; after a pause another consumer begins."""

        def fail(record: ConsumerRecord) -> None:
            self.seen.append(record.value)
            if len(self.consumers) == 1:
                raise KeyError

        self.begin(fail)
        self.assertEqual(self.seen, [b"a"])
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)
        for _ in range(10):
            self.brokers.settle(1)
        self.assertEqual((self.seen, len(self.consumers)), ([b"a", b"a", b"b", b"c"], 2))
        self.stop()

    def test_stop_after_failure(self) -> None:
        """A stop does not wait for the end of the pause."""

        def fail(record: ConsumerRecord) -> None:
            raise KeyError

        self.begin(fail)
        self.brokers.settle(2)
        self.flushLoggedErrors(KeyError)
        stopping = self.service.stopService()
        self.brokers.settle(0.1)
        self.successResultOf(stopping)

    def test_options(self) -> None:
        """Wrong arguments are refused."""
        with self.assertRaisesRegex(InvalidOption, "consumer is None"):
            ConsumerService(self.service.cluster, None, self.process)  # type: ignore[arg-type]
        with self.assertRaisesRegex(InvalidOption, "concurrency is 0"):
            ConsumerService(self.service.cluster, self.consumer, self.process, concurrency=0)
