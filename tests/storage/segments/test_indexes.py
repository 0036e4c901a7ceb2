"""The sparse indexes."""

from __future__ import annotations

import struct
from bisect import bisect_right

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.storage.filesystem.file_cache import FileCache, LazyFile
from logbus.storage.segments.indexes import IndexCorrupt, OffsetIndex, TimeIndex
from logbus.testing.simulation.environment.memory_disk import MemoryDisk

increasing = st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=1500).map(sorted)


def files() -> tuple[MemoryDisk, LazyFile]:
    disk = MemoryDisk()
    return disk, LazyFile(FileCache(10), disk, "x.index")


class OffsetIndexTests(SynchronousTestCase):
    """Offset to position."""

    def test_format(self) -> None:
        """Eight bytes an entry, big-endian, as Kafka's DumpLogSegments reads them."""
        disk, file = files()
        index = OffsetIndex(file)
        index.start()
        index.append(7, 4200)
        index.append(300, 9000)
        index.save()
        self.assertEqual(disk.read("x.index"), struct.pack(">iiii", 7, 4200, 300, 9000))

    @settings(max_examples=40, deadline=None)
    @given(increasing, st.lists(st.integers(-1, 2**31 - 1), max_size=20))
    def test_memory_and_file_give_the_same(self, offsets: list[int], keys: list[int]) -> None:
        """A search gives the same result in memory, in the file, and by a plain scan."""
        _, file = files()
        index = OffsetIndex(file)
        index.start()
        for position, offset in enumerate(offsets):
            index.append(offset, position * 3)
        index.save()
        on_disk = OffsetIndex(file)
        on_disk.open(1 << 31)
        loaded = OffsetIndex(file)
        loaded.load(1 << 31)
        for key in [*keys, *offsets[::100]]:
            i = bisect_right(offsets, key)
            expected = (offsets[i - 1], (i - 1) * 3) if i else (-1, 0)
            for candidate in (index, on_disk, loaded):
                self.assertEqual(candidate.floor(key), expected)
        for position in range(0, len(offsets) * 3 + 5, 997):
            for candidate in (index, on_disk, loaded):
                self.assertEqual(candidate.floor_at(position)[1], min(position // 3, max(0, len(offsets) - 1)) * 3)

    def test_cut(self) -> None:
        """Entries from a position on go, from the file, too."""
        disk, file = files()
        index = OffsetIndex(file)
        index.start()
        for i in range(10):
            index.append(i, i * 100)
            if i == 6:
                index.save()
        self.assertEqual(index.cut_position(500), (4, 400))
        self.assertEqual((index.count, index.last_offset, disk.size("x.index")), (5, 4, 40))
        index.append(5, 500)
        index.save()
        self.assertEqual(disk.size("x.index"), 48)
        self.assertEqual(index.cut_position(0), (-1, 0))

    def damaged(self, data: bytes, size: int = 1000) -> str:
        disk, file = files()
        disk.replace("x.index", data)
        index = OffsetIndex(file)
        return str(self.assertRaises(IndexCorrupt, index.load, size))

    def test_damage(self) -> None:
        """Loading a file that cannot be the segment's index fails."""
        self.assertIn("multiple of 8", self.damaged(b"\0" * 12))
        self.assertIn("not increasing", self.damaged(b"\0" * 16))
        self.assertIn("not increasing", self.damaged(struct.pack(">iiii", 5, 10, 4, 20)))
        self.assertIn("outside", self.damaged(struct.pack(">ii", 5, 1000)))
        self.assertIn("outside", self.damaged(struct.pack(">ii", -5, 10)))
        _, file = files()
        self.assertIn("missing", str(self.assertRaises(IndexCorrupt, OffsetIndex(file).load, 10)))
        self.assertIn("missing", str(self.assertRaises(IndexCorrupt, OffsetIndex(file).open, 10)))

    def test_last_entry(self) -> None:
        """Opening looks at the last entry only, and finds one that points behind the segment."""
        disk, file = files()
        disk.replace("x.index", struct.pack(">iiii", 5, 10, 9, 700))
        OffsetIndex(file).open(701)
        self.assertRaises(IndexCorrupt, OffsetIndex(file).open, 700)


class TimeIndexTests(SynchronousTestCase):
    """Timestamp to offset."""

    def test_format(self) -> None:
        """Twelve bytes an entry, big-endian; only larger timestamps get one."""
        disk, file = files()
        index = TimeIndex(file)
        index.append(1_700_000_000_000, 7)
        index.append(1_700_000_000_000, 8)
        index.append(1_700_000_000_001, 9)
        index.save()
        self.assertEqual(disk.read("x.index"), struct.pack(">qiqi", 1_700_000_000_000, 7, 1_700_000_000_001, 9))

    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.integers(0, 50), max_size=60), st.integers(0, 51), st.integers(0, 60), st.integers(0, 60))
    def test_before(self, timestamps: list[int], wanted: int, saved: int, cut: int) -> None:
        """No record up to the offset given has the timestamp wanted; saving and cutting change nothing in that."""
        _, file = files()
        index = TimeIndex(file)
        entries: list[tuple[int, int]] = []
        for offset, timestamp in enumerate(timestamps):
            if offset == saved:
                index.save()
            index.append(timestamp, offset)
            if not entries or timestamp > entries[-1][0]:
                entries.append((timestamp, offset))
        index.cut(cut)
        entries = [entry for entry in entries if entry[1] <= cut]
        self.assertEqual(index.last, entries[-1] if entries else None)
        self.assertEqual(index.count, len(entries))
        self.assertEqual(index.before(wanted), max((o for t, o in entries if t < wanted), default=-1))
        index.save()
        again = TimeIndex(file)
        again.open()
        again.check()
        self.assertEqual((again.last, again.before(wanted)), (index.last, index.before(wanted)))

    def test_damage(self) -> None:
        """A file that cannot be a time index is refused."""
        for data in (b"\0" * 13, struct.pack(">qi", -1, 5)):
            disk, file = files()
            disk.replace("x.index", data)
            self.assertRaises(IndexCorrupt, TimeIndex(file).open)
        disk, file = files()
        disk.replace("x.index", struct.pack(">qiqi", 9, 1, 5, 2))
        index = TimeIndex(file)
        index.open()
        self.assertRaises(IndexCorrupt, index.check)
