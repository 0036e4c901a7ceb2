"""Repair of damaged segments: another replica's bytes, atomically across crashes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from attrs import define, evolve, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError, StorageError
from logbus.records.batch import ControlType, Marker, iter_batches
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.appends.append_marker import append_marker
from logbus.storage.log import Log
from logbus.storage.log_manager import LogManager
from logbus.storage.repair.segment_refetch import FetchedBatches, ReplicaNotAvailable, segments_to_refetch
from logbus.storage.segment_replacement import ReplacementAbandoned
from logbus.storage.settings import CleanerSettings
from logbus.storage.truncation import truncate_to
from logbus.testing.simulation.environment.memory_disk import Crashed, MemoryDisk, PowerCutOutcome, no_space
from tests.storage.builders import NOW_MS, PARTITION, a_log, a_manager, batch, data_of
from tests.storage.cleaner.test_log_cleaner import records, state
from tests.storage.repair.test_log_scrubber import SMALL, flip

COMPACT = evolve(SMALL, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.01, delete_retention_ms=0)


@define(eq=False)
class Replica:
    """Another replica's log, to fetch from."""

    log: Log
    high_watermark: int = 1 << 60
    change: Callable[[bytes], bytes] = lambda data: data
    held: list[Deferred[FetchedBatches]] | None = None
    fetches: list[int] = field(factory=list)

    def fetch(self, offset: int) -> Deferred[FetchedBatches]:
        self.fetches.append(offset)
        if self.held is not None:
            self.held.append(Deferred())
            return self.held[-1]
        log = self.log
        data = b""
        if offset >= log.log_start_offset:
            while not data and offset < log.log_end_offset:
                data = self.change(data_of(log.read(offset, 300).data))
                offset += 1
        return succeed(FetchedBatches(data, min(self.high_watermark, log.log_end_offset), log.log_start_offset))


class RestorationCase(SynchronousTestCase):
    """Two logs with the same records: ours, in a manager, and another one on a disk of its own."""

    config: TopicConfig = SMALL

    def setUp(self) -> None:
        self.clock = Clock()
        self.disk = MemoryDisk()
        self.open()
        self.log: Log = self.successResultOf(self.manager.create(PARTITION, config=self.config))
        # Segments of another size: replicas do not roll alike.
        self.other = a_log(config=evolve(self.config, segment_bytes=700))
        self.replica = Replica(self.other)

    def open(self) -> None:
        self.manager: LogManager = a_manager(
            self.disk, clock=self.clock, cleaner_settings=lambda: CleanerSettings(backoff_ms=10)
        )
        self.successResultOf(self.manager.open())

    def reopen(self, disk: MemoryDisk) -> None:
        """As after a crash."""
        self.disk = disk
        self.open()
        log = self.manager.get(PARTITION)
        assert log is not None
        self.log = log
        log.configure(self.config)

    def append(self, data: bytes, epoch: int = 3) -> None:
        for log in (self.log, self.other):
            append_as_leader(log, data, epoch)

    def fill(self, count: int = 30) -> None:
        for number in range(count):
            self.append(batch(b"%d" % number + b"." * 40, keys=[b"%d" % (number % 5)]))

    def whole(self, log: Log) -> list[bytes]:
        """All batches of a log."""
        found, offset = [], log.log_start_offset
        while offset < log.log_end_offset:
            data = data_of(log.read(offset, 1 << 20).data)
            for at, header in iter_batches(data):
                found.append(data[at : at + header.size])
                offset = header.next_offset
        return found

    def damage(self, number: int, position: int = 70) -> None:
        """Flip a bit in a segment, and have it found."""
        segment = self.log.segments[number]
        flip(self.disk, segment.log.path, position)
        self.manager.scrubber.suspect(self.log, segment)
        self.clock.advance(0)
        self.assertIn(segment.base_offset, [found.base_offset for found in self.manager.damage.of(self.log)])

    def repair(self, diverges_at: int | None = None) -> Any:
        """Begin to repair the first damage; what became of it."""
        results: list[Any] = []
        damage = self.manager.damage.of(self.log)[0]
        restoring = self.manager.repairer.repair(self.log, damage, self.replica, 7, diverges_at)
        Deferred.fromCoroutine(restoring).addBoth(results.append)
        for _ in range(100):
            if results:
                break
            self.clock.advance(0.01)
        return results[0] if results else None

    def repaired(self) -> None:
        outcome = self.repair()
        if isinstance(outcome, Failure):
            outcome.raiseException()
        self.assertIsNone(outcome)

    def leftovers(self) -> list[str]:
        return [name for name in self.disk.names("orders-0") if name.endswith((".cleaned", ".swap"))]


