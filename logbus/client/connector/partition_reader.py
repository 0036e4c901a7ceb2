"""
The part of a :class:`~logbus.client.consumer.fetcher.Fetcher` that streams need, and the offsets at which it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from twisted.internet.defer import Deferred

from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.consumer_record import Fetched
from logbus.client.consumer.fetch_options import FetchOptions
from logbus.client.list_offsets import EARLIEST, LATEST, list_offsets
from logbus.coroutines import gather
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition


class PartitionReader(Protocol):
    """The part of a fetcher that streams use."""

    def add(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions, too, from these offsets."""

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these, and drop their buffered records."""

    def poll(self) -> Deferred[Fetched]:
        """Wait for the next records of any partition; can be cancelled."""

    def close(self) -> object:
        """Stop."""


OpenReader = Callable[[], PartitionReader]


def start_position(partition: TopicPartition, offset: int | None) -> int:
    """
    The offset to start at.

    :param offset: None: there is no committed offset, and no reset policy.
    :raise ApiError: OFFSET_OUT_OF_RANGE: it is None.
    """
    if offset is None:
        raise ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition}: no offset was committed; commit one, or set auto_offset_reset to earliest or latest",
        )
    return offset


async def ends_of(
    cluster: Cluster, partitions: Iterable[TopicPartition], options: FetchOptions
) -> dict[TopicPartition, int | LogbusError | None]:
    """
    Start offsets of partitions without a committed offset, by the reset policy; None: the policy is none.
    """
    by_topic: dict[str, list[TopicPartition]] = {}
    for each in partitions:
        by_topic.setdefault(each.topic, []).append(each)
    if options.reset == "none":
        return {each: None for some in by_topic.values() for each in some}
    end = EARLIEST if options.reset == "earliest" else LATEST

    async def ask(some: list[TopicPartition]) -> dict[TopicPartition, int | LogbusError | None]:
        forget_missing_topics(cluster, some)
        try:
            answers = await list_offsets(cluster, dict.fromkeys(some, end), committed=options.committed)
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
    """Drop cached metadata of topics that lack one of these partitions, which may be new."""
    for topic, partition in partitions:
        known = cluster.known(topic)
        if known is not None and partition not in known.partitions:
            cluster.forget(topic)
