"""Offsets by time."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.model import TimestampOffset
from logbus.records.compression import Codec
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.offset_lookup import max_timestamp_offset, offset_for_timestamp, offsets_before
from logbus.testing.simulation.environment.memory_disk import Directory, MemoryDisk
from tests.storage.builders import NOW_MS, a_log, batch, finish

batches = st.lists(
    st.tuples(st.lists(st.integers(-30, 30), min_size=1, max_size=4), st.sampled_from([Codec.NONE, Codec.LZ4])),
    max_size=25,
)


class TimestampTests(SynchronousTestCase):
    """The first record at or after a time."""

    @settings(max_examples=60, deadline=None)
    @given(batches, st.integers(-31, 31), st.integers(0, 100), st.integers(0, 3))
    def test_by_the_book(self, written: list[tuple[list[int], Codec]], wanted: int, start: int, epoch: int) -> None:
        """In any order of times, compressed or not, over segments, the answer is that of a linear search."""
        log = a_log(config=TopicConfig(segment_bytes=400, index_interval_bytes=90))
        times: list[int] = []
        for timestamps, codec in written:
            absolute = [NOW_MS + t for t in timestamps]
            append_as_leader(log, batch(*[b"v"] * len(absolute), timestamps=absolute, codec=codec), epoch)
            times += absolute
        start = min(start, len(times))
        log.advance_start(start)
        found = next((o for o, t in enumerate(times) if o >= start and t >= NOW_MS + wanted), None)
        expected = None if found is None else TimestampOffset(times[found], found, epoch)
        self.assertEqual(finish(offset_for_timestamp(log, NOW_MS + wanted)), expected)

        if times and start == 0:
            largest = max(times)
            self.assertEqual(finish(max_timestamp_offset(log)), TimestampOffset(largest, times.index(largest), epoch))

    def test_empty(self) -> None:
        """An empty log has no times."""
        log = a_log()
        self.assertIsNone(finish(offset_for_timestamp(log, 0)))
        self.assertIsNone(finish(max_timestamp_offset(log)))

    def test_log_append_time(self) -> None:
        """Records that bear the broker's time all have that of their batch."""
        log = a_log(config=TopicConfig(message_timestamp_type="LogAppendTime"))
        for now in (1000, 2000, 3000):
            append_as_leader(log, batch(b"a", b"b", timestamp=5), 0, now)
        self.assertEqual(finish(offset_for_timestamp(log, 1500)), TimestampOffset(2000, 2, 0))
        self.assertEqual(finish(max_timestamp_offset(log)), TimestampOffset(3000, 4, 0))


class OffsetsBeforeTests(SynchronousTestCase):
    """getOffsetsBefore, as the oldest clients ask."""

    def test_segments(self) -> None:
        """Where segments begin, latest first; the log's end counts as modified now."""
        disk = MemoryDisk()
        log = a_log(disk)
        for _ in range(3):
            append_as_leader(log, batch(), 0)
            append_as_leader(log, batch(), 0)
            log.roll()
        append_as_leader(log, batch(), 0)
        directory = disk.tree.entries["orders-0"]
        assert isinstance(directory, Directory)
        for i, base in enumerate((0, 2, 4, 6)):
            directory.entries[f"{base:020d}.log"].modified_ns = (NOW_MS - 4000 + i * 1000) * 1_000_000
        self.assertEqual(offsets_before(log, -1, 10), [7, 6, 4, 2, 0])
        self.assertEqual(offsets_before(log, -1, 2), [7, 6])
        self.assertEqual(offsets_before(log, -2, 10), [0])
        self.assertEqual(offsets_before(log, NOW_MS - 2000, 10), [4, 2, 0])
        self.assertEqual(offsets_before(log, NOW_MS - 2001, 10), [2, 0])
        self.assertEqual(offsets_before(log, NOW_MS, 1), [7])
        self.assertEqual(offsets_before(log, 0, 10), [])
        self.assertEqual(offsets_before(log, -1, 0), [])
        self.assertEqual(offsets_before(log, -1, 10, bound=5), [5, 4, 2, 0])
        log.advance_start(1)
        self.assertEqual(offsets_before(log, -2, 10), [1])
