"""Tests of :mod:`logbus.coordination.consumer.assignors`."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.consumer.assignors import (
    ASSIGNORS,
    DEFAULT_ASSIGNOR,
    MemberSubscriptions,
    range_assignor,
    uniform,
)
from logbus.coordination.consumer.partition_sets import Partitions, TopicId, count, difference, is_subset, pairs

Targets = dict[str, Partitions]

TOPICS = [bytes([number]) * 16 for number in range(1, 7)]

topics = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 9), min_size=1)
members = st.lists(st.sampled_from([f"m{number}" for number in range(8)]), min_size=1, unique=True)


@st.composite
def groups(draw: st.DrawFn) -> tuple[MemberSubscriptions, dict[TopicId, int]]:
    """A group, the wishes of its members the same or different, and the topics of the cluster."""
    there = draw(topics)
    names = draw(members)
    some = st.frozensets(st.sampled_from(sorted(there)))
    if draw(st.booleans()):
        same = draw(some)
        return dict.fromkeys(names, same), there
    return {name: draw(some) for name in names}, there


@st.composite
def sequences(draw: st.DrawFn) -> list[tuple[MemberSubscriptions, dict[TopicId, int]]]:
    """A group as it changes."""
    return draw(st.lists(groups(), min_size=1, max_size=4))


class EveryAssignorTests(SynchronousTestCase):
    """Properties of all assignors."""

    def check_complete(self, wishes: MemberSubscriptions, there: dict[TopicId, int], targets: Targets) -> None:
        """Each partition of each wanted topic is with exactly one member, which wants it; nothing else is."""
        self.assertEqual(list(targets), list(wishes))
        owned = Counter(partition for target in targets.values() for partition in pairs(target))
        wanted = {topic_id for wish in wishes.values() for topic_id in wish}
        self.assertEqual(owned, Counter((t, number) for t in wanted for number in range(there[t])))
        for member, target in targets.items():
            self.assertLessEqual(set(target), wishes[member])
            self.assertNotIn(frozenset(), target.values())

    @given(st.sampled_from(sorted(ASSIGNORS)), sequences())
    def test_complete(self, name: str, changes: list[tuple[MemberSubscriptions, dict[TopicId, int]]]) -> None:
        """Whatever members want, and whatever becomes of topics: all is assigned, once, to one that wants it."""
        targets: Targets = {}
        for wishes, there in changes:
            before = dict(targets)
            targets = ASSIGNORS[name](wishes, there, before)
            self.check_complete(wishes, there, targets)
            self.assertEqual(ASSIGNORS[name](wishes, there, before), targets, "not deterministic")

    def test_default(self) -> None:
        """The default is ``uniform``."""
        self.assertEqual(DEFAULT_ASSIGNOR, "uniform")

    def test_nobody(self) -> None:
        """A group without members, or whose members want nothing, has nothing assigned."""
        for assignor in ASSIGNORS.values():
            self.assertEqual(assignor({}, {TOPICS[0]: 3}, {}), {})
            self.assertEqual(assignor({"a": frozenset()}, {TOPICS[0]: 3}, {}), {"a": {}})


class UniformTests(SynchronousTestCase):
    """Fair and sticky."""

    @given(members, topics, st.lists(st.sampled_from(["leave", "join", "grow"]), max_size=6), st.data())
    def test_same_wishes(
        self, names: list[str], there: dict[TopicId, int], changes: list[str], data: st.DataObject
    ) -> None:
        """
        Where all want the same: shares differ by one at most; who leaves gives its partitions to the others, and
        nothing else moves; who joins takes its share from the others, and nothing moves between these.
        """
        wish = frozenset(there)
        targets = uniform(dict.fromkeys(names, wish), there, {})
        for step, change in enumerate(changes):
            if change == "join":
                names = [f"new{step}", *names]
            elif change == "grow":
                grown = data.draw(st.sampled_from(sorted(there)))
                there = {**there, grown: there[grown] + data.draw(st.integers(1, 5))}
            elif len(names) > 1:
                gone = data.draw(st.sampled_from(names))
                names = [name for name in names if name != gone]
            after = uniform(dict.fromkeys(names, wish), there, targets)
            sizes = [count(target) for target in after.values()]
            self.assertLessEqual(max(sizes) - min(sizes), 1)
            for name in names:
                if name in targets and change == "leave":
                    self.assertTrue(is_subset(targets[name], after[name]), f"{name} lost partitions")
                if name in targets and change == "join":
                    self.assertTrue(is_subset(after[name], targets[name]), f"{name} was given partitions")
            targets = after

    @given(members, topics, st.data())
    def test_least_movement(self, names: list[str], there: dict[TopicId, int], data: st.DataObject) -> None:
        """Where all want the same, no more is moved than being fair demands, wherever it starts from."""
        holders = st.sampled_from([*names, None])
        start: dict[str, dict[TopicId, set[int]]] = {name: {} for name in names}
        for topic_id, size in there.items():
            for number in range(size):
                holder = data.draw(holders)
                if holder is not None:
                    start[holder].setdefault(topic_id, set()).add(number)
        targets = {name: {t: frozenset(numbers) for t, numbers in held.items()} for name, held in start.items()}
        after = uniform(dict.fromkeys(names, frozenset(there)), there, targets)
        lost = sum(count(difference(targets[name], after[name])) for name in names)
        least, more = divmod(sum(there.values()), len(names))
        fullest = sorted((count(target) for target in targets.values()), reverse=True)
        needed = sum(max(0, held - least - (place < more)) for place, held in enumerate(fullest))
        self.assertEqual(lost, needed)

    @given(groups())
    def test_different_wishes(self, group: tuple[MemberSubscriptions, dict[TopicId, int]]) -> None:
        """Where wishes differ: no single partition could move to make two shares more equal; asked again, none does."""
        wishes, there = group
        targets = uniform(wishes, there, {})
        for giver, target in targets.items():
            for taker in wishes:
                if wishes[taker] & set(target):
                    self.assertLess(count(target) - count(targets[taker]), 2, (giver, taker))
        self.assertEqual(uniform(wishes, there, targets), targets)

    def test_who_can_have_little_is_served_first(self) -> None:
        """A member that wants one topic only gets a share of it, since the other can have other topics."""
        a, b, c = TOPICS[:3]
        targets = uniform({"one": frozenset({a}), "all": frozenset({a, b, c})}, {a: 4, b: 2, c: 2}, {})
        self.assertEqual(
            targets, {"one": {a: frozenset(range(4))}, "all": {b: frozenset({0, 1}), c: frozenset({0, 1})}}
        )


class RangeTests(SynchronousTestCase):
    """Contiguous ranges."""

    def test_ranges(self) -> None:
        """The first members get one more; topics of one size are cut the same way."""
        a, b = TOPICS[:2]
        wishes = dict.fromkeys(["x", "y", "z"], frozenset({a, b}))
        targets = range_assignor(wishes, {a: 7, b: 7}, {})
        self.assertEqual([sorted(target[a]) for target in targets.values()], [[0, 1, 2], [3, 4], [5, 6]])
        self.assertEqual([target[b] for target in targets.values()], [target[a] for target in targets.values()])

    def test_more_members_than_partitions(self) -> None:
        """With fewer partitions than members the last ones get none."""
        a = TOPICS[0]
        targets = range_assignor(dict.fromkeys(["x", "y", "z"], frozenset({a})), {a: 2}, {})
        self.assertEqual(targets, {"x": {a: frozenset({0})}, "y": {a: frozenset({1})}, "z": {}})