class RepairTests(RestorationCase):
    """A log that is not compacted."""

    def test_same_bytes(self) -> None:
        """Every segment can be repaired, wherever the bit is: the bytes are the other's, and so they stay."""
        self.fill()
        for number, position in ((0, 70), (2, 3), (3, 9), (4, 16), (5, 100)):
            self.damage(number, position)
            self.repaired()
        self.assertEqual(self.whole(self.log), self.whole(self.other))
        damage = self.manager.damage
        self.assertEqual((damage.found, damage.repaired, damage.count, self.leftovers()), (5, 5, 0, []))
        self.successResultOf(self.manager.close())
        self.reopen(self.disk.after_kill())
        self.assertEqual(self.whole(self.log), self.whole(self.other))
        for offset in range(30):
            self.assertEqual(
                data_of(self.log.read(offset, 1).data), data_of(self.other.read(offset, 1).data), "the indexes, too"
            )

    def test_the_segment_written_to(self) -> None:
        """It is closed first; the log goes on behind it."""
        self.fill(2)
        self.damage(0)
        self.repaired()
        self.fill(5)
        self.assertEqual(self.whole(self.log), self.whole(self.other))

    def test_damaged_header_before_the_first_append(self) -> None:
        """A log with a damaged header that the first append would read can be appended to after the repair."""
        self.fill(3)
        self.successResultOf(self.manager.close())
        self.reopen(self.disk.after_kill())
        flip(self.disk, self.log.segments[-1].log.path, 16)
        self.assertRaises(StorageError, append_as_leader, self.log, batch(), 3)
        self.clock.advance(0)
        self.repaired()
        self.fill(5)
        self.assertEqual(self.whole(self.log), self.whole(self.other))

    def test_before_a_divergence(self) -> None:
        """What the other has behind a divergence is not fetched, and what is here goes; then the log can be cut."""
        for number, compacted in ((0, 0), (2, 0), (1, 4)):
            self.fill()
            segment = self.log.segments[number]
            self.log.cleaned_end_offset = self.log.segments[compacted].base_offset
            diverges_at = self.log.segments[number + 1].base_offset - 1
            truncate_to(self.other, diverges_at)
            append_as_leader(self.other, batch(b"other"), 4)
            self.damage(number, 9)
            self.assertIsInstance(self.repair().value, ReplicaNotAvailable)
            self.assertIsNone(self.repair(diverges_at))
            self.assertEqual(self.log.segments[number].base_offset, segment.base_offset)
            self.successResultOf(self.manager.truncator.truncate({PARTITION: diverges_at}))
            self.assertEqual(self.log.log_end_offset, diverges_at)
            append_as_leader(self.log, batch(b"other"), 4)
            self.assertEqual(self.whole(self.log), self.whole(self.other))
            self.setUp()

    def test_behind_a_divergence(self) -> None:
        """What the log will be cut before is not replaced by nothing: the cut takes it away, or there is none."""
        self.fill()
        before = self.log.segments
        base = before[2].base_offset
        self.damage(2)
        for diverges_at in (base, base - 1):
            self.assertIsInstance(self.repair(diverges_at).value, ReplacementAbandoned)
            self.assertEqual((self.log.segments, self.manager.repairer.read_bytes), (before, 0))
        self.assertEqual((self.manager.damage.count, self.leftovers()), (1, []))
        self.successResultOf(self.manager.truncator.truncate({PARTITION: base - 1}))
        self.assertEqual(self.manager.damage.count, 0)

    def test_found_at_the_start(self) -> None:
        """After a crash, with a header that is none in an old segment, the broker starts, and the rest is served."""
        self.fill()
        self.successResultOf(self.log.flusher.write_back_and_wait())
        self.successResultOf(self.manager.directories[0].checkpoint_recovery_points())
        for number, index_too in ((0, False), (2, True)):
            segment = self.log.segments[number]
            flip(self.disk, segment.log.path, 16)
            if index_too:
                self.disk.unlink(segment.path(".index"))
        self.reopen(self.disk.after_kill())
        self.clock.advance(0)
        self.assertEqual(self.log.log_end_offset, 30)
        self.assertEqual(len(self.manager.damage.of(self.log)), 2)
        self.assertIsNotNone(self.log.read(self.log.segments[1].base_offset, 100).data)
        self.repaired()
        self.repaired()
        self.assertEqual(self.whole(self.log), self.whole(self.other))

    def test_aborted_transactions(self) -> None:
        """Readers of committed records are told of aborted transactions as before."""

        def end(kind: ControlType) -> None:
            for log in (self.log, self.other):
                append_marker(log, 5, 0, Marker(kind, 0), 3, NOW_MS)

        sequence = 0
        for number in range(8):
            for _ in range(3):
                self.append(
                    batch(b"x" * 30, producer_id=5, producer_epoch=0, base_sequence=sequence, transactional=True)
                )
                sequence += 1
            end(ControlType.ABORT if number % 2 else ControlType.COMMIT)
        self.fill(10)
        expected = list(self.log.aborted_transactions(0, 100))
        self.assertEqual(len(expected), 4)
        for number in range(len(self.log.segments) - 1):
            self.damage(number)
            self.repaired()
            self.assertEqual(list(self.log.aborted_transactions(0, 100)), expected)
        self.assertEqual(self.whole(self.log), self.whole(self.other))
        self.successResultOf(self.manager.close())
        self.reopen(self.disk.after_kill())
        self.assertEqual(list(self.log.aborted_transactions(0, 100)), expected)

    def test_deleted_on_the_other_replica(self) -> None:
        """Records that the other replica has deleted are not fetched; a segment may come back empty."""
        self.fill()
        base, following = self.log.segments[1].base_offset, self.log.segments[2].base_offset
        self.other.advance_start(base + 1)
        self.damage(1)
        self.repaired()
        self.log.advance_start(base + 1)
        self.assertEqual(self.whole(self.log), self.whole(self.other))
        self.other.advance_start(following + 2)
        self.damage(1)
        self.repaired()
        self.assertEqual((self.log.segments[1].base_offset, self.log.segments[1].size), (base, 0))
        self.assertEqual(self.whole(self.log), self.from_offset(following))
        self.successResultOf(self.manager.close())
        self.reopen(self.disk.after_kill())
        self.assertEqual(self.whole(self.log), self.from_offset(following))

    def from_offset(self, offset: int) -> list[bytes]:
        """The other replica's batches from an offset on, whether they were given up or not."""
        self.other.log_start_offset = offset
        return self.whole(self.other)

    def test_compacted_on_the_other_replica(self) -> None:
        """Records that the other replica has compacted away are removed here, too."""
        self.fill()
        base, following = self.log.segments[1].base_offset, self.log.segments[2].base_offset
        before, after = self.whole(self.log)[:base], self.whole(self.log)[following:]

        def without(data: bytes) -> bytes:
            kept = [data[at : at + h.size] for at, h in iter_batches(data) if not base <= h.base_offset < base + 2]
            return b"".join(kept)

        self.replica.change = without
        self.damage(1)
        self.repaired()
        self.assertEqual(self.whole(self.log)[base:][-len(after) :], after)
        self.assertEqual(self.whole(self.log)[:base], before)
        self.assertNotIn(base, [record.offset for record in records(self.log)])


