"""
Filters the records in a cleaning: puts keys into an offset map, and keeps or drops records. In Python. Pure.

``_offset_map.pyx`` is the compiled implementation of both, which makes no objects of records and does not hold the
interpreter's lock. What that cannot read it leaves to these functions, which raise the errors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from logbus.records.batch import Record
from logbus.records.checksum import Buffer
from logbus.records.implementations import decode_records
from logbus.records.varint import decode_varint
from logbus.storage.segments.index_entries import IndexEntries


class KeyOffsets(Protocol):
    """The last offset of each key; see :class:`.OffsetMap`."""

    def put(self, key: bytes, offset: int) -> bool:
        """Set the offset of a key's last record; False if there is no room for it."""

    def get(self, key: bytes) -> int:
        """The offset of the key's last record; −1 for an unknown key."""


class Section(NamedTuple):
    """
    The records of a batch.

    :ivar data: the records section, decompressed.
    :ivar record_count: how many there are.
    :ivar base_offset: of the batch, like the others here.
    """

    data: Buffer
    record_count: int
    base_offset: int
    last_offset_delta: int
    base_timestamp: int

    def decode(self) -> list[Record]:
        """
        Decode the records; timestamps are as encoded, also if the topic stamps them.

        :raises DecodeError: they are malformed.
        """
        return decode_records(
            bytes(self.data), self.record_count, self.base_offset, self.last_offset_delta, self.base_timestamp
        )


class Kept(NamedTuple):
    """
    The kept records of a batch.

    :ivar data: the records as they are in the batch; None: all stay.
    :ivar record_count: how many stay; ``keyless``: how many of them have no key.
    :ivar tombstones: whether some of them have a key, and no value.
    :ivar max_timestamp: of those that stay, as encoded; −1 if none does.
    """

    data: bytes | None
    record_count: int
    keyless: int
    tombstones: bool
    max_timestamp: int


class FilteredRun(NamedTuple):
    """
    The kept records of consecutive batches.

    :ivar position: of the first batch that is left to others: it is incomplete, damaged, or of a kind that is not
        handled here.
    :ivar data: what stays of those before it.
    :ivar records: how many they had; ``removed``: how many of them are gone; ``keyless``: how many have no key.
    :ivar changed: number of batches removed or rewritten.
    :ivar dropped: position of the last batch before ``position``, if nothing stays of it; −1 otherwise.
    """

    position: int
    data: bytes
    records: int
    removed: int
    changed: int
    keyless: int
    dropped: int


class FilteredFile(NamedTuple):
    """
    The kept records of consecutive batches of a file, written to another file.

    :ivar position: in the file, of the first batch that is left to others, or behind the last one.
    :ivar written: bytes written.
    :ivar index_entries: of what was written.
    :ivar records: how many there were; ``removed``: how many of them are gone; ``keyless``: how many have no key.
    :ivar changed: number of batches removed or rewritten.
    :ivar dropped: the header of the last batch before ``position``, if nothing stays of it.
    """

    position: int
    written: int
    index_entries: IndexEntries
    records: int
    removed: int
    changed: int
    keyless: int
    dropped: bytes | None


def put_records(keys: KeyOffsets, section: Section, start: int) -> int:
    """
    Put the keys of records into a map.

    :param start: records before this offset are skipped.
    :returns: the offset of the first one for which there was no room; −1: all are in the map.
    :raises DecodeError: the records are malformed.
    """
    for record in section.decode():
        if record.key is not None and record.offset >= start and not keys.put(record.key, record.offset):
            return record.offset
    return -1


def keep_records(keys: KeyOffsets, section: Section, end: int, drop_tombstones: bool) -> Kept:
    """
    Decide which records stay: those without a later one of their key.

    :param end: records from this offset on all stay.
    :param drop_tombstones: those below it go, too.
    :raises DecodeError: the records are malformed.
    """
    records = section.decode()
    kept: list[Record] = []
    parts: list[bytes] = []
    keyless = 0
    data = bytes(section.data)
    for record, (begin, over) in zip(records, _places(data, len(records)), strict=True):
        if record.offset < end:
            if record.key is None:
                keyless += 1
            elif keys.get(record.key) > record.offset or (record.value is None and drop_tombstones):
                continue
        kept.append(record)
        parts.append(data[begin:over])
    return Kept(
        None if len(kept) == len(records) else b"".join(parts),
        len(kept),
        keyless,
        any(record.value is None and record.key is not None for record in kept),
        max((record.timestamp for record in kept), default=-1),
    )


def _places(data: bytes, count: int) -> Iterable[tuple[int, int]]:
    """Where each record begins and ends."""
    begin = 0
    for _ in range(count):
        length, pos = decode_varint(data, begin)
        yield begin, pos + length
        begin = pos + length
