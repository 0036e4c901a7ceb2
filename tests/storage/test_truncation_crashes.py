"""Crashes of the machine before each step of a follower's truncation and the appends after it."""

from __future__ import annotations

import random
from collections.abc import Callable

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.records.batch import check_crc, iter_batches
from logbus.storage.appends.append_as_follower import append_as_follower
from logbus.storage.log import Log
from logbus.storage.log_manager import LogManager
from logbus.testing.simulation.environment.inodes import Crashed, PowerCutOutcome
from logbus.testing.simulation.environment.memory_disk import MemoryDisk
from tests.storage.builders import PARTITION, a_manager, batch, data_of
from tests.storage.test_log_crashes import CONFIG, SETTINGS, TOPIC_ID, result

COMMON = [(0, b"%06d" % n) for n in range(8)]
OURS = [(1, b"only here %d" % n) for n in range(6)]
THEIRS = [(2, b"the leader's %d" % n) for n in range(8)]
COMMITTED = 6
Entry = tuple[int, bytes]


class FollowerRun:
    """A follower's run up to a crash, and what it acknowledged to which leader."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self.clock = Clock()
        self.synced: list[Entry] = []

    def run(self) -> None:
        manager = a_manager(self.disk, clock=self.clock, settings=SETTINGS, default_config=CONFIG)
        result(manager.open())
        manager.start_housekeeping()
        log = result(manager.create(PARTITION, TOPIC_ID))
        self.append(log, COMMON[:5])
        self.append(log, COMMON[5:])
        log.high_watermark = COMMITTED
        self.append(log, OURS[:3])
        self.append(log, OURS[3:])
        self.clock.advance(61)
        # Another leader, which has none of our last records.
        self.synced = COMMON
        self.cut(manager, len(COMMON))
        self.append(log, THEIRS[:4])
        self.append(log, THEIRS[4:])
        self.clock.advance(61)
        result(manager.close())

    def append(self, log: Log, entries: list[Entry]) -> None:
        """What one fetch brings; then it is synced, and the next fetch says so."""
        base = log.log_end_offset
        data = b"".join(
            batch(
                value, base_offset=base + n, leader_epoch=epoch, producer_id=7, producer_epoch=0, base_sequence=base + n
            )
            for n, (epoch, value) in enumerate(entries)
        )
        append_as_follower(log, data, 2)
        synced = [*self.synced, *entries]
        result(log.flush())
        self.synced = synced

    def cut(self, manager: LogManager, offset: int) -> None:
        result(manager.truncator.truncate({PARTITION: offset}))


class RestartedFollowerRun(FollowerRun):
    """A follower that discards its log, as its leader's begins after its end."""

    def cut(self, manager: LogManager, offset: int) -> None:
        result(manager.truncator.restart(PARTITION, 2))
        self.append(manager.get(PARTITION), COMMON[2:])  # type: ignore[arg-type]


class FollowerCrashTests(SynchronousTestCase):
    """Every step of a follower's life may be its last."""

    def each_crash(self, life: type[FollowerRun], restart: Callable[[MemoryDisk], MemoryDisk]) -> int:
        for step in range(10_000):
            disk = MemoryDisk()
            disk.crash_at = step
            follower = life(disk)
            try:
                follower.run()
            except Crashed:
                self.assertTrue(disk.crashed)
            if not disk.crashed:
                return step
            self.flushLoggedErrors(Crashed)
            self.check(follower, restart(disk), f"crash before step {step}: {disk.done[-1:]}")
        raise AssertionError("the life does not end")

    def check(self, follower: FollowerRun, disk: MemoryDisk, what: str) -> None:
        manager = a_manager(disk, settings=SETTINGS, default_config=CONFIG)
        self.successResultOf(manager.open())
        log = manager.get(PARTITION)
        if log is None:
            self.assertEqual(follower.synced, [], what)
            return
        found = self.entries(log, what)
        start = log.log_start_offset
        whole = [COMMON[:start] + found == (COMMON + tail)[: start + len(found)] for tail in (OURS, THEIRS)]
        self.assertTrue(any(whole), f"{what}: a mixture of both logs: {found}")
        if isinstance(follower, RestartedFollowerRun):
            self.assertIn(start, (0, 2), what)
        else:
            self.assertEqual(found[: len(follower.synced)], follower.synced, what)
        self.assertLessEqual(log.high_watermark, max(log.log_end_offset, start), what)
        history = [(epoch, offset) for epoch, offset in log.epochs]
        self.assertEqual(history, self.history(start, found), what)
        entry = log.producers.get(7)
        if found:
            assert entry is not None
            self.assertEqual(entry.last_sequence, start + len(found) - 1, what)

    def entries(self, log: Log, what: str) -> list[Entry]:
        """Epoch and value of each record, all of them whole and where they belong."""
        found: list[Entry] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            data = data_of(log.read(offset, 1 << 20).data)
            for position, header in iter_batches(data):
                self.assertTrue(check_crc(data, position, header), what)
                self.assertEqual(header.base_offset, offset, what)
                value = data[position + 61 : position + header.size]
                known = next(v for _, v in (*COMMON, *OURS, *THEIRS) if v in value)
                found.append((header.leader_epoch, known))
                offset = header.next_offset
        return found

    def history(self, start: int, found: list[Entry]) -> list[tuple[int, int]]:
        history: list[tuple[int, int]] = []
        for offset, (epoch, _) in enumerate(found, start):
            if not history or history[-1][0] != epoch:
                history.append((epoch, offset))
        return history

    def test_kill(self) -> None:
        """After a kill the log is one or the other, and has all that was acknowledged to the leader of the day."""
        for life in (FollowerRun, RestartedFollowerRun):
            self.assertGreater(self.each_crash(life, lambda disk: disk.after_kill()), 60)

    def test_power_cuts(self) -> None:
        """The same after a power cut, whatever it leaves of what was not synced."""
        for life in (FollowerRun, RestartedFollowerRun):
            for mode, seeds in (("lose", 1), ("keep", 1), ("tear", 2), ("reorder", 2)):
                for seed in range(seeds):
                    rng = random.Random(seed)
                    self.each_crash(
                        life, lambda disk, mode=mode, rng=rng: disk.after_power_cut(PowerCutOutcome(mode, rng))
                    )  # type: ignore[misc]
