"""Logs that the cluster does not know are set aside, and used again when it does."""

from __future__ import annotations

import uuid
from typing import Any

from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from logbus.broker.condition_sources import LogSources
from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError
from logbus.model import TopicPartition
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.checkpoints import StrayLog
from logbus.storage.log import Log
from logbus.storage.log_manager import LogManager
from logbus.storage.settings import StorageSettings
from logbus.testing.simulation.environment.inodes import Crashed, PowerCutOutcome
from logbus.testing.simulation.environment.memory_disk import MemoryDisk, no_files, no_space
from tests.storage.builders import NOW_MS, NOW_S, PARTITION, a_manager, batch, read_all
from tests.storage.test_log_crashes import result
from tests.storage.test_log_mover import PiecewiseDisk

ID = uuid.UUID(int=77)
OTHER_ID = uuid.UUID(int=78)
WEEK = 7 * 86400.0
VALUES = [(n, b"%d" % n) for n in range(2, 6)]


def strays_of(disk: MemoryDisk) -> list[str]:
    """The names of the directories of stray logs."""
    return [name for name in disk.names("") if name.endswith("-stray")]


class StrayLogTests(SynchronousTestCase):
    """A log of six records, of which the first two are deleted and five are committed."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.wall = NOW_S
        self.disk = MemoryDisk()

    def opened(self, disk: MemoryDisk | None = None, **settings: Any) -> LogManager:
        manager = a_manager(
            disk or self.disk, clock=self.clock, wall_clock=lambda: self.wall, settings=StorageSettings(**settings)
        )
        self.successResultOf(manager.open())
        manager.start_housekeeping()
        return manager

    def written(self, manager: LogManager) -> Log:
        log = result(manager.create(PARTITION, ID))
        for n in range(6):
            append_as_leader(log, batch(b"%d" % n), 0)
        log.high_watermark = 5
        result(manager.delete_records(PARTITION, 2))
        return log

    def pass_time(self, seconds: float) -> None:
        self.wall += seconds
        self.clock.pump([0, seconds, 0, 0])

    def test_used_again(self) -> None:
        """A partition whose topic id is known again has its log with all it was; its name is free meanwhile."""
        manager = self.opened()
        self.written(manager)
        self.successResultOf(manager.set_aside(PARTITION))
        self.assertIsNone(manager.get(PARTITION))
        [name] = strays_of(self.disk)
        self.assertRegex(name, r"^orders-0\.[0-9a-f]{32}-stray$")
        other = self.successResultOf(manager.create(PARTITION, OTHER_ID))
        self.assertEqual((other.topic_id, other.log_end_offset), (OTHER_ID, 0))
        self.successResultOf(manager.delete(PARTITION))

        config = TopicConfig(retention_ms=1)
        log = self.successResultOf(manager.create(PARTITION, ID, config))
        self.assertEqual((read_all(log), log.high_watermark, log.topic_id), (VALUES, 5, ID))
        self.assertIs(log.config, config)
        self.assertIs(manager.get(PARTITION), log)
        self.assertEqual(strays_of(self.disk), [])
        self.assertFalse(self.disk.exists("orders-0/stray"))
        append_as_leader(log, batch(b"more"), 1)
        self.assertEqual(read_all(log), [*VALUES, (6, b"more")])

    def test_after_a_restart(self) -> None:
        """It is known after any end of the broker, and its records need not be read again."""
        for stop in ("close", "kill"):
            self.disk = MemoryDisk()
            manager = self.opened()
            self.written(manager)
            self.successResultOf(manager.set_aside(PARTITION))
            if stop == "close":
                self.successResultOf(manager.close())
            manager = self.opened(self.disk.after_kill())
            self.assertEqual((len(manager), len(manager.strays)), (0, 1))
            log = self.successResultOf(manager.create(PARTITION, ID))
            self.assertEqual((read_all(log), log.high_watermark, log.recovery_point), (VALUES, 5, 6))
            self.assertEqual(len(manager.strays), 0)

    def test_another_log_of_its_name_meanwhile(self) -> None:
        """After a crash it begins where it did, not where the other log of its topic's name began."""
        manager = self.opened()
        log = self.successResultOf(manager.create(PARTITION, ID))
        append_as_leader(log, batch(b"ours"), 1)
        self.successResultOf(log.flush())
        self.successResultOf(manager.set_aside(PARTITION))
        other = self.successResultOf(manager.create(PARTITION, OTHER_ID))
        for _ in range(6):
            append_as_leader(other, batch(b"other"), 1)
        other.high_watermark = 6
        self.successResultOf(manager.delete_records(PARTITION, 6))
        self.successResultOf(manager.delete(PARTITION))
        self.successResultOf(manager.create(PARTITION, ID))
        (found,) = self.opened(self.disk.after_power_cut(PowerCutOutcome("lose")))
        self.assertEqual((found.topic_id, read_all(found)), (ID, [(0, b"ours")]))

    def test_every_crash(self) -> None:
        """Whichever step of it is the machine's last, the synced records are there when the topic is known again."""
        for step in range(1000):
            disk = MemoryDisk()
            manager = a_manager(disk)
            result(manager.open())
            result(self.written(manager).flush())
            # From here on.
            disk.crash_at = disk.steps + step
            try:
                result(manager.set_aside(PARTITION))
                result(manager.create(PARTITION, ID))
            except Crashed:
                pass
            else:
                break
            for outcome in ("keep", "lose"):
                again = a_manager(disk.after_power_cut(PowerCutOutcome(outcome)))
                result(again.open())
                log = result(again.create(PARTITION, ID))
                self.assertEqual(read_all(log)[-4:], VALUES, f"{outcome} at step {step}")
                self.assertEqual(log.log_end_offset, 6)
        self.assertGreater(step, 6)

    def test_expired(self) -> None:
        """It is removed when it was kept for long enough, also if the broker was down then; never used half removed."""
        manager = self.opened()
        self.written(manager)
        self.successResultOf(manager.set_aside(PARTITION))
        self.pass_time(WEEK - 301)
        self.assertEqual(len(strays_of(self.disk)), 1)
        self.assertEqual(len(manager.strays), 1)
        self.successResultOf(manager.close())
        copy = self.disk.after_kill()
        self.pass_time(302)
        self.assertEqual(strays_of(self.opened(copy).directories[0].disk), [])  # type: ignore[arg-type]
        self.disk = self.disk.after_kill()
        manager = a_manager(self.disk, wall_clock=lambda: self.wall)
        self.successResultOf(manager.open())
        self.assertEqual(self.successResultOf(manager.create(PARTITION, ID)).log_end_offset, 0)

    def test_expired_at_every_crash(self) -> None:
        """Whichever step of its removal is the machine's last, nothing of it is left for good."""
        for outcome in ("keep", "lose"):
            for step in range(1000):
                self.wall, self.clock, disk = NOW_S, Clock(), PiecewiseDisk()
                manager = self.opened(disk)
                self.written(manager)
                self.successResultOf(manager.set_aside(PARTITION))
                disk.crash_at = disk.steps + step
                try:
                    self.pass_time(WEEK + 1)
                except Crashed:
                    pass
                if not disk.crashed:
                    break
                again = disk.after_power_cut(PowerCutOutcome(outcome))
                self.clock = Clock()
                self.opened(again)
                self.pass_time(301)
                self.assertEqual([name for name in again.names("") if name.startswith("orders-0")], [], f"step {step}")
            self.assertGreater(step, 4)
            self.flushLoggedErrors(Crashed)

    def test_kept_for_good_or_not_at_all(self) -> None:
        """With −1 it stays; with 0 it is deleted as any other."""
        manager = self.opened(stray_retention_ms=-1)
        self.written(manager)
        self.successResultOf(manager.set_aside(PARTITION))
        self.pass_time(1000 * WEEK)
        self.assertEqual(len(strays_of(self.disk)), 1)
        with capturedLogs() as told:
            manager.strays.explain(1)
        self.assertIn("for good", str(told))

        manager = self.opened(MemoryDisk(), stray_retention_ms=0)
        self.written(manager)
        self.successResultOf(manager.set_aside(PARTITION))
        self.assertEqual(len(manager.strays), 0)
        self.assertTrue(any(name.endswith("-delete") for name in manager.directories[0].disk.names("")))

    def test_removed_by_somebody(self) -> None:
        """A directory that somebody removes is forgotten, and no error if the topic is known again before."""
        manager = self.opened()
        for topic in ("a", "b"):
            self.successResultOf(manager.create(TopicPartition(topic, 0), ID))
            self.successResultOf(manager.set_aside(TopicPartition(topic, 0)))
        for name in strays_of(self.disk):
            self.disk.remove_tree(name)
        log = self.successResultOf(manager.create(TopicPartition("a", 0), ID))
        self.assertEqual(log.log_end_offset, 0)
        self.pass_time(301)
        self.assertEqual(len(manager.strays), 0)

    def test_full_disk(self) -> None:
        """Without space for the note the log is set aside all the same: nobody may append to it, or remove it."""
        manager = self.opened()
        self.written(manager)
        self.disk.faults = lambda op, path: no_space() if path.endswith("/stray") else None
        self.successResultOf(manager.set_aside(PARTITION))
        self.disk.faults = lambda op, path: None
        self.assertEqual(len(strays_of(self.disk)), 1)
        manager = self.opened(self.disk.after_kill())
        self.pass_time(2 * WEEK)
        self.assertEqual(len(manager.strays), 1)

    def test_not_used_again_yet(self) -> None:
        """A log that cannot be used again for want of space is used when there is space, instead of an empty one."""
        manager = self.opened()
        self.written(manager)
        self.successResultOf(manager.set_aside(PARTITION))
        other = self.successResultOf(manager.create(PARTITION, OTHER_ID))
        append_as_leader(other, batch(b"other"), 1)
        self.successResultOf(manager.directories[0].checkpoint_high_watermarks())
        self.successResultOf(manager.delete(PARTITION))
        self.disk.faults = lambda op, path: no_space() if op == "replace" else None
        self.failureResultOf(manager.create(PARTITION, ID), ApiError)
        self.disk.faults = lambda op, path: None
        self.assertEqual(read_all(self.successResultOf(manager.create(PARTITION, ID))), VALUES)

    def test_not_opened_yet(self) -> None:
        """So is one that cannot be opened for want of files, by this life or by the next one."""
        for restart in (False, True):
            self.setUp()
            manager = self.opened()
            self.written(manager)
            self.successResultOf(manager.set_aside(PARTITION))
            self.disk.faults = lambda op, path: no_files() if op == "open" else None
            self.failureResultOf(manager.create(PARTITION, ID), ApiError)
            self.disk.faults = lambda op, path: None
            if restart:
                manager = self.opened(self.disk.after_kill())
            self.assertEqual(read_all(self.successResultOf(manager.create(PARTITION, ID))), VALUES)
            self.assertEqual(len(manager.strays), 0)

    def test_where_space_is_short(self) -> None:
        """What is told of a full directory says that it keeps such logs."""
        manager = self.opened()
        log = self.written(manager)
        self.successResultOf(manager.create(TopicPartition("gone", 0), OTHER_ID))
        self.successResultOf(manager.set_aside(TopicPartition("gone", 0)))
        self.disk.faults = lambda op, path: no_space() if op == "write" else None
        self.assertRaises(ApiError, append_as_leader, log, batch(b"x"), 0)
        (finding,) = LogSources(manager).full()
        assert finding is not None
        self.assertIn("it keeps 1 log that the cluster does not know (*-stray)", finding.message)

    def test_damaged_note(self) -> None:
        """What cannot be read is told, and the log is kept."""
        manager = self.opened()
        self.written(manager)
        self.successResultOf(manager.set_aside(PARTITION))
        [name] = strays_of(self.disk)
        self.disk.replace(f"{name}/stray", b"0\n1\nnothing\n")
        with capturedLogs() as told:
            manager = self.opened(self.disk.after_kill())
        self.assertIn(f"{name}/stray", [event.get("path") for event in told])
        self.assertEqual(len(manager.strays), 1)

    def test_note(self) -> None:
        """The note has what the checkpoints lack."""
        for topic_id in (ID, None):
            stray = StrayLog(PARTITION, topic_id, NOW_MS, 2, 5, 6)
            self.assertEqual(StrayLog.decode(stray.encode()), stray)
        self.assertRaises(ValueError, StrayLog.decode, b"0\n1\nx\n")
