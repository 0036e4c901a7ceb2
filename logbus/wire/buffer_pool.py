"""
Memory for large frames that connections use in turn (Kafka: MemoryPool).

What was used just now is in the processor's caches, and the kernel has pages for it: it is cheaper to receive into than
memory that a connection has kept since its last frame, and much cheaper than new memory.
"""

from __future__ import annotations

import mmap

from attrs import define, field

SIZE = 2 << 20
"""Bytes of address range of a buffer; the kernel backs what was used of them. Producers' requests are up to 1 MB."""

MOST = 128
"""Free buffers, at most: each of a hundred senders may have sent a part of a frame, and new memory costs more."""

KEEPERS = 8
"""Connections that may keep a large buffer of their own between two frames."""


@define(eq=False)
class BufferPool:
    """
    Buffers that are free: no more than were in use at a time in the last second or two, and :data:`MOST`. Those in use
    count to the memory of their connections.

    :ivar keepers: connections that keep a large buffer.
    """

    keepers: int = field(default=0, init=False)
    _free: list[mmap.mmap] = field(factory=list, init=False)
    # The fewest that were free since the pool was trimmed.
    _fewest: int = field(default=0, init=False)

    def fits(self, size: int) -> bool:
        """Whether there is a free buffer of at least ``size`` bytes."""
        return size <= SIZE and bool(self._free)

    def take(self, size: int) -> mmap.mmap:
        """
        A buffer of at least ``size`` bytes: if it is free, the one that was used last. Its content is undefined.

        :raises OSError: the system has no memory, or no address range left.
        """
        if not self.fits(size):
            return mapped(max(size, SIZE))
        buffer = self._free.pop()
        self._fewest = min(self._fewest, len(self._free))
        return buffer

    def give_back(self, buffer: mmap.mmap) -> bool:
        """
        Take back a buffer; if there are enough, its memory is the system's again.

        :returns: False if it is none of the pool's, or there are views of it.
        """
        if len(buffer) != SIZE:
            return False
        try:
            # Changes nothing, and fails while there are views.
            buffer.resize(SIZE)
        except (BufferError, OSError, SystemError):
            return False
        if len(self._free) < MOST:
            self._free.append(buffer)
        return True

    def trim(self) -> None:
        """Release the buffers that were not needed since this was called last; call it each second."""
        del self._free[: self._fewest]
        self._fewest = len(self._free)


def mapped(size: int) -> mmap.mmap:
    """
    ``size`` zeroes, which the kernel provides page by page as they are used.

    :raises OSError: the system has no memory, or no address range left.
    """
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
