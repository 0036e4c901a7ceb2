"""Builders shared by the tests of storage."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from twisted.internet.task import Clock

from logbus.config.topic_config import TopicConfig
from logbus.model import TimestampOffset, TopicPartition
from logbus.records.batch import encode_batch, iter_batches, iter_records
from logbus.records.compression import Codec
from logbus.records.file_slice import FileSlice
from logbus.records.record import Record
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.filesystem.file_cache import FileCache
from logbus.storage.istorage import IDisk
from logbus.storage.log import Log
from logbus.storage.log_manager import LogManager
from logbus.storage.offset_lookup import Search
from logbus.storage.settings import StorageSettings
from logbus.testing.simulation.environment.memory_disk import MemoryDisk

NOW_S = 1_700_000_000.0
NOW_MS = int(NOW_S * 1000)
PARTITION = TopicPartition("orders", 0)


def batch(
    *values: bytes | None,
    keys: Sequence[bytes | None] = (),
    timestamps: Sequence[int] = (),
    timestamp: int = NOW_MS,
    codec: Codec = Codec.NONE,
    **header: Any,
) -> bytes:
    """A batch with these values, as a producer sends it."""
    records = [
        Record(
            i,
            timestamps[i] if timestamps else timestamp,
            keys[i] if keys else None,
            value,
            (),
        )
        for i, value in enumerate(values or (b"value",))
    ]
    return encode_batch(records, codec=codec, **header)


def a_log(disk: IDisk | None = None, *, create: bool = True, directory: str = "orders-0", **fields: Any) -> Log:
    """A log on a memory disk, with clocks that stand still."""
    disk = disk or MemoryDisk()
    settings = fields.pop("settings", None) or StorageSettings()
    config = fields.pop("config", None) or TopicConfig()
    log = Log(
        PARTITION,
        disk,
        directory,
        config=config,
        settings=settings,
        files=fields.pop("files", None) or FileCache(100),
        wall_clock=fields.pop("wall_clock", None) or (lambda: NOW_S),
        jitter=random.Random(7),
        **fields,
    )
    if create:
        disk.make_directory(directory)
        log.create()
    return log


def a_manager(*disks: IDisk, clock: Clock | None = None, **fields: Any) -> LogManager:
    """A manager on memory disks, with a clock that stands still."""
    return LogManager(
        disks or (MemoryDisk(),),
        clock or Clock(),
        fields.pop("wall_clock", None) or (lambda: NOW_S),
        jitter=random.Random(7),
        **fields,
    )


def data_of(part: FileSlice | None) -> bytes:
    """The bytes of a slice; none of None."""
    return b"" if part is None else part.read()


def offsets_of(data: bytes) -> list[int]:
    """The base offsets of the batches in ``data``."""
    return [header.base_offset for _, header in iter_batches(data)]


def read_all(log: Log, max_bytes: int = 1 << 20) -> list[tuple[int, bytes | None]]:
    """Offset and value of every record from the log's start, read as a consumer would."""
    found: list[tuple[int, bytes | None]] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = data_of(log.read(offset, max_bytes).data)
        assert data, f"nothing at {offset} in {log}"
        found += [(record.offset, record.value) for record in iter_records(data) if record.offset >= offset]
        offset = max(header.next_offset for _, header in iter_batches(data))
    return found


def finish(search: Search) -> TimestampOffset | None:
    """Run a search for a record to its end."""
    try:
        while True:
            next(search)
    except StopIteration as done:
        found: TimestampOffset | None = done.value
        return found


def three_segments(**config: Any) -> Log:
    """Two batches a segment, a second apart, five in all."""
    log = a_log(config=TopicConfig(segment_bytes=2 * len(batch(b"x")), **config))
    for i in range(5):
        append_as_leader(log, batch(b"x", timestamp=NOW_MS + i * 1000), 0)
    log.high_watermark = 5
    return log
