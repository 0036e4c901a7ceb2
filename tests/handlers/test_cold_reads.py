"""Consumers of uncached data do not delay others, on a broker with a slow disk."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from logbus.errors import ErrorCode
from logbus.model import TopicPartition
from logbus.storage.istorage import IOPool
from logbus.storage.log import Log
from logbus.testing.simulation.environment.memory_disk import broken
from logbus.testing.simulation.environment.memory_file import MemoryFile
from logbus.wire.messages.records import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.handlers.kit import NOW_MS, Client, HandlerCase, a_batch, content, fetch_request

OLD = "t-0/00000000000000000000.log"
LARGE = 20_000
"""Bytes of a record; more than is read to find its batch."""


class ColdReadTests(HandlerCase):
    """Topic ``t`` has a segment that is not in the page cache, up to its first header, and one that is."""

    config = {"log.segment.bytes": "65536", "log.index.interval.bytes": "200"}

    def setUp(self) -> None:
        super().setUp()
        self.sent = [a_batch(bytes([n]) * LARGE) for n in range(8)]
        for batch in self.sent:
            self.client.produce(batch)
        log = self.server.broker.logs.get(TopicPartition("t", 0))
        assert log is not None and len(log.segments) > 1
        self.disk.evict(OLD)
        self.disk.held.add(IOPool.READ)
        self.cold = self.server.connect()
        self.cold.send(fetch_request([("t", 0, 0)]), 12)
        # Finding the batch is a read of its own.
        self.disk.release(IOPool.READ, 1)
        self.cold.turn()
        self.assertEqual(self.disk.loads[0][:2], (OLD, 0))
        del self.disk.loads[0]

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


class ColdLookUpTests(HandlerCase):
    """Topic ``t`` has three segments and three batches each, of which no index is in memory."""

    config = {"log.segment.bytes": "2000", "log.index.interval.bytes": "200"}

    def setUp(self) -> None:
        super().setUp()
        self.sent = [a_batch(bytes([n]) * 500, timestamp=NOW_MS + n) for n in range(9)]
        for batch in self.sent:
            self.client.produce(batch)
        log = self.server.broker.logs.get(TopicPartition("t", 0))
        assert log is not None
        self.log: Log = log
        self.assertEqual([segment.base_offset for segment in log.segments], [0, 3, 6])
        for segment in log.segments[:-1]:
            # As after a restart.
            segment._close_indexes()
            for suffix in (".log", ".index", ".timeindex"):
                self.disk.evict(segment.path(suffix))
        self.disk.held.add(IOPool.READ)
        self.other = self.server.connect()

    def loaded(self) -> set[str]:
        """Let the disk read until nothing waits for it; the files that it read from, by their suffixes."""
        reads = 0
        while self.disk.release(IOPool.READ, 1):
            self.other.turn()
            reads += 1
            self.assertLess(reads, 100)
        found = {path.rpartition(".")[2] for path, *_ in self.disk.loads}
        del self.disk.loads[:]
        return found

    def assertOthersAreServed(self) -> None:
        self.assertEqual(self.other.fetch(8).error_code, 0)
        self.assertEqual(self.other.produce().error_code, 0)
        self.assertEqual(self.client.transport.value(), b"")

    def test_fetch(self) -> None:
        """A fetch from the middle of cold data waits until its batch was found; others do not."""
        self.client.send(fetch_request([("t", 0, 4)]), 12)
        self.assertOthersAreServed()
        self.assertEqual(self.loaded(), {"log", "index", "timeindex"})
        (answer,) = self.client.answers()
        self.assertEqual(content(answer.responses[0].partitions[0])[:8], (4).to_bytes(8, "big"))

    def test_recognized_fetch(self) -> None:
        """The same for one that repeats the one before."""
        self.client.fetch(8, partition_max_bytes=100)
        self.client.send(fetch_request([("t", 0, 1)], partition_max_bytes=100), 12)
        self.assertOthersAreServed()
        self.loaded()
        (answer,) = self.client.answers()
        self.assertEqual(content(answer.responses[0].partitions[0])[:8], (1).to_bytes(8, "big"))

    def test_fetch_of_several(self) -> None:
        """What several partitions of a fetch need is loaded at the same time."""
        second = self.server.broker.logs.get(TopicPartition("t", 1))
        assert second is not None
        for batch in self.sent:
            self.other.produce(batch, partition=1)
        self.disk.evict(second.segments[0].path(".log"))
        self.client.send(fetch_request([("t", 0, 0), ("t", 1, 0)]), 12)
        self.assertEqual(self.disk.reads.running, 2)
        self.loaded()
        (answer,) = self.client.answers()
        self.assertEqual([len(content(one)) > 0 for one in answer.responses[0].partitions], [True, True])

    def test_fetch_of_many(self) -> None:
        """So does one of so many partitions that it is served in slices."""
        wanted = [("t", 0, 0), *(("t", 2 + n, 0) for n in range(300))]
        self.client.send(fetch_request(wanted), 12)
        for _ in range(20):
            self.client.turn()
        self.assertOthersAreServed()
        self.loaded()
        for _ in range(20):
            self.client.turn()
        (answer,) = self.client.answers()
        self.assertGreater(len(content(answer.responses[0].partitions[0])), 0)

    def by_time(self, timestamp: int) -> None:
        asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        self.client.send(ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[asked])]), 7)

    def test_offset_by_time(self) -> None:
        """A look-up by time waits for index and records; others do not."""
        self.by_time(NOW_MS + 4)
        self.assertOthersAreServed()
        self.assertEqual(self.loaded(), {"log", "index", "timeindex"})
        (answer,) = self.client.answers()
        self.assertEqual(answer.topics[0].partitions[0].offset, 4)

    def test_a_segment_is_removed_meanwhile(self) -> None:
        """The look-up goes on with what there is then."""
        self.by_time(NOW_MS + 1)
        replicas = self.server.broker.replication.replicas
        self.server.now(Deferred.fromCoroutine(replicas.delete_records("t", 0, 3)))
        self.server.broker.logs.housekeeping.check_retention()
        self.server.reactor.advance(0)
        self.assertEqual(self.log.segments[0].base_offset, 3)
        self.loaded()
        (answer,) = self.client.answers()
        self.assertEqual(answer.topics[0].partitions[0].offset, 3)

    def test_a_bad_sector(self) -> None:
        """Who looks for what cannot be read is told so."""
        self.client.send(fetch_request([("t", 0, 0)]), 12)
        self.by_time(NOW_MS)
        self.disk.faults = lambda op, path: broken() if op == "read" else None
        self.loaded()
        answers: list[Any] = self.client.answers()
        codes = [answers[0].responses[0].partitions[0].error_code, answers[1].topics[0].partitions[0].error_code]
        self.assertEqual(codes, 2 * [ErrorCode.KAFKA_STORAGE_ERROR])

    def test_disconnected(self) -> None:
        """A consumer that disconnects meanwhile leaves nothing behind."""
        self.client.send(fetch_request([("t", 0, 0)]), 12)
        self.client.transport.loseConnection()
        self.loaded()
        self.assertEqual((self.disk.reads.running, len(self.disk.reads)), (0, 0))

    def test_what_does_not_stay_in_memory(self) -> None:
        """If what was loaded is gone each time, the look-up waits for the disk in the end."""
        self.patch(MemoryFile, "make_resident", lambda *_: None)
        self.by_time(NOW_MS + 1)
        self.client.send(fetch_request([("t", 0, 0)], max_bytes=1), 12)
        self.loaded()
        by_time, fetched = self.client.answers()
        self.assertEqual(by_time.topics[0].partitions[0].offset, 1)
        self.assertGreater(len(content(fetched.responses[0].partitions[0])), 0)
