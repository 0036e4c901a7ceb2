"""
Bytes on their way out: in memory, or still in a file.

A fetch response is a list of parts. What is in memory is sent; what is a :class:`FileSlice` goes from the page cache
to the socket by ``sendfile`` without passing through Python.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Protocol, TypeAlias

from attrs import frozen


class HasFileno(Protocol):
    """
    An open file. It closes its descriptor when the last reference to it goes, so whoever holds a slice may go on
    reading after the file was unlinked.
    """

    def fileno(self) -> int:
        """The open descriptor."""


@frozen
class FileSlice:
    """
    A run of bytes of an open file.

    :ivar file: the open file; the slice keeps it open.
    :ivar position: where the run starts, in bytes from the start of the file.
    :ivar length: how many bytes it has.
    """

    file: HasFileno
    position: int
    length: int

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        """
        Read the whole run; the file's own position is neither used nor moved.

        :raises EOFError: the file ends before the slice does: it was truncated after the slice was made.
        :raises OSError: the read failed.
        """
        fd = self.file.fileno()
        data = os.pread(fd, self.length, self.position)
        if len(data) == self.length:
            return data
        # A signal, or the 2 GB that Linux moves at most in one call, cut the read short.
        chunks = [data]
        done = len(data)
        while done < self.length:
            data = os.pread(fd, self.length - done, self.position + done)
            if not data:
                raise EOFError(
                    f"the file ends at {self.position + done}, but the slice wants {self.length} bytes "
                    f"from {self.position}"
                )
            chunks.append(data)
            done += len(data)
        return b"".join(chunks)

    def narrow(self, start: int, length: int | None = None) -> FileSlice:
        """
        A part of this slice.

        :param start: bytes to skip from the front of this slice.
        :param length: bytes to keep after them; None keeps the rest.
        :raises ValueError: the part is not inside the slice.
        """
        if length is None:
            length = self.length - start
        if start < 0 or length < 0 or start + length > self.length:
            raise ValueError(f"{length} bytes from {start} are not inside a slice of {self.length} bytes")
        return FileSlice(self.file, self.position + start, length)


Part: TypeAlias = bytes | memoryview | FileSlice
"""One piece of an answer. Memory views are of single bytes (format ``B``)."""

Parts: TypeAlias = list[bytes | memoryview | FileSlice]
"""An answer, in the order in which its pieces are sent."""


def total_length(parts: Iterable[Part]) -> int:
    """How many bytes the parts have together; nothing is read."""
    return sum(map(len, parts))


def joined(parts: Iterable[Part]) -> bytes:
    """The parts as one string of bytes; slices of files are read, which may block."""
    return b"".join([part.read() if isinstance(part, FileSlice) else part for part in parts])
