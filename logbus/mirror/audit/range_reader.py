"""Reads a range of a partition: its committed records."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import TimeoutError as DeferredTimeout

from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.client.consumer.fetch_options import FetchOptions
from logbus.client.consumer.fetcher import Fetcher
from logbus.errors import LogbusError
from logbus.model import TopicPartition

PATIENCE = 60.0
"""Seconds that a partition may have nothing to read that it should have."""


class Unread(LogbusError):
    """A partition cannot be read now."""


async def read_range(
    cluster: Cluster, partition: TopicPartition, start: int, end: int, read: Callable[[ConsumerRecord], object]
) -> None:
    """
    Call a function with the committed records of a range, in order.

    :param end: the offset behind the last one; at most the last stable offset, or it waits for that.
    :param read: a true result ends the reading.
    :raises ApiError: records are gone meanwhile, or cannot be read.
    :raises Unread: there was no answer for :data:`PATIENCE`.
    """
    position = start
    if position >= end:
        return
    fetcher = Fetcher(cluster, FetchOptions(isolation="read_committed", reset="none"))
    try:
        fetcher.assign({partition: position})
        while position < end:
            try:
                fetched = await fetcher.poll().addTimeout(PATIENCE, cluster.reactor)
            except DeferredTimeout:
                what = f"{partition} from offset {position} on: nothing was read for {PATIENCE:g} s"
                raise Unread(f"{what}; has it a leader?") from None
            for record in fetched.records:
                if record.offset < end and read(record):
                    return
            position = fetched.next_offset
    finally:
        fetcher.close()


@define
class Side:
    """
    One side of a partition.

    :ivar log_start: its first offset.
    :ivar end: where to stop.
    :ivar left_out: offsets that are passed over: the mirror has left these records out.
    :ivar passed: those of them that were there.
    """

    cluster: Cluster
    partition: TopicPartition
    log_start: int
    end: int
    left_out: frozenset[int] = frozenset()
    passed: set[int] = field(factory=set, init=False)

    async def read(self, start: int, end: int, read: Callable[[ConsumerRecord], object]) -> None:
        """As :func:`read_range`, within this side's range."""

        def read_others(record: ConsumerRecord) -> object:
            if record.offset not in self.left_out:
                return read(record)
            self.passed.add(record.offset)
            return False

        await read_range(
            self.cluster,
            self.partition,
            max(start, self.log_start),
            min(end, self.end),
            read_others if self.left_out else read,
        )
