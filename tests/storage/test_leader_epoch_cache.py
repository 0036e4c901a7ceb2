"""Leader epochs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.model import OffsetAndEpoch
from logbus.storage import checkpoints
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.istorage import IOPool
from logbus.storage.leader_epoch_cache import LeaderEpochCache
from logbus.storage.leader_epoch_loader import rebuild_epochs
from logbus.storage.log import Log
from logbus.storage.log_manager import LogManager
from logbus.testing.simulation.environment.memory_disk import MemoryDisk
from tests.storage.builders import PARTITION, a_log, a_manager, batch


class LeaderEpochCacheTests(SynchronousTestCase):
    """Which leader wrote which offsets."""

    def setUp(self) -> None:
        self.epochs = LeaderEpochCache([(2, 0), (5, 10), (6, 30)])

    def test_end_offsets(self) -> None:
        """The largest epoch at or below the one asked for, and where the next begins."""
        self.assertEqual(
            [self.epochs.end_offset_for(epoch, 50) for epoch in (-1, 0, 2, 3, 4, 5, 6, 7)],
            [
                OffsetAndEpoch(-1, -1),
                OffsetAndEpoch(0, 0),
                OffsetAndEpoch(10, 2),
                OffsetAndEpoch(10, 2),
                OffsetAndEpoch(10, 2),
                OffsetAndEpoch(30, 5),
                OffsetAndEpoch(50, 6),
                OffsetAndEpoch(-1, -1),
            ],
        )
        self.assertEqual(LeaderEpochCache().end_offset_for(0, 9), OffsetAndEpoch(-1, -1))

    def test_epoch_at(self) -> None:
        """The epoch in force at an offset."""
        self.assertEqual([self.epochs.epoch_at(offset) for offset in (0, 9, 10, 29, 30, 99)], [2, 2, 5, 5, 6, 6])
        self.assertEqual(LeaderEpochCache([(1, 5)]).epoch_at(4), -1)

    def test_file(self) -> None:
        """Kafka's text format, there and back; damage is noticed."""
        data = self.epochs.encode()
        self.assertEqual(data, b"0\n3\n2 0\n5 10\n6 30\n")
        self.assertEqual(list(LeaderEpochCache.decode(data)), list(self.epochs))
        for damaged in (b"", b"1\n0\n", b"0\n4\n2 0\n5 10\n6 30\n", b"0\n1\n2\n", b"\xff", b"0\n1\nx y\n"):
            self.assertRaises(ValueError, LeaderEpochCache.decode, damaged)

    def test_truncation(self) -> None:
        """Either end can be cut off; the epoch in force at the new start begins there."""
        self.epochs.truncate_end(30)
        self.assertEqual((list(self.epochs), self.epochs.latest), ([(2, 0), (5, 10)], 5))
        self.epochs.truncate_start(15)
        self.assertEqual((list(self.epochs), self.epochs.saved), ([(5, 15)], False))
        self.epochs.truncate_end(0)
        self.assertEqual((list(self.epochs), self.epochs.latest), ([], -1))

    @given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=20))
    def test_both_increase(self, assigned: list[tuple[int, int]]) -> None:
        """Whatever is assigned, epochs and starts increase, and the last one assigned counts."""
        epochs = LeaderEpochCache()
        for epoch, start in assigned:
            epochs.assign(epoch, start)
            self.assertEqual(epochs.latest, epoch)
            entries = list(epochs)
            self.assertEqual(entries, sorted(entries))
            self.assertEqual(len({start for _, start in entries}), len(entries))

    def test_of_a_leader_without_records(self) -> None:
        """The epoch a replica leads in is known before its first batch, and begins with it."""
        log = a_log()
        append_as_leader(log, batch(), 3)
        log.become_leader(4)
        self.assertEqual(log.end_offset_for_epoch(4), OffsetAndEpoch(1, 4))
        self.assertEqual(log.end_offset_for_epoch(3), OffsetAndEpoch(1, 3))
        self.assertEqual(log.end_offset_for_epoch(5), OffsetAndEpoch(-1, -1))
        append_as_leader(log, batch(), 4)
        self.assertEqual(log.end_offset_for_epoch(3), OffsetAndEpoch(1, 3))
        self.assertEqual(list(log.epochs), [(3, 0), (4, 1)])


