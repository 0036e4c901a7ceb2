"""The assignors of the classic protocol."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.membership.assignors import ASSIGNORS, Assignor, are_cooperative, assignors_by_name
from logbus.client.membership.classic_codec import (
    MemberSubscription,
)
from logbus.client.membership.sticky_assignor import sticky_data
from logbus.errors import ConfigError
from logbus.model import TopicPartition

Told = dict[str, list[TopicPartition]]

TOPICS = ["a", "b", "c"]
partition_counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 8))
member_names = st.lists(st.sampled_from([f"m{number}" for number in range(6)]), min_size=1, unique=True)


@st.composite
def groups(draw: st.DrawFn, equal: bool = False) -> tuple[dict[str, int], dict[str, MemberSubscription]]:
    """Topics, and members that read some of them."""
    counts = draw(partition_counts)
    names = draw(member_names)
    topics = st.lists(st.sampled_from(TOPICS), min_size=1, unique=True).map(lambda some: tuple(sorted(some)))
    same = draw(topics)
    return counts, {name: MemberSubscription(same if equal else draw(topics)) for name in names}


def parts(*names: str) -> list[TopicPartition]:
    """``a-0`` and the like."""
    return [TopicPartition(name.rpartition("-")[0], int(name.rpartition("-")[2])) for name in names]


def readers(members: Mapping[str, MemberSubscription], topic: str) -> list[str]:
    return [name for name, each in members.items() if topic in each.topics]


def with_owned(
    name: str, members: Mapping[str, MemberSubscription], had: Mapping[str, Sequence[TopicPartition]], generation: int
) -> dict[str, MemberSubscription]:
    """Members with the subscriptions that report partitions of a generation."""
    result = {}
    for member, each in members.items():
        owned = tuple(sorted(had.get(member, ())))
        given: dict[str, Any] = {"topics": each.topics, "user_data": ASSIGNORS[name].user_data(owned, generation)}
        if ASSIGNORS[name].cooperative:
            given |= {"owned": owned, "generation": generation}
        result[member] = MemberSubscription(**given)
    return result


def settled(
    name: str, counts: Mapping[str, int], members: Mapping[str, MemberSubscription], had: Told
) -> tuple[Told, int]:
    """The assignment after rebalances until nothing changes, and the number of rounds."""
    for rounds in range(1, 10):
        given = ASSIGNORS[name].assign(counts, with_owned(name, members, had, rounds))
        if {member: sorted(each) for member, each in given.items()} == {
            member: sorted(had.get(member, ())) for member in members
        }:
            return given, rounds
        had = given
    raise AssertionError(f"{name} does not settle")


class EveryAssignorTests(SynchronousTestCase):
    """Properties of all assignors."""

    @given(st.sampled_from(list(ASSIGNORS.values())), groups())
    def test_every_partition_once(self, assignor: Assignor, group: tuple[Any, Any]) -> None:
        """Each partition of each subscribed topic is assigned to exactly one of its members."""
        counts, members = group
        given = assignor.assign(counts, members)
        assert given.keys() == members.keys()
        found = Counter(partition for each in given.values() for partition in each)
        wanted = {
            TopicPartition(topic, number)
            for topic, count in counts.items()
            if readers(members, topic)
            for number in range(count)
        }
        assert found == Counter(wanted)
        assert all(partition.topic in members[member].topics for member, each in given.items() for partition in each)

    @given(st.sampled_from([each for each in ASSIGNORS.values() if each.name != "range"]), groups(equal=True))
    def test_equal_shares(self, assignor: Assignor, group: tuple[Any, Any]) -> None:
        """With equal subscriptions, members differ by at most one partition."""
        sizes = [len(each) for each in assignor.assign(*group).values()]
        assert max(sizes) - min(sizes) <= 1

    def test_names(self) -> None:
        """Unknown names are refused, with the known ones in the message."""
        with self.assertRaisesRegex(ConfigError, "'fair'; there are range, roundrobin, sticky, cooperative-sticky"):
            assignors_by_name(["range", "fair"])
        with self.assertRaisesRegex(ConfigError, "a list of names"):
            assignors_by_name("range")

    def test_cooperative(self) -> None:
        """One that is not cooperative is enough for a member to give up all before it joins."""
        assert are_cooperative(assignors_by_name(["cooperative-sticky"]))
        assert not are_cooperative(assignors_by_name(["range", "cooperative-sticky"]))


class RangeTests(SynchronousTestCase):
    """Neighbours of each topic."""

    def assign(self, counts: dict[str, int], **members: MemberSubscription) -> Told:
        return ASSIGNORS["range"].assign(counts, members)

    def test_uneven(self) -> None:
        """The first have one more, in each topic anew."""
        both = MemberSubscription(("t1", "t2"))
        given = self.assign({"t1": 3, "t2": 3}, c1=both, c2=both)
        assert given == {"c1": parts("t1-0", "t1-1", "t2-0", "t2-1"), "c2": parts("t1-2", "t2-2")}

    def test_mixed(self) -> None:
        """Only those who read a topic count there."""
        given = self.assign(
            {"t1": 3, "t2": 2},
            c1=MemberSubscription(("t1",)),
            c2=MemberSubscription(("t1", "t2")),
            c3=MemberSubscription(("t1",)),
        )
        assert given == {"c1": parts("t1-0"), "c2": parts("t1-1", "t2-0", "t2-1"), "c3": parts("t1-2")}

    def test_static_members_come_first(self) -> None:
        """By their instance ids, whatever their member ids are."""
        given = self.assign(
            {"t": 3},
            c1=MemberSubscription(("t",)),
            c2=MemberSubscription(("t",), group_instance_id="b"),
            c3=MemberSubscription(("t",), group_instance_id="a"),
        )
        assert given == {"c3": parts("t-0"), "c2": parts("t-1"), "c1": parts("t-2")}


class RoundRobinTests(SynchronousTestCase):
    """One after the other."""

    def test_two_topics(self) -> None:
        """The turn goes on from topic to topic."""
        both = MemberSubscription(("t1", "t2"))
        given = ASSIGNORS["roundrobin"].assign({"t1": 3, "t2": 3}, {"c1": both, "c2": both})
        assert given == {"c1": parts("t1-0", "t1-2", "t2-1"), "c2": parts("t1-1", "t2-0", "t2-2")}

    def test_mixed(self) -> None:
        """Who does not read a topic is passed over."""
        given = ASSIGNORS["roundrobin"].assign(
            {"t1": 3, "t2": 2},
            {
                "c1": MemberSubscription(("t1",)),
                "c2": MemberSubscription(("t1", "t2")),
                "c3": MemberSubscription(("t1",)),
            },
        )
        assert given == {"c1": parts("t1-0"), "c2": parts("t1-1", "t2-0", "t2-1"), "c3": parts("t1-2")}


class StickyTests(SynchronousTestCase):
    """Both sticky ones, in the cases of Kafka's own tests."""

    def assign(
        self,
        counts: dict[str, int],
        topics: Sequence[str] = ("t",),
        name: str = "sticky",
        **had: Sequence[TopicPartition],
    ) -> dict[str, list[TopicPartition]]:
        """What members get that read the same topics, and had something in one generation."""
        members = {member: MemberSubscription(tuple(topics)) for member in had}
        return ASSIGNORS[name].assign(counts, with_owned(name, members, had, 1))

    def test_two_topics_six_partitions(self) -> None:
        """Without a past it is as by turns."""
        given = self.assign({"t1": 3, "t2": 3}, ("t1", "t2"), c1=[], c2=[])
        assert given == {"c1": parts("t1-0", "t1-2", "t2-1"), "c2": parts("t1-1", "t2-0", "t2-2")}

    def test_surplus_of_the_smallest_share(self) -> None:
        """Members with the quotient keep it; the first gets the one that is left."""
        given = self.assign({"t1": 2, "t2": 3}, ("t1", "t2"), c1=parts("t1-0", "t2-1"), c2=parts("t1-1", "t2-2"))
        assert given == {"c1": parts("t1-0", "t2-1", "t2-0"), "c2": parts("t1-1", "t2-2")}

    def test_surplus_goes_to_a_new_member(self) -> None:
        """A new member gets the surplus."""
        had = {"c1": parts("t1-0", "t2-0"), "c2": parts("t1-1", "t2-1"), "c3": []}
        given = self.assign({"t1": 2, "t2": 2}, ("t1", "t2"), **had)
        assert sorted(map(len, given.values())) == [1, 1, 2]
        assert sum(set(given[each]) <= set(had[each]) for each in ("c1", "c2")) == 2

    def test_all_below_their_share(self) -> None:
        """All keep what they have, and get more in turn."""
        given = self.assign({"t1": 2, "t2": 3}, ("t1", "t2"), c1=parts("t1-0"), c2=parts("t1-1"), c3=[])
        assert given == {"c1": parts("t1-0", "t2-1"), "c2": parts("t1-1", "t2-2"), "c3": parts("t2-0")}

    def test_one_member_joins_and_leaves(self) -> None:
        """The last partition moves to a new member; all come back when it leaves."""
        given = self.assign({"t": 3}, c1=parts("t-0", "t-1", "t-2"), c2=[])
        assert given == {"c1": parts("t-0", "t-1"), "c2": parts("t-2")}
        assert sorted(self.assign({"t": 3}, c2=given["c2"])["c2"]) == parts("t-0", "t-1", "t-2")

    def test_two_members_join_and_leave(self) -> None:
        """Four members share the partitions of two; then the two that are left take over those of the others."""
        counts, topics = {"t1": 3, "t2": 4}, ("t1", "t2")
        given = self.assign(counts, topics, c1=[], c2=[])
        assert given == {"c1": parts("t1-0", "t1-2", "t2-1", "t2-3"), "c2": parts("t1-1", "t2-0", "t2-2")}
        given = self.assign(counts, topics, **given, c3=[], c4=[])
        assert given == {
            "c1": parts("t1-0", "t2-1"),
            "c2": parts("t2-0", "t1-1"),
            "c3": parts("t1-2", "t2-3"),
            "c4": parts("t2-2"),
        }
        given = self.assign(counts, topics, c3=given["c3"], c4=given["c4"])
        assert given == {"c3": parts("t1-2", "t2-3", "t1-0", "t2-1"), "c4": parts("t2-2", "t1-1", "t2-0")}

    def test_different_subscriptions(self) -> None:
        """Scarce topics are given first."""
        members = {
            "c1": MemberSubscription(("t1",)),
            "c2": MemberSubscription(("t1", "t2")),
            "c3": MemberSubscription(("t1",)),
        }
        given = ASSIGNORS["sticky"].assign({"t1": 3, "t2": 2}, members)
        assert given == {"c1": parts("t1-0", "t1-2"), "c2": parts("t2-0", "t2-1"), "c3": parts("t1-1")}

    def test_where_turns_do_badly(self) -> None:
        """Everybody gets two where by turns one would get nothing."""
        some, all_ = ("t1", "t3", "t5"), ("t1", "t2", "t3", "t4", "t5")
        members = {f"c{i}": MemberSubscription(all_ if i in (1, 4) else some) for i in range(1, 5)}
        given = ASSIGNORS["sticky"].assign({"t1": 2, "t2": 1, "t3": 2, "t4": 1, "t5": 2}, members)
        assert [len(given[each]) for each in sorted(given)] == [2, 2, 2, 2]

    def test_older_claims_count_less(self) -> None:
        """Of two claims the later generation wins."""
        old = MemberSubscription(("t",), user_data=sticky_data(parts("t-0", "t-1"), 1))
        new = MemberSubscription(("t",), user_data=sticky_data(parts("t-0", "t-1"), 2))
        assert ASSIGNORS["sticky"].assign({"t": 1}, {"a": old, "b": new}) == {"a": [], "b": parts("t-0")}

    def test_partition_claimed_twice(self) -> None:
        """Both members have to give it up before it is assigned to one."""
        claim = MemberSubscription(("t",), owned=tuple(parts("t-0")), generation=3)
        given = ASSIGNORS["cooperative-sticky"].assign({"t": 2}, {"a": claim, "b": claim})
        assert [each for some in given.values() for each in some] == parts("t-1")

    def test_claims_of_older_generations(self) -> None:
        """The claim of an older generation is ignored if another member owns the partition."""
        late = MemberSubscription(("t",), owned=tuple(parts("t-0")), generation=3)
        owner = MemberSubscription(("t",), owned=tuple(parts("t-0")), generation=4)
        given = ASSIGNORS["cooperative-sticky"].assign({"t": 2}, {"a": late, "b": owner})
        assert given == {"a": parts("t-1"), "b": parts("t-0")}

    @given(groups(), member_names, st.sampled_from(["sticky", "cooperative-sticky"]))
    def test_assignments_are_stable_and_sticky(self, group: tuple[Any, Any], others: list[str], name: str) -> None:
        """
        Assignments become stable and complete, and with equal subscriptions no partition moves between two members that
        stay without need.
        """
        counts, members = group
        before, _ = settled(name, counts, members, {})
        topics = next(iter(members.values())).topics
        left = {member: each for member, each in members.items() if member in others} or members
        after, _ = settled(name, counts, left, {member: before[member] for member in left})
        total = sum(counts[topic] for topic in counts if readers(left, topic))
        assert sum(map(len, after.values())) == total
        if all(each.topics == topics for each in members.values()):
            for member in left:
                assert set(before[member]) <= set(after[member]), (before, after)

    @given(groups(equal=True), member_names)
    def test_new_member_gets_its_share_only(self, group: tuple[Any, Any], more: list[str]) -> None:
        """Only the surplus moves, to new members."""
        counts, members = group
        topics = next(iter(members.values())).topics
        before, _ = settled("cooperative-sticky", counts, members, {})
        everybody = members | {f"new-{each}": MemberSubscription(topics) for each in more}
        after, rounds = settled("cooperative-sticky", counts, everybody, before)
        assert rounds <= 3
        for member in members:
            assert set(after[member]) <= set(before[member]) or len(after[member]) > len(before[member])
        sizes = [len(each) for each in after.values()]
        assert max(sizes) - min(sizes) <= 1

    @given(groups(), member_names, st.data())
    def test_cooperative_members_revoke_first(
        self, group: tuple[Any, Any], names: list[str], data: st.DataObject
    ) -> None:
        """In a cooperative group, no partition is assigned to two members, whatever they claim."""
        counts, members = group
        everything = [TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
        some = st.lists(st.sampled_from(everything), unique=True) if everything else st.just([])
        claims = {
            member: MemberSubscription(each.topics, tuple(data.draw(some)), data.draw(st.integers(-1, 3)))
            for member, each in members.items()
        }
        given = ASSIGNORS["cooperative-sticky"].assign(counts, claims)
        owned_later: Counter[TopicPartition] = Counter()
        for member, each in given.items():
            for partition in each:
                owned_later[partition] += 1
                if partition not in claims[member].owned:
                    assert not any(partition in one.owned for other, one in claims.items() if other != member)
        assert all(count == 1 for count in owned_later.values())
