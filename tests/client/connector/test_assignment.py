"""Ranges of partitions for the streams of all members."""

from __future__ import annotations

from itertools import groupby
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.connector.assignment import assign, ranges, share, wanted_topics
from logbus.client.connector.topic_filter import BlackList, WhiteList
from logbus.client.connector.znodes import (
    TopicCount,
)
from logbus.model import TopicPartition

NAMES = st.sampled_from(["a", "b", "c", "d"])
FILTERS = st.sampled_from([WhiteList("a|b"), WhiteList(".*"), BlackList("a"), BlackList("x.*")])
SUBSCRIPTIONS = st.one_of(
    st.builds(TopicCount, st.dictionaries(NAMES, st.integers(1, 12))),
    st.builds(lambda chosen, count: TopicCount({}, chosen, count), FILTERS, st.integers(1, 12)),
)
MEMBERS = st.dictionaries(st.text("gh_-.019", min_size=1, max_size=6), SUBSCRIPTIONS, max_size=6)
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
    def test_every_partition_has_one_subscribed_owner(
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
        """A filter sees existing topics, without internal ones by default; named topics need not exist."""
        there = ["b", "a", "__consumer_offsets", "__remote_log_metadata"]
        every = TopicCount({}, WhiteList(".*"), 1)
        self.assertEqual(wanted_topics(every, there, internal=False), ["a", "b"])
        self.assertEqual(wanted_topics(every, there, internal=True), sorted(there))
        self.assertEqual(wanted_topics(TopicCount({"new": 1}), there, internal=False), ["new"])
