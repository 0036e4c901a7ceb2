"""The cleaner on logs: choice of the log, skipped logs, and stops."""

from __future__ import annotations

import random
from typing import Any

from attrs import evolve
from hypothesis import example, given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from logbus.broker.condition_sources import LogSources
from logbus.config.topic_config import TopicConfig
from logbus.metrics import Registry
from logbus.model import TopicPartition
from logbus.records.batch import iter_batches, iter_records
from logbus.records.compression import Codec
from logbus.storage import file_names
from logbus.storage.appends.append_as_follower import append_as_follower
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.cleaner import cleaner_task
from logbus.storage.istorage import IOPool
from logbus.storage.log import Log
from logbus.storage.log_manager import LogManager
from logbus.storage.offset_lookup import max_timestamp_offset, offset_for_timestamp
from logbus.storage.retention import TimeAndSize
from logbus.storage.settings import CleanerSettings
from logbus.storage.throttler import Throttler
from logbus.storage.truncation import delete_expired
from logbus.testing.simulation.environment.memory_disk import MemoryDisk, broken, no_space
from logbus.testing.simulation.environment.memory_file import MemoryFile
from logbus.timers import Timers
from tests.storage.builders import NOW_MS, NOW_S, PARTITION, a_manager, batch, data_of, finish

COMPACT = TopicConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=400,
    index_interval_bytes=100,
    segment_ms=2**62,
    min_cleanable_dirty_ratio=0.1,
)
OTHER = TopicPartition("others", 0)


def state(log: Log) -> dict[bytes | None, bytes]:
    """What a reader from the start has in the end."""
    found: dict[bytes | None, bytes] = {}
    for record in records(log):
        if record.value is None:
            found.pop(record.key, None)
        else:
            found[record.key] = record.value
    return found


def records(log: Log) -> list[Any]:
    """Every record, read as a consumer would."""
    found: list[Any] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = data_of(log.read(offset, 1 << 20).data)
        assert data, f"nothing at {offset} in {log}"
        found += [record for record in iter_records(data) if record.offset >= offset]
        offset = max(header.next_offset for _, header in iter_batches(data))
    return found


class CleanerCase(SynchronousTestCase):
    """A manager with a cleaner, and a clock."""

    cleaner_settings = CleanerSettings()

    def setUp(self) -> None:
        self.begin()
        self.addCleanup(self.end)

    def begin(self) -> None:
        self.clock = Clock()
        self.disk = MemoryDisk()
        self.now_s = NOW_S
        self.manager = self.opened()
        self.log: Log = self.successResultOf(self.manager.create(PARTITION))

    def let_go(self) -> None:
        """Pools wait no more."""
        self.disk.held.clear()
        for pool in IOPool:
            self.disk.release(pool)

    def end(self) -> None:
        self.let_go()
        self.successResultOf(self.manager.close())

    def opened(self, config: TopicConfig = COMPACT) -> LogManager:
        manager = a_manager(
            self.disk,
            clock=self.clock,
            default_config=config,
            wall_clock=lambda: self.now_s,
            cleaner_settings=lambda: self.cleaner_settings,
        )
        self.successResultOf(manager.open())
        manager.start_housekeeping()
        return manager

    def fill(self, count: int = 60, keys: int = 7, log: Log | None = None, **header: Any) -> None:
        """Batches of one record each, committed and synced."""
        log = log or self.log
        for _ in range(count):
            offset = log.log_end_offset
            header.setdefault("timestamp", NOW_MS)
            append_as_leader(log, batch(b"%d" % offset, keys=[b"k%d" % (offset % keys)], **header), 0)
        log.high_watermark = log.log_end_offset
        self.successResultOf(log.flush())

    def evict(self) -> None:
        """Have the log's segments read by a thread: they are not in memory."""
        for segment in self.log.segments:
            self.disk.evict(segment.log.path)

    def clean(self) -> None:
        """As much time as the cleaner sleeps between two looks."""
        self.clock.advance(self.cleaner_settings.backoff_ms / 1000)


