"""The windows of remote segments that are kept in memory."""

from __future__ import annotations

import os
import tempfile
from uuid import UUID

import pytest
from twisted.trial.unittest import SynchronousTestCase

from logbus.records.file_slice import FileSlice
from logbus.storage.remote.window_cache import MOST_WINDOWS, Window, WindowCache, WindowKey


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
        key = self.add(cache, 0, b"abcdef")
        window = cache.get(key)
        assert window is not None
        part = FileSlice(window.file, 1, 3)
        del window
        for number in range(1, 2 * MOST_WINDOWS):
            self.add(cache, number, b"x")
        self.assertEqual(len(cache), MOST_WINDOWS)
        self.assertNotIn(key, cache)
        self.assertEqual(part.read(), b"bcd")
        del cache, part
        self.assertLessEqual(len(os.listdir("/proc/self/fd")), before)

    def test_a_segment_that_is_a_file(self) -> None:
        """Its bytes are sent from there; should it be truncated, they end early."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = f"{directory.name}/segment.log"
        with open(path, "wb") as file:
            file.write(b"0123456789")
        descriptor = os.open(path, os.O_RDONLY)
        window = Window.of(4, b"456789", descriptor)
        part = FileSlice(window.file, window.file_position + 1, 3)
        del window
        self.assertEqual(part.read(), b"567")
        del part
        self.assertRaises(OSError, os.fstat, descriptor)
        window = Window.of(4, b"456789", os.open(path, os.O_RDONLY))
        os.truncate(path, 6)
        self.assertRaises(EOFError, FileSlice(window.file, window.file_position + 1, 3).read)
        self.assertEqual(bytes(window.data), b"456789")
