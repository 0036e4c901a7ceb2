"""
Work done for a batch before it is appended.

A large batch's records are written, where they will be if it is appended next.

Only the few bytes before them, the prefix, depend on what is known at the append. Until these are written, nothing
finds the batch: readers and indexes know the segment's end, and recovery cuts a file where no batch begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from attrs import frozen
from twisted.internet.defer import Deferred

from logbus.config.topic_config import TopicConfig
from logbus.records.batch import BatchHeader
from logbus.records.checksum import Buffer
from logbus.records.header import PREFIX_SIZE
from logbus.storage.istorage import IDisk, IFile, IWriteAhead


@frozen(eq=False)
class BatchAhead:
    """
    The batch, and the write of its records.

    :ivar position: the segment's end when that began.
    """

    file: IFile
    position: int
    batch: Buffer
    _write: IWriteAhead

    @classmethod
    def begin(cls, disk: IDisk, file: IFile, position: int, batch: Buffer) -> Self | None:
        """Begin to write; None: the disk does not do that."""
        write = disk.write_ahead(file, position + PREFIX_SIZE, memoryview(batch)[PREFIX_SIZE:])
        return None if write is None else cls(file, position, batch, write)

    @property
    def over(self) -> Deferred[None]:
        """Fires on the reactor thread when its records are written, or could not be."""
        return self._write.over

    def left_to_write(self, position: int, parts: Sequence[Buffer], batch: Buffer | None) -> Sequence[Buffer]:
        """
        What is still to be written of ``parts``, at the segment's end; the rest is in the file. If they are not of this
        batch, its records are removed.

        :param batch: what the last part has the records of, as the same object; None: none.
        :raises StorageError: they cannot be removed; the disk is offline.
        """
        if self._write.finish() and batch is self.batch and position == self.position:
            return parts[:-1]
        self.file.truncate(position)
        return parts

    def remove(self, size: int) -> None:
        """
        Remove the records again.

        :param size: of the segment.
        :raises StorageError: that failed; the disk is offline.
        """
        self._write.finish()
        self.file.truncate(size)


@frozen(eq=False)
class RecompressedAhead:
    """
    A batch that was rewritten before it is appended.

    :ivar batch: as it came, the same object.
    :ivar config: the topic's settings at that time.
    """

    batch: Buffer
    config: TopicConfig
    data: Buffer
    header: BatchHeader
