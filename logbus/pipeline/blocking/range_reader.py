"""
Reads a range of one partition as columns, while a thread fetches ahead.

The thread fetches from the leader, follows leader changes, waits for brokers that restart, and pauses when the limit of
unread bytes is reached. The reader decodes, so that decoding and the kernel's copying use different cores.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator
from typing import NamedTuple

from logbus.errors import ApiError, DecodeError, ErrorCode
from logbus.model import TopicPartition
from logbus.pipeline.blocking.brokers import Brokers
from logbus.pipeline.blocking.prefetcher import FetchOptions, Prefetcher
from logbus.records.batch_columns import ColumnData, Columns, extend_from_batches
from logbus.records.read_committed import CommittedFilter

BATCH_ROWS = 10_000
BATCH_BYTES = 7 << 20
"""
The size of a result, but whole record batches: smaller ones cost more per row. With its other columns and one more
batch it is below 8 MiB as a rule: Java's Arrow takes memory in powers of two from chunks of 16 MiB
(:mod:`logbus.pipeline.session`), and Spark's tasks take less time if two results fit in one.
"""

_IN_PLACE_BYTES = 1 << 20
"""Responses of at least this size: their values stay where they were received, so that a result is of one response."""

_NO_ID = uuid.UUID(int=0)


class FetchedRows(NamedTuple):
    """
    Decoded records with the same timestamp type.

    :ivar stamped: whether the timestamps are LogAppendTime; else CreateTime.
    """

    columns: ColumnData
    stamped: bool


def read_range(
    brokers: Brokers,
    partition: TopicPartition,
    start: int,
    end: int,
    options: FetchOptions | None = None,
    *,
    topic_id: uuid.UUID = _NO_ID,
    headers: bool = False,
    batch_rows: int = BATCH_ROWS,
    batch_bytes: int = BATCH_BYTES,
) -> Generator[FetchedRows, None, None]:
    """
    Read the records from offset ``start`` on and below ``end``.

    :param topic_id: of the topic; a topic recreated under the same name is an error. Zero: any.
    :param headers: add columns of the headers.
    :returns: a generator of rows in order. Closing it ends the thread.
    :raises OffsetLost: offsets are gone, or the topic is.
    :raises ApiError: another error that is not retriable; CORRUPT_MESSAGE: a batch is damaged.
    :raises Disconnected: (also Unreachable) brokers were unavailable for longer than the settings allow.
    """
    columns = Columns(headers, brokers.buffers.values)
    offset, stamped = start, False
    failure: Exception | None = None
    try:
        with Prefetcher(brokers, partition, start, end, options or FetchOptions(), topic_id) as ahead:
            for answer in ahead:
                hidden, pos = CommittedFilter(answer.aborted), 0
                in_place = len(answer.data) >= _IN_PLACE_BYTES
                for stop, stamps in answer.runs:
                    if stamps != stamped and columns.rows:
                        yield FetchedRows(columns.take(), stamped)
                    stamped = stamps
                    part = answer.data[:stop]
                    while pos < stop and offset < end:
                        before = pos
                        pos, offset = extend_from_batches(
                            columns,
                            part,
                            hidden,
                            offset,
                            end,
                            max_rows=batch_rows,
                            max_bytes=batch_bytes,
                            pos=pos,
                            in_place=in_place,
                        )
                        full = columns.rows >= batch_rows or columns.nbytes >= batch_bytes
                        if columns.rows and (full or pos == before):
                            yield FetchedRows(columns.take(), stamped)
                        elif pos == before and offset < end:
                            raise DecodeError("there is no whole batch")
                if in_place and columns.rows:
                    yield FetchedRows(columns.take(), stamped)
    except DecodeError as e:
        failure = ApiError(ErrorCode.CORRUPT_MESSAGE, _unreadable(partition, offset, e))
    except ApiError as e:
        failure = ApiError(e.code, _unreadable(partition, offset, e))
    except Exception as e:
        failure = e
    if columns.rows:
        yield FetchedRows(columns.take(), stamped)
    if failure is not None:
        raise failure


def _unreadable(partition: TopicPartition, offset: int, error: Exception) -> str:
    return f"{partition}: offset {offset} cannot be read: {error}"
