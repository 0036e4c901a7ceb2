"""Snapshots of all logs, which backups copy."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.storage import log_snapshots
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.log import Log
from logbus.storage.log_manager import LogManager
from logbus.storage.log_snapshots import KEPT_SECONDS, MANIFEST, NoSnapshot, Snapshot, SnapshotExists
from logbus.storage.retention import TimeAndSize
from logbus.storage.truncation import delete_expired
from logbus.testing.simulation.environment.memory_disk import MemoryDisk
from tests.storage.builders import NOW_MS, PARTITION, a_manager, batch, read_all
from tests.storage.test_log_crashes import result
from tests.storage.test_log_linker import append

SMALL = TopicConfig(segment_bytes=400, index_interval_bytes=100)


class SnapshotCase(SynchronousTestCase):
    """A broker's logs in two directories."""

    def setUp(self) -> None:
        self.disks = [MemoryDisk("/a"), MemoryDisk("/b")]
        self.clock = Clock()
        self.manager = self.opened(self.disks)
        self.manager.start_housekeeping()
        self.patch(log_snapshots, "COPIED_BYTES", 100)

    def opened(self, disks: list[MemoryDisk]) -> LogManager:
        manager = a_manager(*disks, clock=self.clock, default_config=SMALL)
        result(manager.open())
        return manager

    def log(self, number: int, count: int) -> Log:
        log: Log = result(self.manager.create(TopicPartition("orders", number)))
        append(log, count)
        return log

    def make(self) -> Snapshot:
        made: Snapshot = result(Deferred.fromCoroutine(self.manager.snapshots.make()))
        return made

    def manifest(self, made: Snapshot) -> dict[str, Any]:
        lines = [json.loads(line) for disk in self.disks for line in disk.read(f"{made.name}/{MANIFEST}").splitlines()]
        return {told["directory"]: told for told in lines}

    def found(self, made: Snapshot) -> dict[TopicPartition, list[tuple[int, bytes | None]]]:
        """What a broker finds that is started on the snapshot."""
        below = [MemoryDisk(disk.root, disk.tree.copy()).below(made.name) for disk in self.disks]
        return {log.partition: read_all(log) for log in self.opened(below)}

    def names(self) -> list[str]:
        return [name for disk in self.disks for name in disk.names("") if name.endswith("-snapshot")]


class MomentTests(SnapshotCase):
    """What is in a snapshot."""

    def test_all_of_one_moment(self) -> None:
        """Everything before it and nothing after it, whatever happens to the logs meanwhile."""
        logs = [self.log(number, number * 7) for number in range(5)]
        logs[4].advance_start(3)
        before = {log.partition: read_all(log) for log in logs}
        self.disks[0].replace(f"{logs[0].directory}/kafka07.plugin", b"positions")
        made = self.make()
        self.assertEqual(made.logs, 5)
        self.assertIn("kafka07.plugin", self.manifest(made)[str(logs[0].partition)]["files"])
        for log in logs:
            append(log, 9, 2)
        result(self.manager.truncator.truncate({logs[3].partition: 2}))
        append(logs[3], 6, 3)
        delete_expired(logs[2], TimeAndSize(), NOW_MS + 10**12)
        result(self.manager.delete(logs[1].partition))
        self.clock.advance(61)
        found = self.found(made)
        self.assertEqual(found.keys(), before.keys())
        for partition, records in before.items():
            # Where a log starts is in the manifest.
            start = self.manifest(made)[str(partition)]["start_offset"]
            self.assertEqual([each for each in found[partition] if each[0] >= start], records)

    def test_manifest(self) -> None:
        """Offsets, and the sizes of all files that are there."""
        log = self.log(0, 30)
        append_as_leader(log, batch(b"x", producer_id=7, producer_epoch=0, base_sequence=0), 2)
        log.high_watermark = 29
        made = self.make()
        told = self.manifest(made)["orders-0"]
        offsets = {key: told[key] for key in ("start_offset", "end_offset", "high_watermark", "cleaned_end_offset")}
        self.assertEqual(offsets, {"start_offset": 0, "end_offset": 31, "high_watermark": 29, "cleaned_end_offset": 0})
        self.assertLessEqual(told["recovery_point"], log.segments[-1].base_offset)
        disk, directory = log.disk, f"{made.name}/orders-0"
        self.assertEqual({name: disk.size(f"{directory}/{name}") for name in disk.names(directory)}, told["files"])
        self.assertGreater(len(told["files"]), 5)

    def test_no_append_changes_it(self) -> None:
        """Files with several names are not appended to, by this process or a later one."""
        log = self.log(0, 3)
        made = self.make()
        shared = [segment for segment in log.segments if log.disk.is_shared(segment.log.path)]
        self.assertTrue(shared)
        self.assertNotIn(log.segments[-1], shared)
        append(log, 1)
        before = self.found(made)
        append(log, 5)
        self.assertEqual(self.found(made), before)

    def test_retention_is_faster(self) -> None:
        """Segments that are gone when they are to be linked are not in it, and it starts behind them."""
        log = self.log(0, 30)
        records = read_all(log)
        link, gone = MemoryDisk.link, list[int]()

        def late(disk: MemoryDisk, path: str, new: str) -> None:
            if len(gone) < 2:
                base = log.segments[0].base_offset
                disk.unlink(log.segments[0].log.path)
                log.segments = log.segments[1:]
                gone.append(base)
            link(disk, path, new)

        self.patch(MemoryDisk, "link", late)
        made = self.make()
        start = self.manifest(made)["orders-0"]["start_offset"]
        self.assertGreater(start, gone[-1])
        self.assertEqual(self.found(made)[PARTITION], [each for each in records if each[0] >= start])

    def test_deleted_meanwhile(self) -> None:
        """A log that was deleted when its files are to be linked is not in it."""
        log = self.log(0, 3)
        self.log(1, 3)

        def gone(disk: MemoryDisk, path: str, new: str) -> None:
            if "orders-0" in path:
                disk.remove_tree("orders-0")
                for directory in self.manager.directories:
                    directory.logs.pop(log.partition, None)
                raise FileNotFoundError(path)
            link(disk, path, new)

        link = MemoryDisk.link
        self.patch(MemoryDisk, "link", gone)
        made = self.make()
        self.assertEqual((made.logs, list(self.manifest(made))), (1, ["orders-1"]))


