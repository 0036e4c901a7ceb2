"""
How a stream's partitions are read: with the client's own consumer of partitions and positions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Protocol

from twisted.internet.defer import Deferred

from logbus.client.cluster.cluster import Cluster
from logbus.client.connector.gather import gather
from logbus.client.consumer.consumer_record import ConsumerRecord, Fetched
from logbus.client.consumer.fetcher import Fetcher
from logbus.client.list_offsets import EARLIEST, LATEST, list_offsets
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition

Reset = Literal["earliest", "latest", "none"]


class PartitionReader(Protocol):
    """What streams need of it."""

    def add(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions, too, from these offsets on."""

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these no more; what was read ahead of them is dropped."""

    def poll(self) -> Deferred[Fetched]:
        """The next records of any partition, waiting for some; it can be cancelled."""

    def close(self) -> object:
        """Stop."""


OpenReader = Callable[[], PartitionReader]


def reader_of(cluster: Cluster, reset: Reset, **options: Any) -> PartitionReader:
    """
    A reader without partitions.

    :param options: of :class:`~logbus.client.consumer.fetcher.Fetcher`.
    """
    return Fetcher(cluster, reset=reset, **options)


def records_of(fetched: Fetched) -> deque[ConsumerRecord]:
    """The records of one partition, as users see them."""
    return deque(fetched.records)


def start_position(partition: TopicPartition, offset: int | None) -> int:
    """
    Where to begin to read a partition.

    :param offset: None: nothing was committed, and that is not to be made up for.
    :raise ApiError: OFFSET_OUT_OF_RANGE: just that.
    """
    if offset is None:
        raise ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition}: no offset was committed; commit one, or set auto_offset_reset to earliest or latest",
        )
    return offset


async def ends_of(
    cluster: Cluster, partitions: Iterable[TopicPartition], reset: Reset, *, committed: bool
) -> dict[TopicPartition, int | LogbusError | None]:
    """
    Where to begin partitions that nobody committed an offset for: at one end; None: nowhere, that is an error.

    :param committed: the end is where the first open transaction begins, if there is one.
    """
    by_topic: dict[str, list[TopicPartition]] = {}
    for each in partitions:
        by_topic.setdefault(each.topic, []).append(each)
    if reset == "none":
        return {each: None for some in by_topic.values() for each in some}
    end = EARLIEST if reset == "earliest" else LATEST

    async def ask(some: list[TopicPartition]) -> dict[TopicPartition, int | LogbusError | None]:
        forget_missing_topics(cluster, some)
        try:
            answers = await list_offsets(cluster, dict.fromkeys(some, end), committed=committed)
        except LogbusError as e:
            return dict.fromkeys(some, e)
        found: dict[TopicPartition, int | LogbusError | None] = {}
        for partition, answer in answers.items():
            if isinstance(answer, LogbusError):
                cluster.forget(partition.topic)
                found[partition] = answer
            else:
                found[partition] = answer.offset
        return found

    return {each: at for found in await gather(map(ask, by_topic.values())) for each, at in found.items()}


def forget_missing_topics(cluster: Cluster, partitions: Iterable[TopicPartition]) -> None:
    """Forget what the cluster knows of topics that seem to lack one of these: it may be new."""
    for topic, partition in partitions:
        known = cluster.known(topic)
        if known is not None and partition not in known.partitions:
            cluster.forget(topic)
