"""Files opened on demand, and the cache that closes them."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.storage.filesystem.file_cache import FileCache, LazyFile
from logbus.testing.simulation.environment.inodes import PowerCutOutcome
from logbus.testing.simulation.environment.memory_disk import MemoryDisk, broken


class FileCacheTests(SynchronousTestCase):
    """Descriptors for what is in use."""

    def test_longest_unused_first(self) -> None:
        """Beyond the capacity files close, those not used since they were last looked at first; pinned ones stay."""
        disk, cache = MemoryDisk(), FileCache(3)
        lazy = [LazyFile(cache, disk, f"{i}") for i in range(10)]
        lazy[0].pinned = True
        for file in lazy:
            file.create()
        self.assertEqual((len(cache), disk.open_files), (3, 3))
        self.assertIsNotNone(lazy[0].file)
        self.assertIsNotNone(lazy[9].file)
        lazy[3].get()
        self.assertEqual(disk.open_files, 3)

    def test_no_more_than_may_be_open(self) -> None:
        """However many files have unsynced data, some are synced and closed when there would be too many."""
        disk, cache = MemoryDisk(), FileCache(3, 5)
        lazy = [LazyFile(cache, disk, f"{i}") for i in range(10)]
        for file in lazy:
            file.pinned = True
            file.create().write(0, [b"abc"])
            self.assertLessEqual(disk.open_files, 6)
        self.assertEqual((len(cache), disk.open_files), (5, 5))
        disk.sync_directory("")
        kept = disk.after_power_cut(PowerCutOutcome("lose"))
        closed = [file.path for file in lazy if file.file is None]
        self.assertEqual([kept.read(path) for path in closed], [b"abc"] * 5)
        self.assertTrue(all(file.pinned for file in lazy))

    def test_a_failed_sync_is_the_disks(self) -> None:
        """If the sync fails, the disk goes offline; what opens a file on another disk does not fail."""
        disk, other, cache = MemoryDisk("/a"), MemoryDisk("/b"), FileCache(1, 1)
        lazy = LazyFile(cache, disk, "a")
        lazy.create().write(0, [b"abc"])
        lazy.pinned = True
        disk.faults = lambda op, path: broken() if op == "sync" else None
        LazyFile(cache, other, "b").create()
        self.assertIsNotNone(disk.failure)
        self.assertIsNone(other.failure)
        self.assertIsNone(lazy.file)
        self.assertEqual(other.open_files, 1)

    def test_readers_keep_files_open(self) -> None:
        """Those who hold a reference can read a closed file."""
        disk, cache = MemoryDisk(), FileCache(3)
        lazy = LazyFile(cache, disk, "a")
        file = lazy.create()
        file.write(0, [b"abc"])
        lazy.close()
        self.assertEqual((file.pread(3, 0), disk.open_files), (b"abc", 1))
        del file
        self.assertEqual(disk.open_files, 0)
