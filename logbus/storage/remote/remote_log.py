"""
The remote part of one partition's log, as its readers and its retention see it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter

from attrs import define, field

from logbus.errors import ApiError, DecodeError, ErrorCode
from logbus.model import NO_EPOCH, TopicPartition
from logbus.records.file_slice import FileSlice
from logbus.storage.remote import object_names
from logbus.storage.remote.remote_log_index import RemoteLogIndex
from logbus.storage.remote.remote_log_segment import EpochStarts, RemoteLogSegment, epoch_at
from logbus.storage.remote.remote_reader import NotFetched, RemoteReader
from logbus.storage.segments.transaction_index import ENTRY, VERSION, AbortedTransaction

_SEGMENTS_AHEAD = 8
"""Of small segments, so many are loaded ahead at most."""

_FIRST_OFFSET = attrgetter("first_offset")


@define(eq=False, repr=False)
class RemoteLog:
    """
    The remote part of a log.

    :ivar index: the partition's segments in remote storage.
    :ivar reader: reads them.
    :ivar is_loaded: whether all of the partition's metadata has been read: an offset that is not in the index is gone.
    :ivar copied_end: all that is local up to here is in remote storage, and before that, unless something was lost, all
        from the log start offset on; 0: nothing is known.
    """

    partition: TopicPartition
    index: RemoteLogIndex
    reader: RemoteReader
    is_loaded: bool = field(default=False, init=False)
    copied_end: int = field(default=0, init=False)

    def read(
        self, offset: int, max_bytes: int, bound: int, min_one: bool, epochs: EpochStarts
    ) -> tuple[FileSlice, int] | None:
        """
        Whole batches from ``offset`` on, within one segment, and the offset after them; see :meth:`.RemoteReader.read`.

        :param epochs: the log's leader epochs.
        :return: None: there is nothing for now.
        :raise ApiError: KAFKA_STORAGE_ERROR; OFFSET_OUT_OF_RANGE: remote storage has no such offset.
        """
        at = offset
        while (segment := self._segment(at, epochs)) is not None:
            end = segment.agrees_up_to(epochs, at)
            try:
                found = self.reader.read(segment, at, max_bytes, min(bound, end), min_one)
            except NotFetched:
                # What is missing is loaded first, and what is behind it beside it.
                self._read_ahead(segment, at, self.reader.ahead.of_reader(self.partition, offset), epochs)
                raise
            if found is None:
                return None
            data, next_offset = found
            if data is not None:
                size = self.reader.ahead.advance(self.partition, offset, next_offset)
                self._read_ahead(segment, next_offset, size, epochs)
                return data, next_offset
            at = end
            if at >= bound:
                return None
        raise ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"{self.partition}: offset {at} is neither local nor in remote storage"
        )

    def _segment(self, offset: int, epochs: EpochStarts) -> RemoteLogSegment | None:
        segment = self.index.segment_at(offset, epoch_at(epochs, offset))
        if segment is None:
            self.check_loaded()
        return segment

    def check_loaded(self) -> None:
        """
        Check that no segment is unknown.

        :raise ApiError: KAFKA_STORAGE_ERROR.
        """
        if not self.is_loaded:
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{self.partition}: the metadata of remote storage is being loaded"
            )

    def _read_ahead(self, segment: RemoteLogSegment, offset: int, size: int, epochs: EpochStarts) -> None:
        """Have the windows from an offset on loaded, so many bytes of them: of later segments as well."""
        if size <= 0:
            return
        for _ in range(_SEGMENTS_AHEAD):
            size = self.reader.load_ahead(segment, offset, size)
            offset = segment.end_offset
            following = self.index.segment_at(offset, epoch_at(epochs, offset))
            if size <= 0 or following is None:
                return
            segment = following

    def aborted_transactions(
        self, first_offset: int, end_offset: int, epochs: EpochStarts
    ) -> tuple[Sequence[AbortedTransaction], bool]:
        """
        The aborted transactions with records from ``first_offset`` on and below ``end_offset`` whose markers are in
        remote storage, by first offset; and whether later segments have no more of them.

        :raise NotFetched: an index must be loaded first.
        :raise ApiError: KAFKA_STORAGE_ERROR.
        """
        # The marker of a transaction may be in a segment that is not known yet.
        self.check_loaded()
        found: set[AbortedTransaction] = set()
        is_complete = False
        for segment in self.index.with_aborted:
            if segment.end_offset <= first_offset:
                continue
            entries = self.reader.small(segment, object_names.TRANSACTION_INDEX, decode_aborted)
            if entries is None:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.partition}: remote storage is slow")
            for entry in entries:
                at = entry.last_offset
                if at < first_offset or epoch_at(epochs, at) not in (NO_EPOCH, segment.epoch_at(at)):
                    continue
                if entry.first_offset < end_offset:
                    found.add(entry)
                if entry.last_stable_offset >= end_offset:
                    is_complete = True
                    break
            if is_complete:
                break
        return sorted(found, key=_FIRST_OFFSET), is_complete


def decode_aborted(data: bytes) -> tuple[AbortedTransaction, ...]:
    """
    Read a transaction index.

    :raise DecodeError: it is damaged.
    """
    if len(data) % ENTRY.size:
        raise DecodeError(f"{len(data)} bytes are no transaction index")
    found = []
    for version, *fields in ENTRY.iter_unpack(data):
        if version != VERSION:
            raise DecodeError(f"an entry of a transaction index has version {version}; we know {VERSION}")
        found.append(AbortedTransaction(*fields))
    return tuple(found)


def merged(first: Iterable[AbortedTransaction], second: Iterable[AbortedTransaction]) -> Sequence[AbortedTransaction]:
    """Aborted transactions of two parts of a log, each once, by first offset."""
    return sorted({*first, *second}, key=_FIRST_OFFSET)
