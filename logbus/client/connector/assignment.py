"""
Who reads what: the partitions of a topic in ranges over the streams of all members, the same at every member. Pure.

The documents' rule: both are sorted; each stream gets as many partitions as any other, and the first ones one more
while some are left over. Streams are sorted by their names as text, as the consumers of Kafka 0.8 do: ``c-10`` comes
before ``c-2``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from logbus.client.connector.topic_filter import INTERNAL
from logbus.client.connector.znodes import TopicCount, thread_id
from logbus.model import TopicPartition


def ranges(partitions: Collection[int], threads: Collection[str]) -> dict[int, str]:
    """
    The thread of each partition of one topic.

    :return: nothing if there are no threads.
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
    The consumer of each partition, and which of its streams, from 0.

    :param topics: partitions by topic.
    :param members: what each consumer of the group subscribes to, by its id.
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
    """What of it is one consumer's: its stream for each partition."""
    return {partition: stream for partition, (owner, stream) in assigned.items() if owner == consumer_id}


def wanted_topics(subscription: TopicCount, there: Iterable[str], *, internal: bool) -> list[str]:
    """
    The topics a consumer asks for, in order; of those it names also such as are not there yet.

    :param there: the topics that there are.
    :param internal: whether a filter sees the brokers' own topics, too.
    """
    if subscription.filter is None:
        return sorted(subscription.topics)
    return sorted(name for name in there if (internal or name not in INTERNAL) and subscription.filter.allows(name))
