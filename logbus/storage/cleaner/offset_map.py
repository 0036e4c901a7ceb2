"""
Maps each key to the offset of its last record, for one cleaning (Kafka: OffsetMap, SkimpyOffsetMap). Pure.

A hash table of fixed size with open addressing, 24 bytes an entry as in Kafka: a digest of the key, and an offset. The
keys themselves are not kept, so the memory is bounded however long keys are.
"""

from __future__ import annotations

from hashlib import blake2b
from mmap import mmap
from struct import Struct

from logbus.records.checksum import Buffer
from logbus.storage.cleaner import record_filter
from logbus.storage.cleaner.record_filter import FilteredFile, FilteredRun, Kept, Section
from logbus.storage.segments.index_entries import IndexEntries, IndexState

REVISION = 4
"""Incremented whenever the class changes: a compiled map of another revision is not used."""

DIGEST_SIZE = 16
"""Bytes. Two of a billion keys have the same digest with a probability below 10**-20."""

_ENTRY = Struct("<16sq")
ENTRY_SIZE = _ENTRY.size
LOAD_FACTOR = 0.75
"""Usable share of the table: beyond it, searches for missing keys get long."""

LARGEST_BLOCK = 16 * 1024 * 1024
"""Bytes of the largest batch that compiled loops read and process; larger ones are left to others."""

_FREE = bytes(DIGEST_SIZE)
_OFFSET = Struct("<q")


class OffsetMap:
    """
    The map.

    :ivar capacity: keys that fit.
    """

    __slots__ = ("_count", "_slots", "_table", "capacity")

    def __init__(self, size: int) -> None:
        """
        Make an empty map.

        :param size: bytes of memory it may take; at least one key fits, whatever it is.
        """
        self._slots = max(2, size // ENTRY_SIZE)
        self.capacity = max(1, int(self._slots * LOAD_FACTOR))
        # The kernel provides pages when they are first used: a few keys in a large table cost little.
        self._table = mmap(-1, self._slots * ENTRY_SIZE)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, key: bytes, offset: int) -> bool:
        """
        Set the offset of a key's last record.

        :returns: False if the key is new and there is no room for it; the map is as it was then.
        """
        digest, at = self._find(key)
        if self._table[at : at + DIGEST_SIZE] != digest:
            if self._count >= self.capacity:
                return False
            self._count += 1
        _ENTRY.pack_into(self._table, at, digest, offset)
        return True

    def get(self, key: bytes) -> int:
        """The offset of the key's last record; −1 for an unknown key."""
        digest, at = self._find(key)
        if self._table[at : at + DIGEST_SIZE] != digest:
            return -1
        offset: int = _OFFSET.unpack_from(self._table, at + DIGEST_SIZE)[0]
        return offset

    def clear(self) -> None:
        """Forget all keys and release the memory, which for 128 MB takes 7 ms: for threads."""
        self._table.close()
        self._slots, self.capacity, self._count = 2, 1, 0
        self._table = mmap(-1, self._slots * ENTRY_SIZE)

    def put_records(self, section: Section, start: int) -> int:
        """See :func:`.record_filter.put_records`."""
        return record_filter.put_records(self, section, start)

    def keep_records(self, section: Section, end: int, drop_tombstones: bool) -> Kept:
        """See :func:`.record_filter.keep_records`."""
        return record_filter.keep_records(self, section, end, drop_tombstones)

    def put_batches(self, data: Buffer, position: int, start: int) -> tuple[int, int]:
        """
        Put the keys of plain batches into the map: those without compression or transaction, and not control batches.

        :param position: of the first batch in ``data``.
        :param start: records before this offset are skipped.
        :returns: the position of the first batch that is left to :func:`.add_keys`, and the offset at which the last
            one before it ends, −1 without one. Here all are left.
        """
        return position, -1

    def filter_batches(self, data: Buffer, position: int, end: int, last_offsets: bytes) -> FilteredRun:
        """
        Filter plain batches as :meth:`.Compaction.retained` does; here all are left to it.

        :param position: of the first batch in ``data``.
        :param end: records from this offset on all stay.
        :param last_offsets: where producers' last batches end: sorted 64-bit numbers.
        """
        return FilteredRun(position, b"", 0, 0, 0, 0, -1)

    def put_file(self, fd: int, position: int, size: int, most: int, pause_ratio: float, start: int) -> tuple[int, int]:
        """
        Do as :meth:`put_batches` with what is in a file. The interpreter's lock is not held meanwhile.

        :param position: of the first batch in the file; ``size``: where its batches end.
        :param most: bytes after which no block is begun.
        :param pause_ratio: length of the pause after each block relative to the work.
        :param start: records before this offset are skipped.
        :returns: the position of the first batch that is left to others, since it is not plain, is damaged, cannot be
            read, or as the map is full, or behind the last one; and the offset at which the last one before it ends,
            −1 without one. Here all are left.
        """
        return position, -1

    def filter_file(
        self, fd: int, position: int, size: int, most: int, pause_ratio: float, end: int, last_offsets: bytes,
        out_fd: int, written: int, state: IndexState,
    ) -> FilteredFile:  # fmt: skip
        """
        Do as :meth:`filter_batches` with what is in a file, and write what stays to another one. The interpreter's
        lock is not held meanwhile. Parameters not named here are those of :meth:`put_file`, or :meth:`filter_batches`.

        :param out_fd: the file to be written; ``written``: its end.
        :param state: what its next index entries depend on.
        :returns: what was done; what cannot be written is left to others, too. Here all batches are.
        """
        return FilteredFile(position, 0, IndexEntries(b"", b"", state), 0, 0, 0, 0, None)

    def _find(self, key: bytes) -> tuple[bytes, int]:
        """The key's digest, and its position in the table, or the free one where it belongs."""
        digest = blake2b(key, digest_size=DIGEST_SIZE).digest()
        table = self._table
        at = int.from_bytes(digest[:8], "little") % self._slots * ENTRY_SIZE
        while (found := table[at : at + DIGEST_SIZE]) != digest and found != _FREE:
            at += ENTRY_SIZE
            if at == len(table):
                at = 0
        return digest, at
