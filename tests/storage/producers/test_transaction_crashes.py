"""
Crashes anywhere in a sequence of transactions, cleanings and a clean shutdown: committed records are there, and aborted
ones are never visible.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import StorageError
from logbus.records.batch import Marker
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.appends.append_marker import append_marker
from logbus.storage.cleaner.cleaner_task import CleanerTask
from logbus.storage.cleaner.log_to_clean import LogToClean
from logbus.storage.log import Log
from logbus.storage.log_manager import LogManager
from logbus.storage.throttler import Throttler
from logbus.testing.simulation.environment.memory_disk import Crashed, MemoryDisk, PowerCutOutcome
from logbus.timers import Timers
from tests.storage.builders import NOW_MS, PARTITION, a_manager, batch
from tests.storage.cleaner.test_compaction_of_transactions import (
    ABORT,
    COMMIT,
    CONFIG,
    TWO_KEYS,
    copy_of,
    read_committed,
    undecided,
)
from tests.storage.test_log_crashes import result

# What may go goes with the second cleaning. Cleanings end in the middle of segments, and behind that is a marker.
AT_ONCE = evolve(CONFIG, delete_retention_ms=0, segment_bytes=900)


class Scenario:
    """
    Three producers with transactions that overlap.

    :ivar written: for each offset the producer, key and value, or the producer and how its transaction ended.
    :ivar synced: below this offset everything was flushed.
    """

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self.clock = Clock()
        self.written: list[tuple[int, bytes, bytes] | tuple[int, bool]] = []
        self.sequences: dict[int, int] = {}
        self.synced = 0

    def manager(self) -> LogManager:
        manager = a_manager(self.disk, clock=self.clock, default_config=AT_ONCE, cleaner_settings=lambda: TWO_KEYS)
        result(manager.open())
        manager.start_housekeeping()
        return manager

    def write(self, log: Log, pid: int, number: int) -> None:
        key, value = b"k%d" % (number % 4), b"v%d" % number
        sequence = self.sequences.get(pid, 0)
        self.sequences[pid] = sequence + 1
        self.written.append((pid, key, value))
        append_as_leader(
            log,
            batch(value, keys=[key], producer_id=pid, producer_epoch=0, base_sequence=sequence, transactional=True),
            1,
        )

    def end(self, log: Log, pid: int, commit: bool) -> None:
        self.written.append((pid, commit))
        append_marker(log, pid, 0, Marker(COMMIT if commit else ABORT, 0), 1, NOW_MS)

    def flush(self, log: Log) -> None:
        result(log.flush())
        log.high_watermark = log.log_end_offset
        self.synced = len(self.written)

    def transactions(self, log: Log, first: int, count: int) -> None:
        for number in range(first, first + count):
            self.write(log, number % 3, number)
            self.write(log, (number + 1) % 3, number + 50)
            if number % 2:
                self.end(log, number % 3, commit=number % 4 == 1)
            if number % 5 == 4:
                self.flush(log)
        self.flush(log)

    def tell(self) -> None:
        manager = self.manager()
        log = result(manager.create(PARTITION))
        self.transactions(log, 0, 8)
        self.cleaned(manager, log, 1)
        self.transactions(log, 8, 4)
        for pid in range(3):
            self.end(log, pid, commit=pid != 1)
        self.flush(log)
        log.roll()
        self.cleaned(manager, log, 2)
        self.cleaned(manager, log, 2)
        result(manager.close())

    def cleaned(self, manager: LogManager, log: Log, times: int) -> None:
        result(log.flusher.write_back_and_wait())
        self.clock.advance(2)
        self.clock.advance(30)
        if self.disk.crashed:
            # Nothing waits for the cleaner.
            raise Crashed("while cleaning")
        assert manager.cleaner.cleanings > times, manager.cleaner.uncleanable

    def expected(self, end: int) -> tuple[dict[bytes, bytes], dict[int, int]]:
        """The last committed value of each key in the first ``end`` batches, and where transactions are open."""
        pending: dict[int, list[int]] = {}
        committed: list[int] = []
        for offset, what in enumerate(self.written[:end]):
            if len(what) == 3:
                pending.setdefault(what[0], []).append(offset)
            else:
                ended = pending.pop(what[0], [])
                committed += ended if what[1] else []
        stable = min((offsets[0] for offsets in pending.values()), default=end)
        state: dict[bytes, bytes] = {}
        for offset in sorted(committed):
            what = self.written[offset]
            if len(what) == 3 and offset < stable:
                state[what[1]] = what[2]
        return state, {pid: offsets[0] for pid, offsets in pending.items()}


class TransactionCrashTests(SynchronousTestCase):
    """The machine stops before the N-th step."""

    def each_crash(
        self, restart: Callable[[MemoryDisk], MemoryDisk], first: int = 0, every: int = 1, times: int = 1
    ) -> int:
        for step in range(first, 10_000, every):
            disk = MemoryDisk()
            disk.crash_at = step
            story = Scenario(disk)
            try:
                story.tell()
            except Crashed:
                self.assertTrue(disk.crashed)
            if not disk.crashed:
                return step
            self.flushLoggedErrors(Crashed)
            for _ in range(times):
                self.check(story, restart(disk), f"crash before step {step}: {disk.done[-1:]}")
        raise AssertionError("the story does not end")

    def check(self, story: Scenario, disk: MemoryDisk, what: str) -> None:
        after = Scenario(disk)
        manager = after.manager()
        log = manager.get(PARTITION)
        if log is None:
            self.assertEqual(story.synced, 0, what)
            return
        if log.log_start_offset:
            # The name of a later segment arrived, and that of the first did not.
            self.assertEqual(story.synced, 0, what)
            return
        self.right(story, log, what)
        # It lives on: whatever is open ends, and everything is cleaned again.
        after.written = story.written[: log.log_end_offset]
        for pid in undecided(log):
            after.end(log, pid, commit=True)
        after.flush(log)
        log.roll()
        for _ in range(3):
            result(log.flusher.write_back_and_wait())
            after.clock.advance(2)
            after.clock.advance(30)
        self.assertEqual(manager.cleaner.uncleanable, {}, what)
        self.right(after, log, what)
        leftovers = [name for name in disk.names("orders-0") if name.endswith((".cleaned", ".swap"))]
        self.assertEqual(leftovers, [], what)
        result(manager.close())

    def right(self, story: Scenario, log: Log, what: str) -> None:
        self.assertTrue(story.synced <= log.log_end_offset <= len(story.written), what)
        state, pending = story.expected(log.log_end_offset)
        for reader in (log, copy_of(log)):
            self.assertEqual({record.key: record.value for record in read_committed(reader)}, state, what)
            self.assertEqual(undecided(reader), pending, what)

    def test_kill(self) -> None:
        """The process is killed."""
        self.assertGreater(self.each_crash(lambda disk: disk.after_kill()), 100)

    def test_power_cut_losing_all_unsynced(self) -> None:
        """No unsynced write survives."""
        self.each_crash(lambda disk: disk.after_power_cut(PowerCutOutcome("lose")), 0, 4)

    def test_power_cut_losing_nothing(self) -> None:
        """All writes survive."""
        self.each_crash(lambda disk: disk.after_power_cut(PowerCutOutcome("keep")), 1, 4)

    def test_power_cut_tearing_writes(self) -> None:
        """Parts of the last writes survive, cut anywhere, and some of the names."""
        rng = random.Random(1)
        self.each_crash(lambda disk: disk.after_power_cut(PowerCutOutcome("tear", rng)), 2, 4)

    def test_power_cut_reordering_writes(self) -> None:
        """Later writes and names survive where earlier ones do not."""
        rng = random.Random(0)
        self.each_crash(lambda disk: disk.after_power_cut(PowerCutOutcome("reorder", rng)), times=3)

    def test_interrupted_start(self) -> None:
        """A start after a crash during a swap is interrupted, too; the next one completes the swap."""
        whole = MemoryDisk()
        Scenario(whole).tell()
        swaps = [i for i, (op, path) in enumerate(whole.done) if op == "rename" and path.endswith(".log.cleaned")]
        aborted = [i for i, (op, path) in enumerate(whole.done) if op == "rename" and path.endswith(".txnindex.swap")]
        # The first that replaces an index of aborted transactions, and the last.
        swaps = [max(i for i in swaps if i < renamed) for renamed in (aborted[0], aborted[-1])]
        rng = random.Random(3)
        for swap in swaps:
            for later in (1, 2):
                disk = MemoryDisk()
                disk.crash_at = swap + later
                story = Scenario(disk)
                self.assertRaises(Crashed, story.tell)
                self.flushLoggedErrors(Crashed)
                for step in range(100):
                    again = disk.after_power_cut(PowerCutOutcome("lose"))
                    again.crash_at = step
                    try:
                        Scenario(again).manager()
                    except Crashed:
                        self.assertTrue(again.crashed)
                    self.check(story, again.after_power_cut(PowerCutOutcome("reorder", rng)), f"second crash at {step}")
                    if not again.crashed:
                        break


class SwapTests(SynchronousTestCase):
    """
    A segment takes the place of two others, with an entry of an index of aborted transactions: that of the second.
    """

    def a_swap(self, disk: MemoryDisk) -> None:
        manager = a_manager(disk, clock=Clock(), default_config=AT_ONCE)
        result(manager.open())
        log = result(manager.create(PARTITION))
        append_as_leader(log, batch(keys=[b"1"]), 0)
        self.aborted(log, 1)
        append_as_leader(log, batch(keys=[b"1"]), 0)
        log.roll()
        append_as_leader(log, batch(keys=[b"2"]), 0)
        append_as_leader(log, batch(keys=[b"3"]), 0)
        self.aborted(log, 2)
        log.roll()
        result(log.flusher.write_back_and_wait())
        result(manager.directories[0].checkpoint_recovery_points())
        self.first = disk.steps
        size = TWO_KEYS.dedupe_buffer_size
        cleaning = CleanerTask(log, LogToClean(0, 8, 0, 1, False), Throttler(Timers(Clock())), size, NOW_MS)
        result(Deferred.fromCoroutine(cleaning.run()))
        assert len(log.segments) == 2

    def aborted(self, log: Log, pid: int) -> None:
        append_as_leader(
            log, batch(keys=[b"1"], producer_id=pid, producer_epoch=0, base_sequence=0, transactional=True), 0
        )
        append_marker(log, pid, 0, Marker(ABORT, 0), 0, NOW_MS)

    def check(self, disk: MemoryDisk, what: str) -> None:
        log = Scenario(disk).manager().get(PARTITION)
        assert log is not None
        # The transactions of the first segment are told of as long as its records are there.
        first = [(1, 1, 2)] if log.segments[1].base_offset == 4 else []
        told = [(entry.producer_id, entry.first_offset, entry.last_offset) for entry in log.aborted_transactions(0, 8)]
        self.assertEqual(told, [*first, (2, 6, 7)], what)
        self.assertIn([record.offset for record in read_committed(log)], ([0, 3, 4, 5], [3, 4, 5]), what)

    def crashes(self) -> Iterator[tuple[int, MemoryDisk]]:
        whole = MemoryDisk()
        self.a_swap(whole)
        for step in range(self.first, whole.steps + 1):
            disk = MemoryDisk()
            disk.crash_at = step
            try:
                self.a_swap(disk)
            except Crashed:
                self.assertTrue(disk.crashed)
            yield step, disk

    def test_power_cuts(self) -> None:
        """Whatever of the names arrives, the index fits the segment that is there."""
        for step, disk in self.crashes():
            for seed in range(24 if step > self.first + 12 else 4):
                self.check(
                    disk.after_power_cut(PowerCutOutcome("reorder", random.Random(seed))), f"step {step}, seed {seed}"
                )
            self.check(disk.after_kill(), f"step {step}")

    def test_repeatedly_interrupted_start(self) -> None:
        """A start that completes the swap can be interrupted anywhere, too."""
        for step, disk in self.crashes():
            if not any(name.endswith(".swap") for name in disk.names("orders-0")):
                continue
            for second in range(40):
                again = disk.after_kill()
                again.crash_at = second
                try:
                    Scenario(again).manager()
                except (Crashed, StorageError):
                    self.assertTrue(again.crashed)
                self.check(again.after_kill(), f"steps {step} and {second}")
                for seed in range(8):
                    choice = PowerCutOutcome("reorder", random.Random(seed))
                    self.check(again.after_power_cut(choice), f"steps {step} and {second}, seed {seed}")
                if not again.crashed:
                    break
