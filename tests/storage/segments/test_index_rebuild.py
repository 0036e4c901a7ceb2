"""Damaged indexes of large segments, rebuilt a slice at a time."""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import LogLevel, capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.istorage import IOPool
from logbus.storage.log import Log
from logbus.storage.offset_lookup import offset_for_timestamp
from logbus.storage.segments.index_rebuild import SLICE
from logbus.testing.simulation.environment.memory_disk import Directory, Inode, MemoryDisk, broken
from tests.storage.builders import NOW_MS, PARTITION, a_manager, batch, data_of, finish, offsets_of

CONFIG = TopicConfig(segment_bytes=1_200_000)
COUNT = 1000
VALUE = bytes(2000)


class IndexRebuildTests(SynchronousTestCase):
    """Two segments, the first of more than a megabyte; the read pool works when the test says so."""

    def setUp(self) -> None:
        self.disk = MemoryDisk()
        log = self.open()
        for i in range(COUNT):
            self.append(log, i)
        self.assertEqual(len(log.segments), 2)
        self.bases = [segment.base_offset for segment in log.segments]
        self.successResultOf(self.manager.close())
        self.intact = {name: self.file(name).content() for name in self.names() if "index" in name}
        self.assertEqual(len(self.intact), 4)

    def open(self) -> Log:
        self.disk = self.disk.after_kill()
        self.manager = a_manager(self.disk, default_config=CONFIG)
        self.successResultOf(self.manager.open())
        return self.successResultOf(self.manager.create(PARTITION))

    def append(self, log: Log, i: int) -> None:
        append_as_leader(log, batch(VALUE, timestamp=NOW_MS + i), 0)

    def names(self) -> list[str]:
        directory = self.disk.tree.entries["orders-0"]
        assert isinstance(directory, Directory)
        return sorted(directory.entries)

    def file(self, name: str) -> Inode:
        directory = self.disk.tree.entries["orders-0"]
        assert isinstance(directory, Directory)
        inode = directory.entries[name]
        assert isinstance(inode, Inode)
        return inode

    def damaged(self, segment: int, kind: str = ".index", damage: Callable[[bytes], bytes] = lambda data: b"") -> Log:
        """The log after a start, with an index of one segment damaged meanwhile."""
        name = f"{self.bases[segment]:020d}{kind}"
        inode = self.file(name)
        inode.truncate(0)
        inode.write(0, damage(self.intact[name]))
        log = self.open()
        self.disk.held.add(IOPool.READ)
        return log

    def finish(self, log: Log, segment: int) -> int:
        """Let the rebuilding run, and see that it takes no more than a slice at a time; how many it took."""
        steps = before = 0
        while (index_rebuild := log.segments[segment].index_rebuild) is not None:
            # The last batch of a slice may reach out of it.
            self.assertLess(index_rebuild.position - before, SLICE + 2 * len(VALUE))
            before = index_rebuild.position
            self.assertEqual(self.disk.release(IOPool.READ, 1), 1)
            steps += 1
        self.disk.held.clear()
        return steps

    def refused(self, call: Callable[[], object]) -> None:
        error = self.assertRaises(ApiError, call)
        self.assertEqual(error.code, ErrorCode.KAFKA_STORAGE_ERROR)
        self.assertIn("being rebuilt", error.message)

    def found(self, log: Log, count: int = COUNT) -> None:
        for offset in range(0, count, 7):
            self.assertEqual(offsets_of(data_of(log.read(offset, 1).data)), [offset])
            self.assertEqual(finish(offset_for_timestamp(log, NOW_MS + offset)).offset, offset)  # type: ignore[union-attr]

    def test_an_older_segment(self) -> None:
        """
        Reads there get a retriable error; the log's end can be written and read; then the indexes are as before.
        """
        for kind in (".index", ".timeindex"):
            with self.subTest(kind=kind):
                log = self.damaged(0, kind)
                self.refused(lambda log=log: log.read(10, 1))  # type: ignore[misc]
                self.refused(lambda log=log: finish(offset_for_timestamp(log, NOW_MS + 10)))  # type: ignore[misc]
                self.append(log, COUNT)
                self.assertEqual(offsets_of(data_of(log.read(COUNT, 1).data)), [COUNT])
                self.refused(lambda log=log: log.read(10, 1))  # type: ignore[misc]
                self.assertGreater(self.finish(log, 0), 1_000_000 // SLICE)
                self.found(log, COUNT + 1)
                for name in (f"{0:020d}.index", f"{0:020d}.timeindex"):
                    self.assertEqual(self.file(name).content(), self.intact[name])
                self.setUp()

    def test_index_ending_early(self) -> None:
        """
        One that fits but covers half of the segment is noticed without a walk over the rest.
        """
        log = self.damaged(0, damage=lambda data: data[: len(data) // 16 * 8])
        self.refused(lambda: log.read(10, 1))
        self.finish(log, 0)
        self.found(log)

    def test_wrong_entries_in_the_middle(self) -> None:
        """An index with a correct end and wrong entries before it is noticed when a lookup fails."""
        log = self.damaged(0, damage=lambda data: data[:399] + bytes([data[399] ^ 1]) + data[400:])
        relative = int.from_bytes(self.intact[f"{0:020d}.index"][392:396], "big")
        self.assertEqual(offsets_of(data_of(log.read(0, 1).data)), [0])
        self.refused(lambda: log.read(relative + 1, 1))
        self.finish(log, 0)
        self.found(log)

    def test_the_segment_to_be_written(self) -> None:
        """
        Producers, too, get a retriable error; their retries are appended in the right place.
        """
        log = self.damaged(1)
        self.refused(lambda: self.append(log, COUNT))
        self.refused(lambda: self.append(log, COUNT))
        self.assertGreater(self.finish(log, 1), 2)
        self.append(log, COUNT)
        self.assertEqual(log.log_end_offset, COUNT + 1)
        self.found(log, COUNT + 1)

    def test_active_segment(self) -> None:
        """A wrong index of the active segment is replaced, including all batches appended meanwhile."""
        log = self.damaged(1, damage=lambda data: data[:399] + bytes([data[399] ^ 1]) + data[400:])
        self.append(log, COUNT)
        relative = int.from_bytes(self.intact[f"{self.bases[1]:020d}.index"][392:396], "big")
        self.refused(lambda: log.read(self.bases[1] + relative + 1, 1))
        for i in range(COUNT + 1, COUNT + 50):
            self.append(log, i)
            self.disk.release(IOPool.READ, 1)
        self.finish(log, 1)
        self.found(log, COUNT + 50)
        self.successResultOf(self.manager.close())
        self.found(self.open(), COUNT + 50)

    def test_roll_during_a_rebuild(self) -> None:
        """The segment may be rolled during the rebuild."""
        log = self.damaged(1, damage=lambda data: data[:399] + bytes([data[399] ^ 1]) + data[400:])
        self.append(log, COUNT)
        relative = int.from_bytes(self.intact[f"{self.bases[1]:020d}.index"][392:396], "big")
        self.refused(lambda: log.read(self.bases[1] + relative + 1, 1))
        log.roll()
        self.append(log, COUNT + 1)
        self.finish(log, 1)
        self.found(log, COUNT + 2)

    def test_damaged_segment(self) -> None:
        """Records before the damage can be read; those after it cannot, and the error says why."""
        inode = self.file(f"{0:020d}.log")
        inode.write(len(inode.content()) // 2, bytes(3000))
        log = self.damaged(0)
        self.refused(lambda: log.read(10, 1))
        self.finish(log, 0)
        self.found(log, COUNT // 4)
        self.assertRaises(StorageError, log.read, self.bases[1] - 1, 1)

    def test_deletion_during_a_rebuild(self) -> None:
        """A segment that is deleted during the rebuild gets no index."""
        log = self.damaged(0)
        self.refused(lambda: log.read(10, 1))
        self.disk.release(IOPool.READ, 2)
        self.successResultOf(self.manager.delete(PARTITION))
        self.disk.release(IOPool.READ)
        self.assertIsNone(self.disk.failure)
        self.assertNotIn("orders-0", self.disk.tree.entries)
        leftover = next(entry for entry in self.disk.tree.entries.values() if isinstance(entry, Directory))
        self.assertNotIn(f"{0:020d}.index", leftover.entries)

    def test_disk_failure_during_a_rebuild(self) -> None:
        """The directory goes offline, and readers get that error from then on."""
        log = self.damaged(0)
        self.refused(lambda: log.read(10, 1))
        self.disk.faults = lambda op, path: broken() if op == "read" else None
        self.disk.release(IOPool.READ, 1)
        self.disk.faults = lambda op, path: None
        self.assertIsNotNone(self.disk.failure)
        self.assertRaises(StorageError, log.read, 10, 1)

    def test_crash_during_a_rebuild(self) -> None:
        """A broker that dies during the rebuild finds everything after its restart."""
        log = self.damaged(0)
        self.refused(lambda: log.read(10, 1))
        self.disk.release(IOPool.READ, 3)
        self.found(self.open())


class EmptyLogTests(SynchronousTestCase):
    """A log that was never written to has no index files."""

    def test_first_append_after_a_restart(self) -> None:
        """Nothing is wrong, and no warning says so."""
        disk = MemoryDisk()
        manager = a_manager(disk)
        self.successResultOf(manager.open())
        self.successResultOf(manager.create(PARTITION))
        self.successResultOf(manager.close())
        manager = a_manager(disk.after_kill())
        self.successResultOf(manager.open())
        log = self.successResultOf(manager.create(PARTITION))
        with capturedLogs() as told:
            append_as_leader(log, batch(b"x"), 0)
        self.assertEqual([event for event in told if event["log_level"] > LogLevel.info], [])
        self.assertEqual(log.log_end_offset, 1)
