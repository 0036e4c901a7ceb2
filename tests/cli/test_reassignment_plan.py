"""Tests of :mod:`logbus.cli.reassignment_plan`."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.reassignment_plan import (
    InvalidPlan,
    changed_replicas,
    partitions_of,
    read_plan,
    spread_evenly,
    throttled_replicas,
    write_plan,
)
from logbus.model import TopicPartition

names = st.builds(TopicPartition, st.sampled_from(("a", "b-c")), st.integers(0, 9))
replicas = st.lists(st.integers(0, 6), min_size=1, max_size=3, unique=True).map(tuple)
plans = st.dictionaries(names, replicas, min_size=1)


class FileTests(SynchronousTestCase):
    """Kafka's JSON."""

    @given(plans)
    def test_round_trip(self, plan: dict[TopicPartition, tuple[int, ...]]) -> None:
        """A written plan is parsed as the same plan."""
        self.assertEqual(read_plan(write_plan(plan)), plan)

    def test_kafkas(self) -> None:
        """Plans of Kafka's tools are parsed, also with log directories "any"."""
        text = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}'
        self.assertEqual(read_plan(text), {TopicPartition("t", 0): (1, 2)})

    @given(st.text(max_size=30) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
    def test_arbitrary_files(self, text: str) -> None:
        """Any file is read or refused with an error."""
        self.assertRaises(InvalidPlan, read_plan, text)

    def test_wrong(self) -> None:
        """Errors name the problem."""
        good = {"topic": "t", "partition": 0, "replicas": [1]}
        for partitions, words in (
            ([], "no partition"),
            ([good, good], "t-0 is there twice"),
            ([good | {"replicas": [1, 1]}], "a broker twice"),
            ([good | {"replicas": []}], "not a list"),
            ([good | {"replicas": [True]}], "not a list"),
            ([good | {"partition": -1}], "a number"),
            ([good | {"partition": None}], "a number"),
            ([good | {"log_dirs": ["/data"]}], "log_dirs"),
            (["x"], "is not a partition"),
        ):
            error = self.assertRaises(InvalidPlan, read_plan, json.dumps({"partitions": partitions}))
            self.assertIn(words, str(error))
        self.assertIn("version 2", str(self.assertRaises(InvalidPlan, read_plan, '{"version": 2, "partitions": []}')))

    def test_names(self) -> None:
        """Topics may have dashes; partitions are numbers."""
        self.assertEqual(partitions_of(["a-b-3"]), [TopicPartition("a-b", 3)])
        for text in ("a", "-1", "a-", "a-x", "a-²", "a-99999999999"):
            self.assertRaises(InvalidPlan, partitions_of, [text])


class SpreadEvenlyTests(SynchronousTestCase):
    """The plans of ``--generate``."""

    @given(plans, st.sets(st.integers(0, 9), min_size=3))
    def test_even(self, current: dict[TopicPartition, tuple[int, ...]], brokers: set[int]) -> None:
        """Only the brokers given, as many replicas as before, evenly spread, and nothing to do the second time."""
        racks = dict.fromkeys(brokers)
        plan = spread_evenly(current, racks)
        self.assertEqual({name: len(each) for name, each in plan.items()}, {n: len(e) for n, e in current.items()})
        for each in plan.values():
            self.assertEqual(len(set(each)), len(each))
            self.assertLessEqual(set(each), brokers)
        load = Counter(dict.fromkeys(brokers, 0))
        load.update(broker for each in plan.values() for broker in each)
        self.assertLessEqual(max(load.values()) - min(load.values()), 1)
        self.assertEqual(changed_replicas(plan, spread_evenly(plan, racks)), {})

    @given(plans)
    def test_racks(self, current: dict[TopicPartition, tuple[int, ...]]) -> None:
        """New replicas of a partition are in different racks while there are racks without one."""
        racks = {number: "abc"[number % 3] for number in range(10, 19)}
        for each in spread_evenly(current, racks).values():
            self.assertEqual(len({racks[broker] for broker in each}), len(each))

    @given(plans, st.sets(st.integers(0, 9), min_size=3))
    def test_leaders(self, current: dict[TopicPartition, tuple[int, ...]], brokers: set[int]) -> None:
        """No partition could have a preferred leader that has two fewer."""
        plan = spread_evenly(current, dict.fromkeys(brokers))
        leads = Counter(each[0] for each in plan.values())
        for each in plan.values():
            self.assertTrue(all(leads[broker] + 1 >= leads[each[0]] for broker in each))

    def test_a_broker_leaves(self) -> None:
        """Only what it has moves."""
        current = {TopicPartition("t", n): ((n % 3), (n + 1) % 3) for n in range(6)}
        plan = spread_evenly(current, {0: None, 1: None, 3: None})
        for name, each in current.items():
            if 2 not in each:
                self.assertEqual(set(plan[name]), set(each))

    def test_too_few(self) -> None:
        """Three replicas need three brokers."""
        error = self.assertRaises(InvalidPlan, spread_evenly, {TopicPartition("t", 0): (0, 1, 2)}, {0: None, 1: None})
        self.assertIn("t-0 has 3 replicas", str(error))

    def test_throttle(self) -> None:
        """Those that have the data send, those that get it fetch; what only changes its order is not throttled."""
        current = {TopicPartition("t", 0): (0, 1), TopicPartition("t", 1): (1, 2), TopicPartition("u", 0): (0, 1)}
        target = {TopicPartition("t", 0): (1, 2), TopicPartition("t", 1): (1, 2), TopicPartition("u", 0): (1, 0)}
        self.assertEqual(throttled_replicas(current, target), {"t": (["0:0", "0:1"], ["0:2"])})
