"""Logs that are handed to other workers of a machine by hard links."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError, ErrorCode
from logbus.records.control_records import ControlType, Marker
from logbus.storage.appends.append_as_follower import append_as_follower
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.appends.append_many import append_many
from logbus.storage.appends.append_marker import append_marker
from logbus.storage.log import Log
from logbus.storage.log_linker import KEPT_SECONDS, LinkedCopy
from logbus.storage.log_manager import LogManager
from logbus.storage.retention import TimeAndSize
from logbus.storage.truncation import delete_expired
from logbus.testing.simulation.environment.memory_disk import (
    Crashed,
    MemoryDisk,
    PowerCutOutcome,
    no_files,
    no_space,
)
from tests.storage.builders import NOW_MS, PARTITION, a_manager, batch, read_all
from tests.storage.test_log_crashes import result

SMALL = TopicConfig(segment_bytes=400, index_interval_bytes=100)


class Machine:
    """Two workers on one disk, each with a manager of its logs."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        top = disk or MemoryDisk("/m")
        self.disks: Sequence[MemoryDisk] = (top, top.below("workers/1"))
        self.clock = Clock()
        self.managers: list[LogManager] = [
            a_manager(each, clock=self.clock, default_config=SMALL) for each in self.disks
        ]

    def open(self) -> Machine:
        for manager in self.managers:
            result(manager.open())
            manager.start_housekeeping()
        return self

    def log(self, worker: int) -> Log:
        log = self.managers[worker].get(PARTITION)
        assert log is not None
        return log

    def create(self, worker: int, count: int = 0) -> Log:
        log: Log = result(self.managers[worker].create(PARTITION))
        append(log, count)
        return log

    def copy(self, worker: int = 0) -> LinkedCopy:
        return result(Deferred.fromCoroutine(self.managers[worker].linker.copy(PARTITION, None)))

    def adopt(self, copy: LinkedCopy, worker: int = 1) -> Log:
        return result(Deferred.fromCoroutine(self.managers[worker].linker.adopt(PARTITION, copy)))

    async def hand_over(self) -> None:
        copy = await self.managers[0].linker.copy(PARTITION, None)
        await self.managers[1].linker.adopt(PARTITION, copy)

    def names(self, worker: int) -> list[str]:
        return sorted(name for name in self.disks[worker].names("") if name.startswith("orders-"))

    def restarted(self, restart: Callable[[MemoryDisk], MemoryDisk]) -> Machine:
        return Machine(restart(self.disks[0])).open()


def append(log: Log, count: int, epoch: int = 1) -> None:
    """Batches of one record that says its offset and epoch."""
    for _ in range(count):
        append_as_leader(log, batch(b"%d in %d" % (log.log_end_offset, epoch)), epoch)
    log.high_watermark = log.log_end_offset


def copied(disk: MemoryDisk) -> MemoryDisk:
    """As after the death of both processes; those of the test go on."""
    return MemoryDisk(disk.root, disk.tree.copy())


