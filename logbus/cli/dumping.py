"""
What is in the files of a data directory, and what is wrong with it.

Each kind of file is read into items: JSON objects, of which one with the key ``damage`` says what is wrong and
``position`` where. Reading goes on behind damage where it can: the bytes after a batch with a wrong CRC may be good.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from logbus.cli import group_dumping
from logbus.cli.output import as_text
from logbus.errors import ConfigError, LogbusError
from logbus.records.batch import HEADER_SIZE, BatchHeader, batch_problem, decode_batch, decode_marker, read_header
from logbus.records.compression import Codec
from logbus.records.record import Record
from logbus.storage import names
from logbus.storage.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    Meta,
    decode_offsets,
    decode_partition_metadata,
)
from logbus.storage.checkpoints import decode_marker as decode_clean_shutdown
from logbus.storage.epochs import EpochHistory
from logbus.storage.index import OFFSET_ENTRY, TIME_ENTRY
from logbus.storage.snapshots import SnapshotCorrupt, decode_snapshot

Item = dict[str, Any]
Words = Callable[[Record], Item]
"""What is said of a record, where a topic's records have a meaning of their own."""
_KEPT = (names.LOG, names.OFFSET_INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX, names.SNAPSHOT)
_TRANSACTION_ENTRY = struct.Struct(">hqqqq")
_CODECS = {codec.value: codec.name.lower() for codec in Codec}


class NotOurs(LogbusError):
    """A file that is none of those a log directory has."""


def dump(path: Path, *, deep: bool = False, records: bool = False) -> Iterator[Item]:
    """
    What is in a file, item by item.

    :param deep: also read every record of a segment, and hold indexes against their segment.
    :param records: with the records of a segment in its batches.
    :raises NotOurs: its name is not that of a file in a log directory.
    :raises OSError: it cannot be read.
    """
    name = path.name.removesuffix(names.DELETED)
    if name.endswith(names.LOG) and names.base_offset_of(name, names.LOG) is not None:
        return _segment(path, name, deep, records)
    if name.endswith(names.OFFSET_INDEX):
        return _offset_index(path, name, deep)
    if name.endswith(names.TIME_INDEX):
        return _time_index(path, name, deep)
    if name.endswith(names.TRANSACTION_INDEX):
        return _transaction_index(path)
    if name.endswith(names.SNAPSHOT):
        return _snapshot(path, name)
    reader = _SMALL.get(name)
    if reader is None:
        kept = ", ".join([*(f"*{suffix}" for suffix in _KEPT), *_SMALL])
        raise NotOurs(f"{path} is not a file of a log directory; those are {kept}")
    return _small(path, reader)


def is_dumpable(path: Path) -> bool:
    """Whether a file of that name can be dumped."""
    return path.name in _SMALL or any(names.base_offset_of(path.name, suffix) is not None for suffix in _KEPT)


def _damage(position: int, what: str) -> Item:
    return {"position": position, "damage": what}


# Segments.


def _segment(path: Path, name: str, deep: bool, with_records: bool) -> Iterator[Item]:
    words = group_dumping.decoded if group_dumping.is_group_log(path.absolute().parent.name) else None
    expected = names.base_offset_of(name, names.LOG) or 0
    with _mapped(path) as data:
        pos, end = 0, len(data)
        while end - pos >= HEADER_SIZE:
            header = read_header(data, pos)
            problem = batch_problem(data, pos, header)
            reachable = header.magic == 2 and HEADER_SIZE <= header.size <= end - pos
            if not reachable:
                yield _damage(pos, f"no batch begins here: {problem}; {end - pos} bytes cannot be read")
                return
            item = _batch(pos, header)
            found: list[Record] = []
            if problem is None and (deep or with_records):
                try:
                    found = decode_batch(data, pos, header=header)
                except LogbusError as e:
                    problem = f"its records cannot be read: {e}"
            if problem is None and header.base_offset < expected:
                problem = f"its offset {header.base_offset} is below {expected}, where it should begin at the earliest"
            if with_records and found:
                item["records"] = [_record(header, each, words) for each in found]
            if problem is not None:
                item["damage"] = problem
            yield item
            expected = max(expected, header.next_offset)
            pos += header.size
        if pos < end:
            yield _damage(pos, f"{end - pos} bytes at the end are too few for a batch's header")


def _batch(pos: int, header: BatchHeader) -> Item:
    item: Item = {
        "position": pos,
        "size": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records_count": header.record_count,
        "leader_epoch": header.leader_epoch,
        "codec": _CODECS.get(header.codec, str(header.codec)),
        "max_timestamp": header.max_timestamp,
        "timestamp_type": "LogAppendTime" if header.log_append_time else "CreateTime",
        "crc": header.crc,
    }
    if header.has_producer_id:
        item |= {
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
        }
    if header.transactional:
        item["transactional"] = True
    if header.control:
        item["control"] = True
    if header.delete_horizon is not None:
        item["delete_horizon"] = header.delete_horizon
    return item


def _record(header: BatchHeader, record: Record, words: Words | None) -> Item:
    item: Item = {"offset": record.offset, "timestamp": record.timestamp}
    if header.control:
        try:
            marker = decode_marker(record)
        except LogbusError as e:
            return item | {"damage": str(e)}
        if marker is not None:
            return item | {"marker": marker.type.name.lower(), "coordinator_epoch": marker.coordinator_epoch}
    if words is not None:
        item |= words(record)
    else:
        item |= {**as_text("key", record.key), **as_text("value", record.value)}
    if record.headers:
        item["headers"] = [
            {"name": name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), **as_text("value", value)}
            for name, value in record.headers
        ]
    return item