class RefusalTests(RestorationCase):
    """What is not repaired stays as it is."""

    def refused(self, error: type[Exception], hint: str) -> None:
        before = [(s.base_offset, s.size, s.log.get().pread(s.size, 0)) for s in self.log.segments[:-1]]
        outcome = self.repair()
        self.assertIsInstance(outcome, Failure)
        self.assertIsInstance(outcome.value, error)
        self.assertIn(hint, str(outcome.value))
        after = [(s.base_offset, s.size, s.log.get().pread(s.size, 0)) for s in self.log.segments[:-1]]
        self.assertEqual(after, before)
        self.assertEqual((self.leftovers(), self.manager.damage.count), ([], 1))

    def test_damaged_on_the_other_replica(self) -> None:
        """A copy that is damaged, too, is not taken."""
        self.fill()
        self.damage(1)
        self.replica.change = lambda data: data[:70] + bytes([data[70] ^ 1]) + data[71:]
        self.refused(ReplicaNotAvailable, "damaged, too")

    def test_not_committed(self) -> None:
        """Only what is committed is taken: an election may take the rest back."""
        self.fill()
        self.damage(1)
        self.replica.high_watermark = self.log.segments[1].base_offset + 1
        self.refused(ReplicaNotAvailable, "committed")

    def test_full_disk(self) -> None:
        """Without space nothing changes; with space again it works."""
        self.fill()
        self.damage(1)
        self.disk.faults = lambda op, path: no_space() if ".cleaned" in path and op in ("write", "create") else None
        self.refused(ApiError, "space")
        self.disk.faults = lambda op, path: None
        self.repaired()
        self.assertEqual(self.whole(self.log), self.whole(self.other))

    def test_stopped(self) -> None:
        """A truncation, a deletion and a stop do not wait for the other replica."""
        changes: list[Callable[[], Deferred[Any]]] = [
            lambda: self.manager.truncator.truncate({PARTITION: 8}),
            lambda: self.manager.delete(PARTITION),
            lambda: self.manager.close(),  # noqa: PLW0108 - it is another manager each time
        ]
        for change in changes:
            self.setUp()
            self.fill()
            self.damage(1)
            self.replica.held = []
            damage = self.manager.damage.of(self.log)[0]
            restoring = Deferred.fromCoroutine(self.manager.repairer.repair(self.log, damage, self.replica, 7))
            self.assertNoResult(restoring)
            changed = change()
            if self.log.is_closed and self.replica.held:
                self.replica.held[0].callback(FetchedBatches(b"", 1 << 60, 0))
            self.failureResultOf(restoring, ReplacementAbandoned)
            self.successResultOf(changed)


