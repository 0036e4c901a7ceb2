"""Logs that begin behind what only remote storage has (KIP-405), and the machine's end at each step of that."""

from __future__ import annotations

import random
from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.storage.appends.append_as_follower import append_as_follower
from logbus.storage.auxiliary_state import AuxiliaryState, state_of
from logbus.storage.log import Log
from logbus.storage.log_manager import LogManager
from logbus.storage.producers.producer_snapshot import SnapshotCorrupt, encode_snapshot
from logbus.storage.producers.producer_state_manager import BatchMetadata, ProducerStateEntry, ProducerStateManager
from logbus.testing.simulation.environment.memory_disk import Crashed, MemoryDisk, PowerCutOutcome
from tests.storage.builders import PARTITION, a_manager, batch, read_all
from tests.storage.test_log_crashes import TOPIC_ID, result

CONFIG = TopicConfig(remote_storage_enable=True, segment_bytes=400)
PRODUCER = ProducerStateEntry(7, 0, [BatchMetadata(3, 3, 98, 98, 1)], 1, -1, None)
STATE = AuxiliaryState(100, 2, ((0, 2), (1, 50)), encode_snapshot(ProducerStateManager(100, [PRODUCER])))


class AuxiliaryStateTests(SynchronousTestCase):
    """A follower's log."""

    def opened(self, disk: MemoryDisk) -> tuple[LogManager, Log]:
        """A manager that has started, and its log."""
        manager = a_manager(disk)
        result(manager.open())
        log = manager.get(PARTITION)
        if log is None:
            log = result(manager.create(PARTITION, TOPIC_ID, CONFIG))
        log.configure(CONFIG)
        manager.start_housekeeping()
        return manager, log

    def filled(self, disk: MemoryDisk) -> tuple[LogManager, Log]:
        """The same with six records of another producer."""
        manager, log = self.opened(disk)
        for n in range(6):
            append_as_follower(
                log, batch(b"%d" % n, base_offset=n, leader_epoch=0, producer_id=8, producer_epoch=0, base_sequence=n)
            )
        result(log.flush())
        return manager, log

    def check(self, log: Log) -> None:
        """The log begins with the state, all of it."""
        self.assertEqual((log.log_start_offset, log.local_start_offset, log.log_end_offset), (2, 100, 100))
        self.assertEqual(list(log.epochs), list(STATE.epochs))
        self.assertEqual([entry.producer_id for entry in log.producers], [7])
        self.assertEqual(log.end_offset_for_epoch(0).offset, 50)

    def test_begun(self) -> None:
        """Its own records are gone; the state is there, also after a restart, and is what others can begin with."""
        disk = MemoryDisk()
        manager, log = self.filled(disk)
        result(manager.truncator.restart_behind(PARTITION, STATE))
        self.check(log)
        self.assertEqual(state_of(log), STATE)
        append_as_follower(log, batch(b"x", base_offset=100, leader_epoch=1))
        result(log.flush())
        _, again = self.opened(disk.after_kill())
        self.assertEqual((again.log_start_offset, again.local_start_offset), (2, 100))
        self.assertEqual(list(again.epochs), list(STATE.epochs))
        self.assertEqual([entry.producer_id for entry in again.producers], [7])

    def test_no_producers(self) -> None:
        """There may be none, and only one leader epoch."""
        manager, log = self.opened(MemoryDisk())
        result(manager.truncator.restart_behind(PARTITION, AuxiliaryState(10, 0, ((0, 0),))))
        self.assertEqual((log.log_start_offset, log.local_start_offset, len(log.producers)), (0, 10, 0))

    def test_a_damaged_snapshot(self) -> None:
        """It is refused: retries of batches would be taken for new ones."""
        manager, _ = self.opened(MemoryDisk())
        damaged = AuxiliaryState(100, 0, ((0, 0),), b"damaged")
        self.failureResultOf(manager.truncator.restart_behind(PARTITION, damaged), SnapshotCorrupt)

    def each_crash(self, restart: Callable[[MemoryDisk], MemoryDisk]) -> None:
        for step in range(1000):
            disk = MemoryDisk()
            manager, log = self.filled(disk)
            disk.crash_at = disk.steps + step
            try:
                result(manager.truncator.restart_behind(PARTITION, STATE))
            except Crashed:
                pass
            self.flushLoggedErrors(Crashed)
            manager, log = self.opened(restart(disk))
            if log.local_start_offset < 100:
                # As it was, or cut: it fetches, and is told to begin behind the state again.
                found = [offset for offset, _ in read_all(log)]
                self.assertEqual(found, list(range(len(found))), f"step {step}")
                self.assertEqual(log.log_start_offset, 0, f"step {step}")
                self.assertTrue(disk.crashed, f"step {step}")
            else:
                self.assertEqual(list(log.epochs)[1:], list(STATE.epochs)[1:], f"step {step}")
                self.assertEqual([entry.producer_id for entry in log.producers], [7], f"step {step}")
                # The leader's answer moves it on.
                self.assertLessEqual(log.log_start_offset, 2, f"step {step}")
            result(manager.truncator.restart_behind(PARTITION, STATE))
            self.check(log)
            if not disk.crashed:
                self.assertGreater(step, 5)
                return
        self.fail("it never ended")

    def test_kill(self) -> None:
        """Everything written is there."""
        self.each_crash(MemoryDisk.after_kill)

    def test_power_cut(self) -> None:
        """What was not synced is gone, or there, or some of it."""
        for mode in ("lose", "keep", "tear"):
            rng = random.Random(7)
            self.each_crash(lambda disk, mode=mode, rng=rng: disk.after_power_cut(PowerCutOutcome(mode, rng)))  # type: ignore[misc]
