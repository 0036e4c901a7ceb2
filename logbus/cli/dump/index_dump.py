"""
Decodes the indexes of a segment, and reports damage in them; see :mod:`logbus.cli.dump.file_dump`.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from logbus.records.batch import HEADER_SIZE, BatchHeader, read_header
from logbus.storage import file_names
from logbus.storage.segments.indexes import OFFSET_ENTRY, TIME_ENTRY
from logbus.storage.segments.transaction_index import ENTRY, VERSION, AbortedTransaction

Item = dict[str, Any]


def damage(position: int, what: str) -> Item:
    """Return an item that reports damage."""
    return {"position": position, "damage": what}


def offset_index(path: Path, name: str, deep: bool) -> Iterator[Item]:
    base = file_names.base_offset_of(name, file_names.OFFSET_INDEX) or 0
    ends = _ends_by_position(path, name, file_names.OFFSET_INDEX) if deep else None
    before = (-1, -1)
    for at, (relative, position) in _entries(path, OFFSET_ENTRY):
        if isinstance(position, str):
            yield damage(at, position)
            return
        item: Item = {"position": at, "offset": base + relative, "segment_position": position}
        if relative <= before[0] or position <= before[1]:
            # Kafka preallocates with zeros, and trims them only when the segment is rolled.
            item["damage"] = f"it does not lie behind the entry before it, ({base + before[0]}, {before[1]})"
        elif ends is not None and ends.get(position) != base + relative:
            there = f"a batch that ends with {ends[position]}" if position in ends else "no batch"
            item["damage"] = f"at {position} of the segment begins {there}"
        yield item
        before = max(before, (relative, position))


def time_index(path: Path, name: str, deep: bool) -> Iterator[Item]:
    base = file_names.base_offset_of(name, file_names.TIME_INDEX) or 0
    segment = path.with_name(file_names.segment_file(base, file_names.LOG)) if deep else None
    headers = iter([_head(each) for each in _readable_batches(segment)] if segment is not None else [])
    latest, reached = -1, -1
    before = (-1, -1)
    for at, (timestamp, relative) in _entries(path, TIME_ENTRY):
        if isinstance(relative, str):
            yield damage(at, relative)
            return
        item: Item = {"position": at, "timestamp": timestamp, "offset": base + relative}
        if timestamp <= before[0] or relative <= before[1]:
            item["damage"] = f"it does not lie behind the entry before it, ({before[0]}, {base + before[1]})"
        elif segment is not None:
            while reached < base + relative and (following := next(headers, None)) is not None:
                reached, latest = following[0], max(latest, following[1])
            if latest > timestamp:
                item["damage"] = f"up to this offset there is a record of {latest}, which is later"
            elif reached < base + relative:
                item["damage"] = f"the segment ends at {reached}"
        yield item
        before = max(before, (timestamp, relative))


def _head(header: BatchHeader) -> tuple[int, int]:
    return header.last_offset, header.max_timestamp


def transaction_index(path: Path, name: str, deep: bool) -> Iterator[Item]:
    """
    Yield the entries of a transaction index.

    :param deep: compare them with the markers in the segment.
    """
    base = file_names.base_offset_of(name, file_names.TRANSACTION_INDEX) or 0
    segment = path.with_name(file_names.segment_file(base, file_names.LOG)) if deep else None
    there = {} if segment is None else {each.base_offset: each for each in _readable_batches(segment)}
    before = -1
    for at, (version, *rest) in _entries(path, ENTRY):
        if isinstance(rest[-1], str):
            yield damage(at, rest[-1])
            return
        aborted = AbortedTransaction(*rest)
        item: Item = {"position": at, **aborted._asdict()}
        batch = there.get(aborted.last_offset)
        if version != VERSION:
            item["damage"] = f"version {version} is not known; {VERSION} is"
        elif not 0 <= aborted.first_offset <= aborted.last_offset or aborted.last_offset < base:
            item["damage"] = f"no transaction of this segment, which begins at {base}, reaches from there to there"
        elif aborted.last_offset <= before:
            item["damage"] = f"its marker does not lie behind that of the entry before it, {before}"
        elif batch is not None and not (batch.control and batch.producer_id == aborted.producer_id):
            item["damage"] = f"at {aborted.last_offset} of the segment is no marker of producer {aborted.producer_id}"
        yield item
        before = max(before, aborted.last_offset)


def _entries(path: Path, entry: struct.Struct) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the position and fields of each entry; a partial entry at the end has a message as its last field."""
    data = path.read_bytes()
    # Kafka preallocates the index of the active segment. Zeros are an entry only at the front.
    used = -(-len(data.rstrip(b"\0")) // entry.size) * entry.size
    if len(data) - used > entry.size:
        data = data[: max(used, 0)]
    whole = len(data) - len(data) % entry.size
    for at, fields in enumerate(entry.iter_unpack(data[:whole])):
        yield at * entry.size, fields
    if whole < len(data):
        yield whole, (0, f"{len(data) - whole} bytes at the end are less than an entry of {entry.size}")


def _ends_by_position(path: Path, name: str, suffix: str) -> dict[int, int]:
    base = file_names.base_offset_of(name, suffix) or 0
    ends = {}
    pos = 0
    for header in _readable_batches(path.with_name(file_names.segment_file(base, file_names.LOG))):
        ends[pos] = header.last_offset
        pos += header.size
    return ends


def _readable_batches(path: Path) -> Iterator[BatchHeader]:
    """Yield the batch headers of a segment, up to the first damage."""
    with Mapped(path) as data:
        pos = 0
        while len(data) - pos >= HEADER_SIZE:
            header = read_header(data, pos)
            if header.magic != 2 or not HEADER_SIZE <= header.size <= len(data) - pos:
                return
            yield header
            pos += header.size


class Mapped:
    """A memory-mapped file; supports empty files."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> memoryview:
        with self._path.open("rb") as file:
            size = file.seek(0, 2)
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else None
        self._view = memoryview(self._map) if self._map is not None else memoryview(b"")
        return self._view

    def __exit__(self, *exc: object) -> None:
        try:
            self._view.release()
            if self._map is not None:
                self._map.close()
        except BufferError:
            pass  # a suspended generator still uses it; it is closed with the last reference
