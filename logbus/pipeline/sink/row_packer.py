"""Partitions Arrow rows and encodes them as record batches, without a Python object per row."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from logbus.model import TopicPartition
from logbus.pipeline.errors import ColumnError
from logbus.pipeline.sink.columns import SinkColumns
from logbus.pipeline.sink.options import BatchingSettings
from logbus.records.batch_columns import ColumnData, HeaderData, partitions_of_keys
from logbus.records.column_batch import ColumnBatch

_GATHERED = 32 << 20
"""The most bytes of rows that are held back."""
_ENOUGH, _SOON = 1 << 20, 0.02
"""Fewer bytes of rows wait for so many seconds: with many partitions they would make small batches."""
_WIDE = {pa.large_binary(): pa.binary(), pa.large_string(): pa.string()}


def coalesced(batches: Iterable[Any], seconds: float, clock: Callable[[], float] = time.monotonic) -> Iterator[Any]:
    """
    Combine Arrow batches into fewer and larger ones, without empty ones.

    :param seconds: for which the first rows may wait for others (``linger.ms``); few rows wait for those that come soon
        in any case.
    """
    held: list[Any] = []
    size, begun = 0, 0.0
    for batch in batches:
        if not batch.num_rows:
            continue
        if not held:
            begun = clock()
        held.append(batch)
        size += batch.nbytes
        if size >= _GATHERED or clock() - begun >= (seconds if size >= _ENOUGH else max(seconds, _SOON)):
            yield pa.concat_batches(held) if len(held) > 1 else held[0]
            held, size = [], 0
    if held:
        yield pa.concat_batches(held)


class RowPacker:
    """
    Makes record batches of Arrow rows.

    :param topic: where rows go; None: their column says.
    :param count_of: returns the number of partitions of a topic; raises if it does not exist.
    :param now: milliseconds since 1970, for rows without a timestamp.
    """

    def __init__(
        self,
        columns: SinkColumns,
        topic: str | None,
        packing: BatchingSettings,
        count_of: Callable[[str], int],
        *,
        random: Random,
        now: Callable[[], int],
    ) -> None:
        self._columns = columns
        self._topic = topic
        self._packing = packing
        self._count_of = count_of
        self._random = random
        self._now = now
        self._sticky: dict[str, tuple[int, int]] = {}

    def pack(self, rows: Any) -> Iterator[tuple[TopicPartition, ColumnBatch]]:
        """
        Make record batches of rows. The order within a partition is kept.

        :param rows: a ``pyarrow.RecordBatch``.
        :raises ColumnError: a row has an invalid value; names the column.
        """
        if any(column.offset for column in rows.columns):
            # A slice shares its buffers with other batches: copy its rows.
            rows = rows.take(pa.array(np.arange(rows.num_rows)))
        given = {field.name.lower(): _narrow(column) for field, column in zip(rows.schema, rows.columns, strict=True)}
        now = self._now()
        data = self._data(given, rows.num_rows, now)
        timestamp = None if self._columns.timestamp else now
        for partition, order in self._groups(given, rows.num_rows):
            yield from self._batches(partition, data, order, timestamp)

    def _batches(
        self, partition: TopicPartition, data: ColumnData, order: Any, timestamp: int | None
    ) -> Iterator[tuple[TopicPartition, ColumnBatch]]:
        packing = self._packing
        start, stop = 0, len(order)
        while start < stop:
            batch = ColumnBatch(
                data,
                start,
                stop,
                packing.batch_bytes,
                codec=packing.codec,
                level=packing.level,
                timestamp=timestamp,
                order=order,
            )
            if batch.count == 1 and batch.size > packing.record_bytes:
                raise ColumnError(
                    f"{partition}: a record takes {batch.size} bytes, which is more than kafka.max.request.size, "
                    f"{packing.record_bytes}"
                )
            start += batch.count
            yield partition, batch

    # Partitioning.

    def _groups(self, given: dict[str, Any], count: int) -> Iterator[tuple[TopicPartition, Any]]:
        """The indices of the rows of each partition."""
        everything = np.arange(count, dtype=np.int64)
        if not self._columns.topic:
            assert self._topic is not None
            yield from self._by_partition(self._topic, given, everything)
            return
        column = given["topic"]
        if column.null_count:
            raise ColumnError("column 'topic' is null in a row; say where it goes, or set the option 'topic'")
        found = column.dictionary_encode()
        codes = found.indices.to_numpy()
        for code, topic in enumerate(found.dictionary.to_pylist()):
            yield from self._by_partition(topic, given, np.flatnonzero(codes == code))

    def _by_partition(self, topic: str, given: dict[str, Any], rows: Any) -> Iterator[tuple[TopicPartition, Any]]:
        count = self._count_of(topic)
        numbers = self._numbers(topic, count, given, rows)
        if numbers is None:
            yield TopicPartition(topic, self._anywhere(topic, count, given, rows)), rows
            return
        without = numbers < 0
        if without.any():
            numbers[without] = self._anywhere(topic, count, given, rows[without])
        order = np.argsort(numbers, kind="stable")
        numbers, rows = numbers[order], rows[order]
        bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(rows)]
        for start, stop in pairwise(bounds):
            yield TopicPartition(topic, int(numbers[start])), rows[start:stop]

    def _numbers(self, topic: str, count: int, given: dict[str, Any], rows: Any) -> Any:
        """The partition of each row by its column or key; −1: it has neither. None: no row has."""
        numbers = None
        if self._columns.key:
            keys = given["key"]
            if len(rows) != len(keys):
                keys = keys.take(pa.array(rows))
            data = ColumnData(len(keys), b"", b"", *_buffers(keys), None, bytes(4 * (len(keys) + 1)), b"")
            numbers = np.frombuffer(partitions_of_keys(data, 0, len(keys), count), dtype=np.int32).astype(np.int64)
        if self._columns.partition:
            asked = given["partition"].take(pa.array(rows))
            said = np.asarray(asked.is_valid())
            asked = asked.fill_null(0).to_numpy()
            wrong = asked[(asked < 0) | (asked >= count)]
            if len(wrong):
                raise ColumnError(
                    f"column 'partition' is {int(wrong[0])} in a row; topic {topic!r} has partitions 0 to {count - 1}"
                )
            numbers = np.where(said, asked, -1 if numbers is None else numbers)
        return numbers

    def _anywhere(self, topic: str, count: int, given: dict[str, Any], rows: Any) -> int:
        """A partition for rows without one: sticky until a batch is full (KIP-480)."""
        current, size = self._sticky.get(topic, (-1, 0))
        if not 0 <= current < count or size >= self._packing.batch_bytes:
            step = self._random.randrange(1, count) if count > 1 and current >= 0 else self._random.randrange(count)
            current, size = (max(current, 0) + step) % count, 0
        size += given["value"].nbytes * len(rows) // max(1, len(given["value"]))
        self._sticky[topic] = current, size
        return current

    # Encoding.

    def _data(self, given: dict[str, Any], count: int, now: int) -> ColumnData:
        columns = self._columns
        key: tuple[Any, Any, Any] = bytes((count + 7) // 8), bytes(4 * (count + 1)), b""
        if columns.key:
            key = _buffers(given["key"])
        timestamps: Any = b""
        if columns.timestamp:
            timestamps = given["timestamp"].cast(pa.int64()).fill_null(now * 1000).buffers()[1]
        headers = _headers(given["headers"]) if columns.headers else None
        return ColumnData(count, b"", timestamps, *key, *_buffers(given["value"]), headers)


def _narrow(column: Any) -> Any:
    """Convert Arrow's large types to those with 32-bit offsets."""
    narrow = _WIDE.get(column.type)
    return column if narrow is None else column.cast(narrow)


def _buffers(column: Any) -> tuple[Any, Any, Any]:
    validity, offsets, data = column.buffers()
    if not column.null_count:
        validity = None
    return validity, b"\0\0\0\0" if offsets is None else offsets, b"" if data is None else data


def _headers(column: Any) -> HeaderData:
    values = column.values
    names, contents = values.field(0), values.field(1)
    if names.null_count or values.null_count:
        raise ColumnError("column 'headers': a header has no key in a row; it takes text")
    if names.offset or contents.offset:
        names, contents = (each.take(pa.array(np.arange(len(each)))) for each in (names, contents))
    _, name_offsets, name_data = _buffers(_narrow(names))
    return HeaderData(len(names), column.buffers()[1], name_offsets, name_data, *_buffers(_narrow(contents)))
