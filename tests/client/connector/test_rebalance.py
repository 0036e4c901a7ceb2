"""Rebalance plans and rounds."""

from __future__ import annotations

import json
from itertools import groupby
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.connector.assignment import assign, ranges, share, wanted_topics
from logbus.client.connector.positions import Positions
from logbus.client.connector.rebalance import RebalancePhase, RebalanceRounds, plan
from logbus.client.connector.topic_filter import BlackList, TopicFilter, WhiteList
from logbus.client.connector.znodes import (
    GroupPaths,
    OffsetZnode,
    TopicCount,
    TopicCountZnode,
    is_legal_group,
    partitions_of,
)
from logbus.errors import ConfigError
from logbus.metastore.znode_json import BadZnode
from logbus.model import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
NAMES = st.sampled_from(["a", "b", "c", "d"])
FILTERS = st.sampled_from([WhiteList("a|b"), WhiteList(".*"), BlackList("a"), BlackList("x.*")])
SUBSCRIPTIONS = st.one_of(
    st.builds(TopicCount, st.dictionaries(NAMES, st.integers(1, 12))),
    st.builds(lambda chosen, count: TopicCount({}, chosen, count), FILTERS, st.integers(1, 12)),
)
MEMBERS = st.dictionaries(st.text("gh_-.019", min_size=1, max_size=6), SUBSCRIPTIONS, max_size=6)
KEYS = st.sampled_from(["version", "subscription", "partitions", "pattern", "t"])
JSON = st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner))
CLAIMS = st.dictionaries(st.sampled_from([P0, P1]), st.integers(0, 2))
TOPICS = st.dictionaries(NAMES, st.integers(0, 20).map(range))


class AssignmentTests(SynchronousTestCase):
    def test_the_documents_examples(self) -> None:
        """
        Five partitions: two consumers of one stream get three and two; of four streams each, four and one.
        """
        topics = {"t": range(5)}
        one = assign(topics, {"c0": TopicCount({"t": 1}), "c1": TopicCount({"t": 1})})
        self.assertEqual([one[TopicPartition("t", p)][0] for p in range(5)], ["c0", "c0", "c0", "c1", "c1"])
        four = assign(topics, {"c0": TopicCount({"t": 4}), "c1": TopicCount({"t": 4})})
        self.assertEqual([four[TopicPartition("t", p)] for p in range(5)], [*(("c0", i) for i in range(4)), ("c1", 0)])

    def test_streams_are_sorted_as_text(self) -> None:
        """As the consumers of Kafka 0.8 sort them, so that both may share a group: the eleventh before the third."""
        assigned = assign({"t": range(12)}, {"c": TopicCount({"t": 12})})
        self.assertEqual([assigned[TopicPartition("t", p)][1] for p in range(12)], [0, 1, 10, 11, *range(2, 10)])

    @given(TOPICS, MEMBERS)
    def test_every_partition_has_one_owner_who_asked(
        self, topics: dict[str, range], members: dict[str, TopicCount]
    ) -> None:
        """
        If anybody reads a topic, all its partitions are assigned, each once, to members that read it; the streams of a
        topic differ by one partition at most; and what a stream has are neighbours.
        """
        assigned = assign(topics, members)
        for topic, partitions in topics.items():
            threads = [(m, i) for m, s in members.items() for i in range(s.streams_for(topic))]
            mine = {p: assigned[p] for p in assigned if p.topic == topic}
            self.assertEqual({p.partition for p in mine}, set(partitions) if threads else set())
            counts = dict.fromkeys(threads, 0)
            for owner in mine.values():
                counts[owner] += 1
            if threads:
                self.assertLessEqual(max(counts.values()) - min(counts.values()), 1)
            order = [mine[TopicPartition(topic, number)] for number in sorted(partitions)] if threads else []
            self.assertEqual(len(list(groupby(order))), len(set(order)))

    @given(TOPICS, MEMBERS, st.randoms(use_true_random=False))
    def test_all_members_agree(self, topics: dict[str, range], members: dict[str, TopicCount], random: Random) -> None:
        """
        Nothing depends on the order in which things were read; and the shares are all there is.
        """
        shuffled = list(members.items())
        random.shuffle(shuffled)
        backwards = {name: list(reversed(partitions)) for name, partitions in reversed(topics.items())}
        assigned = assign(topics, members)
        self.assertEqual(assign(backwards, dict(shuffled)), assigned)
        shares = [share(assigned, member) for member in members]
        self.assertEqual(sum(len(each) for each in shares), len(assigned))

    @given(st.sets(st.integers(0, 50)), st.sets(st.text("ab-", max_size=3)))
    def test_ranges_take_any_numbers(self, partitions: set[int], threads: set[str]) -> None:
        """
        Partitions need not be numbered without gaps.
        """
        self.assertEqual(set(ranges(partitions, threads)), partitions if threads else set())

    def test_topics_of_a_filter(self) -> None:
        """A filter sees the topics there are, without the brokers' own unless told so; names need not be there yet."""
        there = ["b", "a", "__consumer_offsets"]
        every = TopicCount({}, WhiteList(".*"), 1)
        self.assertEqual(wanted_topics(every, there, internal=False), ["a", "b"])
        self.assertEqual(wanted_topics(every, there, internal=True), ["__consumer_offsets", "a", "b"])
        self.assertEqual(wanted_topics(TopicCount({"new": 1}), there, internal=False), ["new"])


