"""Tests of :mod:`logbus.coordination.streams.configured_topology`."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.streams.configured_topology import ConfiguredTopology, configure
from logbus.coordination.streams.status import StatusCode
from logbus.coordination.streams.topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from logbus.errors import ApiError, ErrorCode

COUNTS = Topology(
    3,
    (
        Subtopology("0", source_topics=("words",), repartition_sink_topics=("by-word",)),
        Subtopology(
            "1",
            repartition_source_topics=(InternalTopic("by-word", configs=(("retention.ms", "-1"),)),),
            state_changelog_topics=(InternalTopic("counts", 0, 2),),
        ),
    ),
)
"""A word count: words are sent to their counters by a repartition topic."""


def configured(topology: Topology, **topics: int) -> ConfiguredTopology:
    """A topology configured for topics with these numbers of partitions; "_" stands for "-"."""
    return configure(topology, {name.replace("_", "-"): count for name, count in topics.items()}.get)


def joining(*groups: CopartitionGroup, **fixed: int) -> Topology:
    """One subtopology that reads topics a and b of the user, and repartition topics r and s that another one writes."""
    topics = tuple(InternalTopic(name, fixed.get(name, 0)) for name in "rs")
    reader = Subtopology("1", ("a", "b"), repartition_source_topics=topics, copartition_groups=groups)
    return Topology(1, (Subtopology("0", ("big",), repartition_sink_topics=("r", "s")), reader))


class ConfigureTests(SynchronousTestCase):
    """Numbers of partitions and tasks."""

    def test_missing_internal_topics(self) -> None:
        """They get as many partitions as there are tasks that write them."""
        made = configured(COUNTS, words=4)
        self.assertEqual({key: each.tasks for key, each in made.subtopologies.items()}, {"0": 4, "1": 4})
        self.assertEqual(
            made.missing,
            (InternalTopic("by-word", 4, configs=(("retention.ms", "-1"),)), InternalTopic("counts", 4, 2)),
        )
        assert made.problem is not None
        self.assertEqual(made.problem.code, StatusCode.MISSING_INTERNAL_TOPICS)
        self.assertEqual(made.problem.detail, "internal topics are missing: by-word, counts")
        self.assertFalse(made.is_ready)

    def test_ready(self) -> None:
        """With all topics there, tasks can be assigned."""
        made = configured(COUNTS, words=4, by_word=4, counts=4)
        self.assertTrue(made.is_ready)
        self.assertEqual((made.epoch, made.missing), (3, ()))
        self.assertEqual([each.is_stateful for each in made.subtopologies.values()], [False, True])

    def test_missing_source_topics(self) -> None:
        """Three are named, and the others counted."""
        made = configured(Topology(1, (Subtopology("0", ("d", "c", "b", "a", "e")),)), c=1)
        assert made.problem is not None
        self.assertEqual(made.problem.code, StatusCode.MISSING_SOURCE_TOPICS)
        self.assertEqual(made.problem.detail, "source topics are missing: a, b, d and 1 more")
        self.assertEqual(made.subtopologies, {})

    def test_wrong_number_of_partitions(self) -> None:
        """An internal topic that somebody made with another number is a problem."""
        made = configured(COUNTS, words=4, counts=3)
        assert made.problem is not None
        self.assertEqual(made.problem.code, StatusCode.INCORRECTLY_PARTITIONED_TOPICS)
        self.assertEqual(made.problem.detail, "the internal topic counts has 3 partitions, and must have 4")

    def test_copartitioned_with_topics_of_the_user(self) -> None:
        """A repartition topic takes their number, and not that of its writer."""
        group = CopartitionGroup(("a", "b"), (), ("r",))
        made = configured(joining(group), big=9, a=2, b=2)
        self.assertEqual([(each.name, each.partitions) for each in made.missing], [("r", 2), ("s", 9)])
        for topology, topics in (
            (joining(group), {"big": 9, "a": 2, "b": 3}),
            (joining(group, r=4), {"big": 9, "a": 2, "b": 2}),
        ):
            made = configured(topology, **topics)
            assert made.problem is not None
            self.assertEqual(made.problem.code, StatusCode.INCORRECTLY_PARTITIONED_TOPICS)
            self.assertIn("a: 2", made.problem.detail)

    def test_copartitioned_repartition_topics(self) -> None:
        """The number that the application gave one of them is that of all."""
        group = CopartitionGroup((), (), ("r", "s"))
        made = configured(joining(group, s=5), big=9, a=1, b=1)
        self.assertEqual([(each.name, each.partitions) for each in made.missing], [("r", 5), ("s", 5)])
        made = configured(joining(group, r=4, s=5), big=9, a=1, b=1)
        assert made.problem is not None
        self.assertEqual(made.problem.detail, "topics must have equal numbers of partitions: r: 4, s: 5")

    def test_invalid(self) -> None:
        """A topology that cannot be configured, whatever topics exist, is refused."""
        loop = Subtopology("0", repartition_source_topics=(InternalTopic("r"),), repartition_sink_topics=("r",))
        unwritten = Subtopology("0", ("a",), repartition_source_topics=(InternalTopic("r"),))
        stray = Subtopology("0", ("a",), copartition_groups=(CopartitionGroup(("x",)),))
        for topology, message in (
            (Topology(1, (loop,)), "can be found: r"),
            (Topology(1, (unwritten,)), "can be found: r"),
            (Topology(1, (Subtopology("0", ("a",)), Subtopology("1"))), "'1' has no source topics"),
            (Topology(1, (stray,)), "'x'"),
        ):
            error = self.assertRaises(ApiError, configured, topology, a=2)
            self.assertEqual(error.code, ErrorCode.STREAMS_INVALID_TOPOLOGY)
            self.assertIn(message, error.message)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Any connections of up to six subtopologies by up to six repartition topics."""
    subtopologies = []
    for key in draw(st.permutations("012345"[: draw(st.integers(1, 6))])):
        sources = draw(st.lists(st.sampled_from("abc"), unique=True, max_size=2))
        names = draw(st.lists(st.sampled_from("rstuvw"), unique=True, max_size=2, min_size=0 if sources else 1))
        fixed = draw(st.sampled_from([0, 0, 0, 2, 3]))
        topics = [InternalTopic(name, fixed) for name in names]
        group = draw(st.sets(st.sampled_from([*sources, *names])))
        groups = [CopartitionGroup(tuple(x for x in sources if x in group), (), tuple(x for x in names if x in group))]
        changelogs = [InternalTopic(f"changelog-{key}")] if draw(st.booleans()) else []
        subtopologies.append(
            Subtopology(
                key,
                tuple(sources),
                (),
                tuple(draw(st.lists(st.sampled_from("rstuvw"), unique=True, max_size=2))),
                tuple(changelogs),
                tuple(topics),
                tuple(groups),
            )
        )
    return Topology(1, tuple(subtopologies))


existing = st.dictionaries(st.sampled_from(["a", "b", "c", "a", "b", "c", "r", "s", "changelog-0"]), st.integers(1, 4))


@given(topologies(), existing)
def test_created_topics_make_it_ready(topology: Topology, topics: Mapping[str, int]) -> None:
    """Once what is missing is created, tasks can be assigned, as many as announced."""
    try:
        first = configure(topology, topics.get)
    except ApiError as error:
        assert error.code == ErrorCode.STREAMS_INVALID_TOPOLOGY
        return
    if first.missing:
        assert first.problem is not None
        assert first.problem.code == StatusCode.MISSING_INTERNAL_TOPICS
        assert not topics.keys() & {topic.name for topic in first.missing}
        grown = {**topics, **{topic.name: topic.partitions for topic in first.missing}}
        second = configure(topology, grown.get)
        assert second.is_ready
        assert second.subtopologies == first.subtopologies
    if not first.subtopologies:
        assert not first.is_ready