class ChoiceTests(CleanerCase):
    """What is cleaned, and when."""

    def cleaned(self) -> list[str]:
        """The topics that have been cleaned."""
        return [log.partition.topic for log in self.manager if log.cleaned_end_offset]

    def test_a_log(self) -> None:
        """Of each key the last record stays, below the active segment; that stays as it is."""
        self.fill()
        expected, active = state(self.log), self.log.segments[-1].base_offset
        self.clean()
        found = [record.offset for record in records(self.log)]
        self.assertEqual(found, list(range(active - 7, 60)))
        self.assertEqual(state(self.log), expected)
        self.assertEqual(self.log.cleaned_end_offset, active)
        self.assertEqual(self.disk.read("cleaner-offset-checkpoint"), b"0\n1\norders 0 %d\n" % active)
        self.assertEqual((self.manager.cleaner.cleanings, self.manager.cleaner.removed_records), (1, active - 7))

    def test_only_compacted_topics(self) -> None:
        """Topics that are not compacted are left alone."""
        self.log.configure(evolve(COMPACT, cleanup_policy=frozenset({"delete"})))
        self.fill()
        self.clean()
        self.assertEqual(self.cleaned(), [])

    def test_the_ratio(self) -> None:
        """A log waits until more than min.cleanable.dirty.ratio of it is dirty."""
        self.fill()
        self.clean()
        self.log.configure(evolve(COMPACT, min_cleanable_dirty_ratio=0.5))
        self.fill(20, keys=1000)
        self.clean()
        self.assertEqual(self.manager.cleaner.cleanings, 2)
        self.fill(7, keys=1000)
        self.clean()
        self.assertEqual(self.manager.cleaner.cleanings, 2)
        self.assertTrue(0 < self.manager.cleaner.max_dirty_ratio <= 0.5)

    def test_the_dirtiest_first(self) -> None:
        """Of two logs the one with the larger dirty share comes first."""
        other = self.successResultOf(self.manager.create(OTHER))
        self.fill()
        self.clean()
        self.fill(10, keys=1000)
        self.fill(log=other)
        order: list[str] = []
        with capturedLogs() as captured:
            self.clean()
        order = [event["partition"].topic for event in captured if "removed" in event]
        self.assertEqual(order, ["others", "orders"])

    def test_the_high_watermark(self) -> None:
        """What is not committed is not cleaned."""
        self.fill()
        self.log.high_watermark = self.log.segments[2].base_offset + 1
        self.clean()
        self.assertEqual(self.log.cleaned_end_offset, self.log.segments[2].base_offset)

    def test_min_compaction_lag(self) -> None:
        """Records younger than min.compaction.lag.ms are not cleaned, nor any behind them."""
        self.log.configure(evolve(COMPACT, min_compaction_lag_ms=60_000))
        self.fill(20, timestamp=NOW_MS - 60_000)
        self.fill(20, timestamp=NOW_MS - 59_000)
        self.fill(20, timestamp=NOW_MS - 60_000)
        self.clean()
        self.assertTrue(0 < self.log.cleaned_end_offset <= 20)
        self.now_s += 1
        self.clean()
        self.assertGreater(self.log.cleaned_end_offset, 50)

    def test_max_compaction_lag(self) -> None:
        """Records older than max.compaction.lag.ms are cleaned whatever the ratio is, and their segment is rolled."""
        config = evolve(COMPACT, segment_bytes=10_000, min_cleanable_dirty_ratio=0.9, max_compaction_lag_ms=60_000)
        self.log.configure(config)
        self.fill()
        self.clean()
        self.log.configure(evolve(config, min_cleanable_dirty_ratio=1.0))
        self.fill(timestamp=NOW_MS + 60_001)
        self.assertEqual([segment.base_offset for segment in self.log.segments], [0, 60])
        self.now_s += 60
        self.clean()
        self.assertEqual(self.log.cleaned_end_offset, 0)
        self.now_s += 1
        self.clean()
        self.assertEqual(self.log.cleaned_end_offset, 60)

    def test_not_enabled(self) -> None:
        """With log.cleaner.enable=false nothing is compacted."""
        self.successResultOf(self.manager.close())
        self.cleaner_settings = CleanerSettings(enable=False)
        self.manager = self.opened()
        log = self.manager.get(PARTITION)
        assert log is not None
        self.fill(log=log)
        self.clock.advance(10_000)
        self.assertEqual(self.cleaned(), [])

    def test_compact_and_delete(self) -> None:
        """With compact,delete old segments are deleted, cleaned or not."""
        self.log.configure(evolve(COMPACT, cleanup_policy=frozenset({"compact", "delete"}), retention_ms=10_000))
        self.fill(30, timestamp=NOW_MS - 20_000)
        self.fill(30)
        self.clean()
        delete_expired(self.log, TimeAndSize(), NOW_MS)
        self.assertGreater(self.log.log_start_offset, 0)
        self.assertEqual(set(state(self.log)), {b"k%d" % i for i in range(7)})
        self.fill(30)
        self.clean()
        self.assertEqual(set(state(self.log)), {b"k%d" % i for i in range(7)})

    def test_no_backoff(self) -> None:
        """With a backoff of 0 the cleaner does not look all the time."""
        self.cleaner_settings = CleanerSettings(backoff_ms=0)
        self.clock.advance(15)
        self.fill()
        self.clock.advance(0)
        self.assertEqual(self.cleaned(), [])
        self.clock.advance(0.01)
        self.assertEqual(self.cleaned(), ["orders"])

    def test_remembered(self) -> None:
        """After a restart it goes on where it was; after a truncation it goes back."""
        self.fill()
        self.clean()
        before = self.log.cleaned_end_offset
        self.successResultOf(self.manager.close())
        self.manager = self.opened()
        log = self.manager.get(PARTITION)
        assert log is not None
        self.assertEqual(log.cleaned_end_offset, before)
        self.clean()
        self.assertEqual(self.manager.cleaner.cleanings, 0)
        self.successResultOf(self.manager.truncator.truncate({PARTITION: 52}))
        self.assertEqual((log.cleaned_end_offset, log.log_end_offset), (52, 52))
        self.successResultOf(self.manager.close())
        self.disk.replace("cleaner-offset-checkpoint", b"0\n1\norders 0 1000\n")
        self.manager = self.opened()
        log = self.manager.get(PARTITION)
        assert log is not None
        self.assertEqual(log.cleaned_end_offset, 0)


