"""
Copies one segment to remote storage, and deletes one there. Blocks: for threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

from attrs import frozen

from logbus.errors import DecodeError, LogbusError
from logbus.records.batch import check_crc, iter_batches
from logbus.records.file_slice import HasFileno
from logbus.storage.remote import object_names
from logbus.storage.remote.chunk_table import CHUNK_BYTES, ChunkTable, first_batch_size, whole_batches
from logbus.storage.remote.iremote_storage import RemoteStorage
from logbus.storage.remote.remote_log_segment import RemoteLogSegment

_HEADER = 61


class SegmentDamaged(LogbusError):
    """The local segment is not made of whole batches with the right checksums: it is not copied."""


@frozen
class SegmentFiles:
    """
    The files of a segment to copy.

    :ivar log: the open file of its batches; ``size``: bytes of it.
    :ivar small: the other files' contents, by the suffix of the object.
    """

    log: HasFileno
    size: int
    small: Mapping[str, bytes]


def upload(storage: RemoteStorage, segment: RemoteLogSegment, files: SegmentFiles, spend: Callable[[int], None]) -> int:
    """
    Write a segment's objects; the batches last.

    :param spend: called with the bytes of each piece before it is written; may wait, and may raise to give up.
    :return: bytes written.
    :raise SegmentDamaged: the local file has something that is no intact batch; nothing was written.
    :raise RemoteStorageError: the store failed; some objects may be there.
    """
    table = ChunkTable()
    written = 0
    for chunk in _chunks(files.log, files.size):
        table.add(chunk)
    for suffix, data in {**files.small, object_names.CHUNKS: table.encode()}.items():
        spend(len(data))
        storage.write(object_names.name_of(segment, suffix), (data,))
        written += len(data)

    def parts() -> Iterator[bytes]:
        fd = files.log.fileno()
        for i, position in enumerate(table.positions):
            length = table.end(i) - position
            data = os.pread(fd, length, position)
            spend(length)
            if not table.is_intact(i, data):
                raise SegmentDamaged(f"{segment.partition}: the segment changed while it was copied")
            yield data

    storage.write(object_names.name_of(segment, object_names.LOG), parts())
    return written + files.size


def _chunks(log: HasFileno, size: int) -> Iterator[bytes]:
    """The chunks of a file of batches."""
    fd, position = log.fileno(), 0
    while position < size:
        data = os.pread(fd, min(2 * CHUNK_BYTES, size - position), position)
        try:
            length = whole_batches(data)
            if not length and len(data) >= _HEADER:
                length = first_batch_size(data)
                data = os.pread(fd, length, position) if length <= size - position else b""
        except DecodeError as problem:
            raise SegmentDamaged(f"at {position}: {problem}") from problem
        if not length or len(data) < length:
            raise SegmentDamaged(f"at {position}: the file ends within a batch")
        # The chunk's own checksum would hide from readers that a batch is damaged.
        chunk = data[:length]
        for at, header in iter_batches(chunk):
            if not check_crc(chunk, at, header):
                raise SegmentDamaged(f"at {position + at}: the CRC of the batch at {header.base_offset} does not match")
        yield chunk
        position += length


def delete(storage: RemoteStorage, segment: RemoteLogSegment) -> None:
    """
    Delete a segment's objects, in the reverse order of their writing.

    :raise RemoteStorageError: some may be left.
    """
    storage.delete(object_names.name_of(segment, suffix) for suffix in reversed(object_names.ALL))
