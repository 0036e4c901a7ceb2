"""A leader's append (Kafka: UnifiedLog.appendAsLeader): a producer's batch gets its offsets and leader epoch."""

from __future__ import annotations

from logbus.records.checksum import Buffer
from logbus.records.header import PREFIX_SIZE, patched_prefix, rewrite_log_append_time
from logbus.storage.appends.log_append_info import LogAppendInfo
from logbus.storage.appends.log_validator import LOG_APPEND_TIME, validate_for_topic
from logbus.storage.appends.recompression import PRODUCER, recompressed
from logbus.storage.log import Log


def append_as_leader(
    log: Log,
    data: Buffer,
    leader_epoch: int,
    now_ms: int | None = None,
    zstd_allowed: bool = True,
    from_coordinator: bool = False,
) -> LogAppendInfo:
    """
    Validate a producer's batch, assign its offsets, and write it (Kafka: UnifiedLog.appendAsLeader).

    :param data: the bytes of one partition in a Produce request; neither kept nor changed.
    :param leader_epoch: goes into the batch.
    :param now_ms: the broker's time, ms since 1970; by default that of the wall clock.
    :param zstd_allowed: whether the producer's request version knows zstd.
    :param from_coordinator: see :func:`.validate_for_topic`.
    :raises ApiError: the batch is refused, or there is no space; nothing was written.
    :raises StorageError: the disk failed, and is offline.
    """
    if now_ms is None:
        now_ms = int(log.wall_clock() * 1000)
    config = log.config
    header = validate_for_topic(data, config, now_ms, zstd_allowed, from_coordinator)
    flusher = log.flusher
    append_time = -1
    if header.producer_id >= 0:
        written = log.producers.check(header)
        if written is not None:
            stamped = written.timestamp if config.message_timestamp_type == LOG_APPEND_TIME else -1
            return LogAppendInfo(
                written.first_offset, written.last_offset, stamped, log.log_start_offset, 0, duplicate=True
            )
    if config.compression_type != PRODUCER:
        ahead = log.recompressed
        if ahead is not None and ahead.batch is data and ahead.config is config:
            data, header = ahead.data, ahead.header
        else:
            data, header = recompressed(data, header, config)
    if config.message_timestamp_type == LOG_APPEND_TIME:
        append_time = now_ms
        data = bytearray(data)
        rewrite_log_append_time(data, 0, now_ms)
        header = header._replace(max_timestamp=now_ms)

    base_offset = log.log_end_offset
    last_offset = base_offset + header.last_offset_delta
    segment = log.segment_for(header, last_offset, now_ms)
    prefix = patched_prefix(header, base_offset, leader_epoch)
    segment.write((prefix, memoryview(data)[PREFIX_SIZE:]), data)
    log.wrote(segment, flusher, (header,), base_offset, leader_epoch)
    return LogAppendInfo(base_offset, last_offset, append_time, log.log_start_offset, header.length + 12)