class GapTests(CleanerCase):
    """Logs with gaps, in all ways they are used."""

    def setUp(self) -> None:
        super().setUp()
        self.fill(producer_id=-1)
        self.clean()
        self.expected = [record.offset for record in records(self.log)]
        self.assertNotEqual(self.expected[0], 0)

    def test_reads(self) -> None:
        """A read at a removed offset returns the next existing one, wherever it begins and however small it is."""
        for offset in range(60):
            for size in (0, 1, 100, 1000):
                data = data_of(self.log.read(offset, size).data)
                found = [header.last_offset for _, header in iter_batches(data)]
                self.assertGreaterEqual(found[0], offset)
            for bound in range(offset, 60):
                data = data_of(self.log.read(offset, 1000, bound).data)
                self.assertTrue(all(header.last_offset < bound for _, header in iter_batches(data)))

    def test_recovery(self) -> None:
        """A log with gaps is opened after a kill as it was, wherever the recovery point is."""
        for point in (0, 17, 40, 60):
            disk = self.disk.after_kill()
            disk.replace("recovery-point-offset-checkpoint", b"0\n1\norders 0 %d\n" % point)
            manager = a_manager(disk, default_config=COMPACT)
            self.successResultOf(manager.open())
            log = manager.get(PARTITION)
            assert log is not None
            self.assertEqual([record.offset for record in records(log)], self.expected)
            self.assertEqual((log.log_start_offset, log.log_end_offset), (0, 60))

    def test_epochs_after_a_kill(self) -> None:
        """An epoch begins where it did, though the record it began with is gone."""
        disk, clock = MemoryDisk(), Clock()
        manager = a_manager(disk, clock=clock, default_config=COMPACT)
        self.successResultOf(manager.open())
        manager.start_housekeeping()
        log = self.successResultOf(manager.create(PARTITION))
        for offset in range(40):
            append_as_leader(log, batch(b"v", keys=[b"k%d" % (offset % 3)]), 5 if offset < 7 else 6)
        log.high_watermark = 40
        self.successResultOf(log.flush())
        clock.advance(20)
        self.assertGreater(min(record.offset for record in records(log)), 7)
        after = disk.after_kill()
        for name in after.names("orders-0"):
            if name.endswith(".snapshot"):
                # The producer state is rebuilt from the start of the log.
                after.unlink(f"orders-0/{name}")
        again = a_manager(after, default_config=COMPACT)
        self.successResultOf(again.open())
        restored = again.get(PARTITION)
        assert restored is not None
        self.assertEqual(list(restored.epochs), [(5, 0), (6, 7)])
        self.successResultOf(manager.close())

    def test_indexes_rebuilt(self) -> None:
        """Lost indexes are rebuilt, with their gaps."""
        disk = self.disk.after_kill()
        for name in disk.names("orders-0"):
            if name.endswith(("index", "timeindex")):
                disk.unlink(f"orders-0/{name}")
        manager = a_manager(disk, default_config=COMPACT)
        self.successResultOf(manager.open())
        log = manager.get(PARTITION)
        assert log is not None
        self.assertEqual([record.offset for record in records(log)], self.expected)

    def test_follower(self) -> None:
        """A follower takes the batches over as they are, gaps included."""
        other = self.successResultOf(self.manager.create(OTHER))
        offset = 0
        while offset < 60:
            offset = append_as_follower(other, data_of(self.log.read(offset, 500).data))
        self.assertEqual([record.offset for record in records(other)], self.expected)
        self.assertEqual(other.log_end_offset, 60)

    def test_epochs(self) -> None:
        """Leader epochs end where they did."""
        self.assertEqual(self.log.epoch_at(3), 0)
        self.assertEqual(self.log.end_offset_for_epoch(0).offset, 60)


