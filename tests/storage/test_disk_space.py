"""Levels of free space."""

from __future__ import annotations

import errno
import os
from unittest import TestCase

from twisted.internet.task import Clock
from twisted.logger import LogLevel, capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ApiError, StorageError
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.disk_space import DiskSpace, SpaceLevel, SpaceState
from logbus.storage.log_manager import LogManager
from logbus.storage.settings import StorageSettings
from logbus.testing.simulation.environment.memory_disk import MemoryDisk, no_space
from tests.storage.builders import PARTITION, a_manager, batch

MB = 1_000_000
PLENTY = DiskSpace(90 * MB, 100 * MB)
LITTLE = DiskSpace(10 * MB, 100 * MB)


class SpaceStateTests(TestCase):
    """When a level becomes another."""

    def test_low(self) -> None:
        """A directory is low from the limit on, and until clearly less than that is used."""
        state = SpaceState()
        self.assertFalse(state.measured(DiskSpace(11, 100), True, 0.9))
        self.assertTrue(state.measured(LITTLE, True, 0.9))
        self.assertIs(state.level, SpaceLevel.LOW)
        self.assertFalse(state.measured(DiskSpace(11, 100), True, 0.9))
        self.assertTrue(state.measured(DiskSpace(12, 100), True, 0.9))
        self.assertIs(state.level, SpaceLevel.ENOUGH)

    def test_no_warning(self) -> None:
        """A limit of 1 gives no warning; nor does a file system that does not report its free space."""
        state = SpaceState()
        self.assertFalse(state.measured(DiskSpace(0, 100), True, 1.0))
        self.assertFalse(state.measured(None, True, 0.1))
        self.assertFalse(state.measured(DiskSpace(0, 0), True, 0.1))

    def test_full(self) -> None:
        """A directory is full from the first refusal until a test write succeeds and none was refused since."""
        state = SpaceState()
        self.assertTrue(state.refused())
        self.assertFalse(state.refused())
        self.assertFalse(state.measured(PLENTY, True, 0.9))
        self.assertFalse(state.measured(PLENTY, False, 0.9))
        self.assertIs(state.level, SpaceLevel.FULL)
        self.assertTrue(state.measured(LITTLE, True, 0.9))
        self.assertIs(state.level, SpaceLevel.LOW)


class SpaceMonitorTests(SynchronousTestCase):
    """Log directories on disks that fill up."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.disk, self.other = MemoryDisk("/disk"), MemoryDisk("/other")
        self.manager: LogManager = a_manager(
            self.disk, self.other, clock=self.clock, settings=StorageSettings(space_check_interval_ms=1000)
        )
        self.successResultOf(self.manager.open())
        self.manager.start_housekeeping()
        self.addCleanup(lambda: self.successResultOf(self.manager.close()))
        self.log = self.successResultOf(self.manager.create(PARTITION))

    def lines(self, seconds: float = 1) -> list[tuple[LogLevel, str]]:
        """What the log has after so much time."""
        with capturedLogs() as captured:
            self.clock.advance(seconds)
        return [(event["log_level"], str(event["log_format"]).format(**event)) for event in captured]

    def test_full(self) -> None:
        """The first refused write is logged, not the next ones, and then that there is space again."""
        self.disk.faults = lambda op, path: no_space() if op in ("write", "replace") else None
        with capturedLogs() as captured:
            for _ in range(3):
                self.assertRaises(ApiError, append_as_leader, self.log, batch(b"v"), 0)
        (event,) = captured
        self.assertIs(event["log_level"], LogLevel.error)
        told = event["log_format"].format(**event)
        self.assertIn("log directory /disk is full: no space to append to orders-0/", told)
        self.assertEqual(self.manager.space.full_directories, ["/disk"])
        self.assertIsNone(self.disk.failure)
        again: list[None] = []
        self.manager.space.has_space_again = lambda: again.append(None)
        self.assertEqual(self.lines(5), [])
        self.assertEqual(again, [])
        self.disk.faults = lambda op, path: None
        ((level, line),) = self.lines()
        self.assertEqual((level, "/disk has space again" in line), (LogLevel.info, True))
        self.assertEqual(again, [None])
        self.assertEqual(self.manager.space.full_directories, [])
        self.assertFalse(self.disk.exists("space-test"))

    def test_refused_in_a_lane(self) -> None:
        """What a background operation is refused counts as well."""
        self.disk.faults = lambda op, path: no_space() if op == "replace" else None
        self.failureResultOf(self.manager.directories[0].checkpoint_recovery_points(), ApiError)
        self.assertEqual(self.manager.space.full_directories, ["/disk"])

    def test_other_errors(self) -> None:
        """Too many open files are not a full disk."""
        self.disk.faults = lambda op, path: OSError(errno.EMFILE, os.strerror(errno.EMFILE)) if op == "write" else None
        self.assertRaises(ApiError, append_as_leader, self.log, batch(b"v"), 0)
        self.assertEqual(self.manager.space.full_directories, [])

    def test_low(self) -> None:
        """A disk that gets full is reported before it is, once."""
        self.other.free = LITTLE
        ((level, line),) = self.lines()
        self.assertEqual(
            (level, line),
            (
                LogLevel.warn,
                "log directory /other is running out of space: 10000000 of 100000000 bytes are free; writes are "
                "refused when it is full",
            ),
        )
        self.assertEqual(self.lines(5), [])
        self.other.free = PLENTY
        self.assertEqual(
            self.lines(),
            [(LogLevel.info, "log directory /other has space again: 90000000 of 100000000 bytes are free")],
        )
        self.assertEqual(self.manager.space.space_of(self.manager.directories[1]), PLENTY)

    def test_full_without_a_write(self) -> None:
        """A disk with hardly any space left gets a test write: there may have been no other write."""
        self.disk.free = DiskSpace(1000, 1 << 30)
        self.disk.faults = lambda op, path: no_space() if op == "replace" else None
        ((level, line),) = self.lines()
        self.assertEqual(level, LogLevel.error)
        self.assertIn("log directory /disk is full: 1000 of 1073741824 bytes are free", line)
        self.assertEqual(self.manager.space.full_directories, ["/disk"])
        self.assertEqual(self.lines(5), [])
        self.disk.faults = lambda op, path: None
        ((level, line),) = self.lines()
        self.assertIn("log directory /disk is running out of space", line)
        self.assertEqual(self.manager.space.full_directories, [])

    def test_offline(self) -> None:
        """A failed directory is not measured any more, and not reported as full."""
        self.disk.faults = lambda op, path: no_space() if op == "write" else None
        self.assertRaises(ApiError, append_as_leader, self.log, batch(b"v"), 0)
        self.disk.fail(StorageError("gone"))
        self.assertEqual(self.manager.space.full_directories, [])
        self.assertEqual(list(self.manager.space.states), ["/other"])
        self.assertEqual(self.lines(3), [])
