"""Power cuts and kills at every step of a cleaning: no last value is lost, and no removed record comes back."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.records.batch import check_crc, iter_batches, iter_records
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.log import Log
from logbus.storage.log_manager import LogManager
from logbus.testing.simulation.environment.memory_disk import Crashed, MemoryDisk, PowerCutOutcome
from tests.storage.builders import PARTITION, a_manager, batch, data_of
from tests.storage.test_log_crashes import result

CONFIG = TopicConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=350,
    index_interval_bytes=100,
    segment_ms=2**62,
    min_cleanable_dirty_ratio=0.0,
    # A marker goes with the second cleaning, and whatever came back then would stay.
    delete_retention_ms=0,
)


class ReadRecord(NamedTuple):
    """A record as a reader sees it."""

    offset: int
    key: bytes | None
    value: bytes | None


class Scenario:
    """Two cleanings of one log, and what was written to it."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self.clock = Clock()
        self.written: list[ReadRecord] = []
        self.synced = 0

    def manager(self) -> LogManager:
        manager = a_manager(self.disk, clock=self.clock, default_config=CONFIG)
        result(manager.open())
        manager.start_housekeeping()
        return manager

    def append(self, log: Log, numbers: range) -> None:
        for number in numbers:
            key = b"k%d" % (number % 5)
            # The last of a key is a delete marker for every other key, in the first part.
            value = None if number in (20, 22) else b"v%d" % number
            self.written.append(ReadRecord(len(self.written), key, value))
            header = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number} if number < 8 else {}
            append_as_leader(log, batch(value, keys=[key], **header), 1)
        log.high_watermark = log.log_end_offset
        result(log.flush())
        self.synced = len(self.written)

    def tell(self) -> None:
        manager = self.manager()
        log = result(manager.create(PARTITION))
        self.append(log, range(30))
        del self.written[30:]
        # Recovery points first, then the first cleaning.
        self.clock.advance(2)
        self.clock.advance(15)
        self.cleaned(manager, 1)
        self.append(log, range(31, 45, 3))
        self.clock.advance(2)
        self.clock.advance(30)
        self.cleaned(manager, 2)
        self.clock.advance(61)
        result(manager.close())

    def cleaned(self, manager: LogManager, times: int) -> None:
        if self.disk.crashed:
            # Nothing waits for the cleaner.
            raise Crashed("while cleaning")
        assert manager.cleaner.cleanings == times, manager.cleaner.uncleanable


def state(found: list[ReadRecord]) -> dict[bytes | None, bytes]:
    """Of each key the last value."""
    last = {pair.key: pair.value for pair in found}
    return {key: value for key, value in last.items() if value is not None}


