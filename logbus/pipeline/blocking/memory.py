"""
Memory that large answers are read into, and values copied to, again and again.

New memory costs more than what is read into it: the kernel clears each page, maps it, and takes it back. A piece is
used again once there is no view of it any more, which a ``bytearray`` knows itself: it cannot change its size before.
"""

from __future__ import annotations

import threading

from attrs import define, field

MOST_PIECES = 4
"""As many as one reader uses at a time: one is read into, two wait, one is decoded."""
LARGEST = 32 << 20
"""Bytes of a piece that is worth keeping: an answer is as large only because of a batch that is."""
_STEP = 1 << 16


@define(eq=False)
class Memory:
    """
    Pieces of memory, for the threads of a process.

    :ivar values: for columns, which look there themselves (:class:`logbus.records.columns.Columns`).
    """

    values: list[bytearray] = field(factory=list, init=False)
    _pieces: list[bytearray] = field(factory=list, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def take(self, size: int) -> memoryview:
        """So many bytes, with whatever is in them; they are the caller's until all views of them are gone."""
        if size > LARGEST:
            return memoryview(bytearray(size))
        with self._lock:
            free = [piece for piece in self._pieces if _is_free(piece)]
            for piece in free:
                if len(piece) >= size:
                    return memoryview(piece)[:size]
            if free:
                # It is too small, as others will be.
                self._pieces.remove(free[0])
            piece = bytearray(-(-size // _STEP) * _STEP)
            if len(self._pieces) < MOST_PIECES:
                self._pieces.append(piece)
            return memoryview(piece)[:size]


def _is_free(piece: bytearray) -> bool:
    try:
        piece.append(0)
    except BufferError:
        return False
    piece.pop()
    return True
