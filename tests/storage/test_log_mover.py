"""Moves of logs between the log directories of a broker."""

from __future__ import annotations

import random
from collections.abc import Callable

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.model import TopicPartition
from logbus.records.control_records import ControlType, Marker
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.appends.append_marker import append_marker
from logbus.storage.istorage import IOPool
from logbus.storage.log import Log
from logbus.storage.log_manager import LogManager
from logbus.storage.truncation import truncate_fully
from logbus.testing.simulation.environment.memory_disk import Crashed, MemoryDisk, PowerCutOutcome, no_space
from tests.storage.builders import NOW_MS, PARTITION, a_manager, batch, read_all
from tests.storage.test_log_crashes import result

SMALL = TopicConfig(segment_bytes=400, index_interval_bytes=100)


class PiecewiseDisk(MemoryDisk):
    """Removes a directory as a real disk does: one file after the other, in any order; the marks first."""

    def remove_tree(self, path: str) -> None:
        for name in sorted(self.names(path), key=lambda name: (name not in ("moved", "arriving", "stray"), name)):
            self.unlink(f"{path}/{name}")
        super().remove_tree(path)

    def after_kill(self) -> MemoryDisk:
        return PiecewiseDisk(self.root, super().after_kill().tree)

    def after_power_cut(self, choice: PowerCutOutcome) -> MemoryDisk:
        return PiecewiseDisk(self.root, super().after_power_cut(choice).tree)


class Machine:
    """Two disks, and a manager of the logs on them."""

    def __init__(self, *disks: MemoryDisk) -> None:
        self.disks = disks or (PiecewiseDisk("/a"), PiecewiseDisk("/b"))
        self.clock = Clock()
        self.manager: LogManager = a_manager(*self.disks, clock=self.clock, default_config=SMALL)

    def open(self) -> Machine:
        result(self.manager.open())
        self.manager.start_housekeeping()
        return self

    def create(self, count: int = 30) -> Log:
        """A log on the first disk."""
        log: Log = result(self.manager.create(PARTITION))
        assert log.disk is self.disks[0]
        append(log, count)
        return log

    def move(self, to: int = 1) -> None:
        self.manager.mover.move(PARTITION, self.manager.directories[to])

    def moved(self) -> Log:
        """Let time pass until nothing moves any more; the log then."""
        for _ in range(1000):
            if not self.manager.mover.moves:
                break
            self.clock.advance(0.1)
        log = self.manager.get(PARTITION)
        assert log is not None
        return log

    def names(self, disk: int) -> list[str]:
        """The directories on a disk."""
        return sorted(name for name in self.disks[disk].names("") if name.startswith("orders-"))

    def restarted(self, restart: Callable[[MemoryDisk], MemoryDisk]) -> Machine:
        return Machine(*map(restart, self.disks)).open()


def append(log: Log, count: int, epoch: int = 1) -> None:
    """Batches of one record that says its offset and epoch."""
    for _ in range(count):
        append_as_leader(log, batch(b"%d in %d" % (log.log_end_offset, epoch)), epoch)
    log.high_watermark = log.log_end_offset


