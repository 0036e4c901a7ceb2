"""
Decodes the files of a data directory, and reports damage in them.

Each kind of file is decoded into items, which are JSON objects. An item with the key ``damage`` describes damage and
its ``position``. Decoding continues behind damage where possible: the bytes after a batch with a wrong CRC may be good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from logbus.cli.dump import group_record_dump, share_state_record_dump, transaction_record_dump
from logbus.cli.dump.index_dump import Item, Mapped, damage, offset_index, time_index, transaction_index
from logbus.cli.output import as_text
from logbus.errors import ConfigError, LogbusError
from logbus.model import OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTIONS_TOPIC
from logbus.records.batch import HEADER_SIZE, BatchHeader, batch_problem, decode_batch, decode_marker, read_header
from logbus.records.compression import Codec
from logbus.records.record import Record, readable_name
from logbus.storage import file_names
from logbus.storage.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    MetaProperties,
    decode_offsets,
    decode_partition_metadata,
)
from logbus.storage.checkpoints import decode_marker as decode_clean_shutdown
from logbus.storage.leader_epoch_cache import LeaderEpochCache
from logbus.storage.producers.producer_snapshot import SnapshotCorrupt, decode_snapshot
from logbus.storage.remote import object_names

RecordDecoder = Callable[[Record], Item]
"""Decodes the records of an internal topic."""
UNREADABLE = "its checksum is right, but its records cannot be read"
"""Begins what is wrong with a batch that was written as it is."""
_KEPT = (
    file_names.LOG,
    file_names.OFFSET_INDEX,
    file_names.TIME_INDEX,
    file_names.TRANSACTION_INDEX,
    file_names.SNAPSHOT,
)
_TOPICS: dict[str, RecordDecoder] = {
    OFFSETS_TOPIC: group_record_dump.decoded,
    TRANSACTIONS_TOPIC: transaction_record_dump.decoded,
    SHARE_GROUP_STATE_TOPIC: share_state_record_dump.decoded,
}
_CODECS = {codec.value: codec.name.lower() for codec in Codec}


class UnknownFileType(LogbusError):
    """The file is not of a kind that log directories contain."""


def dump(path: Path, *, deep: bool = False, records: bool = False) -> Iterator[Item]:
    """
    Yield the items of a file.

    :param deep: also decode every record of a segment, and compare indexes with their segment.
    :param records: include the records in the items of batches.
    :raises UnknownFileType: the file's name is not that of a file in a log directory, or of records in tiered storage.
    :raises OSError: the file cannot be read.
    """
    name = _local_name(file_names.before_deletion(path.name))
    if name.endswith(file_names.LOG) and file_names.base_offset_of(name, file_names.LOG) is not None:
        return _segment(path, name, deep, records)
    if name.endswith(file_names.OFFSET_INDEX):
        return offset_index(path, name, deep)
    if name.endswith(file_names.TIME_INDEX):
        return time_index(path, name, deep)
    if name.endswith(file_names.TRANSACTION_INDEX):
        return transaction_index(path, name, deep)
    if name.endswith(file_names.SNAPSHOT):
        return _snapshot(path, name)
    reader = _SMALL.get(name)
    if reader is None:
        kept = ", ".join([*(f"*{suffix}" for suffix in _KEPT), *_SMALL])
        raise UnknownFileType(f"{path} is not a file of a log directory; those are {kept}")
    return _small(path, reader)


def is_dumpable(path: Path) -> bool:
    """Return whether a file of this name can be decoded."""
    name = _local_name(path.name)
    return name in _SMALL or any(file_names.base_offset_of(name, suffix) is not None for suffix in _KEPT)


def _local_name(name: str) -> str:
    """The name in a log directory of what has this one in a directory of tiered storage; others as they are."""
    is_remote = name.endswith(object_names.LOG) and object_names.segment_id_of(name) is not None
    return f"{name.partition('-')[0]}{file_names.LOG}" if is_remote else name


# Segments.


def _segment(path: Path, name: str, deep: bool, with_records: bool) -> Iterator[Item]:
    words = _record_decoder(path.absolute().parent.name)
    expected = file_names.base_offset_of(name, file_names.LOG) or 0
    with Mapped(path) as data:
        pos, end = 0, len(data)
        while end - pos >= HEADER_SIZE:
            header = read_header(data, pos)
            problem = batch_problem(data, pos, header)
            reachable = header.magic == 2 and HEADER_SIZE <= header.size <= end - pos
            if not reachable:
                yield damage(pos, f"no batch begins here: {problem}; {end - pos} bytes cannot be read")
                return
            item = _batch(pos, header)
            found: list[Record] = []
            if problem is None and (deep or with_records):
                try:
                    found = decode_batch(data, pos, header=header)
                except LogbusError as e:
                    problem = f"{UNREADABLE}: {e}"
            if problem is None and header.base_offset < expected:
                problem = f"its offset {header.base_offset} is below {expected}, where it should begin at the earliest"
            if header.control and found and (marker := _marker(found[0])):
                item["marker"] = marker
            if with_records and found:
                item["records"] = [_record(header, each, words) for each in found]
            if problem is not None:
                item["damage"] = problem
            yield item
            expected = max(expected, header.next_offset)
            pos += header.size
        if pos < end:
            yield damage(pos, f"{end - pos} bytes at the end are too few for a batch's header")


def _record_decoder(directory: str) -> RecordDecoder | None:
    """Return the decoder for a partition's records, given the name of its directory; None: there is none."""
    topic, dash, number = directory.rpartition("-")
    return _TOPICS.get(topic) if dash and number.isascii() and number.isdigit() else None


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


