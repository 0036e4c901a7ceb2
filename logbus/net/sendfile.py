"""
Sends responses that consist of bytes and slices of files to a socket: bytes by ``send``, slices by ``sendfile``,
straight from the page cache.

It does not wait for a disk: parts of a slice that are not in the page cache are loaded first; see
:mod:`logbus.net.cold_reads`. Connections without a socket to write to have :mod:`logbus.net.stream_transport`.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from collections.abc import Callable

from logbus.net.cold_reads import ColdReadGate
from logbus.net.metrics import NetMetrics
from logbus.portability import UNSUPPORTED
from logbus.records.file_slice import FileSlice, Part, Parts

TURN = 1 << 20
"""Bytes sent for one connection before others get their turn."""

MOST_FOR_THREAD = 4 * TURN
"""Bytes that a thread is given at once, or a turn's worth more; it has turns of its own."""

LEAST_FOR_THREAD = 1 << 17
"""Bytes that are worth a change of threads."""

_JOIN = 1 << 16
_COPY = 1 << 14
"""
Copying up to this many bytes of files costs less than a system call for each slice, and one for the bytes before it.
"""
_SMALL = 1 << 13
"""A slice of so many bytes is copied where others like it follow."""
_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)
# The file system does not support sendfile; reading may still work.
_CANNOT_SENDFILE = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})


class SliceTruncated(EOFError):
    """A file ended before the end of a slice that was announced to a peer."""


def _no_thread() -> None:
    """No thread is wanted."""


class SendQueue:
    """
    The replies to be sent on one non-blocking socket, in order.

    :param loaded: called when :attr:`waits_for_disk` ends.
    :param thread: returns what has a thread send the next parts of the queue, and tells whether it does; None: no
        thread is wanted. While one sends, nothing else is sent until :meth:`sent_by_thread`.
    :ivar unsent: bytes in the queue.
    """

    __slots__ = ("_away", "_gate", "_metrics", "_parts", "_thread", "unsent")

    def __init__(
        self,
        metrics: NetMetrics,
        loaded: Callable[[], None],
        thread: Callable[[], Callable[[Parts], bool] | None] = _no_thread,
    ) -> None:
        self.unsent = 0
        # Bytes that a thread was given.
        self._away = 0
        self._thread = thread
        self._gate = ColdReadGate(loaded, metrics)
        self._metrics = metrics
        self._parts: deque[Part] = deque()

    @property
    def is_away(self) -> bool:
        """Whether a thread sends."""
        return self._away > 0

    @property
    def waits_for_disk(self) -> bool:
        """Whether nothing can be sent until data is loaded from disk."""
        return self._gate.is_closed

    @property
    def waits(self) -> bool:
        """Whether nothing can be sent until data is loaded from disk, or a thread has sent what it was given."""
        return self.is_away or self.waits_for_disk

    def push(self, parts: list[Part]) -> None:
        """Add ``parts`` at the end; small neighbours are joined, and so are small slices that are cached."""
        small: list[bytes | bytearray | memoryview] = []
        copied = self.unsent
        for part in parts:
            size = len(part)
            self.unsent += size
            if isinstance(part, FileSlice):
                # Slices that wait for a slow peer stay in files.
                if copied + size <= _COPY and (data := read_now(part)) is not None:
                    copied += size
                    small.append(data)
                    continue
                if part.data is not None:
                    part = memoryview(part.data)
            elif size < _JOIN:
                small.append(part)
                continue
            if small:
                self._parts.append(b"".join(small))
                small = []
            if size:
                self._parts.append(part)
        if small and (joined := b"".join(small)):
            self._parts.append(joined)

    def count(self, sent: int) -> None:
        """Count bytes that went to the socket without being queued."""
        self._metrics.bytes_out += sent

    def clear(self) -> None:
        """Drop everything, including the references to files."""
        self._parts.clear()
        self._gate.clear()
        self.unsent = 0

    def flush(self, sock: socket.socket) -> None:
        """
        Send until the socket takes no more, a turn's worth is sent, or data must be loaded first.

        :raises SliceTruncated: a file is shorter than announced; the peer cannot be notified.
        :raises StorageError: a file cannot be read; its directory is offline.
        :raises OSError: the connection is broken, or a file cannot be read.
        """
        if self.is_away or (self.unsent >= LEAST_FOR_THREAD and self._hand_over()):
            return
        parts, left = self._parts, TURN
        while parts and left > 0:
            if len(parts) > 1:
                self._join_small()
            part = parts[0]
            size = len(part)
            if isinstance(part, FileSlice):
                # Not min(size, left): a slice of exactly a turn's worth must not be split because of its header.
                asked = self._gate.allowed(part, min(size, TURN))
                if not asked:
                    return
                sent = self._send_slice(sock, part, asked)
            else:
                asked = size
                try:
                    # Not with MSG_MORE: a peer that is woken by the head is ready for the records behind it.
                    sent = sock.send(part)
                except BlockingIOError:
                    sent = 0
            left -= sent
            self._advance(sent)
            if sent < asked:
                return

    def _join_small(self) -> None:
        """
        Replace the first parts by their bytes if several are small, as where a follower gets a little of many
        partitions: a system call for each, and one for the bytes before it, would cost more.
        """
        small: list[bytes | bytearray | memoryview] = []
        size = 0
        for part in self._parts:
            length = len(part)
            if length > _SMALL or size + length > _JOIN:
                break
            data = read_now(part) if isinstance(part, FileSlice) else part
            if data is None:
                break
            small.append(data)
            size += length
        if len(small) > 1:
            for _ in small:
                self._parts.popleft()
            self._parts.appendleft(b"".join(small))
            self._gate.next_part()

    def sent_by_thread(self, sent: int, error: OSError | None) -> None:
        """
        A thread has sent so many of the bytes that it was given.

        :raises SliceTruncated: as :meth:`flush`.
        :raises OSError: ``error``.
        """
        parts, missing = self._parts, self._away - sent
        self._away = 0
        if sent == self.unsent:
            # The usual case: all that there was.
            self._metrics.bytes_out += sent
            self.clear()
            return
        while sent:
            count = min(sent, len(parts[0]))
            self._advance(count)
            sent -= count
        if error is not None and error.errno in _CANNOT_SENDFILE:
            # Reads the file instead.
            self._thread = _no_thread
        elif error is not None:
            raise error
        elif missing:
            part = parts[0]
            assert isinstance(part, FileSlice)
            raise SliceTruncated(truncated(part))

    def _hand_over(self) -> bool:
        """Have a thread send the next parts, if one is wanted and they can be sent now."""
        submit = self._thread()
        if submit is None:
            return False
        run: Parts = []
        size = 0
        for part in self._parts:
            length = len(part)
            if isinstance(part, FileSlice):
                allowed = self._allowed(part, min(length, MOST_FOR_THREAD))
                if not allowed:
                    break
                if allowed < length:
                    run.append(part.narrow(0, allowed))
                    size += allowed
                    break
                self._gate.next_part()
            run.append(part)
            size += length
            if size >= MOST_FOR_THREAD:
                break
        if size < LEAST_FOR_THREAD or not submit(run):
            return False
        self._away = size
        return True

    def _allowed(self, part: FileSlice, most: int) -> int:
        """
        The number of the first ``most`` bytes of a slice that can be sent now: it is asked for a turn's worth at a
        time.
        """
        allowed = self._gate.allowed(part, min(most, TURN))
        while allowed and allowed < most:
            more = self._gate.allowed(part.narrow(allowed), min(most - allowed, TURN))
            if not more:
                break
            allowed += more
        return allowed

    def _advance(self, sent: int) -> None:
        """Count bytes that went to the socket, and remove them."""
        parts = self._parts
        part = parts[0]
        self.unsent -= sent
        self._metrics.bytes_out += sent
        if sent == len(part):
            parts.popleft()
            self._gate.next_part()
        elif sent:
            parts[0] = part.narrow(sent) if isinstance(part, FileSlice) else memoryview(part)[sent:]

    def _send_slice(self, sock: socket.socket, part: FileSlice, count: int) -> int:
        source = part.file.fileno()
        try:
            sent = os.sendfile(sock.fileno(), source, part.position, count)
        except BlockingIOError:
            return 0
        except OSError as e:
            if e.errno not in _CANNOT_SENDFILE:
                raise
            data = os.pread(source, min(count, _JOIN), part.position)
            if data:
                try:
                    return sock.send(data)
                except BlockingIOError:
                    return 0
            sent = 0
        if not sent:
            raise SliceTruncated(truncated(part))
        return sent


