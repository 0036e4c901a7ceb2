"""
The assignors of the classic protocol: pure functions that the leader of a group calls.

All clients of a group must agree on an assignor's name and data. The results are those of Kafka's assignors of the same
names, except when racks matter. See :mod:`~logbus.client.membership.range_assignor`, and
:mod:`~logbus.client.membership.sticky_assignor` for those that take earlier assignments into account.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from attrs import frozen

from logbus.client.membership.classic_codec import MemberSubscription
from logbus.client.membership.racks import Assignment, ReplicaRacks
from logbus.client.membership.range_assignor import assign_range, in_order
from logbus.client.membership.sticky_assignor import assign_cooperatively, assign_sticky, cooperative_data, sticky_data
from logbus.errors import ConfigError
from logbus.model import TopicPartition

Partitions = Mapping[str, int]
"""Partition counts by topic; 0, or missing, for topics that do not exist."""
Members = Mapping[str, MemberSubscription]


@frozen
class Assignor:
    """
    A partition assignment strategy (Kafka: ConsumerPartitionAssignor).

    :ivar name: its name in the protocol.
    :ivar share: assigns partitions to each member, also if it gets none. Partitions in a member's rack are preferred,
        if racks are known (KIP-881), but never at the cost of balance.
    :ivar cooperative: members keep their partitions while they join (KIP-429); a partition that moves is left out of
        the assignment until its owner has given it up.
    :ivar user_data: makes a member's data for the leader's assignor, from its last assignment and generation.
    """

    name: str
    share: Callable[[Partitions, Members, ReplicaRacks], Assignment]
    cooperative: bool = False
    user_data: Callable[[Iterable[TopicPartition], int], bytes | None] = lambda owned, generation: None

    def assign(self, partitions: Partitions, members: Members, replicas: ReplicaRacks | None = None) -> Assignment:
        """
        Assign partitions to members.

        :param replicas: the racks of replicas; None: ignore racks.
        """
        return self.share(partitions, members, replicas or {})


def assign_roundrobin(partitions: Partitions, members: Members, replicas: ReplicaRacks) -> Assignment:
    """Assign all partitions of all topics in order, to one subscribed member after the other; racks are ignored."""
    result: Assignment = {member: [] for member in members}
    ordered = in_order(members)
    turn = 0
    for topic, count in sorted(partitions.items()):
        if not any(topic in members[member].topics for member in ordered):
            continue
        for number in range(count):
            while topic not in members[ordered[turn % len(ordered)]].topics:
                turn += 1
            result[ordered[turn % len(ordered)]].append(TopicPartition(topic, number))
            turn += 1
    return result


ASSIGNORS: Mapping[str, Assignor] = {
    each.name: each
    for each in (
        Assignor("range", assign_range),
        Assignor("roundrobin", assign_roundrobin),
        Assignor("sticky", assign_sticky, user_data=sticky_data),
        Assignor("cooperative-sticky", assign_cooperatively, cooperative=True, user_data=cooperative_data),
    )
}
"""All assignors by name."""


def assignors_by_name(names: Sequence[str]) -> tuple[Assignor, ...]:
    """
    The assignors of these names.

    :raise ConfigError: one is not known, or a single string was given.
    """
    if isinstance(names, str):
        raise ConfigError(f"assignors are a list of names, not {names!r}")
    for name in names:
        if name not in ASSIGNORS:
            raise ConfigError(f"there is no assignor {name!r}; there are {', '.join(ASSIGNORS)}")
    return tuple(ASSIGNORS[name] for name in dict.fromkeys(names))


def are_cooperative(assignors: Iterable[Assignor]) -> bool:
    """
    Whether a member with these assignors may keep partitions while it joins: all must be cooperative, since any may be
    chosen.
    """
    return all(each.cooperative for each in assignors)
