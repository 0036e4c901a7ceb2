"""Tests of :mod:`logbus.coordination.streams.topology`."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.streams.topology import InternalTopic, Subtopology, Topology, check_topology
from logbus.errors import ApiError, ErrorCode

COUNTS = Topology(
    1,
    (
        Subtopology("0", source_topics=("words",), repartition_sink_topics=("by-word",)),
        Subtopology(
            "1",
            repartition_source_topics=(InternalTopic("by-word"),),
            state_changelog_topics=(InternalTopic("counts", configs=(("cleanup.policy", "compact"),)),),
        ),
    ),
)


class TopologyTests(SynchronousTestCase):
    """What a topology names, and which are refused."""

    def test_names(self) -> None:
        """Topics of the user and internal ones are told apart."""
        self.assertEqual(COUNTS.source_topics, {"words"})
        self.assertEqual(COUNTS.internal_topics, {"by-word", "counts"})
        self.assertEqual(COUNTS.topics, {"words", "by-word", "counts"})
        self.assertGreater(COUNTS.memory, len("wordsby-wordcountscleanup.policycompact"))
        self.assertIsNone(check_topology(COUNTS))  # type: ignore[func-returns-value]

    def test_invalid(self) -> None:
        """The error names what is wrong."""
        for message, subtopologies in (
            ("id '0'", (Subtopology("0"), Subtopology("0"))),
            ("'counts' has a number", (Subtopology("0", state_changelog_topics=(InternalTopic("counts", 3),)),)),
            ("'r' has -1 partitions", (Subtopology("0", repartition_source_topics=(InternalTopic("r", -1),)),)),
            ("'c' has 0 partitions", (Subtopology("0", state_changelog_topics=(InternalTopic("c", 0, -2),)),)),
        ):
            error = self.assertRaises(ApiError, check_topology, Topology(1, subtopologies))
            self.assertEqual(error.code, ErrorCode.STREAMS_INVALID_TOPOLOGY)
            self.assertIn(message, error.message)
