"""
Reusable buffers for large responses, whose values stay in them, and for the values of others.

New memory costs more than reading into it: the kernel clears, maps and unmaps each page. A buffer is reused once no
``memoryview`` of it is left. A ``bytearray`` can tell: it cannot be resized while there is one.
"""

from __future__ import annotations

import threading

from attrs import define, field

MAX_BUFFERS = 5
"""As many as one reader uses at a time: one is read into, two wait, one is decoded, one was sent just now."""
MAX_KEPT_BYTES = 32 << 20
"""Bytes of the largest buffer that is kept: only a response with one huge batch is larger."""
_STEP = 1 << 16


@define(eq=False)
class ReceiveBuffers:
    """
    The buffers of a process, shared by its threads.

    :ivar values: buffers that :class:`logbus.records.batch_columns.Columns` reuses by itself.
    """

    values: list[bytearray] = field(factory=list, init=False)
    _buffers: list[bytearray] = field(factory=list, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def take(self, size: int) -> memoryview:
        """A buffer of ``size`` bytes, not cleared; it is the caller's until all views of it are gone."""
        if size > MAX_KEPT_BYTES:
            return memoryview(bytearray(size))
        with self._lock:
            free = [buffer for buffer in self._buffers if _is_free(buffer)]
            for buffer in free:
                if len(buffer) >= size:
                    return memoryview(buffer)[:size]
            if free:
                # Replace one that is too small.
                self._buffers.remove(free[0])
            buffer = bytearray(-(-size // _STEP) * _STEP)
            if len(self._buffers) < MAX_BUFFERS:
                self._buffers.append(buffer)
            return memoryview(buffer)[:size]


def _is_free(buffer: bytearray) -> bool:
    try:
        buffer.append(0)
    except BufferError:
        return False
    buffer.pop()
    return True
