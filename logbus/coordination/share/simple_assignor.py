"""
The server-side assignor ``simple`` of share groups (KIP-932; Kafka: SimpleAssignor). Pure.

Topics with the same subscribers are shared among these. If there are at least as many partitions as subscribers, each
partition has one member; else each has as many as it takes that every member has a partition. Members get equal numbers
of partitions, or one more, and keep what they have as far as that allows. The result depends on the input only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from logbus.coordination.consumer.partition_sets import NO_PARTITIONS, Partitions, TopicId, from_pairs

Partition = tuple[TopicId, int]

NAME = "simple"
"""By which clients know it."""


def assign(
    subscriptions: Mapping[str, frozenset[TopicId]], topics: Partitions, targets: Mapping[str, Partitions]
) -> dict[str, Partitions]:
    """
    Assign every partition to at least one of the members subscribed to it.

    :param subscriptions: the topics of each member; the order of the members is part of the input.
    :param topics: the partitions that may be assigned.
    :param targets: the present assignments.
    :return: the assignment of each member.
    """
    subscribers: dict[TopicId, list[str]] = {}
    for member, wanted in subscriptions.items():
        for topic_id in wanted:
            subscribers.setdefault(topic_id, []).append(member)
    alike: dict[tuple[str, ...], list[TopicId]] = {}
    for topic_id, members in sorted(subscribers.items()):
        if topic_id in topics:
            alike.setdefault(tuple(members), []).append(topic_id)
    shares: dict[str, list[Partition]] = {member: [] for member in subscriptions}
    for group, topic_ids in alike.items():
        partitions = [(topic_id, number) for topic_id in topic_ids for number in sorted(topics[topic_id])]
        # Who has least so far is the first to get one more.
        order = sorted(group, key=lambda member: len(shares[member]))
        for member, share in _share(order, partitions, targets).items():
            shares[member] += share
    return {member: from_pairs(share) for member, share in shares.items()}


def _share(
    members: Sequence[str], partitions: Sequence[Partition], targets: Mapping[str, Partitions]
) -> dict[str, list[Partition]]:
    """Share partitions among members who are all subscribed to them."""
    sharing = -(-len(members) // len(partitions)) if partitions else 0
    least, more = divmod(sharing * len(partitions), len(members))
    known = set(partitions)
    held = {
        member: sorted(
            partition
            for topic_id, numbers in targets.get(member, NO_PARTITIONS).items()
            for number in numbers
            if (partition := (topic_id, number)) in known
        )
        for member in members
    }
    # Who has more may keep one more.
    quotas = {
        member: least + (place < more)
        for place, member in enumerate(sorted(members, key=lambda member: -len(held[member])))
    }
    taken: Counter[Partition] = Counter()
    shares: dict[str, list[Partition]] = {}
    for member in members:
        kept = [partition for partition in held[member] if taken[partition] < sharing][: quotas[member]]
        taken.update(kept)
        shares[member] = kept
    # The places that are left, so that partitions with most of them, as those without a member, come first.
    places = [
        partition for count in range(sharing, 0, -1) for partition in partitions if sharing - taken[partition] >= count
    ]
    places.reverse()
    for member in sorted(members, key=lambda member: len(shares[member])):
        _fill(shares[member], quotas[member], places)
    # What one that stayed short could not take another one can: else it would with the next assignment.
    for member in sorted(members, key=lambda member: len(shares[member])):
        if places and len(shares[member]) == least:
            _fill(shares[member], least + 1, places)
    return shares


def _fill(share: list[Partition], quota: int, places: list[Partition]) -> None:
    """
    Take places, the last ones first, until a member has its quota.

    It stays one short if it has all the partitions that have places left; those have a member then: itself.
    """
    has = set(share)
    passed = []
    while places and len(share) < quota:
        partition = places.pop()
        if partition in has:
            passed.append(partition)
        else:
            has.add(partition)
            share.append(partition)
    places.extend(reversed(passed))
