"""Files of a store in a directory, of which the page cache drops parts."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.storage.filesystem.page_cache import PageCache
from logbus.storage.remote.load_queue import LoadQueue
from logbus.storage.remote.window_file import WindowFile, WindowLoads


@define(eq=False)
class ColdCache(PageCache):
    """Has everything but one byte; ``None`` where the file system does not tell."""

    cold: int = -1
    tells: bool = True
    asked: list[tuple[int, int]] = field(factory=list)

    def is_cold(self, fd: int, position: int, length: int) -> bool | None:
        self.asked.append((position, length))
        return position <= self.cold < position + length if self.tells else None


class WindowFileTests(SynchronousTestCase):
    """One file, and a thread that begins when the test says so."""

    def setUp(self) -> None:
        self.cache = ColdCache()
        self.begin: list[Any] = []
        with tempfile.TemporaryFile() as file:
            file.write(bytes(100_000))
            file.flush()
            self.file = WindowFile(os.dup(file.fileno()), WindowLoads(LoadQueue(self.run_in_thread, 1), self.cache))

    def run_in_thread(self, fn: Any, *args: Any) -> Deferred[Any]:
        """As a thread would."""
        done: Deferred[Any] = Deferred()
        self.begin.append(lambda: maybeDeferred(fn, *args).chainDeferred(done))
        return done

    def test_load(self) -> None:
        """What is in a file is loaded as far as there is any."""
        found = [self.file.load(start, end) for start, end in ((0, 100), (50, 100_000), (99_999, 100_001))]
        self.assertEqual(found, [100, 100_000, 100_000])

    def test_what_is_in_memory(self) -> None:
        """It is sent at once, and so is what is not known to be elsewhere."""
        self.cache.cold = 500
        self.assertIsNone(self.file.read_ahead(0, 500))
        self.assertIsNone(self.file.read_ahead(501, 500))
        self.cache.tells = False
        self.assertIsNone(self.file.read_ahead(0, 1000))
        self.assertFalse(self.file.is_cold(0, 1000))
        self.assertEqual(self.begin, [])

    def test_what_is_not(self) -> None:
        """It is loaded in a thread first; two that wait for the same do not mind each other."""
        self.cache.cold = 500
        waiting = [self.file.read_ahead(400, 200) for _ in range(2)]
        for _ in range(2):
            self.begin.pop(0)()
        for each in waiting:
            assert each is not None
            self.assertIsNone(self.successResultOf(each))

    def test_one_that_gives_up(self) -> None:
        """A connection that is closed does not wait; others do."""
        self.cache.cold = 500
        first, second = (self.file.read_ahead(400, 200) for _ in range(2))
        assert first is not None
        assert second is not None
        first.addErrback(lambda failure: None)
        first.cancel()
        for _ in range(2):
            self.begin.pop(0)()
        self.assertIsNone(self.successResultOf(second))

    def test_an_error(self) -> None:
        """Whoever waits gets it."""
        self.cache.cold = 500
        waiting = self.file.read_ahead(400, 200)
        assert waiting is not None
        with tempfile.TemporaryDirectory() as directory:
            descriptor = os.open(directory, os.O_RDONLY)
            os.dup2(descriptor, self.file.fileno())
            os.close(descriptor)
        self.begin.pop(0)()
        self.failureResultOf(waiting, OSError)

    def test_without_threads(self) -> None:
        """Nothing is asked."""
        file = WindowFile(os.dup(self.file.fileno()))
        self.assertIsNone(file.read_ahead(0, 10))
        self.assertFalse(file.is_cold(0, 10))
