"""DescribeLogDirs and AlterReplicaLogDirs."""

from __future__ import annotations

from logbus.errors import ErrorCode, StorageError
from logbus.records.batch import iter_batches
from logbus.storage.disk_space import DiskSpace
from logbus.storage.istorage import IOPool
from logbus.testing.simulation.environment.memory_disk import MemoryDisk
from logbus.wire.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from logbus.wire.messages.partitions import NamedTopicPartitions, TopicPartitions
from tests.handlers.kit import HandlerCase, MemoryBroker, a_batch, content, produce_request


class LogDirTests(HandlerCase):
    """DescribeLogDirs."""

    def setUp(self) -> None:
        self.server = MemoryBroker(disks=[MemoryDisk("/first"), MemoryDisk("/second")]).start()
        self.addCleanup(self.server.close)
        self.client = self.server.connect()
        self.server.create("t", 3)
        self.server.create("u", 1)

    def ask(self, version: int, *topics: TopicPartitions) -> DescribeLogDirsResponse:
        found: DescribeLogDirsResponse = self.client.ask(DescribeLogDirsRequest(topics=list(topics) or None), version)
        return found

    def test_all(self) -> None:
        """Each log is in one directory, with the bytes of its segments, at every version."""
        self.client.ask(produce_request(a_batch(b"v" * 100), "t", 2), 9)
        replica = self.server.broker.replication.replicas.get("t", 2)
        for version in range(6):
            found = self.ask(version)
            self.assertEqual(found.error_code, 0)
            self.assertEqual(
                [(each.error_code, each.log_dir) for each in found.results], [(0, "/first"), (0, "/second")]
            )
            logs = [
                ((topic.name, one.partition_index), (one.partition_size, one.offset_lag, one.is_future_key))
                for each in found.results
                for topic in each.topics
                for one in topic.partitions
            ]
            self.assertEqual(len(logs), 4)
            nothing = (0, 0, False)
            wanted = {("t", 0): nothing, ("t", 1): nothing, ("t", 2): (replica.log.size, 0, False), ("u", 0): nothing}
            self.assertEqual(dict(logs), wanted)

    def test_space(self) -> None:
        """The size and the free bytes of each directory's file system, for who knows of them (KIP-827)."""
        self.server.disks[0].free = DiskSpace(25, 100)
        self.server.broker.logs.space.measure()
        first, second = self.ask(4).results
        self.assertEqual((first.total_bytes, first.usable_bytes), (100, 25))
        self.assertEqual(second.total_bytes, second.usable_bytes)
        self.assertEqual([(each.total_bytes, each.usable_bytes) for each in self.ask(3).results], [(-1, -1)] * 2)

    def test_some(self) -> None:
        """Only what was asked for; what is not here is left out, directories are not."""
        found = self.ask(4, TopicPartitions(topic="t", partitions=[1, 9]))
        self.assertEqual(len(found.results), 2)
        named = [(t.name, p.partition_index) for each in found.results for t in each.topics for p in t.partitions]
        self.assertEqual(named, [("t", 1)])

    def test_offline(self) -> None:
        """A directory that failed is there with its error, and without logs."""
        self.server.disks[1].fail(StorageError("gone"))
        first, second = self.ask(4).results
        self.assertEqual((first.error_code, second.error_code), (0, ErrorCode.KAFKA_STORAGE_ERROR))
        self.assertEqual((second.log_dir, second.topics), ("/second", []))


class MoveTests(HandlerCase):
    """AlterReplicaLogDirs (KIP-113)."""

    def setUp(self) -> None:
        self.server = MemoryBroker(disks=[MemoryDisk("/first"), MemoryDisk("/second")]).start()
        self.addCleanup(self.server.close)
        self.client = self.server.connect()
        self.server.create("t", 1)

    def move(self, path: str, topic: str = "t", *partitions: int, version: int = 2) -> list[int]:
        wanted = NamedTopicPartitions(name=topic, partitions=list(partitions or (0,)))
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[wanted])])
        (result,) = self.client.ask(request, version).results
        return [each.error_code for each in result.partitions]

    def where(self) -> list[tuple[str, int, int, bool]]:
        """Directory, size, lag, and whether it is a copy that is being filled, of each log of the topic."""
        found = self.client.ask(DescribeLogDirsRequest(topics=None), 4).results
        return [
            (each.log_dir, one.partition_size, one.offset_lag, one.is_future_key)
            for each in found
            for topic in each.topics
            for one in topic.partitions
        ]

    def test_moved(self) -> None:
        """The future replica is described while it is filled; then clients use it without an interruption."""
        for number in range(3):
            self.client.ask(produce_request(a_batch(b"%d" % number)), 9)
        size = self.server.broker.replication.replicas.get("t", 0).log.size
        disk = self.server.disks[0]
        disk.held.add(IOPool.READ)
        self.assertEqual(self.move("/second"), [0])
        self.assertEqual(self.where(), [("/first", size, 0, False), ("/second", 0, 3, True)])
        disk.held.clear()
        disk.release(IOPool.READ)
        self.client.turn(0.1)
        self.assertEqual(self.where(), [("/second", size, 0, False)])
        answer = self.client.ask(produce_request(a_batch(b"3")), 9)
        self.assertEqual(answer.responses[0].partition_responses[0].base_offset, 3)
        found = content(self.client.fetch())
        self.assertEqual([header.base_offset for _, header in iter_batches(found)], [0, 1, 2, 3])

    def test_every_version(self) -> None:
        """To where it is already: nothing happens."""
        self.assertEqual([self.move("/first", version=version) for version in (1, 2)], [[0], [0]])

    def test_refused(self) -> None:
        """Directories and partitions that are not there."""
        self.assertEqual(self.move("/third"), [ErrorCode.LOG_DIR_NOT_FOUND])
        self.assertEqual(self.move("/second", "t", 0, 5), [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
        self.server.disks[1].fail(StorageError("broken"))
        self.assertEqual(self.move("/second"), [ErrorCode.KAFKA_STORAGE_ERROR])

    def test_deleted(self) -> None:
        """A topic that is deleted while it moves leaves nothing behind."""
        self.client.ask(produce_request(a_batch(b"v")), 9)
        disk = self.server.disks[0]
        disk.held.add(IOPool.READ)
        self.move("/second")
        self.server.now(self.server.broker.control.topic_admin.delete_topics(["t"]))
        disk.held.clear()
        disk.release(IOPool.READ)
        self.client.turn(61)
        self.assertEqual(self.where(), [])
        names = [name for each in self.server.disks for name in each.names("") if name.startswith("t-")]
        self.assertEqual(names, [])