class CrashTests(RestorationCase):
    """The power goes, or the process ends, at every step of a repair."""

    def steps(self) -> Iterator[int]:
        """Crash after ever more steps, until the repair is through."""
        for steps in range(1000):
            self.setUp()
            self.fill(20)
            self.successResultOf(self.log.flusher.write_back_and_wait())
            self.successResultOf(self.manager.directories[0].checkpoint_recovery_points())
            self.damage(1)
            self.disk.crash_at = self.disk.steps + steps
            try:
                outcome = self.repair()
            except Crashed:
                outcome = None
            if outcome is None and not self.disk.crashed:
                return
            yield steps
        self.fail("it never ends")

    def check(self, disk: MemoryDisk, what: str) -> None:
        self.reopen(disk)
        self.assertEqual(self.leftovers(), [], what)
        self.assertEqual(self.log.log_end_offset, 20, what)
        segment = next(s for s in self.log.segments if s.base_offset == self.base)
        self.manager.scrubber.suspect(self.log, segment)
        self.clock.advance(0)
        if self.manager.damage.count:
            self.repaired()
        self.assertEqual(self.whole(self.log), self.whole(self.other), what)
        self.successResultOf(self.manager.close())

    def test_kill(self) -> None:
        """There are the old segments, or the new one; in the end the bytes are right."""
        count = 0
        for steps in self.steps():
            self.base = self.log.segments[1].base_offset
            self.check(self.disk.after_kill(), f"killed at step {steps}")
            count += 1
        self.assertGreater(count, 10)

    def test_power_cut(self) -> None:
        """So it is when the disk forgets what was not synced, or some of it."""
        for mode in ("lose", "keep", "tear", "reorder"):
            for steps in self.steps():
                self.base = self.log.segments[1].base_offset
                self.check(
                    self.disk.after_power_cut(PowerCutOutcome(mode, random.Random(steps))),
                    f"power cut ({mode}) at step {steps}",
                )


