"""
Appends several batches of producers to a log by one write: the fast path of Produce.

All batches must be valid, fit the active segment as they are, and have timestamps. Those of an idempotent producer are
in a row, and continue its sequence. They are outside of transactions, or all of one producer in one that is open. They
cost one system call, and most bookkeeping is done once. Anything else (a duplicate, the first batch of a transaction)
takes the general path, :func:`.append_as_leader`, which finds the error of the batch that has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from logbus.records.batch import BatchHeader
from logbus.records.checksum import Buffer
from logbus.records.header import PREFIX_SIZE, TRANSACTIONAL_BIT, patched_prefix
from logbus.storage.appends.log_validator import LOG_APPEND_TIME, validate_for_topic
from logbus.storage.appends.recompression import PRODUCER
from logbus.storage.log import Log
from logbus.storage.producers.producer_state_manager import MAX_SEQUENCE
from logbus.storage.segments.indexes import MAX_RELATIVE_OFFSET

MAX_BATCHES = 256
"""Upper bound of batches in one write: the kernel takes at most 1024 buffers, and each batch has two."""


class AppendManyResult(NamedTuple):
    """
    The result of appending several batches.

    :ivar base_offsets: of each batch.
    :ivar end_offset: the log end offset after it.
    :ivar size: bytes written.
    """

    base_offsets: list[int]
    end_offset: int
    log_start_offset: int
    size: int


def append_many(
    log: Log,
    batches: Sequence[Buffer],
    leader_epoch: int,
    now_ms: int,
    zstd_allowed: bool,
    in_transaction: bool = False,
) -> AppendManyResult | None:
    """
    Append all of these batches, or none.

    :param batches: each the records of one request; neither kept nor changed.
    :param in_transaction: they must belong to a transaction that is open; otherwise to none.
    :returns: None: at least one batch needs the general path, or the write failed; nothing was written.
    """
    offsets: list[int] = []
    headers: list[BatchHeader] = []
    parts: list[Buffer] = []
    offset = log.log_end_offset
    size, latest = 0, -1
    seen: set[int] = set()
    try:
        config, flusher, segment = log.config, log.flusher, log.segments[-1]
        if (
            len(batches) > MAX_BATCHES
            or not segment.size
            or config.compression_type != PRODUCER
            or config.message_timestamp_type == LOG_APPEND_TIME
        ):
            return None
        producer_id, epoch, sequence = -1, -1, -1
        bit = TRANSACTIONAL_BIT if in_transaction else 0
        for data in batches:
            header = validate_for_topic(data, config, now_ms, zstd_allowed)
            timestamp = header.max_timestamp
            if timestamp < 0:
                return None
            if not headers or header.producer_id != producer_id:
                producer_id, epoch, sequence = header.producer_id, header.producer_epoch, header.base_sequence
                if in_transaction and (headers or not log.producers.open_transaction(producer_id, epoch)):
                    return None
                if producer_id >= 0 and (producer_id in seen or log.producers.check(header) is not None):
                    return None
                seen.add(producer_id)
            if producer_id >= 0:
                # The bit itself: to ask the header for each batch takes as long as all the rest here.
                if header.attributes & TRANSACTIONAL_BIT != bit:
                    return None
                if header.base_sequence != sequence or header.producer_epoch != epoch:
                    return None
                sequence = (sequence + header.record_count) & MAX_SEQUENCE
            if timestamp > latest:
                latest = timestamp
            parts.append(patched_prefix(header, offset, leader_epoch))
            parts.append(memoryview(data)[PREFIX_SIZE:])
            headers.append(header)
            offsets.append(offset)
            offset += header.record_count
            size += len(data)
        if offset - segment.base_offset > MAX_RELATIVE_OFFSET:
            return None
        if log.is_roll_due(segment, size, latest, now_ms, len(headers)):
            return None
        segment.write(parts)
    except Exception:
        # Whatever it is, a bug included: the general path meets it again for the batch concerned, and reports it.
        return None
    log.wrote(segment, flusher, headers, offsets[0], leader_epoch, in_row=len(seen) == 1)
    return AppendManyResult(offsets, offset, log.log_start_offset, size)
