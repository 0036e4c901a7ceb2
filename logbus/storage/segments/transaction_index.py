"""
The index of a segment's aborted transactions, ``<base offset>.txnindex``, in Kafka's format (Kafka: TransactionIndex).

Fetch responses name the aborted transactions in their range, so that read_committed consumers skip their batches. An
entry is in the segment that has the marker; the transaction may have begun in an earlier one. A segment without aborted
transactions has no file.

::

    entry: version int16 | producer_id int64 | first_offset int64 | last_offset int64 | last_stable_offset int64

``last_offset`` is the marker's. All transactions that began below ``last_stable_offset`` had ended when the marker was
written: a search for transactions that began before some offset can stop at an entry with a higher one. Both increase.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from attrs import define, field

from logbus.records.batch import BatchHeader
from logbus.storage.filesystem.file_cache import LazyFile
from logbus.storage.istorage import IDisk
from logbus.storage.segments.indexes import IndexCorrupt

VERSION = 0
_BLOCK = 128
"""Entries read at once."""

ENTRY = Struct(">hqqqq")
ENTRY_SIZE = ENTRY.size
_last_offset = Struct(">q").unpack_from
_LAST_AT = 18


class AbortedTransaction(NamedTuple):
    """
    One aborted transaction.

    :ivar first_offset: of its first record.
    :ivar last_offset: of its marker.
    :ivar last_stable_offset: all transactions that began below it had ended by then.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class AbortedTransactionSet:
    """The aborted transactions of an offset range, for lookups batch by batch."""

    __slots__ = ("_by_producer",)

    def __init__(self, entries: Iterable[AbortedTransaction] = ()) -> None:
        self._by_producer: dict[int, list[AbortedTransaction]] = {}
        for entry in entries:
            self._by_producer.setdefault(entry.producer_id, []).append(entry)

    def of(self, header: BatchHeader) -> AbortedTransaction | None:
        """The aborted transaction that a batch belongs to, if any."""
        if header.transactional:
            for entry in self._by_producer.get(header.producer_id, ()):
                if entry.first_offset <= header.base_offset <= entry.last_offset:
                    return entry
        return None


def encode(entries: Iterable[AbortedTransaction]) -> bytes:
    """The content of an index file."""
    return b"".join(ENTRY.pack(VERSION, *entry) for entry in entries)