def _marker(record: Record) -> str:
    """The type of a marker, ``commit`` or ``abort``; empty: it is none."""
    try:
        marker = decode_marker(record)
    except LogbusError:
        return ""
    return "" if marker is None else marker.type.name.lower()


def _record(header: BatchHeader, record: Record, words: RecordDecoder | None) -> Item:
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
        item["headers"] = [{"name": readable_name(name), **as_text("value", value)} for name, value in record.headers]
    return item


# Small files.


def _snapshot(path: Path, name: str) -> Iterator[Item]:
    try:
        producers = decode_snapshot(path.read_bytes(), file_names.base_offset_of(name, file_names.SNAPSHOT) or 0)
    except SnapshotCorrupt as e:
        yield damage(0, str(e))
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
    return [{"epoch": epoch, "start_offset": start} for epoch, start in LeaderEpochCache.decode(data)]


def _topic_id(data: bytes, path: Path) -> list[Item]:
    return [{"topic_id": str(decode_partition_metadata(data))}]


def _meta(data: bytes, path: Path) -> list[Item]:
    if b"logbus.format" not in data and data.lstrip().startswith((b"#", b"version=", b"cluster.id=", b"node.id=")):
        # Apache Kafka's own.
        lines = (line.partition("=") for line in data.decode("utf-8", "replace").splitlines())
        return [{name: value for name, equals, value in lines if equals and not name.startswith("#")}]
    meta = MetaProperties.decode(data, str(path.parent))
    directories = {"directories": meta.directories} if meta.directories else {}
    return [{"broker_id": meta.broker_id, "cluster_id": meta.cluster_id, **directories}]


def _clean_shutdown(data: bytes, path: Path) -> list[Item]:
    return [{"log": name, "state": state} for name, state in decode_clean_shutdown(data).items()]


_SMALL: dict[str, Callable[[bytes, Path], list[Item]]] = {
    RECOVERY_POINTS: _offsets,
    LOG_START_OFFSETS: _offsets,
    HIGH_WATERMARKS: _offsets,
    CLEANED_OFFSETS: _offsets,
    file_names.EPOCHS: _epochs,
    file_names.PARTITION_METADATA: _topic_id,
    META_PROPERTIES: _meta,
    CLEAN_SHUTDOWN: _clean_shutdown,
}


def _small(path: Path, reader: Callable[[bytes, Path], list[Item]]) -> Iterator[Item]:
    data = path.read_bytes()
    try:
        yield from reader(data, path)
    except (ValueError, KeyError, ConfigError) as e:
        yield damage(0, str(e) or repr(e))
