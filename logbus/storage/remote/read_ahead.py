"""
Decides how far to read ahead of each reader. Pure.

A reader that is seen for the first time may have been the last of it: little is loaded behind what it gets. One that
reads on where it ended gets four times as much with each read. All of them together get half of the cache: in a cache
whose least recently used windows go first, what was just read takes as much room as what is next.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

from attrs import define, field

from logbus.storage.remote.chunk_table import WINDOW_BYTES

FIRST_BYTES = WINDOW_BYTES
MOST_BYTES = 16 * WINDOW_BYTES
"""Ahead of one reader: at 1 GB/s that is what comes in 64 ms, which is about as long as a store takes to begin."""

MOST_READERS = 1000

IDLE_SECONDS = 30.0
"""A reader that is not seen for so long is another one when it comes back."""


@define(eq=False)
class ReadAhead:
    """
    The readers of the remote logs of a broker.

    :ivar limit: bytes ahead of all of them together; each has one window at least.
    :ivar seconds: the time.
    """

    limit: int
    seconds: Callable[[], float]
    # By the offset where each reads on, those that were seen last at the end: bytes ahead, and when it was seen.
    _readers: OrderedDict[Hashable, tuple[int, float]] = field(factory=OrderedDict, init=False)
    _reading_on: int = field(default=0, init=False)

    def of_reader(self, log: Hashable, offset: int) -> int:
        """Bytes to load ahead of the reader that reads on at an offset; 0: nobody is known to."""
        size, _ = self._readers.get((log, offset), (0, 0.0))
        return self._share(size)

    def advance(self, log: Hashable, offset: int, next_offset: int) -> int:
        """A reader got what is at an offset: bytes to load ahead of it now, behind what it got."""
        now = self.seconds()
        while self._readers and next(iter(self._readers.values()))[1] < now - IDLE_SECONDS:
            self._forget(next(iter(self._readers)))
        before = self._forget((log, offset))
        size = min(4 * before, MOST_BYTES) if before else FIRST_BYTES
        # Of two that read the same, one is known.
        self._forget((log, next_offset))
        self._readers[log, next_offset] = size, now
        self._reading_on += size > FIRST_BYTES
        if len(self._readers) > MOST_READERS:
            self._forget(next(iter(self._readers)))
        return self._share(size)

    def _forget(self, key: Hashable) -> int:
        size, _ = self._readers.pop(key, (0, 0.0))
        self._reading_on -= size > FIRST_BYTES
        return size

    def _share(self, size: int) -> int:
        return min(size, max(FIRST_BYTES, self.limit // max(1, self._reading_on)))
