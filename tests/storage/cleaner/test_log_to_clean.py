"""The choice of segments to merge."""

from __future__ import annotations

from typing import Any
from unittest import TestCase

from attrs import evolve, field, frozen
from hypothesis import given
from hypothesis import strategies as st

from logbus.config.topic_config import TopicConfig
from logbus.storage.cleaner.log_to_clean import MAX_GROUP_BYTES, MAX_GROUP_SEGMENTS, SegmentGroup
from logbus.storage.segments.indexes import MAX_RELATIVE_OFFSET, OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE

CONFIG = TopicConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=1000, segment_index_bytes=120)


@frozen
class Count:
    count: int


@frozen
class SegmentSize:
    """As much of a segment as counts here."""

    size: int
    offsets: Count = field(default=0, converter=Count)
    times: Count = field(default=0, converter=Count)
    base_offset: int = 0


def run_of(kept: float, *segments: SegmentSize, config: TopicConfig = CONFIG, step: int = 10) -> int:
    """How many of these segments become one, if so much of each stays."""
    run: SegmentGroup[Any] = SegmentGroup(config)
    written = SegmentSize(0)
    for number, segment in enumerate(segments, 1):
        at = SegmentSize(segment.size, segment.offsets.count, segment.times.count, (number - 1) * step)
        if not run.add(at, number * step, written):  # type: ignore[arg-type]
            break
        written = SegmentSize(
            written.size + int(at.size * kept),
            written.offsets.count + int(at.offsets.count * kept),
            written.times.count + int(at.times.count * kept),
        )
    return len(run.segments)


class SegmentGroupTests(TestCase):
    """Neighbours that become one segment."""

    def test_as_they_are(self) -> None:
        """Segments that fit into one as they are become one."""
        self.assertEqual(run_of(1.0, *[SegmentSize(300)] * 9), 3)
        self.assertEqual(run_of(1.0, SegmentSize(2000), SegmentSize(1)), 1)

    def test_small_segments_are_grouped(self) -> None:
        """Segments with few records left become one segment, up to the maximum size."""
        self.assertEqual(run_of(0.0, *[SegmentSize(900)] * 20), 20)
        self.assertEqual(run_of(0.1, *[SegmentSize(500)] * 20), 11)
        deleting = evolve(CONFIG, cleanup_policy=frozenset({"compact", "delete"}))
        self.assertEqual(run_of(0.0, *[SegmentSize(900)] * 20, config=deleting), 1)

    def test_limits(self) -> None:
        """Neither indexes nor offsets grow too large, nor the work that is lost when a cleaning is given up."""
        self.assertEqual(run_of(1.0, *[SegmentSize(1, offsets=60 // OFFSET_ENTRY_SIZE)] * 9), 2)
        self.assertEqual(run_of(1.0, *[SegmentSize(1, times=60 // TIME_ENTRY_SIZE)] * 9), 2)
        self.assertEqual(run_of(1.0, *[SegmentSize(1)] * 9, step=MAX_RELATIVE_OFFSET // 2), 2)
        self.assertEqual(run_of(0.0, *[SegmentSize(1)] * 2 * MAX_GROUP_SEGMENTS), MAX_GROUP_SEGMENTS)
        large = evolve(CONFIG, segment_bytes=MAX_GROUP_BYTES // 2)
        self.assertEqual(run_of(0.0, *[SegmentSize(MAX_GROUP_BYTES // 2)] * 9, config=large), 2)

    @given(st.lists(st.integers(0, 1000), min_size=1, max_size=30), st.floats(0, 1))
    def test_within_the_size(self, sizes: list[int], kept: float) -> None:
        """No segment that is written exceeds the topic's size, unless a single one did before; and it goes on."""
        taken = run_of(kept, *map(SegmentSize, sizes))
        self.assertGreater(taken, 0)
        self.assertLessEqual(sum(int(size * kept) for size in sizes[:taken]), CONFIG.segment_bytes)
