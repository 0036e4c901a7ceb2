"""
Makes the target's batches of the source's. Pure.

A batch goes as it is: what a producer has compressed is neither decompressed nor decoded. Only some have to be encoded
anew: those of which compaction, or a sieve, has removed records; those whose timestamps are the log append time, which
other brokers would not keep; and small ones, which are put together, since each would cost a request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import define, frozen

from logbus.client.consumer.consumer_record import FetchedBatch
from logbus.client.producer.encoded_batch import EncodedBatch
from logbus.mirror.skipped_records import Sieve
from logbus.records.batch import BatchBuilder, Record, decode_batch
from logbus.records.compression import Codec

SMALL = 4096
"""Batches with fewer bytes are put together,"""
WHOLE = 256 * 1024
"""up to so many bytes, uncompressed."""


@frozen
class BatchCopy:
    """
    A batch for the target.

    :ivar builder: makes its bytes.
    :ivar upstream: the source's offsets of its records, as ranges: first offset and number of records.
    """

    builder: BatchBuilder | EncodedBatch
    upstream: tuple[tuple[int, int], ...]

    def offset_of(self, index: int) -> int:
        """The source's offset of a record."""
        for first, count in self.upstream:
            if index < count:
                return first + index
            index -= count
        raise IndexError(index)


@define
class _Collected:
    """Records that are encoded anew."""

    builder: BatchBuilder
    ranges: list[tuple[int, int]]

    def add(self, record: Record) -> None:
        offset, timestamp, key, value, headers = record
        self.builder.append(timestamp, key, value, headers)
        first, count = self.ranges[-1] if self.ranges else (offset, 0)
        if offset == first + count:
            self.ranges[-1:] = [(first, count + 1)]
        else:
            self.ranges.append((offset, 1))


def batch_copies(batches: Iterable[FetchedBatch], sieve: Sieve | None = None) -> Iterator[BatchCopy]:
    """
    The batches for the target, in order.

    :param sieve: takes out records that the target does not take.
    :raises DecodeError: a batch that has to be encoded anew is malformed.
    :raises ApiError: it cannot be decompressed.
    """
    collected: _Collected | None = None
    for each in batches:
        header = each.header
        codec = Codec(header.codec)
        whole = _is_whole(each) and (sieve is None or sieve.passes(header))
        if whole and header.size >= SMALL:
            if collected is not None:
                yield _made(collected)
                collected = None
            yield BatchCopy(EncodedBatch(header, each.data), ((header.base_offset, header.record_count),))
            continue
        first = header.base_offset + each.skip
        for record in decode_batch(each.data, header=header):
            if record.offset < first or (sieve is not None and not sieve.keeps(record, codec)):
                continue
            if collected is not None and (
                collected.builder.codec is not codec
                or not collected.builder.room_for(WHOLE, record.key, record.value, record.headers)
            ):
                yield _made(collected)
                collected = None
            if collected is None:
                collected = _Collected(BatchBuilder(codec), [])
            collected.add(record)
    if collected is not None:
        yield _made(collected)


def _is_whole(batch: FetchedBatch) -> bool:
    """Whether a target takes a batch as it is."""
    header = batch.header
    return (
        not batch.skip
        and header.record_count == header.last_offset_delta + 1
        and not header.log_append_time
        and header.delete_horizon is None
    )


def _made(collected: _Collected) -> BatchCopy:
    return BatchCopy(collected.builder, tuple(collected.ranges))
