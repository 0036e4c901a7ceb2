"""Reads what a target knows of a mirror: where it left off, how offsets are translated, and what was left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from attrs import define, field
from twisted.logger import Logger

from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.client.consumer.fetch_options import FetchOptions
from logbus.client.consumer.fetcher import Fetcher
from logbus.client.list_offsets import EARLIEST, LATEST, list_offsets_with_retries
from logbus.errors import DecodeError
from logbus.mirror.copied_range import CopiedRange, TopicIds, decode_epoch, decode_range
from logbus.mirror.mirror_records import BEGUN
from logbus.mirror.offset_map import OffsetMap
from logbus.mirror.skipped_records import SkippedRecord, SkippedRecords
from logbus.model import NO_EPOCH, TopicPartition

T = TypeVar("T")

_log = Logger()


@define(eq=False)
class CopiedPartition:
    """
    The state of a partition's copy at the target.

    :ivar next_offset: where the source's next records begin.
    :ivar ids: of the topics on both sides, when they were copied.
    :ivar offsets: translates offsets.
    :ivar epoch: the source's leader epoch before ``next_offset``; −1: not known.
    """

    next_offset: int
    ids: TopicIds
    offsets: OffsetMap = field(factory=OffsetMap)
    epoch: int = NO_EPOCH

    def add(self, copied: CopiedRange, ids: TopicIds, epoch: int = NO_EPOCH) -> None:
        """Note a range that was copied."""
        if ids != self.ids:
            self.offsets.clear()
        self.offsets.add(copied)
        self.next_offset, self.ids, self.epoch = copied.next_offset, ids, epoch


async def read_positions(target: Cluster, topic: str, begun: int) -> dict[TopicPartition, CopiedPartition]:
    """
    The state of the copies at the target, by partition of the source.

    :param topic: the topic of offset syncs.
    :param begun: the offset there at which this session has begun. All before it is read, even if a leader answers that
        has been replaced without knowing it, and does not have the last of them.
    :raises LogbusError: it does not exist, or cannot be read.
    """
    found: dict[TopicPartition, CopiedPartition] = {}

    def read(record: ConsumerRecord) -> None:
        if record.key == BEGUN.key:
            return
        try:
            copied, ids = decode_range(record.key, record.value, record.headers)
        except DecodeError as e:
            _log.warn("{topic} offset {offset}: {error}", topic=topic, offset=record.offset, error=e)
            return
        known = found.get(copied.partition)
        if known is None:
            known = found[copied.partition] = CopiedPartition(0, ids)
        known.add(copied, ids, decode_epoch(record.headers))

    await read_partition(target, TopicPartition(topic, 0), read, least=begun + 1)
    return found


async def read_skipped(target: Cluster, topic: str) -> SkippedRecords:
    """
    The records that were left out; none if there is no such topic.

    :param topic: the topic of these.
    :raises LogbusError: it cannot be read.
    """
    found = SkippedRecords()
    if topic not in {each.name for each in await target.topics()}:
        return found

    def read(record: ConsumerRecord) -> None:
        try:
            found.add(SkippedRecord.decode(record.value))
        except DecodeError as e:
            _log.warn("{topic} offset {offset}: {error}", topic=topic, offset=record.offset, error=e)

    await read_partition(target, TopicPartition(topic, 0), read)
    return found


async def read_partition(
    cluster: Cluster,
    partition: TopicPartition,
    read: Callable[[ConsumerRecord], object],
    start: int | None = None,
    least: int = 0,
) -> int:
    """
    Call a function with each committed record that a partition has now; returns its end.

    The end is that of all records, so that transactions that are being committed are waited for: the last stable offset
    may be before records that are committed, if another producer's transaction is open.

    :param start: the first offset; None: that of the partition.
    :param least: an end that it is known to have had.
    """
    starts = await list_offsets_with_retries(cluster, {partition: EARLIEST}, committed=False)
    ends = await list_offsets_with_retries(cluster, {partition: LATEST}, committed=False)
    position, end = max(start or 0, starts[partition].offset), max(ends[partition].offset, least)
    if position >= end:
        return end
    fetcher = Fetcher(cluster, FetchOptions(isolation="read_committed", reset="earliest"))
    try:
        fetcher.assign({partition: position})
        while position < end:
            fetched = await fetcher.poll()
            for record in fetched.records:
                if record.offset < end:
                    read(record)
            position = fetched.next_offset
    finally:
        fetcher.close()
    return end
