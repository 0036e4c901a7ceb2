"""
The range assignor (Kafka: RangeAssignor): gives each member a contiguous range of each topic's partitions. Topics with
equal partition counts and members are assigned alike, so that joins find matching partitions at one member.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from attrs import define, field

from logbus.client.membership.classic_codec import MemberSubscription
from logbus.client.membership.racks import Assignment, Racks, ReplicaRacks, racks_of
from logbus.model import TopicPartition

Suits = Callable[[str, int], bool]


def assign_range(
    partitions: Mapping[str, int], members: Mapping[str, MemberSubscription], replicas: ReplicaRacks
) -> Assignment:
    """
    Assign ranges of partitions; the first members get one more if the division leaves a rest.

    If partitions have replicas in some racks only (KIP-881), each member first gets partitions near it.
    """
    result: Assignment = {member: [] for member in members}
    ordered = in_order(members)
    alike: dict[tuple[tuple[str, ...], int], list[str]] = {}
    for topic, count in sorted(partitions.items()):
        readers = tuple(member for member in ordered if topic in members[member].topics)
        if readers and count:
            alike.setdefault((readers, count), []).append(topic)
    shares = [_share(readers, count, topics, None) for (readers, count), topics in alike.items()]
    sizes = Counter({member: sum(len(each.get(member, ())) for each in shares) for member in members})
    for place, ((readers, count), topics) in enumerate(alike.items()):
        everything = [TopicPartition(topic, number) for topic in topics for number in range(count)]
        racks = racks_of(
            {member: members[member] for member in readers},
            {each: replicas.get(each, frozenset()) for each in everything},
        )
        if racks is None:
            continue
        plain = shares[place]
        aware = racks.better(plain, _share(readers, count, topics, racks))
        after = sizes.copy()
        after.update({member: len(aware[member]) - len(plain[member]) for member in readers})
        # Each topic is balanced as before, but members that get one more may have more of other topics, too.
        if sum(size**2 for size in after.values()) <= sum(size**2 for size in sizes.values()):
            shares[place], sizes = aware, after
    for each in shares:
        for member, given in each.items():
            result[member] += given
    return {member: sorted(given) for member, given in result.items()}


def in_order(members: Mapping[str, MemberSubscription]) -> list[str]:
    """
    Members in assignment order: static ones by instance id, so that they keep their partitions (KIP-345), then the
    others by member id.
    """

    def place(member: str) -> tuple[bool, str, str]:
        instance = members[member].group_instance_id
        return instance is None, instance or "", member

    return sorted(members, key=place)


def _share(readers: Sequence[str], count: int, topics: Sequence[str], racks: Racks | None) -> Assignment:
    """The assignment of topics that are assigned alike."""
    shares = _Shares(readers, count)
    if racks is not None:
        shares.give_near(_suits_all(racks, topics), one_by_one=len(topics) > 1)
    shares.give(lambda member, number: True)
    return {
        member: [TopicPartition(topic, number) for topic in topics for number in numbers]
        for member, numbers in shares.given.items()
    }


def _suits_all(racks: Racks, topics: Sequence[str]) -> Suits:
    return lambda member, number: all(racks.suit(member, TopicPartition(topic, number)) for topic in topics)


@define
class _Shares:
    """
    The partition numbers that each member gets, of one topic or of several that are assigned alike.

    :ivar more: the number of members that may still get one more than the others.
    """

    readers: Sequence[str]
    count: int
    given: dict[str, list[int]] = field(init=False)
    left: dict[int, None] = field(init=False)
    each: int = field(init=False)
    more: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.given = {member: [] for member in self.readers}
        self.left = dict.fromkeys(range(self.count))
        self.each, self.more = divmod(self.count, len(self.readers))

    def give_near(self, suits: Suits, *, one_by_one: bool) -> None:
        """
        Give members partitions near them; for several topics number by number, since few members are near all of them.
        """
        if not one_by_one:
            self.give(suits)
            return
        for number in range(self.count):
            for member in self.readers:
                if self._room(member) and suits(member, number):
                    self._take(member, [number])
                    break

    def give(self, suits: Suits) -> None:
        """Fill up each member's share, in order."""
        for member in self.readers:
            some = [number for number in self.left if suits(member, number)]
            self._take(member, some[: self._room(member)])

    def _room(self, member: str) -> int:
        return max(0, self.each + (self.more > 0) - len(self.given[member]))

    def _take(self, member: str, numbers: Iterable[int]) -> None:
        before = len(self.given[member])
        for number in numbers:
            del self.left[number]
            self.given[member].append(number)
        if before <= self.each < len(self.given[member]):
            self.more -= 1
