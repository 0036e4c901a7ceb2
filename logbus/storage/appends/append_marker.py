"""
Appends transaction markers to a log, for a coordinator (KIP-98).

A coordinator that does not know whether a marker was written sends it again, and it is written again: without an open
transaction it changes nothing, and its acks wait for what is in the log then.
"""

from __future__ import annotations

from logbus.records.batch import Marker, encode_marker_batch, read_header
from logbus.storage.appends.log_append_info import LogAppendInfo
from logbus.storage.log import Log


def append_marker(
    log: Log,
    producer_id: int,
    producer_epoch: int,
    marker: Marker,
    leader_epoch: int,
    now_ms: int,
    transaction_version: int = 0,
) -> LogAppendInfo:
    """
    End a producer's transaction, as its coordinator decided. A repeated marker is written again.

    :param leader_epoch: goes into the batch.
    :param now_ms: the broker's time, ms since 1970.
    :param transaction_version: from 2 on ``producer_epoch`` is the one after that of the transaction (KIP-890).
    :raises ApiError: INVALID_PRODUCER_EPOCH: the producer has a newer epoch, or with version 2 its transaction of
        that epoch is open; TRANSACTION_COORDINATOR_FENCED: a newer coordinator has written since;
        KAFKA_STORAGE_ERROR: there is no space. Nothing was written.
    :raises StorageError: the disk failed, and is offline.
    """
    flusher = log.flusher
    log.producers.check_marker(producer_id, producer_epoch, marker, transaction_version)
    offset = log.log_end_offset
    data = encode_marker_batch(
        marker,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timestamp=now_ms,
        base_offset=offset,
        leader_epoch=leader_epoch,
    )
    header = read_header(data)
    segment = log.segment_for(header, offset, now_ms)
    segment.write((data,))
    log.wrote(segment, flusher, (header,), offset, leader_epoch, (marker,))
    return LogAppendInfo(header.base_offset, header.last_offset, -1, log.log_start_offset, header.size)