@define(eq=False)
class TransactionIndex:
    """
    The index of one segment. New entries stay in memory until the segment's other indexes are written.

    :ivar count: entries, in the file and not yet written to it.
    :ivar last_offset: of the last entry, −1 without any.
    :ivar unsynced_from: the file's entries for offsets from here on may not be on stable storage; None: all are.
    """

    _disk: IDisk
    _file: LazyFile
    _base_offset: int
    _exists: bool = field(default=False, init=False)
    _waiting: bytearray = field(factory=bytearray, init=False)
    _written: int = field(default=0, init=False)
    count: int = field(default=0, init=False)
    last_offset: int = field(default=-1, init=False)
    unsynced_from: int | None = field(default=None, init=False)

    def open(self) -> None:
        """
        Open the file, if there is one; only its size and its last entry are checked.

        :raises IndexCorrupt: it is damaged.
        """
        try:
            size = self._file.get().size()
        except FileNotFoundError:
            return
        self._exists = True
        if size % ENTRY_SIZE:
            raise IndexCorrupt(f"its {size} bytes are not a multiple of {ENTRY_SIZE}")
        self._written = self.count = size // ENTRY_SIZE
        self._look_at_last()

    def check(self, end_offset: int | None) -> None:
        """
        Check every entry.

        :param end_offset: where the segment ends, if known.
        :raises IndexCorrupt: an entry is invalid.
        """
        last = -1
        for entry in self.entries():
            if entry.last_offset <= last:
                raise IndexCorrupt(f"a marker at offset {entry.last_offset} does not lie behind {last}")
            last = entry.last_offset
        if end_offset is not None and last >= end_offset:
            raise IndexCorrupt(f"a marker at offset {last} lies behind the segment's end {end_offset}")

    def start(self) -> None:
        """Begin an empty index, without a file."""
        self._file.close()
        self._file.pinned = False
        if self._disk.exists(self._file.path):
            self._disk.unlink(self._file.path)
        self._exists = False
        self._waiting = bytearray()
        self._written = self.count = 0
        self.last_offset = -1

    def _look_at_last(self) -> None:
        self.last_offset = -1
        for entry in self.entries(self.count - 1):
            self.last_offset = entry.last_offset

    # -- Writing

    def append(self, entry: AbortedTransaction) -> None:
        """Add an entry, in memory. Its marker is behind those of all others."""
        self._waiting += ENTRY.pack(VERSION, *entry)
        self.count += 1
        self.last_offset = entry.last_offset
        if self.unsynced_from is None:
            self.unsynced_from = entry.last_offset

    def cut(self, offset: int) -> None:
        """
        Drop the entries whose markers are at ``offset`` or behind it.

        :raises IndexCorrupt: an entry is invalid.
        """
        kept, _ = self._search(offset)
        if kept == self.count:
            return
        if kept < self._written:
            self._waiting.clear()
            self._file.get().truncate(kept * ENTRY_SIZE)
            self._file.pinned = True
            self._written = kept
        else:
            del self._waiting[(kept - self._written) * ENTRY_SIZE :]
        self.count = kept
        self._look_at_last()
        if self.unsynced_from is None or self.unsynced_from > offset:
            # A crash must not bring them back once other batches have replaced them.
            self.unsynced_from = offset

    def save(self, always: bool = False) -> LazyFile | None:
        """
        Write new entries to the file.

        :param always: make a file even if the index is empty.
        :returns: the file, if there is one to be synced.
        :raises ApiError: there is no space; all stays as it is.
        """
        if self._waiting or (always and not self._exists):
            file = self._file.create()
            self._exists = self._file.pinned = True
            file.write(self._written * ENTRY_SIZE, (bytes(self._waiting),))
            self._written = self.count
            self._waiting.clear()
        return self._file if self._exists and (always or self.unsynced_from is not None) else None

    def synced(self, count: int) -> None:
        """
        Record that saved entries are on stable storage.

        :param count: the number of entries when they were saved; none was dropped since.
        """
        self.unsynced_from = None
        for entry in self.entries(count):
            self.unsynced_from = entry.last_offset
            break
        self._file.pinned = self._written > count

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    # -- Reading

    def entries(self, start: int = 0) -> Iterator[AbortedTransaction]:
        """
        The entries from position ``start`` on.

        :raises IndexCorrupt: an entry is invalid.
        """
        i = max(start, 0)
        while i < self.count:
            data = self._read(i, min(i + _BLOCK, self.count))
            for at in range(0, len(data), ENTRY_SIZE):
                yield self._entry(data, at)
            i += _BLOCK

    def _read(self, start: int, end: int) -> bytes:
        """The entries at positions from ``start`` on and below ``end``, in the file or not yet written."""
        written, data = self._written, b""
        if start < written:
            in_file = min(end, written)
            data = self._file.get().pread((in_file - start) * ENTRY_SIZE, start * ENTRY_SIZE)
            if len(data) < (in_file - start) * ENTRY_SIZE:
                raise IndexCorrupt(f"it ends before entry {in_file - 1} of {self.count}")
        if end > written:
            data += self._waiting[max(start - written, 0) * ENTRY_SIZE : (end - written) * ENTRY_SIZE]
        return data

    def _entry(self, data: bytes, at: int) -> AbortedTransaction:
        version, producer_id, first, last, stable = ENTRY.unpack_from(data, at)
        if version != VERSION or not 0 <= first <= last >= self._base_offset:
            raise IndexCorrupt(f"an entry cannot be: version {version}, of {producer_id}, offsets {first} to {last}")
        return AbortedTransaction(producer_id, first, last, stable)

    def overlapping(self, first_offset: int, end_offset: int, found: list[AbortedTransaction]) -> bool:
        """
        Collect the transactions with offsets from ``first_offset`` on and below ``end_offset``.

        :param found: gets them, in the order of their markers.
        :returns: whether later segments have no more of them.
        :raises IndexCorrupt: an entry is invalid.
        """
        if first_offset > self.last_offset:
            return False
        for entry in self.ending_from(first_offset):
            if entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                return True
        return False

    def ending_from(self, offset: int) -> Iterator[AbortedTransaction]:
        """
        The transactions whose markers are at an offset or behind it.

        :raises IndexCorrupt: an entry is invalid.
        """
        position, following = self._search(offset)
        for at in range(0, len(following), ENTRY_SIZE):
            yield self._entry(following, at)
        yield from self.entries(position + len(following) // ENTRY_SIZE)

    def _search(self, offset: int) -> tuple[int, bytes]:
        """
        Position of the first entry whose marker is at ``offset`` or behind it, and the bytes of some entries from
        there.
        """
        low, high = 0, self.count
        if offset > self.last_offset:
            return high, b""
        while high - low > _BLOCK:
            middle = (low + high) // 2
            if self._entry(self._read(middle, middle + 1), 0).last_offset < offset:
                low = middle + 1
            else:
                high = middle + 1
        data = self._read(low, high)
        at = bisect_left(range(0, len(data), ENTRY_SIZE), offset, key=lambda at: _last_offset(data, at + _LAST_AT)[0])
        return low + at, data[at * ENTRY_SIZE :]
