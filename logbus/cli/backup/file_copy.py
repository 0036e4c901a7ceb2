"""
Copies files, or gives those of an earlier copy another name.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from attrs import define, field

from logbus.portability import UNSUPPORTED

CHUNK = 8 << 20


@define(eq=False)
class FileCopy:
    """
    Copies files, and counts.

    :ivar shown: called with the bytes that were copied or linked so far.
    :ivar copied: bytes that were copied; ``linked``: of files that an earlier backup has, too.
    """

    shown: Callable[[int], object] = lambda done: None
    copied: int = field(default=0, init=False)
    linked: int = field(default=0, init=False)

    def copy(self, source: Path, target: Path, size: int, earlier: Path | None = None) -> None:
        """
        Copy the first bytes of a file, with its time.

        :param earlier: a file that is linked instead if it is of the same size and time.
        :raise OSError: it cannot be read or written.
        :raise EOFError: the file is shorter.
        """
        with source.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_size < size:
                raise EOFError(f"{source} has {status.st_size} bytes of {size}")
            if status.st_size == size and earlier is not None and _link(earlier, target, status):
                self.linked += size
            else:
                self._copy(file.fileno(), target, size)
                os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
        self.shown(self.copied + self.linked)

    def _copy(self, source: int, target: Path, size: int) -> None:
        with target.open("xb") as file:
            done = 0
            while done < size:
                try:
                    sent = _send(file.fileno(), source, done, min(CHUNK, size - done))
                except OSError as e:
                    e.filename = str(target)
                    raise
                if not sent:
                    raise EOFError(f"{target}: {done} bytes of {size} could be read")
                done += sent
                self.copied += sent
                self.shown(self.copied + self.linked)


def _send(target: int, source: int, position: int, length: int) -> int:
    """Copy bytes to the end of a file; returns how many."""
    try:
        return os.sendfile(target, source, position, length)
    except OSError as error:
        # Other systems than Linux send to sockets only.
        if error.errno not in UNSUPPORTED:
            raise
    return os.write(target, os.pread(source, length, position))


def _link(earlier: Path, target: Path, status: os.stat_result) -> bool:
    try:
        there = earlier.stat()
        if (there.st_size, there.st_mtime_ns) != (status.st_size, status.st_mtime_ns):
            return False
        os.link(earlier, target)
    except OSError:  # It is not there, or its file system is another one, or has no links.
        return False
    return True
