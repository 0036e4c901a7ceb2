"""
Splits a stream into frames, each preceded by its length in four bytes, big endian.

The buffer owns its memory: a transport receives into it (``recv_into``), and frames are parsed in place. Announced
lengths never make it grow: a length is checked against the limit first, memory is taken in steps as the bytes arrive,
and the owner of the buffer decides on each step.
"""

from __future__ import annotations

import mmap
import struct

from logbus.errors import FrameTooLarge
from logbus.wire.buffer_pool import BufferPool, mapped

PREFIX = 4
"""Bytes of the length before each frame."""

FLOOR = 4096
"""Bytes of a buffer at first, and after shrinking; a thousand idle connections take four megabytes."""

LARGE = 1 << 18
"""Bytes of a large buffer's memory, at least: it is mapped."""

_LARGE = 65536
_MOST_AT_ONCE = 1 << 20
_LEAST_STEP = 4096
_read_length = struct.Struct(">i").unpack_from

SPEAKS_HTTP = "the other side speaks HTTP"
_ALERT = 0x15
_HANDSHAKE = 0x16


def describe_bad_length(length: int, limit: int) -> str:
    """
    A description of an unacceptable frame length: other protocols are recognized by these four bytes.

    :param length: the four bytes as a signed number.
    :param limit: the largest length accepted, in bytes.
    """
    raw = length.to_bytes(4, "big", signed=True)
    if raw[0] in (_ALERT, _HANDSHAKE) and raw[1] == 3:
        what = "handshake" if raw[0] == _HANDSHAKE else "alert"
        return f"the first bytes are a TLS {what}: the other side speaks TLS, and this one plaintext"
    # A request's method, "HTTP/1.1", or a page without a head, as a server answers what is no request to it.
    if (raw.isalpha() and raw.isupper()) or raw in (b"GET ", b"PUT ") or raw[:2] == b"<!" or raw.lower() == b"<htm":
        return f"the first bytes are {raw.decode('latin-1')!r}: {SPEAKS_HTTP}"
    if length < 0:
        return f"a frame announces the negative length {length}"
    return f"a frame announces {length} bytes; at most {limit} are accepted"


