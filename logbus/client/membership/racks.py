"""
Racks of members and replicas (KIP-881): reading from the same rack avoids traffic between racks. Balance comes first:
racks only decide between equally balanced assignments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from attrs import field, frozen

from logbus.client.membership.classic_codec import MemberSubscription
from logbus.model import TopicPartition

ReplicaRacks = Mapping[TopicPartition, frozenset[str]]
"""The racks of partitions' replicas; partitions without known racks may be missing."""
Assignment = dict[str, list[TopicPartition]]


@frozen
class Racks:
    """
    The racks of members and of replicas.

    :ivar members: the racks of members that have one.
    """

    members: Mapping[str, str]
    replicas: ReplicaRacks
    _readers: Counter[str] = field(init=False)

    @_readers.default
    def _count(self) -> Counter[str]:
        return Counter(self.members.values())

    def near(self, member: str, partition: TopicPartition) -> bool:
        """Whether a member is in the rack of a replica."""
        return self.members.get(member) in self.replicas.get(partition, ())

    def suit(self, member: str, partition: TopicPartition) -> bool:
        """Whether a member is in the rack of a replica, or has no rack."""
        return member not in self.members or self.near(member, partition)

    def hardest_first(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Partitions ordered by the number of members near them."""
        return sorted(
            partitions, key=lambda each: sum(self._readers[rack] for rack in self.replicas.get(each, frozenset()))
        )

    def misfits(self, assignment: Mapping[str, Iterable[TopicPartition]]) -> int:
        """The number of partitions that are read from another rack."""
        return sum(not self.suit(member, each) for member, given in assignment.items() for each in given)

    def better(self, plain: Assignment, aware: Assignment) -> Assignment:
        """``aware`` if it has fewer misfits than ``plain`` and is as balanced, else ``plain``."""
        if _unevenness(aware) <= _unevenness(plain) and self.misfits(aware) < self.misfits(plain):
            return aware
        return plain


def racks_of(members: Mapping[str, MemberSubscription], replicas: ReplicaRacks) -> Racks | None:
    """None if racks make no difference: no member is near a replica, or all partitions have replicas in all racks."""
    known = {member: each.rack for member, each in members.items() if each.rack}
    everywhere = frozenset(rack for racks in replicas.values() for rack in racks)
    if everywhere.isdisjoint(known.values()) or all(racks == everywhere for racks in replicas.values()):
        return None
    return Racks(known, replicas)


def _unevenness(assignment: Mapping[str, list[TopicPartition]]) -> int:
    return sum(len(given) ** 2 for given in assignment.values())
