"""Several log directories; creation and deletion of logs."""

from __future__ import annotations

import uuid
from typing import Any

from twisted.internet.defer import CancelledError, fail
from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError, ConfigError, ErrorCode, StorageError
from logbus.model import TopicPartition
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.checkpoints import LOG_START_OFFSETS, MetaProperties
from logbus.storage.filesystem.bounded_work import MOST_WRITE_BACKS
from logbus.storage.istorage import IOPool
from logbus.storage.log_manager import LogManager
from logbus.storage.log_user import NoLogUser
from logbus.storage.settings import StorageSettings
from logbus.testing.simulation.environment.inodes import PowerCutOutcome
from logbus.testing.simulation.environment.memory_disk import MemoryDisk, broken, no_space
from tests.storage.builders import PARTITION, a_manager, batch, read_all

ID = uuid.UUID(int=77)


def opened(test: SynchronousTestCase, *disks: MemoryDisk, **fields: Any) -> LogManager:
    manager = a_manager(*disks, **fields)
    test.successResultOf(manager.open())
    return manager


class LogManagerTests(SynchronousTestCase):
    """Create, delete, open, close."""

    def test_the_emptiest_directory(self) -> None:
        """Logs are spread over the directories."""
        disks = [MemoryDisk("/a"), MemoryDisk("/b"), MemoryDisk("/c")]
        manager = opened(self, *disks)
        for i in range(7):
            self.successResultOf(manager.create(TopicPartition("t", i)))
        self.assertEqual([len(d.logs) for d in manager.directories], [3, 2, 2])
        self.successResultOf(manager.close())
        again = opened(self, *(disk.after_kill() for disk in disks))
        self.assertEqual(sorted(log.partition.partition for log in again), list(range(7)))

    def test_topic_ids(self) -> None:
        """A log knows its topic's id after any restart, and is not given out as another topic's."""
        disk = MemoryDisk()
        manager = opened(self, disk)
        log = self.successResultOf(manager.create(PARTITION, ID))
        self.assertIs(self.successResultOf(manager.create(PARTITION, ID)), log)
        error = self.failureResultOf(manager.create(PARTITION, uuid.UUID(int=78)), ApiError).value
        self.assertEqual(error.code, ErrorCode.INCONSISTENT_TOPIC_ID)
        killed = opened(self, disk.after_kill())
        self.assertEqual([log.topic_id for log in killed], [ID])
        self.successResultOf(killed.close())
        self.assertEqual([log.topic_id for log in opened(self, disk.after_kill())], [ID])

    def test_high_watermark_above_the_recovered_end(self) -> None:
        """
        A high watermark above the recovered end is lowered on disk before the log is used, so that new records do not
        count as committed.
        """
        disk = MemoryDisk()
        manager = opened(self, disk)
        log = self.successResultOf(manager.create(PARTITION, ID))
        for _ in range(5):
            append_as_leader(log, batch(b"lost"), 0)
        self.successResultOf(log.flush())
        append_as_leader(log, batch(b"unsynced"), 0)
        log.high_watermark = log.log_end_offset
        self.successResultOf(manager.directories[0].checkpoint_high_watermarks())
        recovered = disk.after_power_cut(PowerCutOutcome("lose"))
        (log,) = opened(self, recovered)
        self.assertEqual((log.log_end_offset, log.high_watermark), (5, 5))
        append_as_leader(log, batch(b"written"), 1)
        (log,) = opened(self, recovered.after_kill())
        self.assertEqual((log.log_end_offset, log.high_watermark), (6, 5))

    def test_created_by_two(self) -> None:
        """A second request while a log is being created gets the same log."""
        disk = MemoryDisk()
        manager = opened(self, disk)
        disk.held.add(IOPool.BACKGROUND)
        asked = [manager.create(PARTITION, ID), manager.create(PARTITION, ID)]
        disk.release(IOPool.BACKGROUND)
        first, second = map(self.successResultOf, asked)
        self.assertIs(first, second)

    def test_names(self) -> None:
        """A topic whose name cannot be a directory name is refused."""
        manager = opened(self, MemoryDisk())
        for topic in ("../x", "", "a/b", "x" * 250):
            error = self.failureResultOf(manager.create(TopicPartition(topic, 0)), ApiError).value
            self.assertEqual(error.code, ErrorCode.INVALID_TOPIC_EXCEPTION)

    def test_no_space(self) -> None:
        """Without space a log is not created, and can be when there is space."""
        disk = MemoryDisk()
        manager = opened(self, disk)
        disk.faults = lambda op, path: no_space() if op in ("create", "make") else None
        self.failureResultOf(manager.create(PARTITION), ApiError)
        disk.faults = lambda op, path: None
        self.successResultOf(manager.create(PARTITION))

    def test_no_space_in_one_directory(self) -> None:
        """Nothing of the attempt is left there: a start would refuse a partition that is in two directories."""
        disks = [MemoryDisk("/a"), MemoryDisk("/b")]
        manager = opened(self, *disks)
        for name in ("t", "u", "v"):
            self.successResultOf(manager.create(TopicPartition(name, 0)))
        disks[1].faults = lambda op, path: no_space() if op == "create" else None
        self.failureResultOf(manager.create(PARTITION), ApiError)
        for name in ("t", "v"):
            self.successResultOf(manager.delete(TopicPartition(name, 0)))
        self.assertIs(self.successResultOf(manager.create(PARTITION)).disk, disks[0])
        again = opened(self, *(disk.after_kill() for disk in disks))
        self.assertEqual(sorted(log.partition.topic for log in again), ["orders", "u"])

    def test_remains_of_an_earlier_log(self) -> None:
        """What could not be renamed when its log was given up is kept, and not written into."""
        disks = [MemoryDisk("/a"), MemoryDisk("/b")]
        manager = opened(self, *disks)
        log = self.successResultOf(manager.create(PARTITION, ID))
        append_as_leader(log, batch(b"old"), 0)
        self.patch(disks[0], "submit", lambda *_: fail(ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "no thread")))
        self.failureResultOf(manager.delete(PARTITION), ApiError)
        del disks[0].submit
        self.successResultOf(manager.create(TopicPartition("t", 0)))
        new = self.successResultOf(manager.create(PARTITION, uuid.UUID(int=78)))
        append_as_leader(new, batch(b"new"), 0)
        again = opened(self, *(disk.after_kill() for disk in disks))
        self.assertEqual([read_all(log) for log in again if log.partition == PARTITION], [[(0, b"new")]])
        [stray] = [name for name in disks[0].names("") if name.endswith("-stray")]
        self.assertIn(b"old", disks[0].read(f"{stray}/00000000000000000000.log"))

    def test_delete(self) -> None:
        """A deleted log is out of sight at once, and its files are gone after a while; its name is free."""
        disk = MemoryDisk()
        manager = opened(self, disk)
        log = self.successResultOf(manager.create(PARTITION, ID))
        append_as_leader(log, batch(), 0)
        slice_ = log.read(0, 1000).data
        self.successResultOf(manager.delete(PARTITION))
        self.assertIsNone(manager.get(PARTITION))
        self.assertRaises(ApiError, append_as_leader, log, batch(), 0)
        assert slice_ is not None
        self.assertEqual(len(slice_.read()), len(slice_))
        [gone] = [name for name in disk.names("") if name.endswith("-delete")]
        self.assertTrue(gone.startswith("orders-0."))
        self.assertEqual(self.successResultOf(manager.create(PARTITION)).log_end_offset, 0)
        manager.clock.advance(61)  # type: ignore[attr-defined]
        self.assertNotIn(gone, disk.names(""))
        self.successResultOf(manager.delete(TopicPartition("none", 0)))

    def test_deleted_before_a_restart(self) -> None:
        """What was to be removed is removed by the next life."""
        disk = MemoryDisk()
        manager = opened(self, disk)
        self.successResultOf(manager.create(PARTITION))
        self.successResultOf(manager.delete(PARTITION))
        self.successResultOf(manager.close())
        again = disk.after_kill()
        self.assertEqual(len(opened(self, again)), 0)
        self.assertFalse([name for name in again.names("") if "orders" in name])

    def test_made_again(self) -> None:
        """After a crash a partition that was deleted and made again has nothing of what was noted of the former log."""
        for dispose in (LogManager.delete, LogManager.set_aside):
            disk = MemoryDisk()
            manager = opened(self, disk)
            former = self.successResultOf(manager.create(PARTITION, ID))
            for _ in range(30):
                append_as_leader(former, batch(b"old"), 1)
            self.successResultOf(former.flush())
            former.high_watermark = former.cleaned_end_offset = 30
            self.assertEqual(self.successResultOf(manager.delete_records(PARTITION, 20)), 20)
            directory = manager.directories[0]
            self.successResultOf(directory.checkpoint_recovery_points())
            self.successResultOf(directory.checkpoint_high_watermarks())
            self.successResultOf(directory.checkpoint_cleaned_offsets())
            self.successResultOf(dispose(manager, PARTITION))
            log = self.successResultOf(manager.create(PARTITION, uuid.UUID(int=78)))
            for _ in range(40):
                append_as_leader(log, batch(b"new"), 1)
            self.successResultOf(log.flush())
            again = opened(self, disk.after_power_cut(PowerCutOutcome("lose")))
            (found,) = again
            self.assertEqual(read_all(found), [(offset, b"new") for offset in range(40)])
            self.assertEqual((found.high_watermark, found.cleaned_end_offset), (0, 0))
            self.assertEqual(found.checkpointed_recovery_point, 0)

    def test_deleted_records_that_were_lost(self) -> None:
        """
        Where a power cut took records that had been deleted, their offsets are used again; another crash leaves what
        took their place.
        """
        disk = MemoryDisk()
        manager = opened(self, disk)
        log = self.successResultOf(manager.create(PARTITION, ID))
        for count in (2, 2):
            for _ in range(count):
                append_as_leader(log, batch(b"old"), 1)
            if log.log_end_offset == 2:
                self.successResultOf(log.flush())
        log.high_watermark = 4
        self.assertEqual(self.successResultOf(manager.delete_records(PARTITION, 4)), 4)
        disk = disk.after_power_cut(PowerCutOutcome("lose"))
        again = opened(self, disk)
        (found,) = again
        self.assertEqual((found.log_start_offset, found.log_end_offset, again.shortened), (2, 2, 1))
        append_as_leader(found, batch(b"new"), 2)
        self.successResultOf(found.flush())
        (found,) = opened(self, disk.after_kill())
        self.assertEqual(read_all(found), [(2, b"new")])

    def test_one_directory_fails(self) -> None:
        """Its logs go offline, the listener is called once, and the others go on; new logs avoid it."""
        lost: list[Any] = []
        disks = [MemoryDisk("/a"), MemoryDisk("/b")]
        user = NoLogUser()
        user.directory_failed = lambda logs, why: lost.append((list(logs), why))  # type: ignore[method-assign]
        manager = opened(self, *disks, user=user)
        logs = [self.successResultOf(manager.create(TopicPartition("t", i))) for i in range(4)]
        disks[0].faults = lambda op, path: broken() if op == "write" else None
        self.assertRaises(StorageError, append_as_leader, logs[0], batch(), 0)
        self.assertRaises(StorageError, append_as_leader, logs[2], batch(), 0)
        self.assertEqual([logs for logs, _ in lost], [[TopicPartition("t", 0), TopicPartition("t", 2)]])
        self.assertIn("Input/output error", lost[0][1])
        append_as_leader(logs[1], batch(), 0)
        self.assertIsNone(manager.get(TopicPartition("t", 0)))
        self.assertIs(self.successResultOf(manager.create(TopicPartition("u", 0))).disk, disks[1])
        self.successResultOf(manager.close())
        self.assertNotIn(".logbus_cleanshutdown", disks[0].names(""))
        self.assertIn(".logbus_cleanshutdown", disks[1].names(""))

    def test_a_directory_fails_at_start(self) -> None:
        """One that cannot be read is left out; when all fail, the start does."""
        disks = [MemoryDisk("/a"), MemoryDisk("/b")]
        manager = opened(self, *disks)
        for i in range(2):
            log = self.successResultOf(manager.create(TopicPartition("t", i)))
            append_as_leader(log, batch(), 0)
        ill, well = (disk.after_kill() for disk in disks)
        ill.faults = lambda op, path: broken() if op == "read" else None
        again = opened(self, ill, well)
        self.assertEqual([log.partition.partition for log in again], [1])
        alone = disks[0].after_kill()
        alone.faults = lambda op, path: broken() if op == "read" else None
        self.failureResultOf(a_manager(alone).open(), StorageError)

    def test_a_directory_that_cannot_be_listed_at_start(self) -> None:
        """It is left out, too, whichever step of the start finds that out; logs of the others are as they were."""
        for step in range(1, 4):
            listed: list[str] = []

            class Ill(MemoryDisk):
                def names(self, path: str, listed: list[str] = listed, step: int = step) -> list[str]:
                    listed.append(path)
                    if len(listed) >= step:
                        raise self.fail(StorageError("/b: cannot list it: Input/output error"))
                    return super().names(path)

            well, former = MemoryDisk("/a"), MemoryDisk("/b")
            manager = opened(self, well, former)
            append_as_leader(self.successResultOf(manager.create(PARTITION)), batch(), 0)
            self.successResultOf(manager.close())
            again = opened(self, well.after_kill(), Ill("/b", former.after_kill().tree))
            self.assertEqual([log.partition for log in again], [PARTITION])
            self.assertEqual(again.offline_directories, ["/b"])
            error = self.failureResultOf(a_manager(Ill("/b", former.after_kill().tree)).open(), StorageError).value
            self.assertIn("cannot list it", str(error))

    def test_a_stop_while_logs_are_opened(self) -> None:
        """Those of no directory are waited for: to recover them may take long."""
        disks = [MemoryDisk("/a"), MemoryDisk("/b")]
        self.successResultOf(opened(self, *disks).close())
        left = [disk.after_kill() for disk in disks]
        for disk in left:
            disk.held.add(IOPool.BACKGROUND)
        opening = a_manager(*left).open()
        self.assertNoResult(opening)
        opening.cancel()
        self.failureResultOf(opening, CancelledError)

    def test_locked(self) -> None:
        """A directory that another broker holds is refused, and the others are let go."""
        first, second = MemoryDisk("/a"), MemoryDisk("/b")
        second.locked = True
        self.failureResultOf(a_manager(first, second).open(), ConfigError)
        self.assertFalse(first.locked)

    def test_whose_directory(self) -> None:
        """A directory is its broker's for ever, and Kafka's are left alone."""
        disk = MemoryDisk()
        manager = opened(self, disk)
        self.assertIsNone(manager.meta)
        self.successResultOf(manager.claim(3, "abc"))
        self.successResultOf(manager.close())
        again = opened(self, disk.after_kill())
        self.successResultOf(again.claim(3, "abc"))
        self.assertIn("broker 3", str(self.failureResultOf(again.claim(4, "abc"), ConfigError).value))
        kafka = MemoryDisk()
        kafka.replace("meta.properties", b"version=0\nbroker.id=0\ncluster.id=x\n")
        self.failureResultOf(a_manager(kafka).open(), ConfigError)
        self.assertEqual(kafka.names(""), ["meta.properties"])

    def test_a_missing_directory(self) -> None:
        """
        A disk that is not mounted, or not listed any more, is told from a new one: its partitions would begin anew.
        """
        one = MemoryDisk("/a")
        manager = opened(self, one, MemoryDisk("/b"))
        self.successResultOf(manager.claim(3, "abc"))
        manager.start_housekeeping()
        self.successResultOf(manager.close())
        for disks, said in (
            ((one, MemoryDisk("/b")), "1 log directory that this broker had is missing, and /b is new"),
            ((one,), "1 log directory that this broker had is not in the list"),
            ((one, MemoryDisk("/b"), MemoryDisk("/c")), "1 log directory that this broker had is missing, and /b, /c "),
        ):
            manager = opened(self, *(disk.after_kill() for disk in disks))
            text = str(self.failureResultOf(manager.claim(3, "abc"), ConfigError).value)
            self.assertIn(said, text)
            self.assertIn("With log.dirs.allow.missing=true", text)
        lenient = StorageSettings(allow_missing_directories=True)
        manager = opened(self, one := one.after_kill(), settings=lenient)
        self.successResultOf(manager.claim(3, "abc"))
        self.assertTrue(manager.logs_lost)
        # After a crash before the cluster knows what was lost, it is said again.
        manager = opened(self, one := one.after_kill())
        self.failureResultOf(manager.claim(3, "abc"), ConfigError)
        manager = opened(self, one := one.after_kill(), settings=lenient)
        self.successResultOf(manager.claim(3, "abc"))
        self.assertTrue(manager.logs_lost)
        manager.start_housekeeping()
        self.successResultOf(manager.close())
        # From then on that one is all there are.
        manager = opened(self, one.after_kill())
        self.successResultOf(manager.claim(3, "abc"))
        self.assertFalse(manager.logs_lost)

    def test_one_more_directory(self) -> None:
        """
        A directory can be added, also if the broker ends before all directories know of it; those of a version that
        did not note their number are taken as they are.
        """
        old = MemoryDisk("/a")
        old.replace("meta.properties", MetaProperties(3, "abc").encode())
        manager = opened(self, old, new := MemoryDisk("/b"))
        old.faults = lambda op, path: broken() if (op, path) == ("replace", "meta.properties") else None
        self.failureResultOf(manager.claim(3, "abc"))
        manager = opened(self, old.after_kill(), new.after_kill())
        self.successResultOf(manager.claim(3, "abc"))
        self.assertEqual([each.meta for each in manager.directories], [MetaProperties(3, "abc", 2)] * 2)

    def test_a_directory_whose_disk_fails(self) -> None:
        """It is not missing."""
        disks = [MemoryDisk("/a"), MemoryDisk("/b")]
        manager = opened(self, *disks)
        self.successResultOf(manager.claim(3, "abc"))
        for i in range(2):
            append_as_leader(self.successResultOf(manager.create(TopicPartition("t", i))), batch(), 0)
        well, ill = (disk.after_kill() for disk in disks)
        ill.faults = lambda op, path: broken() if op == "read" else None
        manager = opened(self, well, ill)
        self.assertEqual([each.is_online for each in manager.directories], [True, False])
        self.successResultOf(manager.claim(3, "abc"))

    def test_one_partition_in_two_directories(self) -> None:
        """Two logs of one partition are an error that names both directories."""
        disks = [MemoryDisk("/a"), MemoryDisk("/b")]
        for disk in disks:
            disk.make_directory("t-0")
        text = str(self.failureResultOf(a_manager(*disks).open(), ConfigError).value)
        self.assertTrue("/a" in text and "/b" in text)

    def test_snapshot_of_the_recovery_point_on_disk(self) -> None:
        """
        Write-backs come faster than recovery points are put down; the snapshot that a recovery from the one on disk
        begins with is kept all the while, so that only what came after it is scanned.
        """
        disk = MemoryDisk()
        manager = opened(self, disk)
        log = self.successResultOf(manager.create(PARTITION))
        for turn in range(6):
            append_as_leader(log, batch(), 0)
            self.successResultOf(log.flusher.write_back_and_wait())
            if turn == 0:
                self.successResultOf(manager.directories[0].checkpoint_recovery_points())
        kept = sorted(name for name in disk.names("orders-0") if name.endswith(".snapshot"))
        self.assertIn(f"{1:020d}.snapshot", kept)
        self.assertLessEqual(len(kept), 4)

    def test_delete_records(self) -> None:
        """The new start is on disk when the answer comes, and survives a kill."""
        disk = MemoryDisk()
        manager = opened(self, disk)
        log = self.successResultOf(manager.create(PARTITION))
        for _ in range(5):
            append_as_leader(log, batch(), 0)
        self.assertEqual(self.successResultOf(manager.delete_records(PARTITION, 3)), 3)
        self.failureResultOf(manager.delete_records(PARTITION, 6), ApiError)
        disk = disk.after_kill()
        again = opened(self, disk)
        self.assertEqual([log.log_start_offset for log in again], [3])
        # Before the log has the settings of its topic, too.
        self.assertEqual(self.successResultOf(again.delete_records(PARTITION, 4)), 4)
        again = opened(self, disk.after_kill())
        self.assertEqual([log.log_start_offset for log in again], [4])

    def test_records_of_many_logs_are_deleted_together(self) -> None:
        """Deletions of records in many logs share the writes of the start offsets, and none is confirmed before its."""
        disk = MemoryDisk()
        manager = opened(self, disk)
        logs = [self.successResultOf(manager.create(TopicPartition("t", i))) for i in range(50)]
        for log in logs:
            append_as_leader(log, batch(), 0)
        written: list[str] = []

        def note(op: str, path: str) -> None:
            if op == "replace" and path == LOG_START_OFFSETS:
                written.append(path)

        disk.faults = note
        disk.held.add(IOPool.BACKGROUND)
        deleting = [manager.delete_records(log.partition, 1) for log in logs]
        for each in deleting:
            self.assertNoResult(each)
        disk.held.clear()
        disk.release(IOPool.BACKGROUND)
        self.assertEqual([self.successResultOf(each) for each in deleting], [1] * 50)
        self.assertEqual(len(written), 2)
        again = opened(self, disk.after_kill())
        self.assertEqual([log.log_start_offset for log in again], [1] * 50)

    def test_few_files(self) -> None:
        """A hundred busy logs do not need a hundred descriptors once they are synced."""
        disk = MemoryDisk()
        manager = opened(self, disk, settings=StorageSettings(max_open_files=10))
        logs = [self.successResultOf(manager.create(TopicPartition("t", i))) for i in range(100)]
        for turn in range(3):
            for log in logs:
                append_as_leader(log, batch(b"%d" % turn), 0)
                self.successResultOf(log.flush())
        self.assertLessEqual(disk.open_files, 11)
        for log in logs:
            self.assertEqual([value for _, value in read_all(log)], [b"0", b"1", b"2"])

    def test_few_files_while_syncs_are_slow(self) -> None:
        """Logs that are written to faster than the device takes it do not use up the descriptors; nothing is lost."""
        disk = MemoryDisk()
        manager = opened(self, disk, settings=StorageSettings(max_open_files=10, max_unsynced_files=30))
        logs = [self.successResultOf(manager.create(TopicPartition("t", i))) for i in range(100)]
        disk.held |= {IOPool.BACKGROUND, IOPool.SYNC}
        for turn in range(3):
            for log in logs:
                append_as_leader(log, batch(b"%d" % turn), 0)
                log.roll()
            # Those in the cache, and those that write-backs wait for.
            self.assertLessEqual(disk.open_files, 31 + 4 * MOST_WRITE_BACKS)
        disk.held.clear()
        flushed = [log.flush() for log in logs]
        disk.release(IOPool.BACKGROUND)
        disk.release(IOPool.SYNC)
        disk.release(IOPool.BACKGROUND)
        for each in flushed:
            self.successResultOf(each)
        again = opened(self, disk.after_power_cut(PowerCutOutcome("lose")))
        self.assertEqual(len(list(again)), 100)
        for log in again:
            self.assertEqual([value for _, value in read_all(log)], [b"0", b"1", b"2"])

    def test_configs_are_swapped(self) -> None:
        """A log uses its topic's new settings from the next append on."""
        manager = opened(self, MemoryDisk())
        log = self.successResultOf(manager.create(PARTITION, None, TopicConfig(max_message_bytes=10)))
        self.assertRaises(ApiError, append_as_leader, log, batch(), 0)
        log.configure(TopicConfig())
        append_as_leader(log, batch(), 0)