class TimeTests(CleanerCase):
    """Questions about times, after records are gone."""

    def test_times(self) -> None:
        """A time is found in the first record there is that is as late."""
        for _ in range(60):
            self.fill(1, timestamp=NOW_MS + self.log.log_end_offset)
        self.clean()
        first = records(self.log)[0].offset
        for asked in range(60):
            found = finish(offset_for_timestamp(self.log, NOW_MS + asked))
            assert found is not None
            self.assertEqual((found.offset, found.timestamp), (max(asked, first), NOW_MS + max(asked, first)))
        self.assertIsNone(finish(offset_for_timestamp(self.log, NOW_MS + 60)))

    def test_latest_timestamp_after_compaction(self) -> None:
        """The largest timestamp is that of a record that is left."""
        self.fill(3, keys=1, timestamp=NOW_MS + 50_000)
        self.fill(57, keys=1)
        self.clean()
        found = finish(max_timestamp_offset(self.log))
        assert found is not None
        self.assertEqual(found.timestamp, NOW_MS)
        self.assertIn(found.offset, [record.offset for record in records(self.log)])

    def test_broker_times(self) -> None:
        """With LogAppendTime records keep the broker's time."""
        self.log.configure(evolve(COMPACT, message_timestamp_type="LogAppendTime"))
        for i in range(30):
            self.now_s = NOW_S + i
            append_as_leader(self.log, batch(b"a", b"b", keys=[b"x", b"k%d" % i], timestamp=5), 0)
        self.log.high_watermark = 60
        self.successResultOf(self.log.flush())
        self.clean()
        found = {record.key: record.timestamp for record in records(self.log)}
        for i in range(30):
            self.assertEqual(found[b"k%d" % i], NOW_MS + i * 1000)
        asked = finish(offset_for_timestamp(self.log, NOW_MS + 3000))
        assert asked is not None
        self.assertEqual((asked.offset, asked.timestamp), (7, NOW_MS + 3000))


