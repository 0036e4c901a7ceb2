"""
Who reads what in the classic protocol: pure functions that the leader of a group computes.

All clients of a group must agree on the name and on what members tell each other; the results are those of Kafka's own
assignors of the same names, where racks play no part. The assignors that look at what members had before are in
:mod:`~logbus.client.membership.sticky`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from attrs import frozen

from logbus.client.membership.memberdata import MemberSubscription
from logbus.client.membership.sticky import assign_cooperatively, assign_sticky, cooperative_data, sticky_data
from logbus.errors import ConfigError
from logbus.model import TopicPartition

Partitions = Mapping[str, int]
"""How many partitions topics have; those that are not there have none, or are not in it."""
Members = Mapping[str, MemberSubscription]
Assignment = dict[str, list[TopicPartition]]
"""For each member its partitions, also if it has none."""


@frozen
class Assignor:
    """
    A way to share out partitions.

    :ivar name: by which members agree on it.
    :ivar cooperative: members keep, while they join, what they have (KIP-429); what moves is left out of the
        assignment until its former owner has given it up.
    :ivar user_data: what a member tells the leader's assignor, from what it had and in which generation.
    """

    name: str
    assign: Callable[[Partitions, Members], Assignment]
    cooperative: bool = False
    user_data: Callable[[Iterable[TopicPartition], int], bytes | None] = lambda owned, generation: None


def assign_range(partitions: Partitions, members: Members) -> Assignment:
    """Of each topic, neighbours to the same member; the first members get one more where it does not come out even."""
    result: Assignment = {member: [] for member in members}
    ordered = in_order(members)
    for topic, count in sorted(partitions.items()):
        readers = [member for member in ordered if topic in members[member].topics]
        if not readers:
            continue
        each, more = divmod(count, len(readers))
        first = 0
        for place, member in enumerate(readers):
            beyond = first + each + (place < more)
            result[member] += [TopicPartition(topic, number) for number in range(first, beyond)]
            first = beyond
    return result


def assign_roundrobin(partitions: Partitions, members: Members) -> Assignment:
    """All partitions of all topics in order, to one member after the other that reads the topic."""
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


def in_order(members: Members) -> list[str]:
    """Static members by their instance ids, then the others by member id: static ones keep their places (KIP-345)."""

    def place(member: str) -> tuple[bool, str, str]:
        instance = members[member].group_instance_id
        return instance is None, instance or "", member

    return sorted(members, key=place)


ASSIGNORS: Mapping[str, Assignor] = {
    each.name: each
    for each in (
        Assignor("range", assign_range),
        Assignor("roundrobin", assign_roundrobin),
        Assignor("sticky", assign_sticky, user_data=sticky_data),
        Assignor("cooperative-sticky", assign_cooperatively, cooperative=True, user_data=cooperative_data),
    )
}
"""By name."""


def assignors_of(names: Sequence[str]) -> tuple[Assignor, ...]:
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
    """Whether a member of these may keep partitions while it joins: only if whichever is agreed on allows it."""
    return all(each.cooperative for each in assignors)