class FilterTests(SynchronousTestCase):
    def test_whole_names(self) -> None:
        """An expression must match a whole name."""
        self.assertTrue(WhiteList("page|click").allows("page"))
        self.assertFalse(WhiteList("page").allows("pages"))
        self.assertFalse(BlackList("test_.*").allows("test_1"))
        self.assertTrue(BlackList("test_.*").allows("a_test_1"))

    def test_what_is_no_expression(self) -> None:
        """Mistakes, back references and giants are refused with a sentence."""
        for wrong in ("(", r"(a)\1", "(?=a)", "a" * 3000, "(" * 500 + "a{1000}" * 100 + ")" * 500):
            self.assertRaises(ConfigError, WhiteList, wrong)

    def test_hostile_expressions_take_no_time(self) -> None:
        """An expression that has other engines try for years is matched in linear time."""
        self.assertFalse(WhiteList("(a*)*b").allows("a" * 249))


class ZnodeTests(SynchronousTestCase):
    def test_as_kafka_wrote_them(self) -> None:
        """The nodes are those of Kafka 0.8, byte for byte."""
        self.assertEqual(
            TopicCountZnode.encode(TopicCount({"t": 2}), 1400000000000),
            b'{"version":1,"subscription":{"t":2},"pattern":"static","timestamp":"1400000000000"}',
        )
        self.assertEqual(
            TopicCountZnode.encode(TopicCount({}, BlackList("x|y"), 3), 7),
            b'{"version":1,"subscription":{"x|y":3},"pattern":"black_list","timestamp":"7"}',
        )
        paths = GroupPaths("g")
        self.assertEqual(paths.id("g_h-1-ab"), "/consumers/g/ids/g_h-1-ab")
        self.assertEqual(paths.owner(P1), "/consumers/g/owners/t/1")
        self.assertEqual(paths.offset(P1), "/consumers/g/offsets/t/1")
        self.assertEqual(partitions_of("t", b'{"version":1,"partitions":{"10":[0],"9":[1,0]}}'), (9, 10))

    @given(SUBSCRIPTIONS)
    def test_subscriptions_come_back(self, subscription: TopicCount) -> None:
        """
        What is written is read.
        """
        self.assertEqual(TopicCountZnode.decode("/x", TopicCountZnode.encode(subscription, 1)), subscription)

    @given(st.integers(0, 2**63 - 1))
    def test_offsets_come_back(self, offset: int) -> None:
        """
        What is written is read.
        """
        self.assertEqual(OffsetZnode.decode("/x", OffsetZnode.encode(offset)), offset)

    @given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
    def test_anything_else_is_refused(self, data: bytes) -> None:
        """
        Whatever stands there is understood or refused, with its path.
        """
        for decode in (TopicCountZnode.decode, OffsetZnode.decode, partitions_of):
            try:
                decode("/x", data)
            except (BadZnode, ConfigError) as e:
                self.assertTrue(str(e))

    def test_how_many_streams(self) -> None:
        """Nobody can have us count to a billion."""
        for count in (-1, 10_001, 10**9):
            node = json.dumps({"version": 1, "subscription": {"t": count}, "pattern": "static"}).encode()
            self.assertRaises(BadZnode, TopicCountZnode.decode, "/x", node)

    def test_groups(self) -> None:
        """A group's name must do for a path."""
        self.assertTrue(is_legal_group("page-views_2.x"))
        for wrong in ("", ".", "..", "a/b", "ü", "a" * 256):
            self.assertFalse(is_legal_group(wrong))