class ReplacementTests(CleanerCase):
    """What happens to segments meanwhile."""

    def test_readers_of_replaced_segments(self) -> None:
        """A slice of a replaced segment still has the old content."""
        self.fill()
        held = self.log.read(0, 1 << 20).data
        before = data_of(held)
        self.clean()
        self.clock.advance(100)
        self.assertEqual(data_of(held), before)
        self.assertNotEqual(data_of(self.log.read(0, 1 << 20).data), before)

    def test_small_segments_grow_together(self) -> None:
        """What is left of many segments becomes few; the old files go after file.delete.delay.ms."""
        self.fill(300)
        count = len(self.log.segments)
        self.clean()
        self.fill(30)
        self.clean()
        self.assertLess(len(self.log.segments), count / 3)
        self.assertTrue(all(segment.size <= 400 for segment in self.log.segments))
        self.assertTrue([name for name in self.disk.names("orders-0") if name.endswith(".deleted")])
        self.clock.advance(60)
        names = self.disk.names("orders-0")
        self.assertEqual([name for name in names if name.endswith((".deleted", ".cleaned", ".swap"))], [])
        self.assertEqual(len([name for name in names if name.endswith(".log")]), len(self.log.segments))

    def test_nothing_to_remove(self) -> None:
        """A segment that loses no record is not rewritten."""
        self.fill(keys=1000)
        self.clean()
        self.assertEqual((self.manager.cleaner.cleanings, self.manager.cleaner.written_bytes), (1, 0))
        self.fill(20, keys=1000)
        self.clean()
        self.assertEqual(self.manager.cleaner.cleanings, 2)
        self.assertEqual(self.manager.cleaner.written_bytes, 0)

    def test_stubs_stay(self) -> None:
        """Nor is one that only ends in a batch without records, which says how far it reaches."""
        for letter in b"abcd":
            for key in (b"%c1" % letter, b"%c2" % letter, b"%c3" % letter, b"%c4" % letter, b"same"):
                append_as_leader(self.log, batch(b"1", keys=[key]), 0)
        self.fill(0)
        self.clean()
        first = self.log.segments[0]
        self.assertEqual([header.record_count for _, header in first.batches(0)], [1, 1, 1, 1, 0])
        self.fill(10)
        self.clean()
        self.assertEqual(self.manager.cleaner.cleanings, 2)
        self.assertIs(self.log.segments[0], first)

    def test_small_segments(self) -> None:
        """
        What is left of many small segments becomes few, and is synced as few: a log of 456 records in segments of 200
        bytes costs tens of syncs, not several for each of them.
        """
        self.log.configure(evolve(COMPACT, segment_bytes=200))
        self.fill(456, keys=50)
        before, expected = len(self.log.segments), state(self.log)
        self.assertGreater(before, 200)
        self.disk.done.clear()
        self.clean()
        self.assertEqual(state(self.log), expected)
        self.assertEqual(self.manager.cleaner.cleanings, 1)
        syncs = [op for op, _ in self.disk.done if op in ("sync", "sync-directory")]
        # Each of the 25 to 30 segments that are left has three files and three changes of names.
        self.assertLess(len(self.log.segments), 35)
        self.assertLess(len(syncs), 200)

    def test_retention_limits_grouping(self) -> None:
        """Where retention deletes as well, segments are not grouped into larger ones: old records must expire."""
        self.log.configure(evolve(COMPACT, segment_bytes=200, cleanup_policy=frozenset({"compact", "delete"})))
        self.fill(100, keys=5)
        before = len(self.log.segments)
        self.clean()
        self.assertEqual(len(self.log.segments), before)

    def test_codecs(self) -> None:
        """Batches keep their codec."""
        for codec in Codec:
            self.fill(20, codec=codec)
        expected = state(self.log)
        self.clean()
        self.assertEqual(state(self.log), expected)
        self.assertEqual(self.manager.cleaner.uncleanable, {})

    def test_appends_during_cleaning(self) -> None:
        """Producers write while a log is cleaned, and segments roll."""
        self.fill()
        self.evict()
        self.disk.held.add(IOPool.CLEAN)
        self.clean()
        for _ in range(100):
            self.fill(1)
            self.evict()
            if not self.disk.release(IOPool.CLEAN, 1):
                self.clean()
        self.let_go()
        self.assertGreater(self.manager.cleaner.cleanings, 1)
        values = {b"k%d" % (offset % 7): b"%d" % offset for offset in range(self.log.log_end_offset)}
        self.assertEqual(state(self.log), values)

    def interrupted(self, pool: IOPool, then: Any) -> None:
        """Do something each time the cleaner waits for a pool."""
        for turn in range(1, 100):
            self.end()
            self.begin()
            self.fill()
            self.evict()
            self.disk.held.add(pool)
            self.clean()
            if self.disk.release(pool, turn) < turn or self.manager.cleaner.cleanings:
                self.assertGreater(turn, 2)
                return
            then()
        raise AssertionError("the cleaning does not end")

    def check_files(self) -> None:
        """On disk is what the log says, and nothing that a start would put in its place."""
        self.let_go()
        self.clock.advance(100)
        names = self.disk.names("orders-0")
        self.assertEqual([name for name in names if name.endswith((".cleaned", ".swap"))], [])
        bases = sorted(int(name[:20]) for name in names if name.endswith(".log"))
        self.assertEqual(bases, [segment.base_offset for segment in self.log.segments])
        self.assertEqual(self.manager.cleaner.uncleanable, {})
        self.assertIsNone(self.disk.failure)
        again = a_manager(self.disk.after_kill(), default_config=COMPACT)
        self.successResultOf(again.open())
        log = again.get(PARTITION)
        assert log is not None
        self.assertEqual(
            (log.log_start_offset, log.log_end_offset), (self.log.log_start_offset, self.log.log_end_offset)
        )
        self.assertEqual(records(log), records(self.log))

    def test_paused(self) -> None:
        """A truncation waits until the cleaner has left the log, and the cleaner stays away until it is done."""
        self.fill()
        self.evict()
        self.disk.held.add(IOPool.CLEAN)
        self.clean()
        cut = self.manager.truncator.truncate({PARTITION: 58})
        self.assertNoResult(cut)
        self.assertEqual(self.log.log_end_offset, 60)
        self.disk.release(IOPool.CLEAN, 1)
        self.successResultOf(cut)
        self.assertEqual((self.log.log_end_offset, self.manager.cleaner.cleanings), (58, 0))
        self.let_go()

        async def clean_paused() -> None:
            async with self.manager.cleaner.paused([self.log]):
                self.clean()
                self.assertEqual(self.manager.cleaner.cleanings, 0)

        self.successResultOf(clean_paused())
        self.clean()
        self.assertEqual(self.manager.cleaner.cleanings, 1)

    def test_truncation_during_cleaning(self) -> None:
        """A truncation waits until the cleaning has stopped, and truncated records do not come back."""

        def truncate() -> None:
            cut = self.manager.truncator.truncate({PARTITION: 21})
            self.check_files()
            self.successResultOf(cut)
            self.assertLessEqual(self.log.log_end_offset, 21)

        for pool in (IOPool.CLEAN, IOPool.BACKGROUND):
            self.interrupted(pool, truncate)

    def test_retention_during_cleaning(self) -> None:
        """Retention goes on while a log is cleaned, and deleted records do not come back."""

        def delete() -> None:
            self.log.advance_start(30)
            delete_expired(self.log, TimeAndSize(), NOW_MS)
            # As after a kill: the start was not put down yet.
            self.log.log_start_offset = self.log.segments[0].base_offset
            self.check_files()

        for pool in (IOPool.CLEAN, IOPool.BACKGROUND):
            self.interrupted(pool, delete)

    def test_topic_deletion_during_cleaning(self) -> None:
        """A topic can be deleted while it is cleaned, and the cleaner goes on."""

        def delete() -> None:
            gone = self.manager.delete(PARTITION)
            self.let_go()
            self.successResultOf(gone)
            self.clock.advance(100)
            self.assertIsNone(self.disk.failure)
            self.assertEqual([name for name in self.disk.names("") if name.startswith("orders")], [])
            self.assertEqual(self.manager.cleaner.uncleanable, {})

        for pool in (IOPool.CLEAN, IOPool.BACKGROUND):
            self.interrupted(pool, delete)

    def test_stop_during_cleaning(self) -> None:
        """A stop ends the cleaning, and the shutdown is clean."""

        def stop() -> None:
            expected = state(self.log)
            closed = self.manager.close()
            self.let_go()
            self.successResultOf(closed)
            self.assertEqual(self.clock.getDelayedCalls(), [])
            self.disk = self.disk.after_kill()
            self.manager = self.opened()
            log = self.manager.get(PARTITION)
            assert log is not None
            self.assertEqual(state(log), expected)
            names = self.disk.names("orders-0")
            self.assertEqual([name for name in names if name.endswith((".cleaned", ".swap"))], [])

        for pool in (IOPool.CLEAN, IOPool.BACKGROUND):
            self.interrupted(pool, stop)


