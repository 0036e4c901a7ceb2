"""Looks up offsets by time (ListOffsets) at the leaders of partitions."""

from __future__ import annotations

from collections.abc import Mapping

from logbus.client.cluster.cluster import Cluster
from logbus.client.retry import api_error, is_retriable
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TimestampOffset, TopicPartition, group_by_topic
from logbus.wire.messages.records import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST = -1
"""Instead of a time: the end of the partition (KIP-32)."""
EARLIEST = -2
"""Instead of a time: the beginning of the partition."""
MAX_TIMESTAMP = -3
"""Instead of a time: the record with the largest timestamp (KIP-734)."""


async def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, patience: float = 0.0, committed: bool = False
) -> dict[TopicPartition, TimestampOffset | ApiError]:
    """
    The first offset at or after a time, for each partition.

    :param wanted: milliseconds since 1970, :data:`LATEST`, :data:`EARLIEST` or :data:`MAX_TIMESTAMP`.
    :param patience: seconds for which retriable errors are retried; a new leader may not know the end yet.
    :param committed: the end is the last stable offset.
    :returns: offset and timestamp −1 if there is no such record; or the leader's error.
    :raises LogbusError: a topic does not exist, or a leader cannot be reached.
    """
    attempts = cluster.attempts(patience)
    answers = await _list_offsets(cluster, wanted, committed)
    while True:
        again = {each: wanted[each] for each, answer in answers.items() if _not_yet(cluster, each, answer)}
        if not again or not await attempts.again():
            return answers
        for name in {each.topic for each in again}:
            cluster.forget(name)
        answers.update(await _list_offsets(cluster, again, committed))


async def list_offsets_with_retries(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], committed: bool
) -> dict[TopicPartition, TimestampOffset]:
    """
    Like :func:`list_offsets`, with retries, and raising the first error.

    :raises ApiError: the error of the first partition that has one.
    """
    found = {}
    answers = await list_offsets(cluster, wanted, patience=5.0, committed=committed)
    for partition, answer in answers.items():
        if isinstance(answer, ApiError):
            raise answer
        found[partition] = answer
    return found


def _not_yet(cluster: Cluster, partition: TopicPartition, answer: TimestampOffset | ApiError) -> bool:
    topic = cluster.known(partition.topic)
    there = topic is not None and partition.partition in topic.partitions
    return there and isinstance(answer, ApiError) and is_retriable(answer)


async def _list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], committed: bool
) -> dict[TopicPartition, TimestampOffset | ApiError]:
    answers: dict[TopicPartition, TimestampOffset | ApiError] = {}
    by_leader: dict[int, list[tuple[TopicPartition, ListOffsetsPartition]]] = {}
    for partition, timestamp in wanted.items():
        name, index = partition
        topic = await cluster.topic(name)
        leader = cluster.leader(partition)
        if leader is None:
            no_leader = ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
            answers[partition] = no_leader if index in topic.partitions else topic.has_no(index)
            continue
        asked = ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        by_leader.setdefault(leader, []).append((partition, asked))
    for leader, theirs in by_leader.items():
        topics = [ListOffsetsTopic(name=name, partitions=each) for name, each in group_by_topic(theirs).items()]
        channel = await cluster.channel(leader)
        timeout_ms = int(cluster.timeout * 1000)
        response: ListOffsetsResponse = await channel.request(
            ListOffsetsRequest(isolation_level=int(committed), topics=topics, timeout_ms=timeout_ms)
        )
        for each in response.topics:
            for answer in each.partitions:
                partition = TopicPartition(each.name, answer.partition_index)
                if answer.error_code:
                    answers[partition] = api_error(answer.error_code, str(partition))
                else:
                    answers[partition] = TimestampOffset(answer.timestamp, answer.offset, answer.leader_epoch)
    for partition in wanted:
        if partition not in answers:
            raise LogbusError(f"the broker's answer leaves out {partition}")
    return answers
