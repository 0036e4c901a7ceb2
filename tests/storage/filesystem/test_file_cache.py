"""Files opened on demand, and the cache that closes them."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.storage.filesystem.file_cache import FileCache, LazyFile
from logbus.testing.simulation.environment.memory_disk import MemoryDisk


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
