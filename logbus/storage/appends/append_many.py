"""
Appends batches of producers to a log by one write: the fast path of Produce.

All batches must be valid, fit the active segment as they are, and have timestamps. Those of an idempotent producer
continue its sequence, and no other producer's are between them. They are outside of transactions, or all of one
producer in one that is open. They cost one system call, and most bookkeeping is done once. Anything else (a duplicate,
the first batch of a transaction) takes the general path, :func:`.append_as_leader`, which finds the error of the batch
that has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from logbus.records.batch import BatchHeader
from logbus.records.checksum import Buffer
from logbus.records.header import LENGTH_OVERHEAD, PREFIX, PREFIX_SIZE, TRANSACTIONAL_BIT, header_of
from logbus.storage.appends.log_validator import LOG_APPEND_TIME, validated_for_topic
from logbus.storage.appends.recompression import PRODUCER
from logbus.storage.log import Log
from logbus.storage.producers.producer_state_manager import MAX_SEQUENCE
from logbus.storage.segments.indexes import MAX_RELATIVE_OFFSET
from logbus.storage.segments.segment import AppendedBatch

MAX_BATCHES = 256
"""Upper bound of batches in one write: the kernel takes at most 1024 buffers, and each batch has two."""

_FARTHEST = 2**62
"""Offsets beyond it take the general path: compiled, numbers of 64 bits are added."""

_prefix = PREFIX.pack
_new_tuple = tuple.__new__


class AppendManyResult(NamedTuple):
    """
    The result of appending batches.

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
    Append all of these batches, at least one, or none.

    :param batches: each the records of one request; neither kept nor changed.
    :param in_transaction: they must belong to a transaction that is open; otherwise to none.
    :returns: None: at least one batch needs the general path, or the write failed; nothing was written.
    """
    offsets: list[int] = []
    appended: list[AppendedBatch] = []
    of_producers: list[tuple[BatchHeader, int]] = []
    producers: set[int] = set()
    parts: list[Buffer] = []
    size, latest = 0, -1
    try:
        config, flusher, segment = log.config, log.flusher, log.segments[-1]
        offset, base_offset = log.log_end_offset, segment.base_offset
        if (
            len(batches) > MAX_BATCHES
            or offset > _FARTHEST
            or not segment.size
            or config.compression_type != PRODUCER
            or config.message_timestamp_type == LOG_APPEND_TIME
        ):
            return None
        last_producer, last_epoch, next_sequence = -1, -1, -1
        for data in batches:
            fields = validated_for_topic(data, config, now_ms, zstd_allowed, False)
            _, length, _, _, _, attributes, delta, _, timestamp, producer_id, epoch, sequence, _ = fields
            if timestamp < 0:
                return None
            if producer_id >= 0:
                header = header_of(fields)
                if producer_id != last_producer:
                    if in_transaction and (of_producers or not log.producers.open_transaction(producer_id, epoch)):
                        return None
                    if producer_id in producers or log.producers.check(header) is not None:
                        return None
                    producers.add(producer_id)
                    last_producer, last_epoch = producer_id, epoch
                elif sequence != next_sequence or epoch != last_epoch:
                    return None
                if (attributes & TRANSACTIONAL_BIT != 0) != in_transaction:
                    return None
                next_sequence = (sequence + delta + 1) & MAX_SEQUENCE
                of_producers.append((header, offset))
            elif in_transaction:
                return None
            if timestamp > latest:
                latest = timestamp
            parts.append(_prefix(offset, length, leader_epoch))
            view = data if isinstance(data, memoryview) else memoryview(data)
            parts.append(view[PREFIX_SIZE:])
            length += LENGTH_OVERHEAD
            size += length
            offsets.append(offset)
            offset += delta + 1
            appended.append((offset - 1, timestamp, length))
        if offset - base_offset > MAX_RELATIVE_OFFSET:
            return None
        if log.is_roll_due(segment, size, latest, now_ms, len(appended)):
            return None
        segment.write(parts)
    except Exception:
        # Whatever it is, a bug included: the general path meets it again for the batch concerned, and reports it.
        return None
    are_consecutive = len(producers) == 1 and len(of_producers) == len(appended)
    log.wrote_many(segment, flusher, appended, offsets[0], leader_epoch, of_producers, are_consecutive)
    return _new_tuple(AppendManyResult, (offsets, offset, log.log_start_offset, size))