# Indexes.


def _offset_index(path: Path, name: str, deep: bool) -> Iterator[Item]:
    base = names.base_offset_of(name, names.OFFSET_INDEX) or 0
    ends = _ends_by_position(path, name, names.OFFSET_INDEX) if deep else None
    before = (-1, -1)
    for at, (relative, position) in _entries(path, OFFSET_ENTRY):
        if isinstance(position, str):
            yield _damage(at, position)
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


def _time_index(path: Path, name: str, deep: bool) -> Iterator[Item]:
    base = names.base_offset_of(name, names.TIME_INDEX) or 0
    segment = path.with_name(names.segment_file(base, names.LOG)) if deep else None
    headers = iter([_head(each) for each in _readable_batches(segment)] if segment is not None else [])
    latest, reached = -1, -1
    before = (-1, -1)
    for at, (timestamp, relative) in _entries(path, TIME_ENTRY):
        if isinstance(relative, str):
            yield _damage(at, relative)
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


def _transaction_index(path: Path) -> Iterator[Item]:
    for at, (version, *rest) in _entries(path, _TRANSACTION_ENTRY):
        if isinstance(rest[-1], str):
            yield _damage(at, rest[-1])
            return
        producer_id, first, last, stable = rest
        item: Item = {
            "position": at,
            "producer_id": producer_id,
            "first_offset": first,
            "last_offset": last,
            "last_stable_offset": stable,
        }
        if version != 0:
            item["damage"] = f"version {version} is not known; 0 is"
        yield item


def _entries(path: Path, entry: struct.Struct) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Position and fields of each entry; half an entry at the end has a sentence as its last field."""
    data = path.read_bytes()
    # Kafka gives the index of the segment it writes to its full size at once. Zeros are an entry only at the front.
    used = -(-len(data.rstrip(b"\0")) // entry.size) * entry.size
    if len(data) - used > entry.size:
        data = data[: max(used, 0)]
    whole = len(data) - len(data) % entry.size
    for at, fields in enumerate(entry.iter_unpack(data[:whole])):
        yield at * entry.size, fields
    if whole < len(data):
        yield whole, (0, f"{len(data) - whole} bytes at the end are less than an entry of {entry.size}")


def _ends_by_position(path: Path, name: str, suffix: str) -> dict[int, int]:
    base = names.base_offset_of(name, suffix) or 0
    ends = {}
    pos = 0
    for header in _readable_batches(path.with_name(names.segment_file(base, names.LOG))):
        ends[pos] = header.last_offset
        pos += header.size
    return ends


def _readable_batches(path: Path) -> Iterator[BatchHeader]:
    """The headers of a segment, up to where it cannot be read any more."""
    with _mapped(path) as data:
        pos = 0
        while len(data) - pos >= HEADER_SIZE:
            header = read_header(data, pos)
            if header.magic != 2 or not HEADER_SIZE <= header.size <= len(data) - pos:
                return
            yield header
            pos += header.size


# Small files.


def _snapshot(path: Path, name: str) -> Iterator[Item]:
    try:
        producers = decode_snapshot(path.read_bytes(), names.base_offset_of(name, names.SNAPSHOT) or 0)
    except SnapshotCorrupt as e:
        yield _damage(0, str(e))
        return
    for each in producers:
        yield {
            "producer_id": each.producer_id,
            "epoch": each.epoch,
            "last_sequence": each.last_sequence,
            "last_offset": each.last_offset,
            "timestamp": each.last_timestamp,
            "coordinator_epoch": each.coordinator_epoch,
            "open_since": each.open_since,
        }


def _offsets(data: bytes, path: Path) -> list[Item]:
    found = decode_offsets(data)
    return [{"topic": each.topic, "partition": each.partition, "offset": offset} for each, offset in found.items()]


def _epochs(data: bytes, path: Path) -> list[Item]:
    return [{"epoch": epoch, "start_offset": start} for epoch, start in EpochHistory.decode(data)]


def _topic_id(data: bytes, path: Path) -> list[Item]:
    return [{"topic_id": str(decode_partition_metadata(data))}]


def _meta(data: bytes, path: Path) -> list[Item]:
    if b"logbus.format" not in data and data.lstrip().startswith((b"#", b"version=", b"cluster.id=", b"node.id=")):
        # Apache Kafka's own.
        lines = (line.partition("=") for line in data.decode("utf-8", "replace").splitlines())
        return [{name: value for name, equals, value in lines if equals and not name.startswith("#")}]
    meta = Meta.decode(data, str(path.parent))
    return [{"broker_id": meta.broker_id, "cluster_id": meta.cluster_id}]


def _clean_shutdown(data: bytes, path: Path) -> list[Item]:
    return [{"log": name, "state": state} for name, state in decode_clean_shutdown(data).items()]


_SMALL: dict[str, Callable[[bytes, Path], list[Item]]] = {
    RECOVERY_POINTS: _offsets,
    LOG_START_OFFSETS: _offsets,
    HIGH_WATERMARKS: _offsets,
    names.EPOCHS: _epochs,
    names.PARTITION_METADATA: _topic_id,
    META_PROPERTIES: _meta,
    CLEAN_SHUTDOWN: _clean_shutdown,
}


def _small(path: Path, reader: Callable[[bytes, Path], list[Item]]) -> Iterator[Item]:
    data = path.read_bytes()
    try:
        yield from reader(data, path)
    except (ValueError, KeyError, ConfigError) as e:
        yield _damage(0, str(e) or repr(e))


class _mapped:
    """A file's bytes without reading them all; an empty file has none."""

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
            pass  # a generator that was left halfway still looks at it; it goes with the last reference
