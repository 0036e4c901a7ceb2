"""Periodic work on logs."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

from twisted.internet.task import Clock
from twisted.logger import LogLevel, capturedLogs
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from logbus.config.topic_config import TopicConfig
from logbus.model import TopicPartition
from logbus.storage import housekeeping
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.istorage import IDeletePolicy
from logbus.storage.log import Log
from logbus.storage.log_user import NoLogUser
from logbus.testing.simulation.environment.memory_disk import MemoryDisk, no_space
from tests.storage.builders import NOW_S, PARTITION, a_manager, batch

SIZE = len(batch(b"x"))
OTHER = TopicPartition("others", 0)


class HousekeepingTests(SynchronousTestCase):
    """What a manager does from time to time."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.wall = NOW_S
        self.disk = MemoryDisk()

    def managed(self, **more: Any) -> Log:
        self.manager = a_manager(self.disk, clock=self.clock, wall_clock=lambda: self.wall, **more)
        self.successResultOf(self.manager.open())
        self.manager.start_housekeeping()
        config = TopicConfig(segment_bytes=2 * SIZE, retention_ms=1_000_000, file_delete_delay_ms=60_000)
        log: Log = self.successResultOf(self.manager.create(PARTITION, None, config))
        for i in range(5):
            append_as_leader(log, batch(b"x", timestamp=int(NOW_S * 1000) + i), 0)
        log.high_watermark = 5
        return log

    def pass_time(self, seconds: float) -> None:
        self.wall += seconds
        self.clock.pump([0, seconds, 0, 0])

    def test_retention(self) -> None:
        """Old segments go at the check after; their files a while later."""
        log = self.managed()
        self.pass_time(301)
        self.assertEqual(log.log_start_offset, 0)
        self.pass_time(1000)
        self.assertEqual(log.log_start_offset, 5)
        self.assertTrue(any(name.endswith(".deleted") for name in self.disk.names("orders-0")))
        self.pass_time(61)
        self.assertFalse(any(name.endswith(".deleted") for name in self.disk.names("orders-0")))

    def test_many_segments(self) -> None:
        """A log loses a hundred segments a turn, and all that are due in the end; other logs go on with theirs."""
        log = self.managed()
        other = self.successResultOf(self.manager.create(OTHER, None, log.config))
        for each in log, other:
            for _ in range(250):
                append_as_leader(each, batch(b"x", timestamp=int(NOW_S * 1000)), 0)
                each.roll()
            each.high_watermark = each.log_end_offset
        self.wall += 1200
        before = len(log.segments)
        self.manager.housekeeping._believed_at -= 1200
        self.manager.housekeeping.check_retention()
        self.assertEqual((len(log.segments), log.log_start_offset > 0), (before - 100, True))
        self.clock.pump([0] * 10)
        self.assertEqual([(len(each.segments), each.log_start_offset) for each in (log, other)], [(1, 255), (1, 250)])
        self.clock.pump([61, 0])
        for name in "orders-0", "others-0":
            self.assertFalse(any(file.endswith(".deleted") for file in self.disk.names(name)))

    def test_jumping_clock(self) -> None:
        """A wall clock that jumps a month ahead deletes nothing, and is logged once."""
        log = self.managed()
        self.wall += 30 * 86_400
        with capturedLogs() as lines:
            self.pass_time(301)
            self.pass_time(301)
        self.assertEqual(log.log_start_offset, 0)
        self.assertEqual(sum("jumped" in line["log_format"] for line in lines), 1)
        self.pass_time(1000)
        self.assertEqual(log.log_start_offset, 5)

    def test_full_disk_is_logged_once(self) -> None:
        """
        A full disk is logged once, not as a bug, as long as checkpoints cannot be written; and again when it is full
        again.
        """
        log = self.managed()
        for _ in range(2):
            self.disk.faults = lambda op, path: no_space() if op == "replace" else None
            with capturedLogs() as lines:
                for _ in range(3):
                    append_as_leader(log, batch(b"x"), 0)
                    self.pass_time(6)
            told = [line for line in lines if line.get("what") == "high watermarks"]
            self.assertEqual([line["log_level"] for line in told], [LogLevel.warn])
            self.disk.faults = lambda op, path: None
            append_as_leader(log, batch(b"x"), 0)
            self.pass_time(6)

    def test_checkpoints(self) -> None:
        """High watermarks, recovery points and starts are put down, and only when something changed."""
        user = NoLogUser()
        user.high_watermark_of = lambda log: 4 if log.log_end_offset == 5 else log.log_end_offset  # type: ignore[method-assign]
        log = self.managed(user=user)
        self.pass_time(6)
        self.assertEqual(self.disk.read("replication-offset-checkpoint"), b"0\n1\norders 0 4\n")
        self.successResultOf(log.flush())
        log.advance_start(1)
        self.pass_time(61)
        self.assertEqual(self.disk.read("recovery-point-offset-checkpoint"), b"0\n1\norders 0 5\n")
        self.assertEqual(self.disk.read("log-start-offset-checkpoint"), b"0\n1\norders 0 1\n")
        append_as_leader(log, batch(timestamp=int(NOW_S * 1000)), 0)
        self.pass_time(61)
        steps = self.disk.steps
        for _ in range(10):
            self.pass_time(61)
        self.assertEqual(self.disk.steps, steps)

    def test_deleted_logs(self) -> None:
        """A log that is deleted soon after it was written to is forgotten: its high watermark moves no more."""
        user = NoLogUser()
        user.high_watermark_of = lambda log: log.log_start_offset  # type: ignore[method-assign]
        gone = ref(self.managed(user=user))
        self.successResultOf(self.manager.delete(PARTITION))
        self.pass_time(6)
        gc.collect()
        self.assertIsNone(gone())

    def test_flush_ms(self) -> None:
        """flush.ms after the first unsynced record the log is synced."""
        log = self.managed()
        self.successResultOf(log.flush())
        log.configure(TopicConfig(flush_ms=500))
        append_as_leader(log, batch(timestamp=int(NOW_S * 1000)), 0)
        self.clock.advance(0.4)
        append_as_leader(log, batch(timestamp=int(NOW_S * 1000)), 0)
        self.assertEqual(log.flushed_end_offset, 5)
        self.clock.advance(0.2)
        self.assertEqual(log.flushed_end_offset, 7)

    def test_producers_expire(self) -> None:
        """Producers not heard of for a day are forgotten."""
        log = self.managed()
        append_as_leader(log, batch(timestamp=int(NOW_S * 1000), producer_id=1, producer_epoch=0, base_sequence=0), 0)
        self.pass_time(86_300)
        self.assertEqual(len(log.producers), 1)
        self.pass_time(601)
        self.assertEqual(len(log.producers), 0)

    def test_producers_of_many_logs(self) -> None:
        """They expire in several turns of the reactor."""
        self.patch(housekeeping, "_PRODUCERS_A_TURN", 2)
        self.managed()
        logs = [self.successResultOf(self.manager.create(PARTITION._replace(partition=i))) for i in range(1, 6)]
        for log in logs:
            append_as_leader(log, batch(timestamp=1, producer_id=1, producer_epoch=0, base_sequence=0), 0, 1)
        self.manager.housekeeping.expire_producers()
        self.clock.advance(0)
        self.manager.housekeeping.expire_producers()
        self.assertEqual(sum(len(log.producers) for log in logs), 4)
        self.clock.advance(0)
        self.assertEqual(sum(len(log.producers) for log in logs), 0)

    def test_producers_of_old_records(self) -> None:
        """
        A producer that copies old records is known for an interval after its last batch: it may send that again.
        """
        log = self.managed()
        old = batch(timestamp=int(NOW_S - 2 * 86_400) * 1000, producer_id=1, producer_epoch=0, base_sequence=0)
        self.pass_time(599)
        append_as_leader(log, old, 0)
        self.pass_time(2)
        self.assertEqual(append_as_leader(log, old, 0).base_offset, 5)
        self.assertEqual(log.log_end_offset, 6)
        self.pass_time(600)
        self.assertEqual(len(log.producers), 0)

    def test_one_timer(self) -> None:
        """However many logs there are, the reactor sees one delayed call; none after the end."""
        self.managed()
        for i in range(1, 50):
            self.successResultOf(self.manager.create(PARTITION._replace(partition=i)))
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)
        self.successResultOf(self.manager.close())
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.disk.open_files, 0)

    def test_pluggable_policy(self) -> None:
        """A policy that is plugged in decides."""

        @implementer(IDeletePolicy)
        class KeepOne:
            name = "keep one segment"

            def expired(self, log: Any, now_ms: int) -> Any:
                return log.segments[:-1]

        log = self.managed(policy=KeepOne())
        self.pass_time(301)
        self.assertEqual(log.log_start_offset, 4)

    def test_a_policy_that_fails(self) -> None:
        """It is said of which log; what its policy is wrong about stays, and the logs behind it lose theirs."""

        @implementer(IDeletePolicy)
        class Wrong:
            name = "wrong"

            def expired(self, log: Any, now_ms: int) -> Any:
                return log.segments[:-1] if log is other else None

        log = self.managed(policy=Wrong())
        other = self.successResultOf(self.manager.create(OTHER, None, log.config))
        for _ in range(5):
            append_as_leader(other, batch(b"x"), 0)
        other.high_watermark = 5
        self.pass_time(301)
        self.assertEqual((log.log_start_offset, other.log_start_offset), (0, 4))
        [failure] = self.flushLoggedErrors(TypeError)
        self.assertIn("NoneType", str(failure))
