"""Tests of :mod:`logbus.coordination.share.simple_assignor`."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.consumer.partition_sets import Partitions, count, pairs
from logbus.coordination.share.simple_assignor import assign

A, B = b"a" * 16, b"b" * 16


def numbers(count: int) -> frozenset[int]:
    """The partitions of a topic."""
    return frozenset(range(count))


class SimpleAssignorTests(SynchronousTestCase):
    """Examples."""

    def test_partitions_are_divided(self) -> None:
        """With as many partitions as members or more, each partition has one member."""
        made = assign({"x": frozenset({A}), "y": frozenset({A})}, {A: numbers(3)}, {})
        self.assertEqual(made, {"x": {A: frozenset({0, 1})}, "y": {A: frozenset({2})}})

    def test_partitions_are_shared(self) -> None:
        """With more members than partitions, all members have one."""
        members = {name: frozenset({A}) for name in "vwxyz"}
        made = assign(members, {A: numbers(2)}, {})
        self.assertEqual(Counter(pair for target in made.values() for pair in pairs(target)), {(A, 0): 3, (A, 1): 3})

    def test_members_keep_what_they_have(self) -> None:
        """One that leaves does not move what others have."""
        members = {name: frozenset({A, B}) for name in "xyz"}
        topics: Partitions = {A: numbers(4), B: numbers(2)}
        before = assign(members, topics, {})
        after = assign({name: members[name] for name in "xz"}, topics, before)
        for name in "xz":
            self.assertLessEqual(set(pairs(before[name])), set(pairs(after[name])))

    def test_one_that_stays_short(self) -> None:
        """Another member takes the place that is left, at once: the next assignment is the same."""
        topics = {A: numbers(3)}
        before = {"w": {A: frozenset({0, 1})}, "y": {A: frozenset({2})}, "z": {A: frozenset({0})}}
        members = {name: frozenset({A}) for name in "wxyz"}
        made = assign(members, topics, before)
        self.assertEqual(made, {**before, "x": {A: frozenset({1, 2})}})
        self.assertEqual(assign(members, topics, made), made)

    def test_a_topic_that_cannot_be_assigned_yet(self) -> None:
        """It is left out."""
        self.assertEqual(assign({"x": frozenset({A, B})}, {B: numbers(1)}, {}), {"x": {B: numbers(1)}})
        self.assertEqual(assign({}, {B: numbers(1)}, {}), {})


topics = st.dictionaries(st.sampled_from([bytes([n]) * 16 for n in range(4)]), st.integers(1, 12), max_size=4)
members = st.lists(st.sampled_from([f"m{n}" for n in range(15)]), unique=True, max_size=15)


@given(topics, members, members, st.data())
def test_equal_subscriptions(
    partitions: dict[bytes, int], first: list[str], second: list[str], data: st.DataObject
) -> None:
    """Partitions have a member, members a partition, as many as the others or one more, whatever they had."""
    every: Partitions = {topic: numbers(count) for topic, count in partitions.items()}
    wanted = frozenset(every)
    before = assign(dict.fromkeys(sorted(first), wanted), every, {})
    grown: Partitions = {topic: numbers(len(held) + data.draw(st.integers(0, 2))) for topic, held in every.items()}
    made = assign(dict.fromkeys(sorted(second), wanted), grown, before)
    assert made.keys() == set(second)
    holders = Counter(pair for target in made.values() for pair in pairs(target))
    if second and grown:
        assert set(holders) == set(pairs(grown))
        counts = [count(target) for target in made.values()]
        assert min(counts) >= 1
        assert max(counts) - min(counts) <= 1
        if len(second) <= count(grown):
            assert set(holders.values()) == {1}
    again = assign(dict.fromkeys(sorted(second), wanted), grown, made)
    assert again == made


@given(topics, st.dictionaries(st.sampled_from([f"m{n}" for n in range(8)]), st.sets(st.integers(0, 3))))
def test_different_subscriptions(partitions: dict[bytes, int], wishes: dict[str, set[int]]) -> None:
    """Each partition that somebody wants has a member that wants it."""
    every: Partitions = {topic: numbers(count) for topic, count in partitions.items()}
    wanted = {member: frozenset(bytes([n]) * 16 for n in topics) for member, topics in sorted(wishes.items())}
    made = assign(wanted, every, {})
    for member, target in made.items():
        assert target.keys() <= wanted[member]
    subscribed = frozenset().union(*wanted.values()) if wanted else frozenset()
    held = {pair for target in made.values() for pair in pairs(target)}
    assert held == {(topic, number) for topic, number in pairs(every) if topic in subscribed}