class LifeTests(SnapshotCase):
    """One at a time, and not for ever."""

    def test_released(self) -> None:
        self.log(0, 3)
        made = self.make()
        self.assertEqual(self.names(), [made.name, made.name])
        self.failureResultOf(Deferred.fromCoroutine(self.manager.snapshots.make()), SnapshotExists)
        with self.assertRaises(NoSnapshot):
            self.manager.snapshots.release("other")
        self.manager.snapshots.release(made.name)
        self.clock.advance(0)
        self.assertEqual(self.names(), [])
        with self.assertRaises(NoSnapshot):
            self.manager.snapshots.release(made.name)
        self.assertNotEqual(self.make().name, made.name)

    def test_forgotten(self) -> None:
        """It stays while it is renewed."""
        made = self.make()
        for _ in range(3):
            self.clock.advance(KEPT_SECONDS - 1)
            self.manager.snapshots.renew(made.name)
        self.assertEqual(len(self.names()), 2)
        self.clock.advance(KEPT_SECONDS)
        self.clock.advance(0)
        self.assertEqual(self.names(), [])
        with self.assertRaises(NoSnapshot):
            self.manager.snapshots.renew(made.name)

    def test_removed_at_a_start(self) -> None:
        """And directories with a similar name are not."""
        self.log(0, 3)
        self.make()
        self.disks[0].make_directory("my-snapshot")
        self.manager = self.opened([MemoryDisk(disk.root, disk.tree.copy()) for disk in self.disks])
        self.disks = [directory.disk for directory in self.manager.directories]  # type: ignore[misc]
        self.assertEqual(self.names(), ["my-snapshot"])

    def test_no_space(self) -> None:
        """Nothing is left of it, and another one may be made later."""
        log = self.log(0, 30)
        before = read_all(log)

        def full(disk: MemoryDisk, *args: Any) -> None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "no space")

        link = MemoryDisk.link
        self.patch(MemoryDisk, "link", full)
        failure = self.failureResultOf(Deferred.fromCoroutine(self.manager.snapshots.make()), ApiError)
        self.assertEqual(failure.value.code, ErrorCode.KAFKA_STORAGE_ERROR)
        self.clock.advance(0)
        self.assertEqual(self.names(), [])
        self.patch(MemoryDisk, "link", link)
        self.assertEqual(self.found(self.make())[PARTITION], before)

    def test_offline_directory(self) -> None:
        """A backup without its logs would be none."""
        self.disks[1].fail(OSError("broken"))  # type: ignore[arg-type]
        failure = self.failureResultOf(Deferred.fromCoroutine(self.manager.snapshots.make()), ApiError)
        self.assertIn("/b is offline", failure.value.message)
        self.assertEqual(self.names(), [])

    def test_stopped(self) -> None:
        """A broker that stops makes none."""
        result(self.manager.close())
        self.failureResultOf(Deferred.fromCoroutine(self.manager.snapshots.make()), ApiError)
