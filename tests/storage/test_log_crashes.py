"""Power cuts and kills at every step: synced data is there afterwards, and the log consists of whole batches."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from unittest.mock import patch
from uuid import UUID

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError, ErrorCode
from logbus.records.batch import check_crc, iter_batches
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.istorage import IOPool
from logbus.storage.leader_epoch_loader import load_leader_epochs
from logbus.storage.log import Log
from logbus.storage.log_manager import LogManager
from logbus.storage.log_user import NoLogUser
from logbus.storage.settings import StorageSettings
from logbus.testing.simulation.environment.memory_disk import Crashed, MemoryDisk, PowerCutOutcome
from tests.storage.builders import PARTITION, a_manager, batch, data_of, read_all

CONFIG = TopicConfig(segment_bytes=400, index_interval_bytes=100, segment_ms=2**62)
TOPIC_ID = UUID(int=5)
SETTINGS = StorageSettings(write_back_bytes=500, write_back_interval_ms=0, max_open_files=3)


class Scenario:
    """A broker's run up to a crash, and what it acknowledged."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self.written: list[bytes] = []
        self.synced = 0
        self.truncated_at: int | None = None
        self.clock = Clock()

    def manager(self) -> LogManager:
        return a_manager(self.disk, clock=self.clock, settings=SETTINGS, default_config=CONFIG)

    def append(self, log: Log, count: int = 1, **header: Any) -> None:
        for _ in range(count):
            value = b"%06d" % len(self.written)
            # What a crash interrupts may be there afterwards, or not.
            self.written.append(value)
            try:
                append_as_leader(log, batch(value, **header), 1)
            except ApiError:
                self.written.pop()
                raise

    def flush(self, log: Log) -> None:
        end = len(self.written)

        def done(_: object) -> None:
            self.synced = max(self.synced, end)

        log.flush().addCallback(done)


