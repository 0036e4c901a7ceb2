"""Reads of one segment."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.segments.indexes import IndexCorrupt
from logbus.storage.segments.readable_segment import RECENT, ReadableSegment
from logbus.storage.segments.segment import Segment
from logbus.testing.simulation.environment.memory_disk import MemoryDisk
from tests.storage.builders import NOW_MS, PARTITION, a_manager, batch

COUNT = 2 * RECENT
"""More batches than are kept in memory."""


class ReadableSegmentTests(SynchronousTestCase):
    """A segment of batches with two records each."""

    def setUp(self) -> None:
        self.disk = MemoryDisk()
        self.manager = a_manager(self.disk, default_config=TopicConfig(index_interval_bytes=500))
        self.successResultOf(self.manager.open())
        self.log = self.successResultOf(self.manager.create(PARTITION))
        for i in range(COUNT):
            append_as_leader(self.log, batch(b"a", b"b", timestamp=NOW_MS + i), 0)
        self.segment: Segment = self.log.segments[-1]
        self.starts = [position for position, _ in self.segment.batches(0)]

    def assert_found(self, segment: ReadableSegment) -> None:
        for offset in range(2 * COUNT):
            self.assertEqual(segment.find(offset), self.starts[offset // 2])
        self.assertEqual(segment.find(2 * COUNT), segment.size)

    def test_batches_are_found_by_their_offsets(self) -> None:
        """Each offset is found: among the newest batches in memory, among older ones by the index, and when sealed."""
        self.assert_found(self.segment)
        self.segment.seal()
        self.assertFalse(self.segment.is_active)
        self.assert_found(self.segment)

    def test_small_reads_follow_each_other(self) -> None:
        """A reader that takes little at a time gets each batch once, whether or not where it ended is remembered."""
        self.segment.seal()
        offset, passed = 0, 0
        while (found := self.segment.slice(self.segment.find(offset), 200, 2 * COUNT, 2 * COUNT, True)) is not None:
            data, offset = found
            self.assertLessEqual(len(data), 200)
            self.assertEqual(self.segment.find(offset), data.position + len(data))
            passed += len(data)
        self.assertEqual((offset, passed), (2 * COUNT, self.segment.size))

    def test_damage_without_a_repair(self) -> None:
        """Where nobody rebuilds indexes, a damaged one is an error of the look-up."""
        self.segment.seal()
        alone = ReadableSegment(self.segment.disk, self.segment.files, self.segment.directory, 0)
        alone.size = self.segment.size
        path = alone.path(".index")
        offset = int.from_bytes(self.disk.read(path)[:4], "big")
        self.assertEqual(alone.find(offset), self.starts[offset // 2])
        self.disk.flip(path, 7, 0)
        self.assertRaises(IndexCorrupt, alone.find, offset)