class FailureTests(CleanerCase):
    """What cannot be cleaned."""

    def test_damage(self) -> None:
        """A damaged log is left alone, loudly; the others go on."""
        other = self.successResultOf(self.manager.create(OTHER))
        self.fill()
        self.fill(log=other)
        with_damage = self.log.segments[1]
        self.disk.open(with_damage.log.path).write(66, [b"\xff"])
        with capturedLogs() as captured:
            self.clean()
        errors = [event for event in captured if event["log_level"].name == "error"]
        self.assertEqual([event["partition"] for event in errors], [self.log.partition])
        self.assertIn("CRC", errors[0]["why"])
        self.assertEqual(list(self.manager.cleaner.uncleanable), [self.log])
        registry = Registry()
        self.manager.cleaner.register_metrics(registry)
        named = [
            sample.labels
            for family in registry.collect()
            for sample in family.samples
            if sample is not None and family.name == "logbus_uncleanable_partition"
        ]
        self.assertEqual(named, [(("topic", PARTITION.topic), ("partition", str(PARTITION.partition)))])
        # What the console, /health and `logbus` tell.
        (finding,) = LogSources(self.manager).uncleanable()
        assert finding is not None
        self.assertEqual(finding.subject, str(PARTITION))
        self.assertIn("CRC", finding.message)
        self.assertGreater(other.cleaned_end_offset, 0)
        with capturedLogs() as captured:
            self.clean()
        self.assertEqual([event for event in captured if event["log_level"].name == "error"], [])
        self.successResultOf(self.manager.delete(PARTITION))
        self.clean()
        self.assertEqual(self.manager.cleaner.uncleanable, {})

    def test_full_disk(self) -> None:
        """Without space a cleaning is undone, and tried again later."""
        self.fill()
        expected = records(self.log)
        self.disk.faults = lambda op, path: no_space() if ".cleaned" in path and op in ("write", "create") else None
        self.clean()
        self.assertEqual(records(self.log), expected)
        self.assertEqual([name for name in self.disk.names("orders-0") if ".cleaned" in name], [])
        self.assertEqual((self.manager.cleaner.cleanings, self.manager.cleaner.uncleanable), (0, {}))
        self.disk.faults = lambda op, path: None
        self.clean()
        self.assertEqual(self.manager.cleaner.cleanings, 1)

    def test_full_disk_for_indexes(self) -> None:
        """So it is when there is room for the records, but not for their indexes."""
        self.fill()
        self.disk.faults = lambda op, path: no_space() if "index.cleaned" in path and op == "write" else None
        self.clean()
        self.assertEqual((self.manager.cleaner.cleanings, self.manager.cleaner.uncleanable), (0, {}))
        self.assertEqual([name for name in self.disk.names("orders-0") if ".cleaned" in name], [])

    def test_broken_disk(self) -> None:
        """A sync that fails takes the directory offline, and the cleaner with it leaves it alone."""
        self.fill()
        self.disk.faults = lambda op, path: broken() if ".cleaned" in path and op == "sync" else None
        self.clean()
        self.assertIsNotNone(self.disk.failure)
        self.assertEqual((self.manager.cleaner.cleanings, self.manager.cleaner.uncleanable), (0, {}))
        self.clean()

    def test_few_keys_at_a_time(self) -> None:
        """When not all keys fit into memory, the log is cleaned in several rounds."""
        self.cleaner_settings = CleanerSettings(dedupe_buffer_size=24 * 14)
        self.fill(200, keys=35)
        expected = state(self.log)
        self.clean()
        self.assertGreater(self.manager.cleaner.cleanings, 2)
        self.assertEqual(state(self.log), expected)
        active = self.log.segments[-1].base_offset
        self.assertEqual([r.offset for r in records(self.log) if r.offset < active], list(range(active - 35, active)))