def one_log(story: Scenario) -> None:
    """Appends, flushes, rolls, idempotent producers, checkpoints, a truncation, and a clean stop."""
    manager = story.manager()
    result(manager.open())
    manager.start_housekeeping()
    log = result(manager.create(PARTITION, TOPIC_ID))
    for turn in range(12):
        story.append(log)
        if turn % 3 == 1:
            story.append(log, producer_id=7, producer_epoch=0, base_sequence=turn // 3)
        if turn % 4 == 2:
            story.flush(log)
        if turn % 5 == 4:
            story.clock.advance(1.5)
    story.flush(log)
    story.clock.advance(61)
    cut = log.log_end_offset - 4
    story.synced = min(story.synced, cut)
    story.truncated_at = cut
    result(manager.truncator.truncate({PARTITION: cut}))
    del story.written[cut:]
    story.truncated_at = None
    for _ in range(3):
        story.append(log, 2)
        story.flush(log)
    result(manager.close())


def result(deferred: Deferred[Any]) -> Any:
    """What a Deferred that has fired holds; of one that never will, the machine stopped."""
    results: list[Any] = []
    deferred.addBoth(results.append)
    if not results:
        raise Crashed("no answer")
    if isinstance(results[0], Failure):
        results[0].raiseException()
    return results[0]


class CrashTests(SynchronousTestCase):
    """The machine stops before the N-th step, for every N."""

    def each_crash(self, restart: Callable[[MemoryDisk], MemoryDisk], keeps: str) -> int:
        """Run the story up to each of its steps; what the next life finds is held against what was promised."""
        for step in range(10_000):
            disk = MemoryDisk()
            disk.crash_at = step
            story = Scenario(disk)
            try:
                one_log(story)
            except Crashed:
                self.assertTrue(disk.crashed)
            if not disk.crashed:
                return step
            self.flushLoggedErrors(Crashed)
            self.check(story, restart(disk), keeps, step)
        raise AssertionError("the story does not end")

    def check(self, story: Scenario, disk: MemoryDisk, keeps: str, step: int) -> None:
        what = f"crash before step {step}: {story.disk.done[-1:]}"
        manager = a_manager(disk, settings=SETTINGS, default_config=CONFIG)
        self.successResultOf(manager.open())
        log = manager.get(PARTITION)
        if log is None:
            self.assertEqual(story.synced, 0, what)
            return
        if story.synced:
            self.assertEqual(log.topic_id, TOPIC_ID, what)
        found = [value for _, value in read_all(log)]
        least = story.synced if story.truncated_at is None else min(story.synced, story.truncated_at)
        if keeps == "all" and story.truncated_at is None:
            # The last append may have been interrupted.
            least = len(story.written) - 1
        self.assertEqual(found, story.written[: len(found)], what)
        self.assertGreaterEqual(len(found), least, what)
        self.whole(log, what)
        self.lives_on(log, found, what)

    def whole(self, log: Log, what: str) -> None:
        """The segments are whole batches with good CRCs, and every offset is found by every way."""
        expected = log.segments[0].base_offset
        for segment in log.segments:
            data = segment.log.get().pread(1 << 20, 0)
            self.assertEqual(len(data), segment.size, what)
            end = 0
            for position, header in iter_batches(data):
                self.assertTrue(check_crc(data, position, header), what)
                self.assertEqual(header.base_offset, expected, what)
                expected = header.next_offset
                end = position + header.size
            self.assertEqual(end, segment.size, what)
        self.assertEqual(expected, log.log_end_offset, what)
        for offset in range(log.log_end_offset):
            data = data_of(log.read(offset, 1).data)
            self.assertEqual(next(iter_batches(data))[1].base_offset, offset, what)

    def lives_on(self, log: Log, found: list[bytes | None], what: str) -> None:
        """It takes more, and a producer's sequence goes on where it stopped."""
        entry = log.producers.get(7)
        if entry is not None:
            data = batch(b"more", producer_id=7, producer_epoch=0, base_sequence=entry.last_sequence)
            again = append_as_leader(log, data, 1)
            self.assertTrue(again.duplicate, what)
            data = batch(b"more", producer_id=7, producer_epoch=0, base_sequence=entry.last_sequence + 1)
            self.assertFalse(append_as_leader(log, data, 1).duplicate, what)
        for _ in range(5):
            append_as_leader(log, batch(b"more"), 2)
        self.successResultOf(log.flush())
        self.assertEqual([value for _, value in read_all(log)][: len(found)], found, what)

    def test_kill(self) -> None:
        """After the process was killed, everything that was written is there."""
        steps = self.each_crash(lambda disk: disk.after_kill(), "all")
        self.assertGreater(steps, 100)

    def test_power_cut_losing_all_unsynced(self) -> None:
        """No unsynced write survives; acknowledged records were synced."""
        self.each_crash(lambda disk: disk.after_power_cut(PowerCutOutcome("lose")), "synced")

    def test_power_cut_losing_nothing(self) -> None:
        """All writes survive."""
        self.each_crash(lambda disk: disk.after_power_cut(PowerCutOutcome("keep")), "synced")

    def test_power_cut_tearing_writes(self) -> None:
        """Parts of the last writes survive, cut anywhere."""
        for seed in range(3):
            rng = random.Random(seed)
            self.each_crash(lambda disk, rng=rng: disk.after_power_cut(PowerCutOutcome("tear", rng)), "synced")  # type: ignore[misc]

    def test_power_cut_reordering_writes(self) -> None:
        """Later writes survive where earlier ones do not; holes are zeros."""
        for seed in range(3):
            rng = random.Random(seed)
            self.each_crash(lambda disk, rng=rng: disk.after_power_cut(PowerCutOutcome("reorder", rng)), "synced")  # type: ignore[misc]


class FlushTests(SynchronousTestCase):
    """Waiting for syncs, and their failure."""

    def setUp(self) -> None:
        self.disk = MemoryDisk()
        self.lost: list[Any] = []
        user = NoLogUser()
        user.directory_failed = lambda logs, reason: self.lost.append((logs, reason))  # type: ignore[method-assign]
        self.manager = a_manager(self.disk, user=user)
        self.successResultOf(self.manager.open())
        self.log: Log = self.successResultOf(self.manager.create(PARTITION))
        self.disk.held.add(IOPool.SYNC)

    def syncs(self) -> int:
        return sum(self.is_log_sync(op, path) for op, path in self.disk.done)

    def is_log_sync(self, op: str, path: str) -> bool:
        return op == "sync" and path.endswith(".log")

    def test_group_commit(self) -> None:
        """All waiting callers share one sync; those that come while it runs wait for the next."""
        append_as_leader(self.log, batch(), 0)
        first = [self.log.flush() for _ in range(5)]
        append_as_leader(self.log, batch(), 0)
        second = [self.log.flush() for _ in range(5)]
        self.assertEqual(self.disk.release(IOPool.SYNC, 1), 1)
        # The first waiter's bytes alone are certain; the others asked later.
        self.successResultOf(first[0])
        for waiter in (*first[1:], *second):
            self.assertNoResult(waiter)
        self.assertEqual(self.log.flushed_end_offset, 1)
        self.disk.release(IOPool.SYNC, 1)
        for waiter in (*first[1:], *second):
            self.successResultOf(waiter)
        self.assertEqual((self.log.flushed_end_offset, self.syncs()), (2, 2))

    def test_flush_without_changes(self) -> None:
        """A log that is synced is flushed at once, without a system call."""
        self.successResultOf(self.log.flush())
        self.assertEqual(self.syncs(), 0)

    def test_failed_sync(self) -> None:
        """All waiting callers get the error, the directory goes offline, and the sync is not retried."""
        append_as_leader(self.log, batch(), 0)
        waiters = [self.log.flush()]
        append_as_leader(self.log, batch(), 0)
        waiters += [self.log.flush(), self.log.flush()]
        self.disk.faults = lambda op, path: OSError(5, "Input/output error") if self.is_log_sync(op, path) else None
        self.disk.release(IOPool.SYNC)
        for waiter in waiters:
            self.assertIn("Input/output error", str(self.failureResultOf(waiter).value))
        self.assertEqual(self.log.flushed_end_offset, 0)
        self.assertEqual(self.lost[0][0], [PARTITION])
        self.assertIsNone(self.manager.get(PARTITION))
        self.disk.faults = lambda op, path: None
        self.failureResultOf(self.log.flush())
        self.assertEqual(self.syncs(), 1)

    def test_cancelled_waiter(self) -> None:
        """Cancelling one wait does not affect the others."""
        append_as_leader(self.log, batch(), 0)
        gone, stays = self.log.flush(), self.log.flush()
        gone.addErrback(lambda _: None).cancel()
        self.disk.release(IOPool.SYNC)
        self.successResultOf(stays)

    def test_flush_messages(self) -> None:
        """flush.messages syncs after that many, without anybody waiting."""
        self.log.config = evolve(self.log.config, flush_messages=3)
        for _ in range(4):
            append_as_leader(self.log, batch(), 0)
        self.disk.release(IOPool.SYNC, 1)
        self.assertEqual(self.log.flushed_end_offset, 3)

    def test_segment_name_synced_by_another_commit(self) -> None:
        """A flush does not report a record as durable before the name of its segment is."""
        append_as_leader(self.log, batch(), 0)
        flushed = self.log.flush()
        self.disk.release(IOPool.SYNC)
        self.successResultOf(flushed)
        self.disk.held.add(IOPool.BACKGROUND)
        self.log.roll()
        append_as_leader(self.log, batch(b"second"), 0)
        flushed = self.log.flush()
        self.disk.release(IOPool.SYNC)
        # Nor does it wait for the background thread, which may have much to do.
        self.successResultOf(flushed)
        disk = self.disk.after_power_cut(PowerCutOutcome("lose"))
        manager = a_manager(disk)
        self.successResultOf(manager.open())
        self.assertEqual(next(iter(manager)).log_end_offset, 2)

    def test_older_epochs_do_not_replace_newer_ones(self) -> None:
        """Two commits in different pools write the epochs in the order in which they began."""
        self.disk.held.add(IOPool.BACKGROUND)
        append_as_leader(self.log, batch(), 0)
        self.log.flusher.write_back()
        append_as_leader(self.log, batch(), 1)
        flushed = self.log.flush()
        for pool in (IOPool.SYNC, IOPool.BACKGROUND, IOPool.SYNC):
            self.disk.release(pool)
        self.successResultOf(flushed)
        disk = self.disk.after_power_cut(PowerCutOutcome("lose"))
        epochs = load_leader_epochs(disk, self.log.directory, 0, 2)
        self.assertEqual(list(epochs), [(0, 0), (1, 1)])

    def test_unopenable_files(self) -> None:
        """A flush that fails before it begins leaves the epochs and the directory to the next one."""
        append_as_leader(self.log, batch(), 3)
        file = type(self.log.segments[-1].log)
        with patch.object(file, "get", side_effect=ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "too many open files")):
            self.failureResultOf(self.log.flush(), ApiError)
        flushed = self.log.flush()
        self.disk.release(IOPool.SYNC)
        self.successResultOf(flushed)
        disk = self.disk.after_power_cut(PowerCutOutcome("lose"))
        self.assertEqual(list(load_leader_epochs(disk, self.log.directory, 0, 1)), [(3, 0)])

    def test_deleted_while_syncing(self) -> None:
        """Deleting a log waits for its sync, and fails those that wait for the next."""
        append_as_leader(self.log, batch(), 0)
        first = self.log.flush()
        append_as_leader(self.log, batch(), 0)
        second = self.log.flush()
        deleted = self.manager.delete(PARTITION)
        self.assertNoResult(deleted)
        self.disk.release(IOPool.SYNC)
        self.successResultOf(deleted)
        self.successResultOf(first)
        self.failureResultOf(second, ApiError)
        self.assertIsNone(self.disk.failure)