def read_now(part: FileSlice) -> bytes | bytearray | memoryview | None:
    """The bytes of a slice; None if they are not all in memory, or that is unknown."""
    if part.data is not None:
        return part.data
    if _NOWAIT is None:
        return None
    fd, data = part.file.fileno(), bytearray(part.length)
    try:
        try:
            count = os.preadv(fd, [data], part.position, _NOWAIT)
        except OSError as error:
            # A file system that cannot tell; there may be another way to know.
            is_cold: Callable[[int, int], bool | None] | None = getattr(part.file, "is_cold", None)
            if error.errno not in UNSUPPORTED or is_cold is None or is_cold(part.position, part.length) is not False:
                return None
            count = os.preadv(fd, [data], part.position)
    except OSError:
        # Sending it will report the error.
        return None
    return data if count == part.length else None


def small_bytes(parts: Parts, most: int) -> bytes | None:
    """These parts as one, if they are at most so many bytes, and in memory; None also if there are none."""
    size = 0
    found: list[bytes | bytearray | memoryview] = []
    for part in parts:
        size += len(part)
        if size > most:
            return None
        data = read_now(part) if isinstance(part, FileSlice) else part
        if data is None:
            return None
        found.append(data)
    if not size:
        return None
    return found[0] if len(found) == 1 and isinstance(found[0], bytes) else b"".join(found)


def truncated(part: FileSlice) -> str:
    """The error for a file that ends before the end of a slice."""
    return f"the file ends before {part.position}, but {part.length} bytes from there were promised: was it truncated?"
