"""The index entries of a segment, made one by one and many at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.records.batch import iter_batches
from logbus.storage.cleaner.implementations import index_batches
from logbus.storage.filesystem.file_cache import FileCache
from logbus.storage.segments.segment import Segment
from logbus.testing.simulation.environment.memory_disk import MemoryDisk
from tests.storage.builders import batch

BATCHES = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3), st.integers(-1, 2**41)), max_size=12)
"""Of each the offsets that are missing before it, its records, and its timestamp."""


def contents(segment: Segment) -> object:
    """Everything that its index entries decide."""
    state = segment.index_state(0)
    segment.seal()
    files = [segment.offsets.save(), segment.times.save()]
    return state, segment.size, [file.get().pread(10_000, 0) for file in files]


class IndexEntriesTests(SynchronousTestCase):
    """Two segments with the same batches."""

    @given(BATCHES, st.integers(0, 12), st.integers(0, 300))
    def test_at_once(self, batches: list[tuple[int, int, int]], first: int, interval: int) -> None:
        """Entries are the same, in however many parts they are made."""
        disk = MemoryDisk()
        segments = [Segment(disk, FileCache(10), name, 7) for name in ("a", "b")]
        for segment in segments:
            disk.make_directory(segment.directory)
            segment.create()
        one_by_one, at_once = segments
        pieces, offset = [], 7
        for gap, count, timestamp in batches:
            offset += gap
            pieces.append(batch(*[b"v"] * count, base_offset=offset, timestamp=timestamp))
            offset += count
        for part in (b"".join(pieces[:first]), b"".join(pieces[first:])):
            for segment in segments:
                segment.write([part])
            begin = at_once.size
            at_once.appended_all(index_batches(part, begin, at_once.index_state(interval)), len(part))
            for at, header in iter_batches(part):
                self.assertEqual(one_by_one.size, begin + at)
                one_by_one.appended(header, header.base_offset, interval)
        self.assertEqual(
            [at_once.find(n) for n in range(7, offset + 1)], [one_by_one.find(n) for n in range(7, offset + 1)]
        )
        self.assertEqual(contents(at_once), contents(one_by_one))
