"""Reads lines from standard input without blocking."""

from __future__ import annotations

import os
import sys
from typing import Any

from twisted.internet.defer import Deferred

_READ = 1 << 18

LONGEST = 100 << 20
"""Bytes of a line: a request that a broker takes is no longer (``socket.request.max.bytes``)."""


class LineTooLong(Exception):
    """A line is longer than any record can be."""


class LineReader:
    """Reads lines from a file descriptor on the reactor (IReadDescriptor): a file, a pipe or a terminal."""

    def __init__(self, reactor: Any, fd: int | None = None) -> None:
        self._reactor = reactor
        self._fd = sys.stdin.fileno() if fd is None else fd
        self._rest: list[bytes] = []
        self._rest_size = self._read = 0
        self._ended = False
        self._waiting: Deferred[bytes] | None = None

    # IReadDescriptor.

    def fileno(self) -> int:
        return self._fd

    def logPrefix(self) -> str:
        return "stdin"

    def doRead(self) -> None:
        self._reactor.removeReader(self)
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            try:
                waiting.callback(os.read(self._fd, _READ))
            except OSError as e:
                e.filename = "standard input"
                waiting.errback()

    def connectionLost(self, reason: object) -> None:
        self.stop()

    # For the command.

    async def more(self) -> list[bytes] | None:
        """
        Wait for at least one line, and return all that are available; None at the end.

        :raise LineTooLong: the next line is longer than :data:`LONGEST`.
        """
        while not self._ended:
            arrived: Deferred[bytes] = Deferred(self._cancelled)
            self._waiting = arrived
            self._reactor.addReader(self)
            data = await arrived
            if not data:
                self._ended = True
                last = b"".join(self._rest)
                return [last] if last else None
            head, newline, tail = data.rpartition(b"\n")
            if not newline:
                self._rest.append(tail)
                self._rest_size += len(tail)
                if self._rest_size > LONGEST:
                    raise LineTooLong(f"line {self._read + 1} is longer than {LONGEST:,} bytes")
                continue
            lines = b"".join((*self._rest, head)).split(b"\n")
            self._rest, self._rest_size = ([tail] if tail else []), len(tail)
            self._read += len(lines)
            return lines
        return None

    def _cancelled(self, _: object) -> None:
        self._waiting = None
        self._reactor.removeReader(self)

    def stop(self) -> None:
        """Stop reading; a waiting :meth:`more` returns None."""
        self._ended = True
        self._reactor.removeReader(self)
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.callback(b"")
