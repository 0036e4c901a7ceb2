"""Tests of :mod:`logbus.coordination.streams.sticky_assignor`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.streams.configured_topology import ConfiguredSubtopology, ConfiguredTopology
from logbus.coordination.streams.sticky_assignor import MemberSpec, assign
from logbus.coordination.streams.tasks import TaskSets, count, from_pairs, pairs
from logbus.coordination.streams.topology import InternalTopic


def topology(**subtopologies: int) -> ConfiguredTopology:
    """Numbers of tasks by subtopology id; ids that begin with s have state."""
    return ConfiguredTopology(
        1,
        {
            key: ConfiguredSubtopology(
                key, tasks, state_changelog_topics=(InternalTopic("log", tasks),) if key.startswith("s") else ()
            )
            for key, tasks in subtopologies.items()
        },
    )


def again(members: Mapping[str, str], made: Mapping[str, TaskSets]) -> dict[str, MemberSpec]:
    """Members by process, with what they had."""
    none = TaskSets()
    return {
        key: MemberSpec(process, made.get(key, none).active, made.get(key, none).standby)
        for key, process in members.items()
    }


def owners(made: Mapping[str, TaskSets]) -> dict[tuple[str, int], str]:
    """The member of each active task."""
    return {task: key for key, each in made.items() for task in pairs(each.active)}


class StickyAssignorTests(SynchronousTestCase):
    """Examples."""

    def test_new_members(self) -> None:
        """Tasks go around processes first, then around their members."""
        made = assign(again({"a1": "a", "a2": "a", "b1": "b"}, {}), topology(x=3, y=3))
        self.assertEqual(
            owners(made),
            {("x", 0): "a1", ("x", 1): "b1", ("x", 2): "a2", ("y", 0): "a1", ("y", 1): "b1", ("y", 2): "a2"},
        )

    def test_a_member_more(self) -> None:
        """Only what it gets moves to it."""
        before = assign(again({"a": "a", "b": "b"}, {}), topology(x=6))
        after = assign(again({"a": "a", "b": "b", "c": "c"}, before), topology(x=6))
        moved = {task for task, owner in owners(after).items() if owner != owners(before)[task]}
        self.assertEqual({owners(after)[task] for task in moved}, {"c"})
        self.assertEqual(len(moved), 2)

    def test_a_copy_of_the_state(self) -> None:
        """Where a member leaves, its task goes to the one that has a copy of its state."""
        members = {"a": "a", "b": "b", "c": "c"}
        before = assign(again(members, {}), topology(s=3), 1)
        copies = {task: key for key, each in before.items() for task in pairs(each.standby)}
        del members["a"]
        after = assign(again(members, before), topology(s=3), 1)
        for task, owner in owners(before).items():
            self.assertEqual(owners(after)[task], copies[task] if owner == "a" else owner)

    def test_it_comes_back(self) -> None:
        """A member whose task moved to another one keeps a copy of its state."""
        specs = {"a": MemberSpec("a", from_pairs([("s", 0), ("s", 1)])), "b": MemberSpec("b")}
        made = assign(specs, topology(s=2), 1)
        self.assertEqual(made["a"], TaskSets({"s": frozenset({0})}, {"s": frozenset({1})}))
        self.assertEqual(made["b"], TaskSets({"s": frozenset({1})}, {"s": frozenset({0})}))

    def test_one_process(self) -> None:
        """There are no standby tasks in the process that has the active ones."""
        made = assign(again({"a1": "a", "a2": "a"}, {}), topology(s=2), 3)
        self.assertEqual([each.standby for each in made.values()], [{}, {}])

    def test_nobody(self) -> None:
        """Without members nothing is assigned; without tasks they have none."""
        self.assertEqual(assign({}, topology(x=1)), {})
        self.assertEqual(assign({"a": MemberSpec("a")}, topology()), {"a": TaskSets()})


sizes = st.dictionaries(st.sampled_from(["x", "y", "s", "sa"]), st.integers(1, 9), max_size=4)
groups = st.dictionaries(st.sampled_from([f"m{n}" for n in range(9)]), st.sampled_from("pqrs"), min_size=1)


@given(sizes, groups, groups, st.integers(0, 3))
def test_whatever_they_had(tasks: dict[str, int], first: dict[str, str], second: dict[str, str], replicas: int) -> None:
    """
    Each task is active once, standby tasks are on other processes, members have equal numbers of active tasks or one
    more, and active tasks stay with who has them, as far as that lets them.
    """
    wanted = topology(**tasks)
    before = assign(again(first, {}), wanted, replicas)
    made = assign(again(second, before), wanted, replicas)
    assert made.keys() == second.keys()
    every = {(key, number) for key, size in tasks.items() for number in range(size)}
    holders = Counter(task for each in made.values() for task in pairs(each.active))
    assert holders == dict.fromkeys(every, 1)
    processes = len(set(second.values()))
    copies = Counter(task for each in made.values() for task in pairs(each.standby))
    assert copies == {
        task: min(replicas, processes - 1) for task in every if task[0][0] == "s" and replicas and processes > 1
    }
    places = Counter(
        (second[key], task) for key, each in made.items() for task in (*pairs(each.active), *pairs(each.standby))
    )
    assert set(places.values()) <= {1}
    counts = [count(each.active) for each in made.values()]
    assert max(counts) - min(counts) <= 1
    had, now = owners(before), owners(made)
    for key in second.keys() & first.keys():
        kept = sum(now[task] == key for task in every if had[task] == key)
        assert kept >= min(count(before[key].active), *counts)
    assert owners(assign(again(second, made), wanted, replicas)) == now
