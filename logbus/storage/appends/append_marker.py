"""
Transaction markers in a log: appended for a coordinator, and read back (KIP-98).

A coordinator that does not know whether a marker was written sends it again, and it is written again: without an open
transaction it changes nothing, and its acks wait for what is in the log then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logbus.errors import ApiError, DecodeError
from logbus.records.batch import (
    BatchHeader,
    Marker,
    decode_batch,
    decode_marker,
    encode_marker_batch,
    read_header,
)
from logbus.records.checksum import Buffer

if TYPE_CHECKING:
    from logbus.storage.log import Log


def append_marker(
    log: Log, producer_id: int, producer_epoch: int, marker: Marker, leader_epoch: int, now_ms: int, version: int
) -> BatchHeader:
    """
    Append a marker; arguments and errors as of :meth:`.Log.append_marker`.

    :returns: the header of its batch in the log.
    """
    flusher = log.flusher
    log.producers.check_marker(producer_id, producer_epoch, marker, version)
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
    segment.log.get().write(segment.size, (data,))
    log.wrote(segment, flusher, (header,), offset, leader_epoch, (marker,))
    return header


def read_marker(data: Buffer, position: int, header: BatchHeader) -> Marker | None:
    """
    The marker in a control batch; None if compaction removed it, or it is another kind of control batch.

    :raises DecodeError: the batch cannot be read.
    """
    if not header.record_count:
        return None
    try:
        records = decode_batch(data, position, header=header)
    except ApiError as error:
        raise DecodeError(str(error)) from error
    return decode_marker(records[0]) if records else None
