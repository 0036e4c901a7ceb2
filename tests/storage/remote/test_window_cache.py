"""The windows of remote segments that are kept in memory."""

from __future__ import annotations

import os
import tempfile
from uuid import UUID

import pytest
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import StorageError
from logbus.storage.remote.window_cache import (
    MOST_FILES,
    Window,
    WindowCache,
    WindowKey,
)
from logbus.storage.remote.window_file import WindowFile
from tests.storage.builders import batch


class WindowCacheTests(SynchronousTestCase):
    """What stays, and what goes."""

    def add(self, cache: WindowCache, number: int, data: bytes) -> WindowKey:
        """Add a window of a segment of its own."""
        key = WindowKey(UUID(int=number), 0)
        cache.add(key, Window.of(0, data))
        return key

    def test_the_least_recently_used_go(self) -> None:
        """There are at most so many bytes; the last window stays however large it is."""
        cache = WindowCache(10)
        a, b = self.add(cache, 1, b"aaaa"), self.add(cache, 2, b"bbbb")
        self.assertIsNotNone(cache.get(a))
        c = self.add(cache, 3, b"cccc")
        self.assertEqual(([key in cache for key in (a, b, c)], cache.size), ([True, False, True], 8))
        d = self.add(cache, 4, b"d" * 20)
        self.assertEqual(([key in cache for key in (a, c, d)], cache.size), ([False, False, True], 20))
        cache.drop(UUID(int=4))
        self.assertEqual((len(cache), cache.size), (0, 0))

    @pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="it counts descriptors, as Linux lists them")
    def test_descriptors(self) -> None:
        """Small windows do not use up the descriptors; a slice outlives its window in the cache."""
        before = len(os.listdir("/proc/self/fd"))
        cache = WindowCache(1 << 30)
        with tempfile.TemporaryFile() as file:
            file.write(b"abcdef")
            file.flush()
            keys = [WindowKey(UUID(int=number), 0) for number in range(2 * MOST_FILES)]
            for key in keys[:MOST_FILES]:
                cache.add(key, Window.of_segment(WindowFile(os.dup(file.fileno())), 0, 6))
            window = cache.get(keys[0])
            assert window is not None
            part = window.slice(1, 4)
            del window
            in_memory = self.add(cache, 10_000, b"x")
            for key in keys[MOST_FILES:]:
                cache.add(key, Window.of_segment(WindowFile(os.dup(file.fileno())), 0, 6))
            # The one in memory, which takes none, stays as long as its bytes have room.
            self.assertEqual((len(cache), cache.size), (MOST_FILES + 1, 6 * MOST_FILES + 1))
            self.assertIn(in_memory, cache)
            self.assertNotIn(keys[0], cache)
            # Several windows have one descriptor.
            cache.add(WindowKey(keys[-1].segment_id, 6), Window.of_segment(WindowFile(os.dup(file.fileno())), 6, 6))
            self.assertEqual(len(cache), MOST_FILES + 2)
            cache.drop(keys[-1].segment_id)
            self.assertEqual(len(cache), MOST_FILES)
            self.assertEqual(part.read(), b"bcd")
            del cache, part
        self.assertLessEqual(len(os.listdir("/proc/self/fd")), before)

    def test_in_memory(self) -> None:
        """What a store answered with is sent from memory, without a descriptor, whole or in part."""
        part = Window.of(100, b"0123456789").slice(102, 108)
        self.assertEqual((len(part), part.read()), (6, b"234567"))
        self.assertEqual(part.narrow(1, 3).read(), b"345")
        self.assertRaises(OSError, part.file.fileno)

    def test_a_segment_that_is_a_file(self) -> None:
        """Its bytes are sent from there; should it be truncated, they end early."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = f"{directory.name}/segment.log"
        with open(path, "wb") as file:
            file.write(b"0123456789")
        descriptor = os.open(path, os.O_RDONLY)
        window = Window.of_segment(WindowFile(descriptor), 4, 6)
        self.assertEqual((window.position, window.end, window.read(5, 8)), (4, 10, b"567"))
        part = window.slice(5, 8)
        del window
        self.assertEqual(part.read(), b"567")
        del part
        self.assertRaises(OSError, os.fstat, descriptor)
        window = Window.of_segment(WindowFile(os.open(path, os.O_RDONLY)), 4, 6)
        os.truncate(path, 6)
        self.assertRaises(EOFError, window.slice(5, 8).read)

    def test_batches(self) -> None:
        """They are found in memory and in a file alike; a file that was changed says where."""
        data = b"".join(batch(b"%d" % n, base_offset=n) for n in range(4))
        size = len(data) // 4
        with tempfile.TemporaryFile() as file:
            file.write(b"before" + data)
            file.flush()
            of_file = Window.of_segment(WindowFile(os.dup(file.fileno())), 6, len(data))
            for window in (of_file, Window.of(6, data)):
                found = [(at, end, header.base_offset) for at, end, header in window.batches(6 + size)]
                self.assertEqual(found, [(6 + n * size, 6 + (n + 1) * size, n) for n in (1, 2, 3)])
            file.seek(6 + size)
            file.write(bytes(size))
            file.flush()
            error = self.assertRaises(StorageError, list, of_file.batches(6))
            self.assertIn(f"at {6 + size}: there is no record batch", str(error))