class PositionsTests(SynchronousTestCase):
    def test_what_is_left_to_commit(self) -> None:
        """Only what changed is committed; also where a partition begins that nobody has committed yet."""
        positions = Positions()
        positions.begin(P0, 5)
        positions.begin(P1, None, 100)
        self.assertEqual(positions.uncommitted(), {P1: 100})
        positions.reached(P0, 6)
        self.assertEqual(positions.uncommitted([P0]), {P0: 6})
        positions.committed({P0: 6, P1: 100})
        self.assertEqual(positions.uncommitted(), {})

    def test_nowhere_to_begin(self) -> None:
        """What has no offset and no end to begin at has nothing to commit."""
        positions = Positions()
        positions.begin(P0, None)
        self.assertIsNone(positions.get(P0))
        self.assertEqual(positions.uncommitted(), {})

    def test_dropped(self) -> None:
        """What is somebody else's is not committed, whatever a late loop says."""
        positions = Positions()
        positions.begin(P0, 5)
        positions.drop([P0])
        positions.reached(P0, 9)
        positions.committed({P0: 9})
        self.assertEqual((positions.uncommitted(), positions.all()), ({}, []))

    def test_begun_already(self) -> None:
        """A partition that was kept goes on where it is."""
        positions = Positions()
        positions.begin(P0, 5)
        positions.reached(P0, 9)
        positions.begin(P0, 5)
        self.assertEqual(positions.get(P0), 9)


class RebalanceTests(SynchronousTestCase):
    @given(CLAIMS, CLAIMS)
    def test_plans(self, claimed: dict[TopicPartition, int], wanted: dict[TopicPartition, int]) -> None:
        """
        After letting go and taking one has what one wants; what stays where it is is not let go.
        """
        made = plan(claimed, wanted)
        after = {k: v for k, v in claimed.items() if k not in made.release} | dict(made.take)
        self.assertEqual(after, wanted)
        for each in made.release:
            self.assertNotEqual(wanted.get(each), claimed[each])

    def test_the_usual_way(self) -> None:
        """Connected, due, looking, settled; and due again when something changes."""
        rounds = RebalanceRounds(2)
        rounds.changed()
        self.assertIs(rounds.phase, RebalancePhase.AWAY)
        rounds.connected()
        rounds.begin()
        self.assertFalse(rounds.ended(False))
        self.assertIs(rounds.phase, RebalancePhase.SETTLED)
        rounds.changed()
        self.assertIs(rounds.phase, RebalancePhase.DUE)

    def test_changed_while_looking(self) -> None:
        """What was read may be old: there is another round, whatever came of this one."""
        for missing in (False, True):
            rounds = RebalanceRounds(0)
            rounds.connected()
            rounds.begin()
            rounds.changed()
            self.assertFalse(rounds.ended(missing))
            self.assertIs(rounds.phase, RebalancePhase.DUE)

    def test_failures(self) -> None:
        """So many rounds in vain after the first are a failure, and so many more another one; a change begins anew."""
        rounds = RebalanceRounds(2)
        rounds.connected()
        told = []
        for _ in range(6):
            rounds.begin()
            told.append(rounds.ended(True))
            rounds.time_is_up()
        self.assertEqual(told, [False, False, True, False, False, True])
        rounds.begin()
        rounds.ended(True)
        rounds.changed()
        self.assertEqual((rounds.failures, rounds.phase), (0, RebalancePhase.DUE))

    def test_away(self) -> None:
        """A round that ends while nobody can be asked ends nothing."""
        rounds = RebalanceRounds(0)
        rounds.connected()
        rounds.begin()
        rounds.changed()
        rounds.away()
        self.assertFalse(rounds.ended(True))
        self.assertIs(rounds.phase, RebalancePhase.AWAY)
        rounds.time_is_up()
        rounds.begin()
        self.assertIs(rounds.phase, RebalancePhase.AWAY)


def test_kinds_of_filters() -> None:
    """Each has a name in the registry."""
    assert {each.pattern for each in TopicFilter.__subclasses__()} == {"white_list", "black_list"}