class CleanerCrashTests(SynchronousTestCase):
    """The machine stops before the N-th step, for every N from the first cleaning on."""

    def each_crash(self, restart: Callable[[MemoryDisk], MemoryDisk]) -> int:
        first = self.steps_of(lambda op, path: path.endswith(".cleaned"))[0]
        for step in range(first, 10_000):
            disk = MemoryDisk()
            disk.crash_at = step
            story = Scenario(disk)
            try:
                story.tell()
            except Crashed:
                self.assertTrue(disk.crashed)
            if not disk.crashed:
                return step - first
            self.flushLoggedErrors(Crashed)
            self.check(story, restart(disk), f"crash before step {step}: {story.disk.done[-1:]}")
        raise AssertionError("the story does not end")

    def steps_of(self, wanted: Callable[[str, str], bool]) -> list[int]:
        """The steps of that sort in a story without a crash."""
        disk = MemoryDisk()
        Scenario(disk).tell()
        return [i for i, (op, path) in enumerate(disk.done) if wanted(op, path)]

    def check(self, story: Scenario, disk: MemoryDisk, what: str) -> None:
        after = Scenario(disk)
        manager = after.manager()
        log = manager.get(PARTITION)
        assert log is not None
        self.right(story, log, what)
        after.written = [*story.written[: log.log_end_offset]]
        # It lives on, and is cleaned again.
        entry = log.producers.get(7)
        self.assertEqual(entry and entry.last_sequence, 7, what)
        after.append(log, range(100, 110))
        after.clock.advance(2)
        after.clock.advance(30)
        self.assertEqual(manager.cleaner.uncleanable, {}, what)
        self.assertGreater(manager.cleaner.cleanings, 0, what)
        self.right(after, log, what)
        leftovers = [name for name in disk.names("orders-0") if name.endswith((".cleaned", ".swap"))]
        self.assertEqual(leftovers, [], what)
        result(manager.close())

    def right(self, story: Scenario, log: Log, what: str) -> None:
        end = log.log_end_offset
        self.assertTrue(story.synced <= end <= len(story.written), what)
        found, offset = [], log.log_start_offset
        while offset < end:
            data = data_of(log.read(offset, 200).data)
            self.assertTrue(data, f"{what}: nothing at {offset}")
            for position, header in iter_batches(data):
                self.assertTrue(check_crc(data, position, header), what)
                self.assertGreaterEqual(header.base_offset, offset, what)
                offset = header.next_offset
            found += [ReadRecord(record.offset, record.key, record.value) for record in iter_records(data)]
        for pair in found:
            self.assertEqual(pair, story.written[pair.offset], what)
        self.assertEqual(state(found), state(story.written[:end]), what)
        for asked in range(end):
            first = next(iter_batches(data_of(log.read(asked, 1).data)))[1]
            self.assertGreaterEqual(first.last_offset, asked, what)

    def test_kill(self) -> None:
        """The process is killed: what it had written is there, and what it had begun is finished or undone."""
        self.assertGreater(self.each_crash(lambda disk: disk.after_kill()), 50)

    def test_power_cut_losing_all_unsynced(self) -> None:
        """No unsynced write survives."""
        self.each_crash(lambda disk: disk.after_power_cut(PowerCutOutcome("lose")))

    def test_power_cut_losing_nothing(self) -> None:
        """All writes survive."""
        self.each_crash(lambda disk: disk.after_power_cut(PowerCutOutcome("keep")))

    def test_power_cut_tearing_writes(self) -> None:
        """Parts of the last writes survive, cut anywhere, and some of the names."""
        rng = random.Random(1)
        self.each_crash(lambda disk: disk.after_power_cut(PowerCutOutcome("tear", rng)))

    def test_power_cut_reordering_writes(self) -> None:
        """Later writes survive where earlier ones do not."""
        rng = random.Random(2)
        self.each_crash(lambda disk: disk.after_power_cut(PowerCutOutcome("reorder", rng)))

    def test_power_cut_while_a_swap_is_finished(self) -> None:
        """A start that is cut short, too, leaves the old segments or the new one, and the next start goes on."""
        # One step after the new segment's name was synced, with those it replaces still there.
        for swap in self.steps_of(lambda op, path: op == "rename" and path.endswith(".log.cleaned")):
            disk = MemoryDisk()
            disk.crash_at = swap + 2
            story = Scenario(disk)
            self.assertRaises(Crashed, story.tell)
            self.flushLoggedErrors(Crashed)
            self.assertGreater(self.each_second_crash(story, disk), 3)

    def each_second_crash(self, story: Scenario, disk: MemoryDisk) -> int:
        rng = random.Random(3)
        for step in range(100):
            for _ in range(3):
                again = disk.after_power_cut(PowerCutOutcome("lose"))
                again.crash_at = step
                try:
                    Scenario(again).manager()
                except Crashed:
                    self.assertTrue(again.crashed)
                self.check(story, again.after_power_cut(PowerCutOutcome("reorder", rng)), f"second crash at {step}")
            if not again.crashed:
                return step
        raise AssertionError("the start does not end")
