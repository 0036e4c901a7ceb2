"""
The sticky assignors (KIP-54, KIP-429; Kafka: StickyAssignor, CooperativeStickyAssignor): as balanced as subscriptions
allow, with as few moves as possible. Pure.

Members report their partitions in their subscriptions (``cooperative-sticky``), or in user data (``sticky``, where they
gave up all partitions before they joined), with the generation in which they had them. Reports of earlier generations
have lower priority.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Mapping

from attrs import define, field

from logbus.client.membership.classic_codec import MemberSubscription, by_topic
from logbus.client.membership.racks import Assignment, Racks, ReplicaRacks, racks_of
from logbus.client.membership.sticky_general_assignment import NO_GENERATION, Claims, assign_general
from logbus.errors import DecodeError
from logbus.model import TopicPartition
from logbus.records.file_slice import joined
from logbus.wire.messages.consumer_protocol import StickyAssignorUserData
from logbus.wire.schema import decode, encode

_INT = struct.Struct(">i")


def assign_sticky(
    partitions: Mapping[str, int], members: Mapping[str, MemberSubscription], replicas: ReplicaRacks
) -> Assignment:
    """The eager assignor: no member reads anything now, so all partitions can be assigned at once."""
    claims = {member: _from_user_data(each) for member, each in members.items()}
    return _assign(partitions, members, claims, replicas)[0]


def assign_cooperatively(
    partitions: Mapping[str, int], members: Mapping[str, MemberSubscription], replicas: ReplicaRacks
) -> Assignment:
    """
    The cooperative assignor: a partition that moves is assigned to no member yet. Its owner gives it up and joins
    again.
    """
    claims = {member: _from_subscription(each) for member, each in members.items()}
    result, doubtful = _assign(partitions, members, claims, replicas)
    owners: dict[TopicPartition, set[str]] = {}
    for member, each in members.items():
        for partition in each.owned:
            owners.setdefault(partition, set()).add(member)
    return {
        member: [
            partition
            for partition in given
            if partition not in doubtful and (member in owners.get(partition, {member}))
        ]
        for member, given in result.items()
    }


def _assign(
    partitions: Mapping[str, int],
    members: Mapping[str, MemberSubscription],
    claims: Mapping[str, Claims],
    replicas: ReplicaRacks,
) -> tuple[Assignment, set[TopicPartition]]:
    """
    The assignment, and the partitions that several members of one generation claim.

    Racks cause a move only if fewer partitions are read from other racks afterwards, so the assignment becomes stable.
    """
    partitions = {
        topic: count for topic, count in partitions.items() if any(topic in each.topics for each in members.values())
    }
    owned, doubtful = _owned(partitions, claims)
    topics = [set(each.topics) & set(partitions) for each in members.values()]
    is_equal = all(each == topics[0] for each in topics[1:])

    def assign(racks: Racks | None) -> Assignment:
        if is_equal:
            return _ConstrainedAssignment(partitions, owned, racks).assign()
        return assign_general(partitions, members, owned, claims, racks)

    plain = assign(None)
    racks = racks_of(members, {each: where for each, where in replicas.items() if each.topic in partitions})
    return (plain if racks is None else racks.better(plain, assign(racks))), doubtful


def _owned(
    partitions: Mapping[str, int], claims: Mapping[str, Claims]
) -> tuple[dict[str, list[TopicPartition]], set[TopicPartition]]:
    """
    The partitions that members may keep: of several claims the one of the latest generation, or none if that is not
    unique.
    """
    holders: dict[TopicPartition, tuple[int, str]] = {}
    doubtful: set[TopicPartition] = set()
    for member in sorted(claims):
        generation, claimed = claims[member]
        for partition in claimed:
            if not 0 <= partition.partition < partitions.get(partition.topic, 0):
                continue
            holder = holders.get(partition)
            if holder is None or generation > holder[0]:
                holders[partition] = (generation, member)
                doubtful.discard(partition)
            elif generation == holder[0]:
                doubtful.add(partition)
    owned: dict[str, list[TopicPartition]] = {member: [] for member in claims}
    for partition, (_, member) in holders.items():
        if partition not in doubtful:
            owned[member].append(partition)
    return owned, doubtful


@define
class _ConstrainedAssignment:
    """
    An assignment where all members read the same topics (Kafka: ConstrainedAssignmentBuilder): each gets the quotient,
    some one more.

    :ivar over: the number of members that have one more already.
    """

    partitions: Mapping[str, int]
    owned: Mapping[str, list[TopicPartition]]
    racks: Racks | None
    over: int = 0
    under: deque[str] = field(factory=deque)
    exact: deque[str] = field(factory=deque)
    result: dict[str, list[TopicPartition]] = field(factory=dict)

    def assign(self) -> dict[str, list[TopicPartition]]:
        if not self.owned:
            return {}
        least, rest = divmod(sum(self.partitions.values()), len(self.owned))
        for member in sorted(self.owned):
            self._keep(member, least, rest)
        kept = {partition for given in self.result.values() for partition in given}
        everything = (
            TopicPartition(topic, number) for topic, count in sorted(self.partitions.items()) for number in range(count)
        )
        free = [partition for partition in everything if partition not in kept]
        if self.racks is not None:
            free = self._give_near(free, self.racks, least, rest)
        for partition in free:
            self._give(partition, least)
        return self.result

    def _keep(self, member: str, least: int, rest: int) -> None:
        """Keep a member's partitions, up to its share."""
        racks = self.racks
        had = [each for each in self.owned[member] if racks is None or racks.suit(member, each)]
        had.sort(key=lambda each: (each.partition, each.topic))
        if len(had) < least:
            self.result[member] = had
            self.under.append(member)
        elif len(had) > least and self.over < rest:
            self.over += 1
            self.result[member] = had[: least + 1]
        else:
            self.result[member] = had[:least]
            self.exact.append(member)

    def _give_near(self, free: list[TopicPartition], racks: Racks, least: int, rest: int) -> list[TopicPartition]:
        """Give partitions to members near them, in turn and within their shares; returns the remaining ones."""
        left = []
        for partition in racks.hardest_first(free):
            member = next((each for each in self.under if racks.near(each, partition)), None)
            if member is not None:
                self.under.remove(member)
                self.result[member].append(partition)
                (self.under if len(self.result[member]) < least else self.exact).append(member)
                continue
            if self.over < rest:
                member = next((each for each in self.exact if racks.near(each, partition)), None)
            if member is None:
                left.append(partition)
            else:
                self.exact.remove(member)
                self.result[member].append(partition)
                self.over += 1
        return left

    def _give(self, partition: TopicPartition, least: int) -> None:
        """Give a partition to the members below the quotient, in turn; then one more to each of the others."""
        if self.under:
            member = self.under.popleft()
            self.result[member].append(partition)
            (self.under if len(self.result[member]) < least else self.exact).append(member)
        else:
            self.result[self.exact.popleft()].append(partition)


