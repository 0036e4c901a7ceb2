"""
Parts of a response: bytes in memory, and slices of files (Kafka: FileRecords.slice).

A fetch response is a list of parts. A :class:`FileSlice` goes from the page cache to the socket by ``sendfile``,
without passing through Python.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from typing import Final, Protocol, TypeAlias

from attrs import field, frozen


class HasFileno(Protocol):
    """
    An open file. It closes its descriptor with the last reference to it, so a slice can be read after the file was
    unlinked.
    """

    def fileno(self) -> int:
        """The open descriptor."""


@frozen
class BatchRange:
    """
    Whole batches of a segment, for who finds the end of each read by himself.

    :ivar base_offset: the segment's.
    :ivar file: the segment's log file; ``index``: its offset index, if it has entries.
    :ivar position: where the first of the batches begins, in bytes; ``end``: where the last one ends.
    :ivar entries: that the file of the index has.
    """

    base_offset: int
    file: HasFileno
    position: int
    end: int
    index: HasFileno | None
    entries: int


@frozen
class FileSlice:
    """
    A range of bytes of an open file.

    :ivar file: the open file; the slice keeps it open.
    :ivar position: start of the range, in bytes from the start of the file.
    :ivar length: in bytes.
    :ivar data: these bytes, if they are in memory: few that were read already, or those of a :data:`MEMORY` file.
    """

    file: HasFileno
    position: int
    length: int
    data: bytes | memoryview | None = field(default=None, eq=False, repr=False)

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        """
        Read the whole range; the file's own position is neither used nor moved.

        :raises EOFError: the file ends before the slice does: it was truncated after the slice was made.
        :raises OSError: the read failed.
        """
        if self.data is not None:
            return bytes(self.data)
        fd = self.file.fileno()
        data = os.pread(fd, self.length, self.position)
        if len(data) == self.length:
            return data
        # A signal, or Linux's limit of 2 GB per call, cut the read short.
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
        data = None if self.data is None else memoryview(self.data)[start : start + length]
        return FileSlice(self.file, self.position + start, length, data)


class _Memory:
    """The file of what is in memory only."""

    def fileno(self) -> int:
        """There is none."""
        raise OSError(errno.EBADF, "this slice is in memory, not in a file")


MEMORY: Final = _Memory()
"""The file of slices whose ``data`` is all that there is."""


Part: TypeAlias = bytes | memoryview | FileSlice
"""One part of a response. Memory views are of single bytes (format ``B``)."""

Parts: TypeAlias = list[bytes | memoryview | FileSlice]
"""The parts of a response, in order."""


def total_length(parts: Iterable[Part]) -> int:
    """The length of all parts, in bytes; nothing is read."""
    return sum(map(len, parts))


def joined(parts: Iterable[Part]) -> bytes:
    """The parts as one ``bytes``; reads slices of files, which may block."""
    return b"".join([part.read() if isinstance(part, FileSlice) else part for part in parts])


def in_memory(parts: Iterable[Part]) -> list[bytes | memoryview]:
    """The same parts, of which none is a slice; reads slices of files, which may block, and copies nothing else."""
    return [
        part if not isinstance(part, FileSlice) else part.read() if part.data is None else part.data for part in parts
    ]