class MoveTests(SynchronousTestCase):
    """From one directory to another."""

    def test_moved(self) -> None:
        """Records, settings, id, epochs, producers and plugins' files come along; the old ones go after their time."""
        machine = Machine().open()
        log = machine.create()
        log.disk.replace("orders-0/kafka07.plugin", b"positions")
        append_as_leader(log, batch(b"x", producer_id=7, producer_epoch=0, base_sequence=0), 2)
        log.advance_start(5)
        before = read_all(log)
        machine.move()
        moved = machine.moved()
        self.assertIsNot(moved, log)
        self.assertEqual((moved.disk.root, moved.directory), ("/b", "orders-0"))
        self.assertEqual(read_all(moved), before)
        self.assertEqual((moved.log_start_offset, moved.config), (5, SMALL))
        self.assertEqual(moved.epoch_at(30), 2)
        self.assertEqual(moved.disk.read("orders-0/kafka07.plugin"), b"positions")
        self.assertIsNotNone(moved.producers.get(7))
        self.assertTrue(log.is_closed)
        append(moved, 10, 3)
        machine.clock.advance(SMALL.file_delete_delay_ms / 1000 + 1)
        self.assertEqual((machine.names(0), machine.names(1)), ([], ["orders-0"]))
        result(machine.manager.close())
        again = machine.restarted(MemoryDisk.after_kill)
        found = again.manager.get(PARTITION)
        assert found is not None
        self.assertEqual(read_all(found), read_all(moved))
        self.assertEqual(found.log_start_offset, 5)

    def test_empty(self) -> None:
        """An empty log moves, too, and goes on at its end."""
        machine = Machine().open()
        log = machine.create(0)
        truncate_fully(log, 77)
        machine.move()
        moved = machine.moved()
        self.assertEqual((moved.disk.root, moved.log_end_offset), ("/b", 77))
        append(moved, 1)
        self.assertEqual([offset for offset, _ in read_all(moved)], [77])

    def test_move_and_move_back(self) -> None:
        """A partition can be moved back while its old files are still in the first directory."""
        machine = Machine().open()
        before = read_all(machine.create())
        for to, root in ((1, "/b"), (0, "/a"), (1, "/b")):
            machine.move(to)
            moved = machine.moved()
            self.assertEqual((moved.disk.root, read_all(moved)), (root, before))
        machine.clock.advance(61)
        self.assertEqual((machine.names(0), machine.names(1)), ([], ["orders-0"]))

    def test_deleted_and_made_again_after_a_move(self) -> None:
        """A new log where the old files of a moved one still are has nothing of them, and stays when they go."""
        machine = Machine().open()
        machine.create()
        machine.move()
        machine.moved()
        result(machine.manager.delete(PARTITION))
        again = machine.create(3)
        before = read_all(again)
        machine.clock.advance(SMALL.file_delete_delay_ms / 1000 + 1)
        self.assertEqual((machine.names(0), machine.names(1)), (["orders-0"], []))
        self.assertIsNone(self.successResultOf(again.flush()))
        found = machine.restarted(MemoryDisk.after_kill).manager.get(PARTITION)
        assert found is not None
        self.assertEqual(read_all(found), before)

    def test_appends_and_truncations_during_a_move(self) -> None:
        """Appends and truncations during the copy take effect in the new directory, too."""
        machine = Machine().open()
        log = machine.create(40)
        machine.disks[0].held.add(IOPool.READ)
        machine.move()
        append(log, 5)
        machine.disks[0].release(IOPool.READ, 1)  # Bytes of offsets that are cut now.
        result(machine.manager.truncator.truncate({PARTITION: 20}))
        append(log, 30, 2)
        machine.disks[0].held.clear()
        machine.disks[0].release(IOPool.READ)
        moved = machine.moved()
        self.assertEqual(moved.disk.root, "/b")
        self.assertEqual([value for _, value in read_all(moved)], [b"%d in %d" % (i, 1 + (i >= 20)) for i in range(50)])

    def test_retention_during_a_move(self) -> None:
        """Records that were deleted during the copy are not copied."""
        machine = Machine().open()
        log = machine.create(40)
        machine.disks[0].held.add(IOPool.READ)
        machine.move()
        self.assertEqual(result(machine.manager.delete_records(PARTITION, 30)), 30)
        machine.disks[0].held.clear()
        machine.disks[0].release(IOPool.READ)
        moved = machine.moved()
        self.assertEqual((moved.disk.root, moved.log_start_offset), ("/b", 30))
        self.assertEqual(read_all(moved), read_all(log))

    def test_waiting_for_a_sync(self) -> None:
        """A flush that waits while the logs are swapped fails with a retriable error."""
        machine = Machine().open()
        log = machine.create(3)
        result(log.flush())
        append(log, 1)
        for disk in machine.disks:
            disk.held.add(IOPool.SYNC)
        running, waiting = log.flush(), log.flush()
        machine.move()
        machine.clock.advance(1)
        for disk in machine.disks:
            disk.held.clear()
            disk.release(IOPool.SYNC)
        self.assertIsNone(self.successResultOf(running))
        error = self.failureResultOf(waiting, ApiError).value
        self.assertEqual(error.code, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.assertEqual(len(read_all(machine.moved())), 4)

    def test_refused(self) -> None:
        """Directories that are not there or do not work, partitions that are not here, names that are too long."""
        machine = Machine().open()
        machine.create()
        mover = machine.manager.mover
        self.assertIs(mover.directory_at("/b"), machine.manager.directories[1])
        error = self.assertRaises(ApiError, mover.directory_at, "/c")
        self.assertEqual(error.code, ErrorCode.LOG_DIR_NOT_FOUND)
        self.assertIn("/a, /b", error.message)
        there = machine.manager.directories[1]
        error = self.assertRaises(ApiError, mover.move, TopicPartition("none", 0), there)
        self.assertEqual(error.code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        long = TopicPartition("x" * 240, 0)
        result(machine.manager.create(long))
        error = self.assertRaises(ApiError, mover.move, long, machine.manager.directories[0])
        self.assertEqual(error.code, ErrorCode.INVALID_TOPIC_EXCEPTION)

    def test_taken_back(self) -> None:
        """To where it is: the move under way ends, and nothing is left of it."""
        machine = Machine().open()
        log = machine.create()
        machine.disks[0].held.add(IOPool.READ)
        machine.move()
        self.assertEqual(len(machine.names(1)), 1)
        machine.move(0)
        machine.disks[0].held.clear()
        machine.disks[0].release(IOPool.READ)
        self.assertIs(machine.moved(), log)
        machine.clock.advance(1)
        self.assertEqual((machine.names(1), machine.manager.directories[1].futures), ([], {}))
        append(log, 1)

    def test_deletion_during_a_move(self) -> None:
        """A partition that is deleted is not moved."""
        machine = Machine().open()
        machine.create()
        machine.disks[0].held.add(IOPool.READ)
        machine.move()
        result(machine.manager.delete(PARTITION))
        machine.disks[0].held.clear()
        machine.disks[0].release(IOPool.READ)
        machine.clock.advance(61)
        self.assertIsNone(machine.manager.get(PARTITION))
        self.assertEqual((machine.names(0), machine.names(1)), ([], []))

    def test_no_space(self) -> None:
        """A log that does not fit stays where it is, and takes appends as before."""
        machine = Machine().open()
        log = machine.create()
        machine.disks[1].faults = lambda op, path: no_space() if op == "write" and path.endswith(".log") else None
        machine.move()
        self.assertIs(machine.moved(), log)
        append(log, 1)
        machine.clock.advance(1)
        self.assertEqual(machine.names(1), [])

    def test_failing_swap(self) -> None:
        """A disk that fails as the logs trade places leaves the current log in use."""
        machine = Machine().open()
        log = machine.create()
        machine.disks[1].faults = lambda op, path: OSError(5, "I/O") if op == "rename" else None
        machine.move()
        self.assertIs(machine.moved(), log)
        self.assertFalse(machine.manager.directories[1].is_online)
        append(log, 5)
        self.assertIsNone(self.successResultOf(log.flush()))
        self.assertFalse(machine.disks[0].exists("orders-0/moved"))

    def test_aborted_transactions_of_a_closed_log(self) -> None:
        """Readers of committed records skip aborted ones while the logs trade places, and after that failed."""
        machine = Machine().open()
        log = machine.create(3)
        append_as_leader(log, batch(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True), 1)
        append_marker(log, 7, 0, Marker(ControlType.ABORT, 0), 1, NOW_MS)
        log.high_watermark = log.log_end_offset
        aborted = log.aborted_transactions(0, 5)
        self.assertEqual([entry.first_offset for entry in aborted], [3])
        other = machine.disks[1]
        other.held.add(IOPool.BACKGROUND)
        machine.move()
        machine.clock.advance(1)
        self.assertTrue(log.is_closed)
        self.assertEqual(log.aborted_transactions(0, 5), aborted)
        other.faults = lambda op, path: OSError(5, "I/O") if op == "rename" else None
        other.held.clear()
        other.release(IOPool.BACKGROUND)
        self.assertIs(machine.moved(), log)
        append(log, 1)
        self.assertEqual(log.aborted_transactions(0, 5), aborted)
        self.assertIsNone(self.successResultOf(log.flusher.write_back_and_wait()))
        found = machine.manager.directories[0]
        self.successResultOf(found.checkpoint_recovery_points())
        again = Machine(machine.disks[0].after_power_cut(PowerCutOutcome("lose")), MemoryDisk("/b")).open()
        recovered = again.manager.get(PARTITION)
        assert recovered is not None
        self.assertEqual(recovered.aborted_transactions(0, 5), aborted)

    def test_interrupted_by_a_stop(self) -> None:
        """A move that a stop interrupted begins again with the next start."""
        machine = Machine().open()
        before = read_all(machine.create())
        machine.disks[0].held.add(IOPool.READ)
        machine.move()
        closing = machine.manager.close()
        machine.disks[0].held.clear()
        machine.disks[0].release(IOPool.READ)
        result(closing)
        again = machine.restarted(MemoryDisk.after_kill)
        moved = again.moved()
        self.assertEqual((moved.disk.root, read_all(moved)), ("/b", before))
        again.clock.advance(61)
        self.assertEqual((again.names(0), again.names(1)), ([], ["orders-0"]))

    def test_killed_before_a_move_begins(self) -> None:
        """A move that waits for another one is shown with all that is left, and begins after a restart, too."""
        machine = Machine().open()
        machine.create()
        second, mover = TopicPartition("orders", 1), machine.manager.mover
        mover.prefer(second, machine.manager.directories[0])
        append(result(machine.manager.create(second)), 4)
        machine.disks[0].held.add(IOPool.READ)
        for partition in (PARTITION, second):
            mover.move(partition, machine.manager.directories[1])
        self.assertEqual([move.offset_lag for move in mover.moves.values()], [30, 4])
        machine.disks[0].crashed = machine.disks[1].crashed = True
        again = machine.restarted(MemoryDisk.after_kill)
        again.moved()
        again.clock.advance(61)
        self.assertEqual((again.names(0), again.names(1)), ([], ["orders-0", "orders-1"]))

    def test_cancelled_before_it_begins(self) -> None:
        """Nothing is left of a move that was taken back while it waited for another one."""
        machine = Machine().open()
        machine.create()
        second, mover = TopicPartition("orders", 1), machine.manager.mover
        mover.prefer(second, machine.manager.directories[0])
        log = result(machine.manager.create(second))
        machine.disks[0].held.add(IOPool.READ)
        for partition in (PARTITION, second):
            mover.move(partition, machine.manager.directories[1])
        mover.move(second, machine.manager.directories[0])
        machine.disks[0].held.clear()
        machine.disks[0].release(IOPool.READ)
        machine.moved()
        machine.clock.advance(61)
        self.assertEqual((machine.names(0), machine.names(1)), (["orders-1"], ["orders-0"]))
        self.assertIs(machine.manager.get(second), log)

    def test_the_other_directory_fails_at_once(self) -> None:
        """A directory that cannot take the copy is reported to who asks for the move."""
        machine = Machine().open()
        log = machine.create()
        machine.disks[1].faults = lambda op, path: OSError(5, "I/O")
        self.assertRaises(StorageError, machine.move)
        self.assertIs(machine.moved(), log)
        append(log, 1)

    def test_the_other_directory_is_offline(self) -> None:
        """If the marker of a move is found and a directory is missing, the newer log cannot be determined."""
        machine = Machine().open()
        machine.create()
        machine.disks[0].replace("orders-0/moved", b"")
        broken = machine.disks[1].after_kill()
        broken.faults = lambda op, path: OSError(5, "I/O")
        again = Machine(machine.disks[0].after_kill(), broken)
        again.disks[1].failure = again.disks[1].offline()
        result(again.manager.open())
        self.assertIsNone(again.manager.get(PARTITION))
        self.assertEqual(again.names(0), ["orders-0"])

    def test_preferred_directory(self) -> None:
        """A log that is made later goes where it was wanted."""
        machine = Machine().open()
        machine.manager.mover.prefer(PARTITION, machine.manager.directories[1])
        log = result(machine.manager.create(PARTITION))
        self.assertEqual(log.disk.root, "/b")


class CrashTests(SynchronousTestCase):
    """The machine stops before the N-th step of either disk: every acknowledged record is in exactly one log."""

    def each_crash(self, restart: Callable[[MemoryDisk], MemoryDisk], which: int, to: int = 1) -> int:
        for step in range(10_000):
            machine = Machine()
            ours, other = machine.disks[which], machine.disks[1 - which]
            synced = 0
            ours.on_crash = lambda other=other: setattr(other, "crashed", True)
            try:
                machine.open()
                log = machine.create(12)
                result(log.flush())
                synced = 12
                if to == 0:
                    # Moved before: what that left is still there.
                    machine.move()
                    log = machine.moved()
                ours.crash_at = ours.steps + step
                machine.move(to)
                moved = machine.moved()
                if ours.crashed:
                    raise Crashed("while moving")
                append(moved, 3, 2)
                result(moved.flush())
                synced = 15
                machine.clock.advance(61)
            except Crashed:
                pass
            self.flushLoggedErrors(Crashed)
            again = machine.restarted(restart)
            found = again.moved()
            values = [value for _, value in read_all(found)]
            wanted = [b"%d in %d" % (i, 1 + (i >= 12)) for i in range(15)]
            self.assertEqual(values[:synced], wanted[:synced], f"step {step}")
            self.assertEqual(values, wanted[: len(values)], f"step {step}")
            append(found, 1, 3)
            if not ours.crashed:
                return step
        raise AssertionError("it never ended")

    def test_kill(self) -> None:
        """Everything written is there."""
        for which in (0, 1):
            self.assertGreater(self.each_crash(MemoryDisk.after_kill, which), 5)

    def test_moved_back(self) -> None:
        """The same for a log whose former files are still in the directory that it moves to."""
        for which in (0, 1):
            self.assertGreater(self.each_crash(MemoryDisk.after_kill, which, 0), 4)
            rng = random.Random(which)
            self.each_crash(lambda disk: disk.after_power_cut(PowerCutOutcome("lose", rng)), which, 0)  # noqa: B023

    def test_power_cut(self) -> None:
        """What was not synced is gone, or there, or some of it."""
        for which in (0, 1):
            for mode in ("lose", "keep", "tear"):
                rng = random.Random(which)
                steps = self.each_crash(lambda disk: disk.after_power_cut(PowerCutOutcome(mode, rng)), which)  # noqa: B023
                self.assertGreater(steps, 5)

    def test_again_while_it_is_cleared_up(self) -> None:
        """The next start is stopped, too, in the middle of what it does about the crash."""
        for marks in (("moved", ""), ("arriving", ""), ("moved", "arriving")):
            for restart in (MemoryDisk.after_kill, lost, torn):
                for step in range(10_000):
                    machine = Machine().open()
                    log = machine.create(12)
                    result(log.flush())
                    machine.move()
                    moved = machine.moved()
                    append(moved, 3, 2)
                    result(moved.flush())
                    for disk, mark in zip(machine.disks, marks, strict=True):
                        disk.unlink("orders-0/moved")
                        if mark:
                            disk.replace(f"orders-0/{mark}", b"orders-0.copy")
                    again = Machine(*(disk.after_kill() for disk in machine.disks))
                    first, second = again.disks
                    first.crash_at = step
                    first.on_crash = lambda second=second: setattr(second, "crashed", True)  # type: ignore[misc]
                    try:
                        again.open().clock.advance(61)
                    except Crashed:
                        pass
                    self.flushLoggedErrors(Crashed)
                    found = again.restarted(restart).manager.get(PARTITION)
                    assert found is not None
                    self.assertEqual((found.disk.root, found.log_end_offset), ("/b", 15), f"{marks}, step {step}")
                    if not first.crashed:
                        self.assertGreater(step, 3)
                        self.assertEqual((again.names(0), again.names(1)), ([], ["orders-0"]))
                        break

    def test_failed_swap(self) -> None:
        """
        The other disk fails after the copy has its new name, and what is acknowledged goes to the former log: it has
        that after a crash, when the other disk works again.
        """
        for restart in (MemoryDisk.after_kill, lost, torn):
            for step in range(10_000):
                machine = Machine().open()
                log = machine.create(12)
                result(log.flush())
                ours, other = machine.disks
                other.faults = lambda op, path: (
                    OSError(5, "I/O") if op == "sync-directory" and path == "" and other.exists("orders-0") else None  # noqa: B023
                )
                ours.crash_at = ours.steps + step
                acknowledged = 12
                try:
                    machine.move()
                    self.assertIs(machine.moved(), log)
                    if ours.crashed:
                        raise Crashed("while moving")
                    append(log, 3, 2)
                    result(log.flush())
                    acknowledged = 15
                except Crashed:
                    pass
                self.flushLoggedErrors(Crashed)
                again = machine.restarted(restart)
                found = again.moved()
                values = [value for _, value in read_all(found)]
                wanted = [b"%d in %d" % (i, 1 + (i >= 12)) for i in range(15)]
                self.assertEqual(values[:acknowledged], wanted[:acknowledged], f"step {step}")
                again.clock.advance(61)
                self.assertEqual(sum("orders-0" in again.names(disk) for disk in (0, 1)), 1)
                if not ours.crashed:
                    self.assertGreater(step, 3)
                    break

    def test_moved_on_after_a_failed_swap(self) -> None:
        """Of three directories, one has a copy that was given up, and the log went to another: that one is used."""
        disks: list[MemoryDisk] = [PiecewiseDisk(f"/{name}") for name in "abc"]
        machine = Machine(*disks).open()
        machine.create(12)
        machine.move(2)
        append(machine.moved(), 3, 2)
        disks[0].replace("orders-0/moved", b"orders-0.second")
        disks[2].replace("orders-0/arriving", b"orders-0.second")
        disks[1].make_directory("orders-0")
        for name in disks[0].names("orders-0"):
            if name not in ("moved", "arriving"):
                disks[1].replace(f"orders-0/{name}", disks[0].read(f"orders-0/{name}"))
        disks[1].replace("orders-0/arriving", b"orders-0.first")
        again = machine.restarted(MemoryDisk.after_kill)
        found = again.manager.get(PARTITION)
        assert found is not None
        self.assertEqual((found.disk.root, found.log_end_offset), ("/c", 15))
        again.clock.advance(61)
        self.assertEqual([again.names(disk) for disk in (0, 1, 2)], [[], [], ["orders-0"]])
        self.assertFalse(again.disks[2].exists("orders-0/arriving"))


def lost(disk: MemoryDisk) -> MemoryDisk:
    """After a power cut that lost what was not synced."""
    return disk.after_power_cut(PowerCutOutcome("lose"))


def torn(disk: MemoryDisk) -> MemoryDisk:
    """After one that kept some of it."""
    return disk.after_power_cut(PowerCutOutcome("tear", random.Random(7)))
