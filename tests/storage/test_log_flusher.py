"""When a log is written back."""

from __future__ import annotations

import errno

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.model import TopicPartition
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.flush_times import FlushTimes
from logbus.storage.istorage import IOPool
from logbus.storage.log import Log
from logbus.storage.log_flusher import LogFlusher
from logbus.testing.simulation.environment.memory_disk import MemoryDisk
from tests.storage.builders import PARTITION, a_manager, batch


class WriteBackTests(SynchronousTestCase):
    """Every 500 bytes, but at most once a second."""

    def setUp(self) -> None:
        manager = a_manager(MemoryDisk(), default_config=TopicConfig())
        self.successResultOf(manager.open())
        log = self.successResultOf(manager.create(PARTITION))
        self.segment = log.segments[-1]
        self.clock = Clock()
        self.clock.advance(100)
        self.written_back: list[float] = []
        self.flusher = LogFlusher(
            log,
            500,
            1.0,
            lambda: None,
            lambda: self.written_back.append(self.clock.seconds()),
            seconds=self.clock.seconds,
        )

    def wrote(self, *sizes: int) -> None:
        for size in sizes:
            self.flusher.wrote(self.segment, size)

    def test_after_so_many_bytes(self) -> None:
        self.wrote(300, 199)
        self.assertEqual(self.written_back, [])
        self.wrote(1)
        self.assertEqual(self.written_back, [100])

    def test_not_again_within_a_second(self) -> None:
        """What comes too soon is written back with the first bytes after the second."""
        self.wrote(500)
        self.clock.advance(0.75)
        self.wrote(500, 500)
        self.assertEqual(self.written_back, [100])
        self.clock.advance(0.25)
        self.wrote(1)
        self.wrote(499)
        self.assertEqual(self.written_back, [100, 101])

    def test_at_once_when_the_log_rolls(self) -> None:
        self.wrote(500)
        self.flusher.rolled(self.segment)
        self.assertEqual(self.written_back, [100, 100])


class NoSnapshotTests(SynchronousTestCase):
    """What keeps a log's producers from being written keeps neither it nor the other logs of its disk from that."""

    def setUp(self) -> None:
        self.disk = MemoryDisk()
        self.manager = a_manager(self.disk, default_config=TopicConfig())
        self.successResultOf(self.manager.open())
        self.log = self.successResultOf(self.manager.create(PARTITION))
        for _ in range(3):
            append_as_leader(self.log, batch(), 0)

    def written_back(self, log: Log) -> None:
        self.successResultOf(log.flusher.write_back_and_wait())
        self.assertEqual(log.recovery_point, log.log_end_offset)

    def the_others_go_on(self) -> None:
        other = self.successResultOf(self.manager.create(TopicPartition("other", 0)))
        append_as_leader(other, batch(), 0)
        self.written_back(other)
        self.assertTrue(self.disk.exists("other-0/00000000000000000001.snapshot"))
        self.successResultOf(self.log.close())

    def test_no_descriptor_for_the_listing(self) -> None:
        def refuse(path: str) -> list[str]:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"cannot list {path}: Too many open files")

        names = self.disk.names
        self.patch(self.disk, "names", refuse)
        self.written_back(self.log)
        self.patch(self.disk, "names", names)
        append_as_leader(self.log, batch(), 0)
        self.written_back(self.log)
        self.assertTrue(self.disk.exists("orders-0/00000000000000000004.snapshot"))
        self.the_others_go_on()

    def test_a_damaged_batch(self) -> None:
        """The producers of a log that was truncated are read when they are needed."""
        self.disk.flip(self.log.segments[-1].log.path, 16, 0)
        self.log.forget_producers()
        self.written_back(self.log)
        self.the_others_go_on()


class FlushTimesTests(SynchronousTestCase):
    """How long a directory's syncs take is known while they go on, and whether they succeed or not."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.disk = MemoryDisk()
        self.disk.flush_times = FlushTimes(self.clock.seconds)
        manager = a_manager(self.disk, default_config=TopicConfig())
        self.successResultOf(manager.open())
        self.log = self.successResultOf(manager.create(PARTITION))
        self.disk.flush_times.take_longest()

    def test_under_way(self) -> None:
        self.disk.held.add(IOPool.SYNC)
        append_as_leader(self.log, batch(), 0)
        flushed = self.log.flush()
        self.clock.advance(7)
        self.assertEqual(self.disk.flush_times.take_longest(), 7)
        self.disk.held.clear()
        self.disk.release(IOPool.SYNC)
        self.successResultOf(flushed)
        self.assertEqual((self.disk.flush_times.take_longest(), self.disk.flush_times.take_longest()), (7, 0))

    def test_failed(self) -> None:
        self.disk.faults = lambda op, path: OSError(errno.EIO, "broken") if op == "sync" else None
        append_as_leader(self.log, batch(), 0)
        self.failureResultOf(self.log.flush(), StorageError)
        self.clock.advance(7)
        self.assertEqual(self.disk.flush_times.take_longest(), 0)