class LinkTests(SynchronousTestCase):
    """From one worker to another."""

    def test_handed_over(self) -> None:
        """Records, start, epochs, producers and plugins' files come along; only what follows is to be fetched."""
        machine = Machine().open()
        log = machine.create(0, 30)
        log.disk.replace("orders-0/kafka07.plugin", b"positions")
        append_as_leader(log, batch(b"x", producer_id=7, producer_epoch=0, base_sequence=0), 2)
        log.high_watermark = 31
        log.advance_start(5)
        before = read_all(log)
        machine.create(1)
        taken = machine.adopt(machine.copy())
        self.assertEqual(read_all(taken), before)
        self.assertEqual((taken.log_start_offset, taken.log_end_offset, taken.high_watermark), (5, 31, 31))
        self.assertEqual((taken.epoch_at(29), taken.epoch_at(30)), (1, 2))
        self.assertIsNotNone(taken.producers.get(7))
        self.assertEqual(taken.disk.read("orders-0/kafka07.plugin"), b"positions")
        self.assertIs(machine.log(1), taken)
        shared = [segment.log.path for segment in taken.segments if machine.disks[1].is_shared(segment.log.path)]
        self.assertEqual(len(shared), len(log.segments) - 1)
        self.assertEqual(machine.names(0), ["orders-0"])

    def test_each_goes_on_by_itself(self) -> None:
        """Neither sees what the other appends, deletes or truncates afterwards, nor does any later start."""
        machine = Machine().open()
        log = machine.create(0, 30)
        machine.create(1)
        taken = machine.adopt(machine.copy())
        append(log, 5, 2)
        append(taken, 7, 3)
        result(machine.managers[1].truncator.truncate({PARTITION: 12}))
        append(taken, 3, 4)
        old = [(n, b"%d in %d" % (n, 1 if n < 30 else 2)) for n in range(35)]
        new = [(n, b"%d in %d" % (n, 1 if n < 12 else 4)) for n in range(15)]
        for again in (machine, machine.restarted(copied)):
            self.assertEqual(read_all(again.log(0)), old)
            self.assertEqual(read_all(again.log(1)), new)
        result(machine.managers[0].truncator.truncate({PARTITION: 8}))
        append(log, 1, 5)
        self.assertEqual(read_all(taken), new)
        result(machine.managers[0].delete(PARTITION))
        machine.clock.advance(SMALL.file_delete_delay_ms / 1000 + 1)
        self.assertEqual(machine.names(0), [])
        self.assertEqual(read_all(machine.restarted(copied).log(1)), new)

    def test_no_append_changes_what_is_shared(self) -> None:
        """Whichever way the first batches come, they go to a new file: after a start, too, that found none."""

        def fetched(log: Log) -> None:
            batches = [batch(b"%d" % n, base_offset=31 + n, leader_epoch=2) for n in range(3)]
            append_as_follower(log, b"".join(batches), 2)

        ways: list[Callable[[Log], object]] = [
            lambda log: append_as_leader(log, batch(b"x"), 2),
            lambda log: append_many(log, [batch(b"x"), batch(b"y")], 2, NOW_MS, True),
            lambda log: append_marker(log, 7, 0, Marker(ControlType.COMMIT, 1), 2, NOW_MS),
            fetched,
        ]
        for way in ways:
            for again in (False, True):
                machine = Machine().open()
                log = machine.create(0, 31)
                self.assertEqual(log.segments[-1].base_offset, 30)  # There is room in the last one.
                machine.create(1)
                taken = machine.adopt(machine.copy())
                self.assertEqual(taken.log_end_offset, 31)
                if again:
                    machine = machine.restarted(copied)
                    taken = machine.log(1)
                files = [segment.log.path for segment in taken.segments]
                self.assertTrue(all(map(machine.disks[1].is_shared, files)))
                before = [machine.disks[1].read(path) for path in files]
                way(taken)
                self.assertEqual([machine.disks[1].read(path) for path in files], before)
                taken.high_watermark = taken.log_end_offset
                if taken.log_end_offset == 31:  # Several at once need a segment that has a batch already.
                    append(taken, 1)
                    way(taken)
                self.assertGreater(taken.log_end_offset, 31)
                self.assertEqual([machine.disks[1].read(path) for path in files], before)

    def test_begun_anew(self) -> None:
        """Nor does a truncation that leaves nothing, for a leader whose log begins behind the copy's end."""
        machine = Machine().open()
        log = machine.create(0, 30)
        before = read_all(log)
        machine.create(1)
        machine.adopt(machine.copy())
        result(machine.managers[1].truncator.restart(PARTITION, 50))
        append(machine.log(1), 2)
        self.assertEqual(read_all(log), before)
        again = machine.restarted(copied)
        self.assertEqual(read_all(again.log(0)), before)
        self.assertEqual(read_all(again.log(1)), [(n, b"%d in 1" % n) for n in (50, 51)])

    def test_transactions(self) -> None:
        """Open and aborted transactions come along."""
        machine = Machine().open()
        log = machine.create(0, 5)
        sent = {"producer_epoch": 0, "transactional": True}
        append_as_leader(log, batch(b"a", producer_id=7, base_sequence=0, **sent), 1)
        append_marker(log, 7, 0, Marker(ControlType.ABORT, 1), 1, NOW_MS)
        append(log, 10)
        append_as_leader(log, batch(b"b", producer_id=8, base_sequence=0, **sent), 1)
        append(log, 10)
        machine.create(1)
        taken = machine.adopt(machine.copy())
        end = log.log_end_offset
        self.assertEqual(taken.last_stable_offset(end), 17)
        self.assertEqual(taken.aborted_transactions(0, end), log.aborted_transactions(0, end))
        self.assertEqual(len(taken.aborted_transactions(0, end)), 1)
        append_marker(taken, 8, 0, Marker(ControlType.COMMIT, 1), 2, NOW_MS)
        self.assertEqual(taken.producers.open_transaction(8, 0), False)

    def test_compacted(self) -> None:
        """What was compacted is known to be; compaction afterwards is each worker's own."""
        machine = Machine().open()
        log = machine.create(0, 30)
        log.cleaned_end_offset = 20
        machine.create(1)
        taken = machine.adopt(machine.copy())
        self.assertEqual(taken.cleaned_end_offset, 20)
        result(machine.managers[1].close())

    def test_there_and_back(self) -> None:
        """A log that was handed over can be handed back, as often as one likes."""
        machine = Machine().open()
        machine.create(0, 10)
        for turn in range(4):
            here, there = turn % 2, 1 - turn % 2
            append(machine.log(here), 4, turn + 2)
            machine.create(there)
            before = read_all(machine.log(here))
            self.assertEqual(read_all(machine.adopt(machine.copy(here), there)), before)
            result(machine.managers[here].delete(PARTITION))
        self.assertEqual(len(read_all(machine.log(0))), 26)

    def test_nothing_to_hand_over(self) -> None:
        """An empty log, a missing one and one of another topic are refused."""
        machine = Machine().open()
        with self.assertRaises(ApiError) as missing:
            machine.copy()
        self.assertEqual(missing.exception.code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        machine.create(0)
        with self.assertRaises(ApiError) as empty:
            machine.copy()
        self.assertEqual(empty.exception.code, ErrorCode.OFFSET_NOT_AVAILABLE)
        self.assertEqual(machine.names(0), ["orders-0"])

    def test_only_an_empty_log_is_replaced(self) -> None:
        """What a follower has fetched already stays."""
        machine = Machine().open()
        machine.create(0, 10)
        copy = machine.copy()
        log = machine.create(1, 3)
        with self.assertRaises(ApiError):
            machine.adopt(copy)
        self.assertIs(machine.log(1), log)
        append(log, 1)

    def test_nobody_takes_it(self) -> None:
        """A copy that nobody takes is removed after a while, and cannot be taken then."""
        machine = Machine().open()
        machine.create(0, 10)
        blank = machine.create(1)
        copy = machine.copy()
        self.assertEqual(len(machine.names(0)), 2)
        machine.clock.advance(KEPT_SECONDS + 1)
        machine.clock.advance(1)
        self.assertEqual(machine.names(0), ["orders-0"])
        with self.assertRaises(ApiError):
            machine.adopt(copy)
        append(blank, 1)
        machine.copy()
        again = machine.restarted(copied)
        self.assertEqual(again.names(0), ["orders-0"])

    def test_a_full_disk(self) -> None:
        """Without space nothing is handed over, and both logs are as they were."""
        machine = Machine().open()
        log = machine.create(0, 10)
        machine.disks[0].faults = lambda op, path: no_space() if op == "replace" and "linked" in path else None
        with self.assertRaises(ApiError):
            machine.copy()
        machine.disks[0].faults = lambda op, path: None
        append(log, 1)
        machine.clock.advance(1)
        self.assertEqual(machine.names(0), ["orders-0"])

    def test_a_copy_that_cannot_be_opened(self) -> None:
        """The log that follows in its place is not written into the files of the other worker."""
        machine = Machine().open()
        log = machine.create(0, 30)
        before = read_all(log)
        machine.create(1)
        copy = machine.copy()
        machine.disks[1].faults = lambda op, path: no_files() if op == "open" else None
        with self.assertRaises(ApiError):
            machine.adopt(copy)
        machine.disks[1].faults = lambda op, path: None
        append(machine.create(1), 3, 9)
        self.assertEqual(read_all(log), before)
        machine.clock.advance(1)
        self.assertEqual(machine.names(1), ["orders-0"])

    def test_retention_meanwhile(self) -> None:
        """Segments that retention removes while they are linked are left out."""
        machine = Machine().open()
        log = machine.create(0, 30)
        machine.create(1)
        log.configure(TopicConfig(segment_bytes=400, retention_bytes=800))

        def retain(op: str, path: str) -> None:
            if op == "link":
                machine.disks[0].faults = lambda op, path: None
                self.assertGreater(delete_expired(log, TimeAndSize(), 0), 0)

        machine.disks[0].faults = retain
        taken = machine.adopt(machine.copy())
        self.assertGreater(taken.log_start_offset, 0)
        self.assertEqual(read_all(taken), read_all(log))


class CrashTests(SynchronousTestCase):
    """The machine or a process stops somewhere in between."""

    def test_at_each_step(self) -> None:
        """The first worker has all records that were synced; the second has either nothing, or all of them."""
        for restart in (
            copied,
            *(lambda disk, mode=mode: disk.after_power_cut(PowerCutOutcome(mode)) for mode in ("lose", "tear")),
        ):
            for worker in (0, 1):
                self._crash_everywhere(worker, restart)

    def _crash_everywhere(self, worker: int, restart: Callable[[MemoryDisk], MemoryDisk]) -> None:
        at = 0
        while True:
            machine = Machine().open()
            log = machine.create(0, 12)
            machine.create(1)
            result(log.flush())
            result(machine.log(1).flush())
            expected = read_all(log)
            disk = machine.disks[worker]
            disk.crash_at = disk.steps + at
            handing_over = Deferred.fromCoroutine(machine.hand_over())
            handing_over.addErrback(lambda failure: failure.trap(Crashed))
            done = not disk.crashed
            again = machine.restarted(restart)
            self.assertEqual(read_all(again.log(0)), expected, (worker, at))
            taken = again.managers[1].get(PARTITION)
            if taken is not None:
                self.assertIn(read_all(taken), ([], expected), (worker, at))
                append(taken, 2, 9)
            append(again.log(0), 3, 7)
            third = again.restarted(copied)
            self.assertEqual(read_all(third.log(0)), [*expected, *((n, b"%d in 7" % n) for n in range(12, 15))])
            if done:
                self.assertIsNotNone(taken)
                break
            at += 1
        self.assertGreater(at, 3)
