"""
Who reads what in the classic protocol: pure functions that the leader of a group computes.

All clients of a group must agree on the name and on what members tell each other; the results are those of Kafka's own
assignors of the same names, as long as racks play no part. See :mod:`~logbus.client.membership.range_assignor`, and
:mod:`~logbus.client.membership.sticky_assignor` for those that look at what members had before.
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
"""How many partitions topics have; those that are not there have none, or are not in it."""
Members = Mapping[str, MemberSubscription]


@frozen
class Assignor:
    """
    A way to share out partitions.

    :ivar name: by which members agree on it.
    :ivar share: gives each member its partitions, also if it has none. Partitions near a member come first, where it is
        known where they are (KIP-881); they are never shared out less evenly for it.
    :ivar cooperative: members keep, while they join, what they have (KIP-429); what moves is left out of the
        assignment until its former owner has given it up.
    :ivar user_data: what a member tells the leader's assignor, from what it had and in which generation.
    """

    name: str
    share: Callable[[Partitions, Members, ReplicaRacks], Assignment]
    cooperative: bool = False
    user_data: Callable[[Iterable[TopicPartition], int], bytes | None] = lambda owned, generation: None

    def assign(self, partitions: Partitions, members: Members, replicas: ReplicaRacks | None = None) -> Assignment:
        """
        Share out partitions.

        :param replicas: in which racks they have replicas; None: racks play no part.
        """
        return self.share(partitions, members, replicas or {})


def assign_roundrobin(partitions: Partitions, members: Members, replicas: ReplicaRacks) -> Assignment:
    """All partitions of all topics in order, to one member after the other that reads the topic, wherever it is."""
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
"""By name."""


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
    """Whether a member of these may keep partitions while it joins: only if whichever is agreed on allows it."""
    return all(each.cooperative for each in assignors)