class ThreadsTests(CleanerCase):
    """Several logs at a time."""

    cleaner_settings = CleanerSettings(threads=2)

    def test_two_at_a_time(self) -> None:
        """As many logs as there are threads are cleaned at a time, and the others after them."""
        logs = [self.log, *(self.successResultOf(self.manager.create(TopicPartition("more", n))) for n in range(3))]
        for log in logs:
            self.fill(log=log)
            for segment in log.segments:
                self.disk.evict(segment.log.path)
        self.disk.held.add(IOPool.CLEAN)
        self.clean()
        self.assertEqual(len(self.manager.cleaner._current), 2)
        while self.disk.release(IOPool.CLEAN, 1):
            self.assertLessEqual(len(self.manager.cleaner._current), 2)
        self.assertEqual(self.manager.cleaner.cleanings, 4)

    def test_a_log_that_takes_long(self) -> None:
        """While a log is cleaned, others that become due are."""
        other = self.successResultOf(self.manager.create(OTHER))
        self.fill(200)
        self.evict()
        self.disk.held.add(IOPool.CLEAN)
        self.clean()
        self.fill(log=other)
        self.clean()
        self.assertGreater(other.cleaned_end_offset, 0)
        self.assertEqual(self.log.cleaned_end_offset, 0)
        self.let_go()
        self.assertEqual(self.manager.cleaner.cleanings, 2)

    def test_stop(self) -> None:
        """A stop waits for all of them; a pause only for the logs it is about."""
        other = self.successResultOf(self.manager.create(OTHER))
        for log in self.log, other:
            self.fill(log=log)
            for segment in log.segments:
                self.disk.evict(segment.log.path)
        self.disk.held.add(IOPool.CLEAN)
        self.clean()
        first = self.manager.cleaner._until_idle([self.log])
        every = self.manager.cleaner.stop()
        self.disk.release(IOPool.CLEAN, 1)
        self.assertEqual(first.called + every.called, 1)
        self.disk.release(IOPool.CLEAN, 1)
        self.successResultOf(first)
        self.successResultOf(every)

    def test_shared(self) -> None:
        """The threads share the rate and the memory."""
        self.cleaner_settings = CleanerSettings(threads=2, max_bytes_per_second=1000)
        other = self.successResultOf(self.manager.create(OTHER))
        self.fill()
        self.fill(log=other)
        self.clean()
        seconds = 0.0
        while self.manager.cleaner.cleanings < 2:
            self.clock.advance(0.1)
            seconds += 0.1
            self.assertLess(seconds, 100)
        moved = self.manager.cleaner.read_bytes + self.manager.cleaner.written_bytes
        self.assertTrue(0.9 < seconds / (moved / 1000) < 1.3, (seconds, moved))


class ThrottleTests(CleanerCase):
    """How much of the reactor and of the disk is taken."""

    cleaner_settings = CleanerSettings(max_bytes_per_second=1000)

    def test_throttle(self) -> None:
        """log.cleaner.io.max.bytes.per.second is kept to, reads and writes together."""
        self.fill()
        size = self.log.size
        self.clean()
        self.assertEqual(self.manager.cleaner.cleanings, 0)
        self.clock.advance(1)
        self.assertEqual(self.manager.cleaner.cleanings, 0)
        seconds = 1.0
        while not self.manager.cleaner.cleanings:
            self.clock.advance(0.1)
            seconds += 0.1
            self.assertLess(seconds, 100)
        moved = self.manager.cleaner.read_bytes + self.manager.cleaner.written_bytes
        self.assertGreater(moved, size)
        self.assertTrue(0.9 < seconds / (moved / 1000) < 1.3, (seconds, moved))

    def test_stop_in_a_pause(self) -> None:
        """A stop does not wait for the end of a pause."""
        self.cleaner_settings = CleanerSettings(max_bytes_per_second=1)
        self.fill()
        self.clean()
        self.successResultOf(self.manager.close())
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_turns(self) -> None:
        """After four milliseconds of work, others get three times as long; waiting is no work."""
        clock = Clock()
        throttler = Throttler(Timers(clock))
        throttler.begin()
        clock.advance(0.003)
        self.assertFalse(throttler.is_due)
        begun = clock.seconds()
        clock.advance(10)
        throttler.waited(begun)
        self.assertFalse(throttler.is_due)
        clock.advance(0.002)
        self.assertTrue(throttler.is_due)
        resting = throttler.rest()
        clock.advance(0.0149)
        self.assertNoResult(resting)
        clock.advance(0.0002)
        self.successResultOf(resting)
        self.assertFalse(throttler.is_due)

    def test_a_clock_set_ahead(self) -> None:
        """An hour that no work took is not paused for three."""
        clock = Clock()
        throttler = Throttler(Timers(clock))
        throttler.begin()
        clock.advance(3600)
        resting = throttler.rest()
        clock.advance(0.6)
        self.successResultOf(resting)