class DamagedCheckpointTests(SynchronousTestCase):
    """The file is gone, or nonsense."""

    def test_rebuilt_from_batches(self) -> None:
        """The epochs are rebuilt from the batches, after a clean stop as after a crash."""
        for stops in (True, False):
            for damage in (b"nonsense", None):
                disk = MemoryDisk()
                manager = a_manager(disk)
                self.successResultOf(manager.open())
                log = self.successResultOf(manager.create(PARTITION))
                for epoch in (0, 0, 2, 5, 5):
                    append_as_leader(log, batch(), epoch)
                self.successResultOf(log.flush())
                self.successResultOf(manager.directories[0].checkpoint_recovery_points())
                if stops:
                    self.successResultOf(manager.close())
                path = f"{log.directory}/leader-epoch-checkpoint"
                if damage is None:
                    disk.unlink(path)
                else:
                    disk.replace(path, damage)
                again = a_manager(disk.after_kill())
                self.successResultOf(again.open())
                found = again.get(PARTITION)
                assert found is not None
                self.assertEqual(list(found.epochs), [(0, 0), (2, 2), (5, 3)], (stops, damage))

    def stopped(self, disk: MemoryDisk) -> str:
        """Epochs 0, 2 and 5 in a log that was closed cleanly; the path of their checkpoint."""
        manager = a_manager(disk)
        self.successResultOf(manager.open())
        self.successResultOf(manager.directories[0].remember_boot())
        log = self.successResultOf(manager.create(PARTITION))
        for epoch in (0, 0, 2, 5, 5):
            append_as_leader(log, batch(), epoch)
        self.successResultOf(manager.close())
        return f"{log.directory}/leader-epoch-checkpoint"

    def opened(self, disk: MemoryDisk) -> tuple[LogManager, Log]:
        manager = a_manager(disk)
        self.successResultOf(manager.open())
        log = manager.get(PARTITION)
        assert log is not None
        return manager, log

    def test_in_place(self) -> None:
        """
        After a clean stop the marker has the epochs, whatever became of the file; after a crash they are found in the
        batches.
        """
        disk = MemoryDisk()
        path = self.stopped(disk)
        disk = disk.after_kill()
        disk.open(path).write(0, [b"nonsense"])
        manager, log = self.opened(disk)
        self.assertEqual((list(log.epochs), manager.directories[0].unclean_shutdown), ([(0, 0), (2, 2), (5, 3)], False))
        self.assertTrue(disk.read(path).startswith(b"nonsense"))
        append_as_leader(log, batch(), 5)
        self.successResultOf(log.flush())
        manager, log = self.opened(disk.after_kill())
        self.assertEqual((list(log.epochs), manager.directories[0].unclean_shutdown), ([(0, 0), (2, 2), (5, 3)], True))

    def test_marker_of_an_older_release(self) -> None:
        """It has no epochs: they are read from the file, or if that is damaged found in a thread, as after a crash."""
        encode = checkpoints.encode_marker_entry

        def without_epochs(directory: str, state: Mapping[str, Any]) -> str:
            return encode(directory, {key: state[key] for key in state if not key.startswith("epochs")})

        for is_damaged in (False, True):
            disk = MemoryDisk()
            with patch.object(checkpoints, "encode_marker_entry", without_epochs):
                path = self.stopped(disk)
            disk = disk.after_kill()
            if is_damaged:
                disk.open(path).write(0, [b"nonsense"])
            disk.held.add(IOPool.READ)
            manager = a_manager(disk)
            opening = manager.open()
            if is_damaged:
                self.assertNoResult(opening)
            while disk.release(IOPool.READ):
                pass
            self.successResultOf(opening)
            log = manager.get(PARTITION)
            assert log is not None
            found = (list(log.epochs), manager.directories[0].unclean_shutdown)
            self.assertEqual(found, ([(0, 0), (2, 2), (5, 3)], is_damaged))

    def test_unsaved(self) -> None:
        """Epochs that were not saved before a clean stop are saved by the next flush."""
        disk = MemoryDisk()
        path = self.stopped(disk)
        manager, log = self.opened(disk.after_kill())
        log.epochs.truncate_start(2)
        self.successResultOf(manager.close())
        assert isinstance(log.disk, MemoryDisk)
        disk = log.disk.after_kill()
        _, log = self.opened(disk)
        self.assertEqual((list(log.epochs), disk.read(path)), ([(2, 2), (5, 3)], b"0\n3\n0 0\n2 2\n5 3\n"))
        append_as_leader(log, batch(), 5)
        self.successResultOf(log.flush())
        self.assertEqual(disk.read(path), b"0\n2\n2 2\n5 3\n")

    def test_other_work(self) -> None:
        """The reactor does other work while a long log is read, and damage in a segment ends the search there only."""
        disk = MemoryDisk()
        manager = a_manager(disk)
        self.successResultOf(manager.open())
        log = self.successResultOf(manager.create(PARTITION))
        for epochs in ((0, 2, 3), (3, 5)):
            for epoch in epochs:
                append_as_leader(log, batch(), epoch)
            log.roll()
        first = log.segments[0]
        third = next(position for position, header in first.batches(0) if header.leader_epoch == 3)
        disk.held.add(IOPool.READ)
        found = Deferred.fromCoroutine(rebuild_epochs(disk, log.segments))
        first.log.get().write(third, [bytes(61)])
        self.assertNoResult(found)
        while disk.release(IOPool.READ):
            pass
        rebuilt = self.successResultOf(found)
        self.assertEqual(list(rebuilt), [(0, 0), (2, 1), (3, 3), (5, 4)])
        self.assertIsNone(disk.failure)

    def test_a_damaged_segment(self) -> None:
        """A log whose older segment is damaged opens without the file, too: the other records are served."""
        disk = MemoryDisk()
        manager = a_manager(disk)
        self.successResultOf(manager.open())
        log = self.successResultOf(manager.create(PARTITION))
        for epoch in (0, 2, 3):
            append_as_leader(log, batch(), epoch)
        self.successResultOf(log.flush())
        log.roll()
        append_as_leader(log, batch(), 5)
        self.successResultOf(log.flush())
        self.successResultOf(manager.directories[0].checkpoint_recovery_points())
        disk.unlink(f"{log.directory}/leader-epoch-checkpoint")
        log.segments[0].log.get().write(log.segments[0].size * 2 // 3, [bytes(61)])
        again = a_manager(disk.after_kill())
        self.successResultOf(again.open())
        found = again.get(PARTITION)
        assert found is not None
        self.assertEqual((list(found.epochs), found.log_end_offset), ([(0, 0), (2, 1), (5, 3)], 4))