class CompactedTests(RestorationCase):
    """Replicas that were compacted, each in its own time."""

    config = COMPACT

    def clean(self) -> None:
        self.log.high_watermark = self.log.log_end_offset
        self.successResultOf(self.log.flusher.write_back_and_wait())
        cleaner = self.manager.cleaner
        before = cleaner.cleanings
        cleaner.start()
        for _ in range(100):
            self.clock.advance(0.02)
        self.successResultOf(cleaner.stop())
        self.assertGreater(cleaner.cleanings, before)

    def test_extent(self) -> None:
        """What was compacted behind the damage is replaced with it; what was not, and what lies before, stays."""
        self.fill(40)
        self.successResultOf(self.log.flusher.write_back_and_wait())
        segments = self.log.segments
        self.assertEqual(segments_to_refetch(self.log, segments[1]), segments[1:2])
        self.log.cleaned_end_offset = segments[3].base_offset
        self.assertEqual(segments_to_refetch(self.log, segments[1]), segments[1:3])
        self.assertEqual(segments_to_refetch(self.log, segments[3]), segments[3:4])
        self.log.cleaned_end_offset += 1
        self.assertEqual(segments_to_refetch(self.log, segments[1]), segments[:4])
        self.log.cleaned_end_offset = self.log.log_end_offset
        self.assertEqual(segments_to_refetch(self.log, segments[-2]), segments[:-1])

    def test_deleted_keys_stay_deleted(self) -> None:
        """
        A key whose record and delete marker are gone here, while the other replica has both, does not come back
        without its marker.
        """
        self.append(batch(b"old" * 10, keys=[b"gone"]))
        self.fill(12)
        self.append(batch(None, keys=[b"gone"]))
        self.fill(20)
        expected = state(self.log)
        self.assertNotIn(b"gone", expected)
        self.clean()
        self.fill(12)
        expected = state(self.log)
        self.clean()
        self.assertNotIn(b"gone", [record.key for record in records(self.log)], "the test is about what is gone")
        self.damage(0, 18)
        self.repaired()
        self.assertEqual(state(self.log), expected)
        self.assertIn(b"gone", [record.key for record in records(self.log)], "of both, or of none")
        self.clean()
        self.assertEqual(state(self.log), expected)

    def test_compacted_only_on_the_other_replica(self) -> None:
        """The other replica's log is shorter than ours: its end is marked, so that a crash leaves no old segment."""
        self.fill(40)
        self.clean()
        expected = state(self.log)
        damaged = next(i for i, s in enumerate(self.log.segments[:-1]) if s.size)
        keep = {record.offset for record in records(self.log)}
        self.replica.change = lambda data: b"".join(
            data[at : at + h.size] for at, h in iter_batches(data) if h.base_offset in keep
        )
        self.damage(damaged, 18)
        self.repaired()
        self.assertEqual(state(self.log), expected)
