"""Assignments that prefer members in the racks of replicas (KIP-881)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.client import AdminClient, NewTopic
from logbus.client.membership.assignors import ASSIGNORS
from logbus.client.membership.classic_codec import MemberSubscription
from logbus.client.membership.racks import Racks
from logbus.model import TopicPartition
from tests.client.membership.test_assignors import groups, parts, readers, with_owned
from tests.client.membership_kit import MembershipCase, places

RACKS = ["north", "east", "west"]
AWARE = ["range", "sticky", "cooperative-sticky"]
Given = dict[str, list[TopicPartition]]


@st.composite
def racked(draw: st.DrawFn, equal: bool = False) -> tuple[Any, Any, Any]:
    """Topics, members of which most say where they are, and the racks of replicas."""
    counts, members = draw(groups(equal=equal))
    somewhere = st.sampled_from([*RACKS, None])
    members = {name: evolve(each, rack=draw(somewhere)) for name, each in members.items()}
    some_racks = st.frozensets(st.sampled_from(RACKS))
    everything = [TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
    return counts, members, {each: draw(some_racks) for each in everything}


def racks(members: Any, replicas: Any) -> Racks:
    return Racks({name: each.rack for name, each in members.items() if each.rack}, replicas)


def unevenness(given: Given) -> int:
    return sum(len(each) ** 2 for each in given.values())


def members(*topics: str, **racks: str) -> dict[str, MemberSubscription]:
    """Members by name, that read topics: ``a="east"``."""
    return {name: MemberSubscription(topics, rack=rack) for name, rack in racks.items()}


def where(topic: str, *racks: str) -> dict[TopicPartition, frozenset[str]]:
    """The racks of a topic's partitions, in order: ``east`` or ``east,west``."""
    return {TopicPartition(topic, number): frozenset(each.split(",")) for number, each in enumerate(racks)}


class AnyAssignorTests(SynchronousTestCase):
    """Properties of all assignors."""

    @given(st.sampled_from(AWARE), racked())
    def test_as_even_and_no_farther_than_without_racks(self, name: str, group: tuple[Any, Any, Any]) -> None:
        """
        Everything is given once, as evenly as without racks, and no more of it is read from other racks.
        """
        counts, members, replicas = group
        plain, aware = ASSIGNORS[name].assign(counts, members), ASSIGNORS[name].assign(counts, members, replicas)
        every = [partition for each in aware.values() for partition in each]
        self.assertEqual(sorted(every), sorted(partition for each in plain.values() for partition in each))
        self.assertLessEqual(unevenness(aware), unevenness(plain))
        known = racks(members, replicas)
        self.assertLessEqual(known.misfits(aware), known.misfits(plain))
        for member, each in aware.items():
            self.assertLessEqual({partition.topic for partition in each}, set(members[member].topics))

    @given(st.sampled_from(list(ASSIGNORS)), racked(), st.booleans())
    def test_no_racks(self, name: str, group: tuple[Any, Any, Any], is_anywhere: bool) -> None:
        """
        Where no member says where it is, or all replicas are everywhere, racks change nothing.
        """
        counts, members, replicas = group
        if is_anywhere:
            replicas = dict.fromkeys(replicas, frozenset(RACKS))
        else:
            members = {member: evolve(each, rack=None) for member, each in members.items()}
        plain = ASSIGNORS[name].assign(counts, members)
        self.assertEqual(ASSIGNORS[name].assign(counts, members, replicas), plain)

    def test_nearby_partitions_for_everyone(self) -> None:
        """
        Where everybody can have what is near, everybody does.
        """
        crossed = where("t", "east", "west", "north", "east", "west", "north")
        three = members("t", a="north", b="west", c="east")
        for name in AWARE:
            given = ASSIGNORS[name].assign({"t": 6}, three, crossed)
            wanted = {"a": parts("t-2", "t-5"), "b": parts("t-1", "t-4"), "c": parts("t-0", "t-3")}
            self.assertEqual({member: sorted(each) for member, each in given.items()}, wanted, name)

    def test_even_shares_come_first(self) -> None:
        """A member that is near all partitions gets no more than its share."""
        for name in AWARE:
            given = ASSIGNORS[name].assign(
                {"t": 4}, members("t", a="west", b="east"), where("t", *["east"] * 3, "west")
            )
            self.assertEqual({member: len(each) for member, each in given.items()}, {"a": 2, "b": 2}, name)
            self.assertIn(TopicPartition("t", 3), given["a"])


