"""SimpleConsumer."""

from __future__ import annotations

import gc

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.client import EARLIEST, LATEST, Cluster, FetchOf, SimpleConsumer
from logbus.client.retry import Unreachable
from logbus.errors import ApiError, ErrorCode
from tests.client.memory_cluster import MemoryCluster


class SimpleConsumerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.brokers = MemoryCluster(nodes={1, 2})
        self.cluster = Cluster(self.brokers.clock, "b1:9092", endpoint=self.brokers.endpoint)
        self.simple = SimpleConsumer(self.cluster)
        self.logs = self.brokers.add("t", 1, 2)
        for log in self.logs.values():
            log.put(b"a", b"b", b"c")

    def settled(self, waiting: Deferred[object]) -> Deferred[object]:
        for _ in range(10):
            self.brokers.settle(0.1)
        return waiting

    def test_fetch(self) -> None:
        """
        The records from an offset on, and where to go on; at the end there are none.
        """
        fetched = self.successResultOf(self.settled(self.simple.fetch("t", 0, 1)))
        self.assertEqual([each.value for each in fetched.records], [b"b", b"c"])
        self.assertEqual((fetched.next_offset, fetched.high_watermark), (3, 3))
        fetched = self.successResultOf(self.settled(self.simple.fetch("t", 0, 3)))
        self.assertEqual((fetched.records, fetched.next_offset), ([], 3))
        self.assertEqual(len(self.brokers.requests("Fetch")), 2)

    def test_multifetch(self) -> None:
        """
        One request to each leader; answers and errors are in the order of the questions.
        """
        questions = [
            FetchOf("t", 1, 2),
            FetchOf("t", 0, 99),
            FetchOf("t", 7, 0),
            FetchOf("no", 0, 0),
            FetchOf("t", 0, 0),
        ]
        first, *errors, _ = self.successResultOf(self.settled(self.simple.multifetch(questions[:4] + questions[:1])))
        self.assertEqual([each.value for each in first.records], [b"c"])
        codes = [ErrorCode.OFFSET_OUT_OF_RANGE, *[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2]
        self.assertEqual([each.code for each in errors], codes)
        self.assertEqual(sorted(node for node, name, _ in self.brokers.seen if name == "Fetch"), [1, 2])

    def test_one_partition_several_times(self) -> None:
        """Each question has its own answer, though a request names a partition once."""
        questions = [FetchOf("t", 0, 0), FetchOf("t", 0, 2), FetchOf("t", 0, 99), FetchOf("t", 0, 0)]
        first, second, third, last = self.successResultOf(self.settled(self.simple.multifetch(questions)))
        self.assertEqual([each.value for each in first.records], [b"a", b"b", b"c"])
        self.assertEqual([each.value for each in second.records], [b"c"])
        self.assertIs(third.code, ErrorCode.OFFSET_OUT_OF_RANGE)
        self.assertEqual(last, first)

    def test_more_bytes_than_a_request_has_room_for(self) -> None:
        """All that is wanted of a leader may be more than 2 GiB; it gives less in any case."""
        self.brokers.add("u", *[1] * 3)
        questions = [FetchOf("u", number, 0, 1 << 30) for number in range(3)]
        answers = self.successResultOf(self.settled(self.simple.multifetch(questions)))
        self.assertEqual([each.records for each in answers], [[], [], []])

    def test_leaders_that_cannot_be_reached(self) -> None:
        """The first error is raised, and no other one is left behind."""
        self.successResultOf(self.settled(self.simple.multifetch([FetchOf("t", 0, 0), FetchOf("t", 1, 0)])))
        self.brokers.nodes.clear()
        for node in (1, 2):
            self.brokers.drop(node)
        asked = self.settled(self.simple.multifetch([FetchOf("t", 0, 0), FetchOf("t", 1, 0)]))
        self.failureResultOf(asked, Unreachable)
        gc.collect()
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_error_messages(self) -> None:
        """
        Where to ask for offsets; and after a leader has moved, the next attempt finds the new one.
        """
        error = self.failureResultOf(self.settled(self.simple.fetch("t", 0, 99)), ApiError).value
        self.assertIn("t-0 has no offset 99; offsets_before tells", str(error))
        self.logs[0].leader = 2
        error = self.failureResultOf(self.settled(self.simple.fetch("t", 0, 0)), ApiError).value
        self.assertIn("Ask again", str(error))
        fetched = self.successResultOf(self.settled(self.simple.fetch("t", 0, 0)))
        self.assertEqual(len(fetched.records), 3)

    def test_offsets_before(self) -> None:
        """
        The end, the beginning, and by time where brokers know no segments' offsets; there is one at most.
        """
        for time, offset in ((LATEST, 3), (EARLIEST, 0), (1001, 1), (99_999, 3)):
            found = self.successResultOf(self.settled(self.simple.offsets_before("t", 0, time, 5)))
            self.assertEqual(found, [offset])
        self.logs[0].leader = 2
        error = self.failureResultOf(self.settled(self.simple.offsets_before("t", 0, LATEST)), ApiError).value
        self.assertIs(error.code, ErrorCode.NOT_LEADER_OR_FOLLOWER)