# User data of members.


def sticky_data(owned: Iterable[TopicPartition], generation: int) -> bytes | None:
    """
    User data of the sticky assignor, in Kafka's format, version 1: partitions and generation; None without a
    generation.
    """
    if generation == NO_GENERATION:
        return None
    return joined(encode(StickyAssignorUserData(previous_assignment=by_topic(owned), generation=generation), 1))


def cooperative_data(owned: Iterable[TopicPartition], generation: int) -> bytes | None:
    """The generation alone, for leaders that do not read it in the subscription (before KIP-792)."""
    return _INT.pack(generation)


def _from_user_data(subscription: MemberSubscription) -> Claims:
    # Version 0 has no generation.
    for version in (1, 0):
        try:
            found, _ = decode(StickyAssignorUserData, version, subscription.user_data or b"")
        except DecodeError:
            continue
        partitions = [
            TopicPartition(each.topic, number) for each in found.previous_assignment for number in each.partitions
        ]
        return Claims(found.generation, tuple(partitions))
    return Claims(NO_GENERATION, ())


def _from_subscription(subscription: MemberSubscription) -> Claims:
    generation = subscription.generation
    data = subscription.user_data
    if generation < 0 and data is not None and len(data) >= _INT.size:
        (generation,) = _INT.unpack_from(data)
    return Claims(generation, subscription.owned)
