"""Looks up offsets by time at the partitions' leaders (ListOffsets)."""

from __future__ import annotations

from collections.abc import Mapping

from logbus.model import TimestampOffset, TopicPartition, group_by_topic
from logbus.pipeline.blocking.brokers import Brokers
from logbus.pipeline.blocking.connection import Connection
from logbus.pipeline.blocking.retry import RetryTimer, api_error, is_retriable
from logbus.pipeline.errors import Disconnected
from logbus.wire.messages.records import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST = -1
"""Instead of a time: the end offset (KIP-32)."""
EARLIEST = -2
"""Instead of a time: the log start offset."""


def list_offsets(
    brokers: Brokers, wanted: Mapping[TopicPartition, int], committed: bool = False, seconds: float | None = None
) -> dict[TopicPartition, TimestampOffset]:
    """
    The first offset at or after a time, for each partition. Retriable errors are retried.

    :param wanted: milliseconds since 1970, :data:`LATEST` or :data:`EARLIEST`.
    :param committed: the end is the last stable offset (``read_committed``).
    :param seconds: for how long to retry; default: as the settings say.
    :returns: offset and timestamp −1: there is no record at or after the time.
    :raises ApiError: for the first partition that failed.
    :raises Disconnected: a leader cannot be reached.
    """
    answers: dict[TopicPartition, TimestampOffset] = {}
    timer = RetryTimer.of(brokers.settings, seconds)
    while len(answers) < len(wanted):
        failure: Exception | None = None
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for partition in wanted:
            if partition not in answers:
                try:
                    led = brokers.partition_metadata(partition)
                    by_leader.setdefault(led.leader, {})[partition] = led.leader_epoch
                except Exception as e:
                    failure = _worse(failure, e)
        for leader, epochs in by_leader.items():
            try:
                connection = brokers.node(leader)
                failure = _worse(failure, _ask(brokers, connection, wanted, epochs, committed, answers))
            except Disconnected as e:
                for each in epochs:
                    brokers.forget(each)
                failure = _worse(failure, e)
        if failure is not None:
            timer.failed(failure)
    return {each: answers[each] for each in wanted}


def _worse(one: Exception | None, other: Exception | None) -> Exception | None:
    """Of two errors the one that is not retriable."""
    if one is None or (other is not None and not is_retriable(other) and is_retriable(one)):
        return other
    return one


def _ask(
    brokers: Brokers,
    connection: Connection,
    wanted: Mapping[TopicPartition, int],
    epochs: Mapping[TopicPartition, int],
    committed: bool,
    answers: dict[TopicPartition, TimestampOffset],
) -> Exception | None:
    """
    Send one broker the request for its partitions.

    :param epochs: leader epochs of these partitions.
    :returns: the worst error.
    """
    by_topic = group_by_topic(
        (each, ListOffsetsPartition(partition_index=each.partition, timestamp=wanted[each], current_leader_epoch=epoch))
        for each, epoch in epochs.items()
    )
    topics = [ListOffsetsTopic(name=name, partitions=each) for name, each in by_topic.items()]
    timeout_ms = int(brokers.settings.request_timeout * 1000)
    response: ListOffsetsResponse = connection.request(
        ListOffsetsRequest(isolation_level=int(committed), topics=topics, timeout_ms=timeout_ms)
    )
    failure: Exception | None = None
    left = set(epochs)
    for topic in response.topics:
        for answer in topic.partitions:
            partition = TopicPartition(topic.name, answer.partition_index)
            if partition not in left:
                continue
            left.discard(partition)
            if answer.error_code:
                brokers.forget(partition)
                failure = _worse(failure, api_error(answer.error_code, str(partition)))
            else:
                answers[partition] = TimestampOffset(answer.timestamp, answer.offset, answer.leader_epoch)
    for partition in left:
        failure = _worse(failure, Disconnected(f"the broker's answer leaves out {partition}"))
    return failure
