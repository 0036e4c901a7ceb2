"""
Assigns ranges of each topic's partitions to the streams of all members; every member computes the same. Pure.

Partitions and streams are sorted; each stream gets an equal number of partitions, and the first ones get one more if
the division leaves a rest. Streams are sorted by their names as text, as in Kafka 0.8: ``c-10`` comes before ``c-2``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from logbus.client.connector.znodes import TopicCount, thread_id
from logbus.model import INTERNAL_TOPICS, TopicPartition


def ranges(partitions: Collection[int], threads: Collection[str]) -> dict[int, str]:
    """
    The stream of each partition of one topic.

    :return: empty if there are no streams.
    """
    if not threads:
        return {}
    each, left_over = divmod(len(partitions), len(threads))
    numbers = iter(sorted(partitions))
    assigned = {}
    for index, thread in enumerate(sorted(threads)):
        for _ in range(each + (index < left_over)):
            assigned[next(numbers)] = thread
    return assigned


def assign(
    topics: Mapping[str, Collection[int]], members: Mapping[str, TopicCount]
) -> dict[TopicPartition, tuple[str, int]]:
    """
    The consumer of each partition, and the number of its stream.

    :param topics: partitions by topic.
    :param members: the subscriptions of the group's consumers, by id.
    """
    assigned = {}
    for topic, partitions in topics.items():
        threads = {
            thread_id(consumer_id, stream): (consumer_id, stream)
            for consumer_id, subscription in members.items()
            for stream in range(max(0, subscription.streams_for(topic)))
        }
        for number, thread in ranges(partitions, threads).items():
            assigned[TopicPartition(topic, number)] = threads[thread]
    return assigned


def share(assigned: Mapping[TopicPartition, tuple[str, int]], consumer_id: str) -> dict[TopicPartition, int]:
    """One consumer's part of an assignment: the stream of each partition."""
    return {partition: stream for partition, (owner, stream) in assigned.items() if owner == consumer_id}


def wanted_topics(subscription: TopicCount, there: Iterable[str], *, internal: bool) -> list[str]:
    """
    The topics that a consumer subscribes to, in order, including named topics that do not exist.

    :param there: the existing topics.
    :param internal: whether a filter includes internal topics.
    """
    if subscription.filter is None:
        return sorted(subscription.topics)
    return sorted(
        name for name in there if (internal or name not in INTERNAL_TOPICS) and subscription.filter.allows(name)
    )