class RangeTests(SynchronousTestCase):
    """Topics alike are shared out alike."""

    @given(racked(equal=True))
    def test_copartitioned_topics(self, group: tuple[Any, Any, Any]) -> None:
        """
        Of topics with as many partitions and the same readers everybody has the same numbers, and of each topic the
        shares differ by one at most.
        """
        counts, members, replicas = group
        given = ASSIGNORS["range"].assign(counts, members, replicas)
        for member, each in given.items():
            numbers: dict[str, list[int]] = {topic: [] for topic in counts if readers(members, topic)}
            for topic, number in each:
                numbers[topic].append(number)
            self.assertEqual(
                len({(counts[topic], tuple(some)) for topic, some in numbers.items()}),
                len({counts[topic] for topic in numbers}),
                member,
            )
        for topic in counts:
            sizes = Counter(dict.fromkeys(readers(members, topic), 0))
            sizes.update(member for member, each in given.items() for partition in each if partition.topic == topic)
            if sizes:
                self.assertLessEqual(max(sizes.values()) - min(sizes.values()), 1)

    def test_topics_alike(self) -> None:
        """A member is near a partition number if it is near that partition of each topic."""
        replicas = where("t", "east", "west,east") | where("u", "east,north", "west")
        given = ASSIGNORS["range"].assign({"t": 2, "u": 2}, members("t", "u", a="west", b="east"), replicas)
        self.assertEqual(given, {"a": parts("t-1", "u-1"), "b": parts("t-0", "u-0")})


class StickyTests(SynchronousTestCase):
    """Partitions that move because of racks."""

    @given(st.sampled_from(AWARE[1:]), racked(), racked())
    def test_assignments_become_stable(
        self, name: str, group: tuple[Any, Any, Any], other: tuple[Any, Any, Any]
    ) -> None:
        """
        From any earlier assignment and any racks, assignments become stable, with no more reads from other racks than
        without racks.
        """
        counts, members, replicas = group
        had = ASSIGNORS["range"].assign(counts, other[1]) if counts == other[0] else {}
        had = {member: had.get(member, []) for member in members}
        for rounds in range(1, 12):
            told = {
                member: evolve(each, rack=members[member].rack)
                for member, each in with_owned(name, members, had, rounds).items()
            }
            given = ASSIGNORS[name].assign(counts, told, replicas)
            if {member: sorted(each) for member, each in given.items()} == {m: sorted(had[m]) for m in members}:
                break
            had = given
        else:
            self.fail("it does not settle")
        total = sum(count for topic, count in counts.items() if readers(members, topic))
        self.assertEqual(sum(map(len, given.values())), total)

    def test_far_partitions_are_swapped(self) -> None:
        """Two members that have each other's nearby partitions swap them, cooperatively in two rounds."""
        two, replicas = members("t", a="west", b="east"), where("t", "east", "west")
        had = {"a": parts("t-0"), "b": parts("t-1")}
        told = {m: evolve(each, rack=two[m].rack) for m, each in with_owned("cooperative-sticky", two, had, 1).items()}
        given = ASSIGNORS["cooperative-sticky"].assign({"t": 2}, told, replicas)
        self.assertEqual(given, {"a": [], "b": []})
        told = {
            m: evolve(each, rack=two[m].rack) for m, each in with_owned("cooperative-sticky", two, given, 2).items()
        }
        given = ASSIGNORS["cooperative-sticky"].assign({"t": 2}, told, replicas)
        self.assertEqual(given, {"a": parts("t-1"), "b": parts("t-0")})


class LeaderTests(MembershipCase):
    """A leader that knows where replicas are."""

    def setUp(self) -> None:
        super().setUp()
        for broker_id, rack in enumerate(["east", "west"], start=1):
            self.cluster.boot(broker_id, broker_rack=rack)
        self.admin = AdminClient(self.a_client())
        self.make("r", 1, 2, 1, 2)

    def make(self, topic: str, *brokers: int) -> None:
        """A topic whose partitions are at these brokers."""
        wanted = NewTopic(topic, assignment=[[broker] for broker in brokers])
        self.cluster.now(self.admin.create_topics([wanted]))

    def test_rack_aware_assignors(self) -> None:
        """
        With each assignor that looks at it.
        """
        for name in AWARE:
            west = self.member("r", client_rack="west", assignors=[name], group_id=name)
            east = self.member("r", client_rack="east", assignors=[name], group_id=name)
            wanted = places("r", 1, 3), places("r", 0, 2)
            self.until(lambda pair=(west, east), wanted=wanted: tuple(each.assignment for each in pair) == wanted)

    def test_partitions_moved_to_other_racks(self) -> None:
        """
        Their readers change, too, without anybody else having come or gone.
        """
        west = self.member("r", client_rack="west", metadata_max_age=5.0)
        east = self.member("r", client_rack="east", metadata_max_age=5.0)
        self.until(lambda: (west.assignment, east.assignment) == (places("r", 1, 3), places("r", 0, 2)))
        moves = {TopicPartition("r", 0): [2], TopicPartition("r", 1): [1]}
        self.cluster.now(self.admin.alter_reassignments(moves))
        self.until(lambda: (west.assignment, east.assignment) == (places("r", 0, 3), places("r", 1, 2)))

    def test_unreachable_broker(self) -> None:
        """Its rack is remembered: its partitions stay, and no rebalance happens."""
        west = self.member("r", client_rack="west", metadata_max_age=1.0)
        east = self.member("r", client_rack="east", metadata_max_age=1.0)
        self.until(lambda: (west.assignment, east.assignment) == (places("r", 1, 3), places("r", 0, 2)))
        told = [len(each.news) for each in self.hears]
        self.cluster.kill(2)
        for _ in range(10):
            west.polled(), east.polled()
            self.cluster.settle(1)
        self.assertEqual([len(each.news) for each in self.hears], told)