class ModelTests(CleanerCase):
    """Anything may happen between cleanings; a reader has the last value of each key."""

    @example(11935)
    @given(st.integers(0, 2**32))
    @settings(max_examples=25, deadline=None)
    def test_random_operations(self, seed: int) -> None:
        """Appends of every kind, cleanings, kills and clean stops, at random."""
        self.operate(seed)

    def operate(self, seed: int) -> None:
        """Carry out the operations of a seed, and compare what is read."""
        self.end()
        self.begin()
        self.log.configure(evolve(COMPACT, delete_retention_ms=20_000))
        rng = random.Random(seed)
        written: dict[bytes, bytes] = {}
        sequences = [0, 0, 0]
        for _ in range(60):
            choice = rng.random()
            if choice < 0.75:
                keys = [b"k%d" % rng.randrange(8) for _ in range(rng.randrange(1, 4))]
                values = [None if rng.random() < 0.2 else b"%d" % rng.randrange(1000) for _ in keys]
                header: dict[str, Any] = {"codec": rng.choice(list(Codec))}
                producer = rng.randrange(3)
                if producer:
                    header |= {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequences[producer]}
                    sequences[producer] += len(keys)
                append_as_leader(self.log, batch(*values, keys=keys, **header), 0)
                for key, value in zip(keys, values, strict=True):
                    if value is None:
                        written.pop(key, None)
                    else:
                        written[key] = value
            elif choice < 0.9:
                self.log.high_watermark = self.log.log_end_offset
                self.successResultOf(self.log.flush())
                self.now_s += 15
                self.clean()
            else:
                if choice < 0.95:
                    self.successResultOf(self.manager.close())
                self.disk = self.disk.after_kill()
                self.manager = self.opened(evolve(COMPACT, delete_retention_ms=20_000))
                log = self.manager.get(PARTITION)
                assert log is not None
                self.log = log
            self.assertEqual(self.manager.cleaner.uncleanable, {})
            self.assertEqual(state(self.log), written)
        for producer in (1, 2):
            entry = self.log.producers.get(producer)
            self.assertEqual(entry.last_sequence + 1 if entry else 0, sequences[producer])


class Plain(CleanerCase):
    """In threads, by the descriptors of files."""

    def begin(self) -> None:
        """Nothing is read on the reactor; the disk does not notice writes."""
        self.patch(cleaner_task, "SMALL", -1)
        self.patch(MemoryFile, "is_plain", True)
        super().begin()


class PlainGapTests(Plain, GapTests):
    """The same as of :class:`GapTests`."""


class PlainTimeTests(Plain, TimeTests):
    """The same as of :class:`TimeTests`."""


class PlainReplacementTests(Plain, ReplacementTests):
    """The same as of :class:`ReplacementTests`."""

    def test_replaced_twice(self) -> None:
        """What was replaced by a segment that is replaced itself stays until its readers are gone."""
        self.fill()
        self.clean()
        self.fill()
        self.clean()
        names = [name for name in self.disk.names("orders-0") if ".log." in name]
        first = file_names.segment_file(0, file_names.LOG)
        self.assertIn(file_names.deleted(first), names)
        self.assertIn(file_names.deleted(first, 1), names)
        self.clock.advance(COMPACT.file_delete_delay_ms / 1000)
        self.assertEqual([name for name in self.disk.names("orders-0") if "deleted" in name], [])


class PlainModelTests(Plain, ModelTests):
    """The same as of :class:`ModelTests`."""

    @given(st.integers(0, 2**32))
    @settings(max_examples=15, deadline=None)
    def test_random_operations(self, seed: int) -> None:
        """Appends of every kind, cleanings, kills and clean stops, at random."""
        self.operate(seed)
