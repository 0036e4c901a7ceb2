"""
Where members are, and where partitions have replicas (KIP-881): who reads from its own rack pays for no traffic between
racks. Shares come first: racks only decide between assignments that are equally even.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from attrs import field, frozen

from logbus.client.membership.classic_codec import MemberSubscription
from logbus.model import TopicPartition

ReplicaRacks = Mapping[TopicPartition, frozenset[str]]
"""The racks in which partitions have replicas; those of which nothing is known may be left out."""
Assignment = dict[str, list[TopicPartition]]


@frozen
class Racks:
    """
    :ivar members: those that say where they are.
    """

    members: Mapping[str, str]
    replicas: ReplicaRacks
    _readers: Counter[str] = field(init=False)

    @_readers.default
    def _count(self) -> Counter[str]:
        return Counter(self.members.values())

    def near(self, member: str, partition: TopicPartition) -> bool:
        """Whether a member is in one rack with a replica."""
        return self.members.get(member) in self.replicas.get(partition, ())

    def suit(self, member: str, partition: TopicPartition) -> bool:
        """Whether nothing is wrong with the two: also if nobody knows where the member is."""
        return member not in self.members or self.near(member, partition)

    def hardest_first(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Partitions in the order of how few members are near them."""
        return sorted(
            partitions, key=lambda each: sum(self._readers[rack] for rack in self.replicas.get(each, frozenset()))
        )

    def misfits(self, assignment: Mapping[str, Iterable[TopicPartition]]) -> int:
        """How many partitions are read from another rack."""
        return sum(not self.suit(member, each) for member, given in assignment.items() for each in given)

    def better(self, plain: Assignment, aware: Assignment) -> Assignment:
        """``aware``, if it has fewer misfits than what comes about without racks, and is as even; else ``plain``."""
        if _unevenness(aware) <= _unevenness(plain) and self.misfits(aware) < self.misfits(plain):
            return aware
        return plain


def racks_of(members: Mapping[str, MemberSubscription], replicas: ReplicaRacks) -> Racks | None:
    """None where racks make no difference: nobody is near anything, or everything has replicas everywhere."""
    known = {member: each.rack for member, each in members.items() if each.rack}
    everywhere = frozenset(rack for racks in replicas.values() for rack in racks)
    if everywhere.isdisjoint(known.values()) or all(racks == everywhere for racks in replicas.values()):
        return None
    return Racks(known, replicas)


def _unevenness(assignment: Mapping[str, list[TopicPartition]]) -> int:
    return sum(len(given) ** 2 for given in assignment.values())
