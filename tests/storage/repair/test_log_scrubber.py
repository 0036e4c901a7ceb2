"""The scrubber: it finds damage of any bit in closed segments, and reports nothing else."""

from __future__ import annotations

from itertools import pairwise

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.errors import StorageError
from logbus.records.batch import iter_batches
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.istorage import IOPool
from logbus.storage.log import Log
from logbus.storage.repair.damage import Damage
from logbus.storage.repair.log_scrubber import CHUNK
from logbus.storage.settings import ScrubSettings
from logbus.testing.simulation.environment.memory_disk import MemoryDisk
from tests.storage.builders import PARTITION, a_manager, batch, data_of

WEEK_S = 7 * 24 * 3600
SMALL = TopicConfig(segment_bytes=400, index_interval_bytes=100, segment_ms=2**62)


def flip(disk: MemoryDisk, path: str, position: int, bit: int = 0) -> None:
    """Another bit stands in a file than was written."""
    file = disk.open(path)
    byte = file.pread(1, position)[0]
    file.write(position, [bytes([byte ^ (1 << bit)])])


class ScrubberCase(SynchronousTestCase):
    """A manager with a log of several segments, and a clock."""

    def setUp(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.clock = Clock()
        self.disk = MemoryDisk()
        self.settings = ScrubSettings(max_bytes_per_second=float("inf"))
        self.manager = a_manager(self.disk, clock=self.clock, scrub_settings=lambda: self.settings)
        self.successResultOf(self.manager.open())
        self.log: Log = self.successResultOf(self.manager.create(PARTITION, config=SMALL))
        self.addCleanup(lambda: self.successResultOf(self.manager.close()))

    def fill(self, count: int = 30, size: int = 50) -> None:
        for number in range(count):
            append_as_leader(self.log, batch(b"%d" % number + b"." * size), 3)

    def let_pass(self, seconds: float) -> None:
        for _ in range(10):
            self.clock.advance(seconds / 10)

    @property
    def found(self) -> list[Damage]:
        return self.manager.damage.of(self.log)


class RoundTests(ScrubberCase):
    """What a round finds."""

    def test_undamaged_log(self) -> None:
        """A log without damage is read once, except its active segment."""
        self.fill()
        self.manager.start_housekeeping()
        self.let_pass(600)
        scrubber = self.manager.scrubber
        closed = sum(segment.size for segment in self.log.segments[:-1])
        self.assertEqual((scrubber.rounds, scrubber.read_bytes, self.found), (1, closed, []))

    def test_bit_flip_is_found(self) -> None:
        """A flipped bit below the recovery point is found, and logged with partition, offset and file."""
        self.fill()
        segment = self.log.segments[2]
        position, header = list(iter_batches(data_of(self.log.read(segment.base_offset, 10_000).data)))[1]
        flip(self.disk, segment.log.path, position + 70)
        self.manager.start_housekeeping()
        with capturedLogs() as captured:
            self.let_pass(600)
        (damage,) = self.found
        self.assertEqual(
            (damage.partition, damage.base_offset, damage.offset, damage.position),
            (PARTITION, segment.base_offset, header.base_offset, position),
        )
        self.assertEqual(damage.end_offset, self.log.segments[3].base_offset)
        self.assertTrue(damage.path.endswith(segment.log.path))
        self.assertIn("CRC", damage.problem)
        told = [event for event in captured if event["log_level"].name == "critical"]
        self.assertEqual([event["path"] for event in told], [damage.path])
        self.assertEqual((self.manager.damage.found, self.manager.damage.count), (1, 1))

    def test_every_interval(self) -> None:
        """Rounds follow each other after the interval, which may change, and be none."""
        self.fill()
        self.manager.start_housekeeping()
        self.let_pass(600)
        self.settings = ScrubSettings(interval_ms=1000 * 3600, max_bytes_per_second=float("inf"))
        for _ in range(13):
            self.let_pass(600)
        self.assertEqual(self.manager.scrubber.rounds, 3)
        self.settings = ScrubSettings(interval_ms=-1)
        for _ in range(20):
            self.let_pass(600)
        self.assertEqual(self.manager.scrubber.rounds, 3)

    def test_rate(self) -> None:
        """No more is read than the rate allows, but for a little at once."""
        self.fill(100)
        self.settings = ScrubSettings(max_bytes_per_second=100.0)
        self.manager.start_housekeeping()
        self.let_pass(60)
        for _ in range(200):
            self.clock.advance(0.1)
        self.assertGreater(self.manager.scrubber.read_bytes, 1000)
        self.assertLess(self.manager.scrubber.read_bytes, 20 * 100 + 1000)

    def test_large_batch(self) -> None:
        """A batch larger than what is read at a time is checked by a thread, piece by piece."""
        self.log.configure(evolve(SMALL, segment_bytes=1 << 20))
        append_as_leader(self.log, batch(b"x" * (2 * CHUNK)), 3)
        self.log.configure(SMALL)
        self.fill(10)
        self.manager.start_housekeeping()
        self.let_pass(600)
        self.assertEqual((self.manager.scrubber.rounds, self.found), (1, []))
        flip(self.disk, self.log.segments[0].log.path, CHUNK + 5)
        self.settings = ScrubSettings(interval_ms=0, max_bytes_per_second=float("inf"))
        self.let_pass(600)
        self.assertEqual([damage.position for damage in self.found], [0])

    def test_logs_truncated_or_deleted_during_a_scrub(self) -> None:
        """A log that is truncated or deleted during a scrub does not count as damaged."""
        for change in (
            lambda: self.manager.truncator.truncate({PARTITION: 5}),
            lambda: self.manager.delete(PARTITION),
            lambda: self.manager.truncator.restart(PARTITION, 3),
        ):
            self.begin()
            self.fill()
            self.manager.start_housekeeping()
            self.disk.held.add(IOPool.READ)
            self.let_pass(61)
            change()
            for number in range(40):
                if not self.log.is_closed:
                    append_as_leader(self.log, batch(b"other %d" % number), 4)
            self.disk.held.clear()
            self.disk.release(IOPool.READ)
            self.let_pass(600)
            self.assertEqual((self.manager.damage.found, self.found), (0, []))

    def test_stop(self) -> None:
        """A stop waits for what is being read, and for no more."""
        self.fill()
        self.manager.start_housekeeping()
        self.disk.held.add(IOPool.READ)
        self.let_pass(61)
        stopped = self.manager.scrubber.stop()
        self.assertNoResult(stopped)
        self.disk.held.clear()
        self.disk.release(IOPool.READ)
        self.successResultOf(stopped)
        self.assertEqual(self.manager.scrubber.rounds, 0)

    @given(data=st.data())
    def test_any_bit(self, data: st.DataObject) -> None:
        """Any bit of a closed segment that flips is found: in the records, the checksum, the offset, the length."""
        self.begin()
        self.fill(12)
        segment = data.draw(st.sampled_from(self.log.segments[:-1]))
        position = data.draw(st.integers(0, segment.size - 1))
        # A wrong epoch between those of its neighbours cannot be detected.
        at = max(at for at, _ in iter_batches(segment.log.get().pread(segment.size, 0)) if at <= position)
        flip(self.disk, segment.log.path, position, data.draw(st.integers(0, 7)))
        if 12 <= position - at < 16:
            return
        self.manager.start_housekeeping()
        self.let_pass(600)
        self.assertEqual([damage.base_offset for damage in self.found], [segment.base_offset])


class SuspectTests(ScrubberCase):
    """Readers that meet damage have the segment checked at once."""

    def test_reader(self) -> None:
        """A header that is none fails a read, and is known as damage right after."""
        self.fill()
        segment = self.log.segments[1]
        flip(self.disk, segment.log.path, 16)
        self.assertRaises(StorageError, self.log.read, segment.base_offset, 10_000)
        self.clock.advance(0)
        self.assertEqual([damage.base_offset for damage in self.found], [segment.base_offset])
        self.assertRaises(StorageError, self.log.read, segment.base_offset, 10_000)
        self.clock.advance(0)
        self.assertEqual(self.manager.damage.found, 1)
        # Others can be read.
        self.assertIsNotNone(self.log.read(self.log.segments[2].base_offset, 100).data)

    def test_complaint_about_an_offset(self) -> None:
        """The segment that is written to can be damaged, too: a complaint has it checked."""
        self.fill(3)
        segment = self.log.segments[-1]
        flip(self.disk, segment.log.path, 70)
        self.manager.scrubber.suspect(self.log, segment, 0)
        self.clock.advance(0)
        self.assertEqual([damage.offset for damage in self.found], [0])

    def test_unfounded_complaints_cost_little(self) -> None:
        """A segment that was found whole is not read again for the same complaint within a minute."""
        self.fill()
        segment = self.log.segments[1]
        for _ in range(50):
            self.manager.scrubber.suspect(self.log, segment)
            self.clock.advance(1)
        self.assertEqual((self.manager.scrubber.read_bytes, self.found), (segment.size, []))

    def test_damage_is_forgotten_with_its_segment(self) -> None:
        """Damage in a segment that retention or a truncation removed is forgotten."""
        self.fill()
        segment = self.log.segments[-2]
        flip(self.disk, segment.log.path, 70)
        self.manager.scrubber.suspect(self.log, segment)
        self.clock.advance(0)
        self.assertEqual(len(self.found), 1)
        self.successResultOf(self.manager.truncator.truncate({PARTITION: 3}))
        self.assertEqual((self.found, self.manager.damage.count), ([], 0))


class HiddenTests(ScrubberCase):
    """A damaged header hides no batches behind it."""

    def test_a_length_beyond_the_segment(self) -> None:
        """What lies behind is refused, not skipped: a follower would miss it for good."""
        self.fill(60, 5)
        self.successResultOf(self.log.flush())
        self.successResultOf(self.manager.directories[0].checkpoint_recovery_points())
        disk = self.disk.after_kill()
        manager = a_manager(disk, clock=Clock())
        self.successResultOf(manager.open())
        log = next(iter(manager))
        segment = log.segments[1]
        batches = list(iter_batches(segment.log.get().pread(segment.size, 0)))
        refused = 0
        for (position, _), (_, behind) in pairwise(batches):
            flip(disk, segment.log.path, position + 8, 2)
            try:
                data = data_of(log.read(behind.base_offset, 10_000).data)
                self.assertEqual(next(iter_batches(data))[1].base_offset, behind.base_offset)
            except StorageError:
                refused += 1
            flip(disk, segment.log.path, position + 8, 2)
        self.assertGreater(refused, 0)

    def test_an_unclean_start(self) -> None:
        """Below the recovery point what a damaged header says is not believed: the log keeps its end, and the rest."""
        self.fill()
        self.clock.advance(100)
        self.successResultOf(self.log.flush())
        self.successResultOf(self.manager.directories[0].checkpoint_recovery_points())
        end = self.log.log_end_offset
        segment = self.log.segments[-1]
        for at, header in iter_batches(segment.log.get().pread(segment.size, 0)):
            with self.subTest(header.base_offset):
                disk = self.disk.after_kill()
                # The last offset: 65,536 more.
                flip(disk, segment.log.path, at + 24, 0)
                manager = a_manager(disk, clock=Clock())
                self.successResultOf(manager.open())
                log = next(iter(manager))
                self.assertEqual(log.log_end_offset, end)
                for offset in range(segment.base_offset, end):
                    found = next(iter_batches(data_of(log.read(offset, 10_000).data)))[1]
                    self.assertEqual(found.base_offset, offset)
