"""A file of record batches with its offset index and time index (Kafka: FileRecords, OffsetIndex, TimeIndex)."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from logbus.errors import StorageError
from logbus.records.batch import HEADER_SIZE, MAGIC, BatchHeader
from logbus.storage import file_names
from logbus.storage.filesystem.file_cache import FileCache, LazyFile
from logbus.storage.istorage import IDisk
from logbus.storage.segments.header_scan import CHUNK, MAX_CHUNK, POSITION_FIELDS, scan_headers
from logbus.storage.segments.indexes import IndexCorrupt, OffsetIndex, TimeIndex


@define(eq=False, repr=False)
class IndexedFile:
    """
    The log file of one segment, and its two indexes.

    :ivar directory: the log's, relative to the disk's.
    :ivar base_offset: names the files.
    :ivar size: bytes of whole batches in the log file.
    :ivar max_timestamp: the largest timestamp of a batch in it, -1 without any.
    :ivar max_timestamp_offset: last offset of the first batch with that timestamp.
    :ivar suffix: of the file names while the segment is about to replace others; empty otherwise.
    :ivar first_timestamp: largest timestamp of its first batch, for rolling by age; -1 if unknown.
    :ivar indexed_size: bytes up to the end of the batch that the last index entry stands for.
    """

    disk: IDisk
    files: FileCache
    directory: str
    base_offset: int
    suffix: str = field(default="", kw_only=True)
    log: LazyFile = field(init=False)
    size: int = field(default=0, init=False)
    max_timestamp: int = field(default=-1, init=False)
    max_timestamp_offset: int = field(default=-1, init=False)
    first_timestamp: int = field(default=-1, init=False)
    indexed_size: int = field(default=0, init=False)
    _offsets: OffsetIndex | None = field(default=None, init=False)
    _times: TimeIndex | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.log = LazyFile(self.files, self.disk, self.path(file_names.LOG))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.log.path}: {self.size} bytes>"

    def modified_ms(self) -> int:
        """When the log file was last written to, ms since 1970."""
        return self.disk.modified_ns(self.log.path) // 1_000_000

    def first_ms(self) -> int:
        """The first timestamp; read from the file if unknown."""
        if self.first_timestamp < 0 and self.size:
            self.first_timestamp = next(self.batches(0))[1].max_timestamp
        return self.first_timestamp

    def path(self, suffix: str) -> str:
        """The path of one of the segment's files."""
        return f"{self.directory}/{self.base_offset:020d}{suffix}{self.suffix}"

    # -- Indexes

    @property
    def offsets(self) -> OffsetIndex:
        """The offset index; opened on first use."""
        if self._offsets is None:
            self._open_on_demand()
            assert self._offsets is not None
        return self._offsets

    @property
    def times(self) -> TimeIndex:
        """The time index; opened on first use."""
        if self._times is None:
            self._open_on_demand()
            assert self._times is not None
        return self._times

    def _open_on_demand(self) -> None:
        """What :attr:`offsets` and :attr:`times` do on first use."""
        self.open_indexes()

    def open_indexes(self) -> None:
        """
        Open the index files, without loading them.

        :raises IndexCorrupt: one is missing or damaged.
        """
        offsets, times = self._new_indexes()
        try:
            offsets.open(self.size)
            times.open()
        except BaseException:
            self._close_indexes()
            raise

    def _new_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Replace the index objects by new ones with nothing loaded."""
        self._close_indexes()
        self._offsets = OffsetIndex(LazyFile(self.files, self.disk, self.path(file_names.OFFSET_INDEX)))
        self._times = TimeIndex(LazyFile(self.files, self.disk, self.path(file_names.TIME_INDEX)))
        return self._offsets, self._times

    def _close_indexes(self) -> None:
        if self._offsets is not None:
            self._offsets.close()
            self._offsets = None
        if self._times is not None:
            self._times.close()
            self._times = None

    def begin_rebuild(self) -> None:
        """Drop the indexes, on disk too; :meth:`index` must be called for every batch then."""
        self._remove_indexes()
        offsets, times = self._new_indexes()
        offsets.start()
        times.start()
        self.indexed_size = 0
        self.max_timestamp = self.max_timestamp_offset = -1

    def _remove_indexes(self) -> None:
        for suffix in (file_names.OFFSET_INDEX, file_names.TIME_INDEX):
            self.disk.unlink(self.path(suffix))

    def take_indexes(self, fresh: IndexedFile) -> None:
        """Take over the indexes of ``fresh``, which were built from the whole log file."""
        self._close_indexes()
        self._remove_indexes()
        self._offsets, self._times, self.indexed_size = fresh.offsets, fresh.times, fresh.indexed_size
        self.max_timestamp, self.max_timestamp_offset = fresh.max_timestamp, fresh.max_timestamp_offset
        self.first_timestamp = fresh.first_timestamp

    def _index_entry(self, last_offset: int, position: int) -> None:
        self.offsets.append(last_offset - self.base_offset, position)
        self.indexed_size = position
        if self.max_timestamp >= 0:
            self.times.append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)

    def index(self, header: BatchHeader, position: int, interval: int) -> None:
        """
        Index a batch that is in the file.

        :param interval: bytes between index entries.
        """
        last_offset = header.base_offset + header.last_offset_delta
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
            self.max_timestamp_offset = last_offset
        if position - self.indexed_size > interval:
            self._index_entry(last_offset, position)
        elif not position:
            self.first_timestamp = header.max_timestamp

    # -- Batches

    def batches(self, position: int, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """
        Scan the headers from ``position``, where a batch begins: yields position and header of each batch.

        :param end: where to stop, in bytes; the file's size by default.
        :raises StorageError: something there is not a batch.
        """
        return scan_headers(self.log.get(), position, self.size if end is None else end, self.damaged)

    def damaged(self, position: int, what: str) -> StorageError:
        """The error for something at ``position`` that is not a batch."""
        return StorageError(f"{self.disk.root}/{self.log.path} is damaged at byte {position}: {what}")

    def search(self, offset: int) -> int:
        """
        The position of the first batch that has ``offset`` or a later one, by the index; the file's size without one.

        :raises IndexCorrupt: the index points at something else.
        :raises StorageError: something there is not a batch.
        """
        relative, position = self.offsets.floor(offset - self.base_offset)
        file, size, chunk = self.log.get(), self.size, CHUNK
        expected = self.base_offset + relative
        if relative < 0:
            expected = -1
        # Like batches(), reading only what is needed of each header.
        while position < size:
            data = file.pread(chunk, position)
            at, end = 0, min(len(data), size - position) - POSITION_FIELDS.size
            if end < 0:
                raise self.damaged(position, "the file ends in the middle of a batch header")
            while at <= end:
                base, length, magic, delta = POSITION_FIELDS.unpack_from(data, at)
                if expected >= 0:
                    if magic != MAGIC or base + delta != expected:
                        raise IndexCorrupt(f"entry ({relative}, {position}) points at something else")
                    expected = -1
                if magic != MAGIC or length < HEADER_SIZE - 12:
                    raise self.damaged(position + at, f"there is no record batch (magic {magic})")
                if delta < 0 or length + 12 > size - position - at:
                    # Skipping it would hide the damage from readers and followers.
                    raise self.damaged(position + at, f"a batch of {length + 12} bytes and {delta + 1} offsets")
                if base + delta >= offset:
                    return position + at
                at += length + 12
            position += at
            chunk = min(2 * chunk, MAX_CHUNK) if at < 2 * chunk else CHUNK
        return size
