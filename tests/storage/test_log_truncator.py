"""Durable truncation of logs; see also ``test_truncation_crashes``."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.istorage import IOPool
from logbus.storage.log import Log
from logbus.storage.truncation import truncate_to
from logbus.testing.simulation.environment.memory_disk import MemoryDisk, broken
from tests.storage.builders import PARTITION, a_manager, batch, read_all


class LogTruncatorTests(SynchronousTestCase):
    """Truncate a log of five batches."""

    def setUp(self) -> None:
        self.disk = MemoryDisk()
        self.manager = a_manager(self.disk)
        self.successResultOf(self.manager.open())
        self.log: Log = self.successResultOf(self.manager.create(PARTITION))
        for _ in range(5):
            append_as_leader(self.log, batch(), 0)

    def test_truncate_below_the_recovery_point(self) -> None:
        """The lower recovery point is on disk before the log is cut; without the manager the log refuses."""
        disk, manager, log = self.disk, self.manager, self.log
        self.successResultOf(log.flusher.write_back_and_wait())
        self.successResultOf(manager.directories[0].checkpoint_recovery_points())
        self.assertRaises(ValueError, truncate_to, log, 3)
        self.successResultOf(manager.truncator.truncate({PARTITION: 3}))
        self.assertEqual(disk.read("recovery-point-offset-checkpoint"), b"0\n1\norders 0 3\n")
        self.assertEqual((log.log_end_offset, len(read_all(log))), (3, 3))
        steps = [step for step in disk.done if step[0] in ("replace", "truncate")]
        at = steps.index(("truncate", "orders-0/00000000000000000000.log"))
        self.assertEqual(steps[at - 1], ("replace", "recovery-point-offset-checkpoint"))

    def small_segments(self, refused: int) -> Log:
        """Another log, of 20 batches in four segments, cut to 8 while one listing of its directory fails."""
        self.disk = MemoryDisk()
        self.manager = a_manager(
            self.disk, default_config=TopicConfig(segment_bytes=5 * len(batch(b"00 in 1")), index_interval_bytes=1)
        )
        self.successResultOf(self.manager.open())
        log: Log = self.successResultOf(self.manager.create(PARTITION))
        for n in range(20):
            append_as_leader(log, batch(b"%02d in 1" % n), 1)
        names, calls = self.disk.names, 0

        def some(path: str) -> list[str]:
            nonlocal calls
            calls += 1
            if calls == refused:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "Too many open files")
            return names(path)

        self.patch(self.disk, "names", some)
        self.truncating = self.manager.truncator.truncate({PARTITION: 8})
        self.patch(self.disk, "names", names)
        return log

    def test_no_descriptor_before_the_cut(self) -> None:
        """The log stays as it is."""
        log = self.small_segments(1)
        self.failureResultOf(self.truncating, ApiError)
        self.assertEqual(len(read_all(log)), 20)

    def test_no_descriptor_behind_the_cut(self) -> None:
        """
        Nothing is left: files of segments that were cut off would be taken for the log's own when it has grown again,
        and what is behind them for none of it.
        """
        log = self.small_segments(2)
        self.successResultOf(self.truncating)
        for n in range(8, 20):
            append_as_leader(log, batch(b"%02d in 2" % n), 2)
            if n == 11:
                log.roll()
        self.successResultOf(log.flush())
        again = a_manager(self.disk.after_kill(), default_config=log.config)
        self.successResultOf(again.open())
        [found] = again
        self.assertEqual(read_all(found), read_all(log))
        self.assertEqual(found.log_end_offset, 20)

    def test_truncate_below_the_log_start(self) -> None:
        """What is written then is neither deleted nor compacted, also after a crash."""
        self.successResultOf(self.log.flush())
        self.log.high_watermark = self.log.cleaned_end_offset = 5
        self.successResultOf(self.manager.delete_records(PARTITION, 5))
        self.successResultOf(self.manager.directories[0].checkpoint_cleaned_offsets())
        self.successResultOf(self.manager.truncator.truncate({PARTITION: 3}))
        append_as_leader(self.log, batch(b"new"), 1)
        append_as_leader(self.log, batch(b"newer"), 1)
        self.successResultOf(self.log.flush())
        again = a_manager(self.disk.after_kill())
        self.successResultOf(again.open())
        (found,) = again
        self.assertEqual(read_all(found), [(3, b"new"), (4, b"newer")])
        self.assertLessEqual(found.cleaned_end_offset, 3)

    def test_truncation_on_a_failing_disk(self) -> None:
        """The caller gets the disk's error."""
        self.disk.faults = lambda op, path: broken() if op == "sync" else None
        self.failureResultOf(self.manager.truncator.truncate({PARTITION: 3}), StorageError)

    def test_segments_go_in_a_thread(self) -> None:
        """The files of whole segments are renamed by an I/O thread; the log ends at the offset at once."""
        disk, manager, log = self.disk, self.manager, self.log
        log.configure(TopicConfig(segment_bytes=100))
        for _ in range(20):
            append_as_leader(log, batch(producer_id=7, producer_epoch=0, base_sequence=log.log_end_offset - 5), 0)
        self.assertEqual(len(log.segments), 21)
        disk.held.add(IOPool.BACKGROUND)
        truncating = manager.truncator.truncate({PARTITION: 8})
        self.assertEqual((log.log_end_offset, len(log.segments)), (8, 5))
        self.assertNoResult(truncating)
        names = [name for name in disk.names("orders-0") if name.endswith(".log")]
        self.assertEqual(len(names), 21)
        disk.held.clear()
        disk.release(IOPool.BACKGROUND)
        self.successResultOf(truncating)
        names = [name for name in disk.names("orders-0") if name.endswith(".log")]
        self.assertEqual(len(names), 5)
        self.assertEqual([entry.batches[-1].last_sequence for entry in log.producers], [2])
        append_as_leader(log, batch(), 1)
        self.assertEqual([offset for offset, _ in read_all(log)], list(range(9)))

    def test_producers_are_loaded_in_slices(self) -> None:
        """After a truncation they are those of what is left; others get turns between slices."""
        manager, log = self.manager, self.log
        for number in range(40):
            append_as_leader(log, batch(producer_id=number % 3, producer_epoch=0, base_sequence=number // 3), 0)
        clock = SlowClock()
        self.patch(manager, "truncator", evolve(manager.truncator, clock=clock))
        truncating = manager.truncator.truncate({PARTITION: 25})
        self.assertNoResult(truncating)
        self.assertIsNone(log.producers_in_memory)
        while not truncating.called:
            clock.advance(0)
        self.successResultOf(truncating)
        self.assertGreater(clock.turns, 3)
        loaded = log.producers_in_memory
        assert loaded is not None
        self.assertEqual(loaded.end_offset, 25)
        log.forget_producers()
        self.assertEqual(
            [(each.producer_id, each.last_offset) for each in loaded],
            [(each.producer_id, each.last_offset) for each in log.producers],
        )

    def test_producers_that_are_used_meanwhile(self) -> None:
        """Who asks for them between two slices has them loaded at once, and these stay."""
        manager, log = self.manager, self.log
        for number in range(40):
            append_as_leader(log, batch(producer_id=1, producer_epoch=0, base_sequence=number), 0)
        clock = SlowClock()
        self.patch(manager, "truncator", evolve(manager.truncator, clock=clock))
        truncating = manager.truncator.truncate({PARTITION: 25})
        self.assertNoResult(truncating)
        used = log.producers
        clock.advance(0)
        self.successResultOf(truncating)
        self.assertIs(log.producers, used)


class SlowClock(Clock):
    """
    Each look at it takes a millisecond.

    :ivar turns: how many calls were to be made later.
    """

    turns = 0

    def callLater(self, when: float, what: Any, *args: Any, **kwargs: Any) -> Any:
        self.turns += 1
        return super().callLater(when, what, *args, **kwargs)

    def seconds(self) -> float:
        self.rightNow += 0.001
        return super().seconds()
