"""
Encodes producer state for ``<offset>.snapshot`` files, in Kafka's binary format (version 1).

::

    version int16 | crc uint32 (CRC-32C of what follows) | count int32 | entries ...
    entry: producer_id int64 | epoch int16 | last_sequence int32 | last_offset int64 | offset_delta int32
           | timestamp int64 | coordinator_epoch int32 | open_since int64

A snapshot holds each producer's last batch only. The offset in its name is the first one it does not reflect.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from logbus.records.checksum import crc32c
from logbus.storage import file_names
from logbus.storage.istorage import IDisk
from logbus.storage.producers.producer_state_manager import BatchMetadata, ProducerStateEntry, ProducerStateManager

VERSION = 1

_HEAD = Struct(">hIi")
_COUNT_AT = 6
_ENTRY = Struct(">qhiqiqiq")
_SEQUENCES = 2**31
_NO_BATCH = BatchMetadata(-1, -1, -1, -1, -1)


class SnapshotCorrupt(Exception):
    """A damaged or unknown snapshot, which must not be used."""


def encode_snapshot(producers: ProducerStateManager) -> bytes:
    """The content of a snapshot file. For very many producers see :mod:`~logbus.storage.producers.snapshot_encoder`."""
    return snapshot_of([encode_entry(entry) for entry in producers])


def encode_entry(entry: ProducerStateEntry) -> bytes:
    """What a snapshot has of one producer."""
    last = entry.batches[-1] if entry.batches else _NO_BATCH
    return _ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        last.last_sequence,
        last.last_offset,
        last.last_offset - last.first_offset,
        entry.last_timestamp,
        entry.coordinator_epoch,
        -1 if entry.open_since is None else entry.open_since,
    )


def snapshot_of(entries: Sequence[bytes]) -> bytes:
    """The content of a snapshot file with these entries."""
    body = len(entries).to_bytes(4, "big") + b"".join(entries)
    return VERSION.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + body


def decode_snapshot(data: bytes, offset: int) -> ProducerStateManager:
    """
    Read a snapshot file.

    :param offset: the one in its name.
    :raises SnapshotCorrupt: it is damaged, or of an unknown version.
    """
    if len(data) < _HEAD.size:
        raise SnapshotCorrupt(f"{len(data)} bytes are too few")
    version, crc, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise SnapshotCorrupt(f"version {version} is not known; {VERSION} is")
    if crc32c(memoryview(data)[_COUNT_AT:]) != crc:
        raise SnapshotCorrupt("its CRC does not match")
    if count < 0 or len(data) != _HEAD.size + count * _ENTRY.size:
        raise SnapshotCorrupt(f"{len(data)} bytes cannot hold {count} entries")
    entries = []
    for fields in _ENTRY.iter_unpack(memoryview(data)[_HEAD.size :]):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, open_since = fields
        batches = []
        if last_offset >= 0:
            # A batch that a coordinator writes for a producer has no sequence number.
            first_sequence = (last_sequence - delta) % _SEQUENCES if last_sequence >= 0 else last_sequence
            batches.append(BatchMetadata(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp))
        opened = None if open_since < 0 else open_since
        entries.append(ProducerStateEntry(producer_id, epoch, batches, timestamp, coordinator_epoch, opened))
    return ProducerStateManager(offset, entries)


def snapshot_offsets(disk: IDisk, directory: str) -> list[int]:
    """The offsets of the snapshots in a log's directory, oldest first."""
    found = (file_names.base_offset_of(name, file_names.SNAPSHOT) for name in disk.names(directory))
    return sorted(offset for offset in found if offset is not None)


def snapshot_path(directory: str, offset: int) -> str:
    """The path of the snapshot at ``offset``."""
    return f"{directory}/{file_names.segment_file(offset, file_names.SNAPSHOT)}"
