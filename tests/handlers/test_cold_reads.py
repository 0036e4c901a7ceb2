"""A consumer of uncached data does not delay others, on a broker with a slow disk."""

from __future__ import annotations

from logbus.errors import ErrorCode
from logbus.model import TopicPartition
from logbus.storage.istorage import IOPool
from logbus.testing.simulation.environment.memory_disk import broken
from tests.handlers.kit import Client, HandlerCase, a_batch, content, fetch_request

OLD = "t-0/00000000000000000000.log"


class ColdReadTests(HandlerCase):
    """Topic ``t`` has a segment that is not in the page cache, and one that is."""

    config = {"log.segment.bytes": "2048", "log.index.interval.bytes": "200"}

    def setUp(self) -> None:
        super().setUp()
        self.sent = [a_batch(bytes([n]) * 500) for n in range(8)]
        for batch in self.sent:
            self.client.produce(batch)
        log = self.server.broker.logs.get(TopicPartition("t", 0))
        assert log is not None and len(log.segments) > 1
        self.disk.evict(OLD)
        self.disk.held.add(IOPool.READ)
        self.cold = self.server.connect()
        self.cold.send(fetch_request([("t", 0, 0)]), 12)

    def test_cold_reads_do_not_delay_others(self) -> None:
        """
        While the disk reads for one consumer, other clients produce and fetch; then it gets its complete response.
        """
        hot = self.server.connect()
        self.assertEqual(hot.produce(self.sent[0]).base_offset, 8)
        self.assertEqual(len(content(hot.fetch(8))), len(self.sent[0]))
        self.assertFalse(self.answered(self.cold))
        self.assertEqual(self.server.broker.kafka_server.net_metrics.cold_reads, 1)
        self.disk.release(IOPool.READ)
        (answer,) = self.cold.answers()
        records = content(answer.responses[0].partitions[0])
        self.assertEqual(len(records) % len(self.sent[0]), 0)
        self.assertGreater(len(records), 0)
        self.assertEqual(self.disk.loads[0][0], OLD)

    def answered(self, client: Client) -> bool:
        data: bytes = client.transport.value()
        return b"\0" * 100 in data or len(data) > 500

    def test_disconnected_consumer(self) -> None:
        """A consumer that disconnects while its data is read leaves nothing behind."""
        self.cold.transport.loseConnection()
        self.disk.release(IOPool.READ)
        self.assertEqual((self.disk.reads.running, len(self.disk.reads)), (0, 0))

    def test_a_bad_sector(self) -> None:
        """
        What cannot be read takes the directory offline and the connection down; the next request hears the reason.
        """
        self.disk.faults = lambda op, path: broken() if op == "read" else None
        self.disk.release(IOPool.READ)
        self.disk.faults = lambda op, path: None
        self.assertTrue(self.cold.closed)
        self.assertEqual(self.client.fetch(0).error_code, ErrorCode.KAFKA_STORAGE_ERROR)

    def test_a_stop(self) -> None:
        """
        A broker that stops while data is read sends it first.
        """
        stopped = self.server.broker.stopService()
        self.server.reactor.advance(1)
        self.assertNoResult(stopped)
        self.disk.held.clear()
        self.disk.release(IOPool.READ)
        self.assertEqual(len(self.cold.answers()), 1)
        self.server.now(stopped)
