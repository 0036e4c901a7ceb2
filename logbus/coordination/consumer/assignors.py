"""
The server-side assignors ``uniform`` and ``range`` (KIP-848; Kafka: UniformAssignor, RangeAssignor).

An assignor takes each member's subscription and present target, and assigns every partition of every subscribed topic
to exactly one of the members subscribed to it. The result depends on the input only, so every broker computes the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from logbus.coordination.consumer.partition_sets import NO_PARTITIONS, Partitions, TopicId, from_pairs
from logbus.coordination.consumer.uniform_assignor import Shares, share_by_subscription, share_equally

MemberSubscriptions = Mapping[str, frozenset[TopicId]]
"""The topics that each member is subscribed to, all of which exist. The order of the members is part of the input."""

Assignor = Callable[[MemberSubscriptions, Mapping[TopicId, int], Mapping[str, Partitions]], dict[str, Partitions]]
"""Takes subscriptions, the number of partitions of each topic, and the present targets; returns the new targets."""


def uniform(
    subscriptions: MemberSubscriptions, topics: Mapping[TopicId, int], targets: Mapping[str, Partitions]
) -> dict[str, Partitions]:
    """Assign equal shares, and move few partitions: see :mod:`logbus.coordination.consumer.uniform_assignor`."""
    order = list(subscriptions)
    wanted_by = _wanted_by(subscriptions)
    kept: Shares = {member: [] for member in order}
    taken: set[tuple[TopicId, int]] = set()
    for member in order:
        for topic_id, numbers in sorted(targets.get(member, NO_PARTITIONS).items()):
            if topic_id in subscriptions[member]:
                for number in sorted(numbers):
                    partition = (topic_id, number)
                    if number < topics[topic_id] and partition not in taken:
                        taken.add(partition)
                        kept[member].append(partition)
    free = {
        topic_id: [number for number in range(topics[topic_id]) if (topic_id, number) not in taken]
        for topic_id in sorted(wanted_by)
    }
    if len(set(subscriptions.values())) == 1 and wanted_by:
        share_equally(kept, order, [(topic_id, number) for topic_id, numbers in free.items() for number in numbers])
    elif wanted_by:
        share_by_subscription(kept, order, free, wanted_by)
    return {member: from_pairs(partitions) for member, partitions in kept.items()}


def range_assignor(
    subscriptions: MemberSubscriptions, topics: Mapping[TopicId, int], targets: Mapping[str, Partitions]
) -> dict[str, Partitions]:
    """
    Assign a contiguous range of each topic's partitions to each of its members; if uneven, the first get one more.

    Topics with equal partition counts and members are divided in the same way, which co-partitions them for joins by
    key. The present targets are ignored.
    """
    shares: dict[str, dict[TopicId, frozenset[int]]] = {member: {} for member in subscriptions}
    for topic_id, members in _wanted_by(subscriptions).items():
        least, more = divmod(topics[topic_id], len(members))
        first = 0
        for number, member in enumerate(members):
            end = first + least + (number < more)
            if end == first:
                break
            shares[member][topic_id] = frozenset(range(first, end))
            first = end
    return dict(shares)


def _wanted_by(subscriptions: MemberSubscriptions) -> dict[TopicId, Sequence[str]]:
    different = set(subscriptions.values())
    if len(different) == 1:
        order = list(subscriptions)
        return {topic_id: order for topic_id in sorted(different.pop())}  # noqa: C420
    wanted_by: dict[TopicId, list[str]] = {}
    for member, wanted in subscriptions.items():
        for topic_id in wanted:
            wanted_by.setdefault(topic_id, []).append(member)
    return dict(wanted_by)


ASSIGNORS: Mapping[str, Assignor] = {"uniform": uniform, "range": range_assignor}
"""By the names that clients use (``group.remote.assignor``); the first one is the default."""

DEFAULT_ASSIGNOR = next(iter(ASSIGNORS))
