"""
The sticky assignment where members read different topics (Kafka: GeneralAssignmentBuilder). Pure.

First, unowned partitions go to the subscribed member with the fewest partitions. Then partitions move one by one from
members with more to members with fewer, until no move improves the balance. A move that undoes an earlier one is
preferred.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from attrs import define, field

from logbus.client.membership.classic_codec import MemberSubscription
from logbus.client.membership.racks import Assignment, Racks
from logbus.model import TopicPartition

NO_GENERATION = -1


class Claims(NamedTuple):
    """A member's reported partitions and their generation (−1: not given)."""

    generation: int
    partitions: tuple[TopicPartition, ...]


def assign_general(
    partitions: Mapping[str, int],
    members: Mapping[str, MemberSubscription],
    owned: Mapping[str, list[TopicPartition]],
    claims: Mapping[str, Claims],
    racks: Racks | None = None,
) -> Assignment:
    """
    Assign partitions to members with different subscriptions.

    :param owned: the partitions that members may keep, as long as they read the topic.
    :param claims: also those of earlier generations.
    :param racks: None: ignore racks.
    """
    readers = {topic: sorted(each for each in members if topic in members[each].topics) for topic in partitions}
    return _GeneralAssignment(partitions, readers, owned, _former(claims), racks).assign()


def _former(claims: Mapping[str, Claims]) -> dict[TopicPartition, str]:
    """The last owners of partitions, of members that missed the latest generation."""
    latest = max((each.generation for each in claims.values()), default=NO_GENERATION)
    found: dict[TopicPartition, tuple[int, str]] = {}
    for member in sorted(claims):
        generation, claimed = claims[member]
        if generation < latest:
            for partition in claimed:
                if partition not in found or generation > found[partition][0]:
                    found[partition] = (generation, member)
    return {partition: member for partition, (_, member) in found.items()}


@define
class _GeneralAssignment:
    """
    An assignment in progress.

    :ivar readers: the members that read each topic, in order.
    :ivar former: earlier owners of partitions.
    :ivar given: the assignment.
    :ivar owner: the same by partition.
    :ivar moves: source and destination of the partitions moved so far.
    """

    partitions: Mapping[str, int]
    readers: Mapping[str, list[str]]
    owned: Mapping[str, list[TopicPartition]]
    former: Mapping[TopicPartition, str]
    racks: Racks | None
    given: dict[str, list[TopicPartition]] = field(factory=dict)
    owner: dict[TopicPartition, str] = field(factory=dict)
    moves: dict[TopicPartition, tuple[str, str]] = field(factory=dict)

    def assign(self) -> dict[str, list[TopicPartition]]:
        topics = sorted((topic for topic in self.partitions if self.readers[topic]), key=self._scarcity)
        everything = [TopicPartition(topic, number) for topic in topics for number in range(self.partitions[topic])]
        must_move = self._keep()
        free = {partition for partition in everything if partition not in self.owner}
        unplaced = [partition for partition in everything if partition in free]
        if self.racks is not None:
            unplaced = self._place_near(unplaced, self.racks)
        for partition in unplaced:
            self._put(partition, self._least(self.readers[partition.topic]))
        shared = [partition for partition in everything if len(self.readers[partition.topic]) > 1]
        if not must_move:
            # Moving only unowned partitions may be enough.
            self._even_out([partition for partition in shared if partition in free])
        self._even_out(shared)
        return self.given

    def _scarcity(self, topic: str) -> tuple[int, str]:
        return len(self.readers[topic]), topic

    def _keep(self) -> bool:
        """Keep members' partitions that they still read; returns whether one had to be taken away."""
        must_move = False
        for member in sorted(self.owned):
            self.given[member] = []
            for partition in self.owned[member]:
                if member in self.readers[partition.topic] and self._suits(member, partition):
                    self._put(partition, member)
                else:
                    must_move = True
        return must_move

    def _put(self, partition: TopicPartition, member: str) -> None:
        self.given[member].append(partition)
        self.owner[partition] = member

    def _suits(self, member: str, partition: TopicPartition) -> bool:
        return self.racks is None or self.racks.suit(member, partition)

    def _place_near(self, partitions: Sequence[TopicPartition], racks: Racks) -> list[TopicPartition]:
        """Give partitions to the least loaded member near them; returns the others."""
        left = []
        for partition in racks.hardest_first(partitions):
            near = [member for member in self.readers[partition.topic] if racks.near(member, partition)]
            if near:
                self._put(partition, self._least(near))
            else:
                left.append(partition)
        return left

    def _least(self, members: Sequence[str]) -> str:
        return min(members, key=lambda member: (len(self.given[member]), member))

    def _taker(self, partition: TopicPartition, holder: str) -> str | None:
        """The member that should get a partition instead of its holder, preferably one near it; None: it stays."""
        readers = self.readers[partition.topic]
        former = self.former.get(partition)
        if former in readers and self._has_more(holder, former):
            return former
        if self.racks is not None:
            near = [member for member in readers if self._has_more(holder, member) and self._suits(member, partition)]
            if near:
                return self._least(near)
        least = self._least(readers)
        return least if self._has_more(holder, least) else None

    def _even_out(self, partitions: Sequence[TopicPartition]) -> None:
        """Move partitions until no move improves the balance: each move reduces the sum of squared shares."""
        moved = True
        while moved:
            moved = False
            for partition in partitions:
                holder = self.owner[partition]
                target = self._taker(partition, holder)
                if target is not None:
                    self._move(self._instead(partition, holder, target), target)
                    moved = True

    def _has_more(self, one: str, other: str | None) -> bool:
        return other is not None and len(self.given[one]) > len(self.given[other]) + 1

    def _instead(self, partition: TopicPartition, holder: str, target: str) -> TopicPartition:
        """
        Another partition of the topic that moved in the opposite direction, if there is one: moving it back makes fewer
        moves.
        """
        back = [each for each, way in self.moves.items() if each.topic == partition.topic and way == (target, holder)]
        return min(back, default=partition)

    def _move(self, partition: TopicPartition, target: str) -> None:
        holder = self.owner[partition]
        source = self.moves.pop(partition, (holder, holder))[0]
        if source != target:
            self.moves[partition] = (source, target)
        self.given[holder].remove(partition)
        self._put(partition, target)