class FrameBuffer:
    """
    Received bytes that are not consumed yet, and the frames among them.

    A frame is returned as a writable view of the buffer itself. **It is valid until the buffer is next filled,
    appended to or grown**; copy it to keep it longer.

    The memory is never resized while views of it may exist: growing and shrinking take new memory, and the old is freed
    with its last view.

    :param pool: has the memory of large frames; None: it is new for each, and not used again.
    :ivar limit: the longest frame accepted, in bytes without the prefix. A longer one is refused by its prefix alone.
    """

    __slots__ = ("_buffer", "_end", "_floor", "_pool", "_start", "_usable", "_view", "limit")

    def __init__(self, limit: int, floor: int = FLOOR, pool: BufferPool | None = None) -> None:
        self.limit = limit
        self._floor = floor
        self._pool = pool
        self._buffer: bytearray | mmap.mmap = _memory(floor, pool)
        self._view = memoryview(self._buffer)
        # Bytes from the beginning of the memory that may be filled. The rest of a large frame's memory is an address
        # range that the kernel has not backed yet.
        self._usable = floor
        self._start = 0
        self._end = 0

    @property
    def capacity(self) -> int:
        """Bytes of memory that may be used."""
        return self._usable

    @property
    def held(self) -> int:
        """Bytes received and not consumed yet."""
        return self._end - self._start

    @property
    def partial(self) -> bool:
        """Whether the buffer holds the beginning of a frame, but no whole one."""
        held = self._end - self._start
        return held > 0 and held < self._wanted()

    @property
    def lacks_large(self) -> bool:
        """Whether the buffer holds a part of a large frame, but not all of it."""
        wanted = self._wanted()
        return wanted >= LARGE and self._end - self._start < wanted

    @property
    def shortage(self) -> int:
        """
        Bytes of memory to add before more of the next frame can be received: one step, and no more than the frame
        needs; all of them if the pool has the memory. 0 while there is room, or while the frame's length is unknown.
        """
        usable = self._usable
        if self._end - self._start < usable:
            return 0
        wanted = self._wanted()
        if wanted <= usable:
            return 0
        lacking = _rounded(wanted) - usable
        if wanted >= LARGE and self._pool is not None and self._pool.fits(usable + lacking):
            return lacking
        return min(lacking, max(_LEAST_STEP, min(3 * usable, _MOST_AT_ONCE)))

    @property
    def missing(self) -> int:
        """Bytes of the next frame not received yet; 0 while its length is unknown."""
        held = self._end - self._start
        return max(0, self._wanted() - held) if held >= PREFIX else 0

    def room(self) -> memoryview:
        """The memory to receive into; empty when the buffer is full. Call :meth:`filled` with the number of bytes."""
        start, end, capacity = self._start, self._end, self._usable
        if start == end:
            self._start = self._end = 0
            if capacity == len(self._buffer) and capacity <= _MOST_AT_ONCE:
                return self._view
            return self._view[: min(capacity, _MOST_AT_ONCE)]
        wanted = self._wanted()
        if start and (start + wanted > capacity or end == capacity):
            held = end - start
            self._view[:held] = self._view[start:end]
            self._start = start = 0
            self._end = end = held
        # Receive no bytes beyond a large frame: they would have to be moved to the front.
        stop = start + wanted if wanted > _LARGE and wanted > end - start else capacity
        return self._view[end : min(stop, capacity, end + _MOST_AT_ONCE)]

    def filled(self, count: int) -> None:
        """Count ``count`` bytes at the beginning of the last :meth:`room` as received."""
        self._end += count

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes from other memory, growing as needed."""
        size = len(data)
        if self._end + size > self._usable:
            held = self._end - self._start
            if held + size > self._usable:
                self._enlarge(_rounded(held + size))
            if self._end + size > self._usable:
                self._view[:held] = self._view[self._start : self._end]
                self._start, self._end = 0, held
        self._view[self._end : self._end + size] = data
        self._end += size

    def next_frame(self) -> memoryview | None:
        """
        The oldest whole frame, without its prefix, or None.

        :raises FrameTooLarge: the stream cannot be resynchronised; close the connection.
        """
        start = self._start
        held = self._end - start
        if held < PREFIX:
            return None
        length: int = _read_length(self._buffer, start)[0]
        if not 0 <= length <= self.limit:
            raise FrameTooLarge(describe_bad_length(length, self.limit))
        start += PREFIX
        stop = start + length
        if stop > self._end:
            return None
        self._start = stop
        return self._view[start:stop]

    @property
    def contents(self) -> tuple[bytearray | mmap.mmap, memoryview, int, int]:
        """
        The memory, a view of it, and the range of unconsumed bytes in it: for reading several frames at once. Call
        :meth:`consume` afterwards.
        """
        return self._buffer, self._view, self._start, self._end

    def consume(self, count: int) -> None:
        """Consume ``count`` bytes, prefixes included."""
        self._start += count

    def grow(self, size: int = 0) -> int:
        """
        Add the next step of memory for the next frame, and at least ``size`` bytes in all.

        :returns: the bytes of memory added.
        :raises OSError: the system has no memory, or no address range left.
        """
        before = self._usable
        target = max(before + self.shortage, size)
        if target > before:
            self._enlarge(target)
        return self._usable - before

    def detach_frames(self) -> None:
        """Move unconsumed bytes to other memory, so that frames returned before stay valid."""
        size = max(self._floor, _rounded(self.held))
        self._move_to(size, size)

    def shrink(self) -> int:
        """
        Release unneeded memory; the content of a large buffer is not moved.

        :returns: the bytes of memory released.
        """
        before, held = self._usable, self._end - self._start
        target = max(self._floor, _rounded(held + 1)) if held else self._floor
        if target < before and (not held or (held <= _LARGE and target <= before // 2)):
            self._move_to(target, target)
        return before - self._usable

    def give_back(self) -> int:
        """
        Give a large buffer without content back to the pool, unless there are views of it.

        :returns: the bytes of memory released.
        """
        before, buffer = self._usable, self._buffer
        if self._start != self._end or self._pool is None or not isinstance(buffer, mmap.mmap):
            return 0
        try:
            self._view.release()
        except BufferError:
            return 0  # It is in use as a whole.
        if not self._pool.give_back(buffer):
            self._view = memoryview(buffer)
            return 0
        self._move_to(self._floor, self._floor)
        return before - self._usable

    def clear(self) -> None:
        """Release all memory, with what was received: nothing more is. Frames returned before stay valid."""
        self._start = self._end = 0
        self.give_back()
        self._move_to(0, 0)

    def _wanted(self) -> int:
        """Bytes of the next frame with its prefix, as far as known. Never more than the limit allows."""
        if self._end - self._start < PREFIX:
            return PREFIX
        length: int = _read_length(self._buffer, self._start)[0]
        return PREFIX + length if 0 <= length <= self.limit else PREFIX

    def _enlarge(self, target: int) -> None:
        """Have ``target`` usable bytes, moving to other memory only if this is too small."""
        if target > len(self._buffer):
            # Once part of a frame has arrived, reserve its whole address range, so that it is not moved again.
            self._move_to(target if target < LARGE else max(target, _rounded(self._wanted())), target)
        self._usable = target

    def _move_to(self, size: int, usable: int) -> None:
        """Have other memory, of at least ``size`` bytes."""
        buffer, held = _memory(size, self._pool), self._end - self._start
        view = memoryview(buffer)
        if held:
            view[:held] = self._view[self._start : self._end]
        self._buffer, self._view, self._usable = buffer, view, usable
        self._start, self._end = 0, held


def _memory(size: int, pool: BufferPool | None) -> bytearray | mmap.mmap:
    """
    Memory of at least ``size`` bytes. The kernel provides much memory page by page as it is used: bytes of a frame that
    do not arrive cost address space only, and nothing is set to zero in advance.
    """
    if size < LARGE:
        return bytearray(size)
    return mapped(size) if pool is None else pool.take(size)


def _rounded(size: int) -> int:
    """``size`` rounded up by at most an eighth, so that frames of similar sizes share one growth."""
    step = max(FLOOR, 1 << max(0, size.bit_length() - 4))
    return -(-size // step) * step
