"""DescribeTopicPartitions."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.cluster_metadata import ClusterMetadata, PartitionImage
from logbus.cluster.images import BrokerImage
from logbus.errors import ErrorCode
from logbus.handlers.describe_topic_partitions import DescribeTopicPartitionsHandlers
from logbus.model import Endpoint, LeaderAndIsr
from logbus.net.request_context import RequestContext
from logbus.wire.messages.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tests.handlers.kit import HandlerCase, a_request

Page = list[tuple[str, list[int]]]

REPLICAS = (1, 2, 3)


def a_cluster(topics: dict[str, int]) -> ClusterMetadata:
    """A cluster of brokers 1 (with clients) and 2 (without), with replicas on 3 as well, which is away."""
    metadata = ClusterMetadata("cluster")
    with metadata.changing():
        metadata.set_brokers(
            {
                1: BrokerImage(1, {"kafka": Endpoint("kafka", "one", 9092)}),
                2: BrokerImage(2, {"inside": Endpoint("inside", "two", 9092)}),
            }
        )
        for number, (name, count) in enumerate(topics.items()):
            images = [PartitionImage(REPLICAS, LeaderAndIsr(1 + at % 3, 7, REPLICAS)) for at in range(count)]
            metadata.set_partitions(name, UUID(int=number + 1), list(enumerate(images)))
    return metadata


class PageTests(SynchronousTestCase):
    """Pages of many topics."""

    def handlers(self, topics: dict[str, int], limit: int = 2000) -> DescribeTopicPartitionsHandlers:
        return DescribeTopicPartitionsHandlers(a_cluster(topics), frozenset({"__in"}), lambda: limit)

    def ask(
        self,
        handlers: DescribeTopicPartitionsHandlers,
        *names: str,
        at: tuple[str, int] | None = None,
        most: int = 2000,
    ) -> DescribeTopicPartitionsResponse:
        """One page."""
        message = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names],
            response_partition_limit=most,
            cursor=None if at is None else Cursor(topic_name=at[0], partition_index=at[1]),
        )
        context = RequestContext(1, "kafka", "10.0.0.1", 4000)
        answer: DescribeTopicPartitionsResponse = self.successResultOf(
            handlers.describe_topic_partitions(context, a_request(message, 0))
        )
        return answer

    def page(self, answer: DescribeTopicPartitionsResponse) -> Page:
        """Topics and numbers of partitions on it."""
        return [(topic.name or "", [one.partition_index for one in topic.partitions]) for topic in answer.topics]

    @given(
        st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(1, 9), max_size=8),
        st.integers(1, 7),
        st.booleans(),
    )
    def test_pages(self, topics: dict[str, int], limit: int, named: bool) -> None:
        """Page after page has each partition once, in order, and no more at a time than both sides want."""
        handlers = self.handlers(topics, limit)
        names = tuple(topics) if named else ()
        found, cursor = [], None
        for _ in range(100):
            answer = self.ask(handlers, *names, at=cursor, most=5)
            page = [(name, number) for name, numbers in self.page(answer) for number in numbers]
            self.assertLessEqual(len(page), min(limit, 5))
            found += page
            if answer.next_cursor is None:
                break
            self.assertEqual(len(page), min(limit, 5))
            cursor = (answer.next_cursor.topic_name, answer.next_cursor.partition_index)
        self.assertEqual(found, [(name, number) for name in sorted(topics) for number in range(topics[name])])

    def test_partition(self) -> None:
        """Replicas are as in Metadata; who cannot be reached on the client's listener is offline and leads nothing."""
        (topic,) = self.ask(self.handlers({"t": 2})).topics
        self.assertEqual((topic.error_code, topic.topic_id, topic.is_internal), (0, UUID(int=1).bytes, False))
        first, second = topic.partitions
        self.assertEqual((first.leader_id, first.leader_epoch, second.leader_id), (1, 7, -1))
        self.assertEqual((first.replica_nodes, first.isr_nodes, first.offline_replicas), ([1, 2, 3], [1, 2, 3], [2, 3]))
        # Java's client fails on null here.
        self.assertEqual((first.eligible_leader_replicas, first.last_known_elr), ([], []))

    def test_missing_topics(self) -> None:
        """Each has its error, in order with the others; a name given twice is described once."""
        answer = self.ask(self.handlers({"a": 1, "c": 1, "__in": 1}), "c", "b", "a", "no/name", "__in", "a")
        outcomes = [(topic.name, topic.error_code, topic.is_internal) for topic in answer.topics]
        expected = [
            ("__in", 0, True),
            ("a", 0, False),
            ("b", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
            ("c", 0, False),
            ("no/name", ErrorCode.INVALID_TOPIC_EXCEPTION, False),
        ]
        self.assertEqual(outcomes, expected)

    def test_topic_deleted_between_pages(self) -> None:
        """The next page begins with the first partition of the topic behind it."""
        handlers = self.handlers({"a": 2, "c": 2})
        self.assertEqual(self.page(self.ask(handlers, at=("b", 1))), [("c", [0, 1])])
        self.assertEqual(self.page(self.ask(handlers, at=("a", 5))), [("a", []), ("c", [0, 1])])
        self.assertEqual(self.page(self.ask(handlers, at=("d", 0))), [])

    def test_new_topic(self) -> None:
        """The list of names is not kept longer than it is valid."""
        handlers = self.handlers({"b": 1})
        self.ask(handlers)
        with handlers._metadata.changing() as metadata:
            metadata.set_partitions("a", UUID(int=9), [(0, PartitionImage((1,), LeaderAndIsr(1, 0, (1,))))])
        self.assertEqual(self.page(self.ask(handlers)), [("a", [0]), ("b", [0])])

    def test_invalid_cursors(self) -> None:
        """All requested topics are refused: there is no other place for the error."""
        handlers = self.handlers({"a": 1, "b": 1})
        for cursor in (("b", 0), ("a", -1)):
            answer = self.ask(handlers, "a", at=cursor)
            self.assertEqual(
                [(each.name, each.error_code) for each in answer.topics], [("a", ErrorCode.INVALID_REQUEST)]
            )
        self.assertEqual(self.ask(handlers, at=("a", -1)).topics, [])

    def test_invalid_limits(self) -> None:
        """A limit below one partition counts as one: otherwise a client would ask without end."""
        for most in (0, -1):
            answer = self.ask(self.handlers({"a": 3}), most=most)
            self.assertEqual(
                (self.page(answer), answer.next_cursor), ([("a", [0])], Cursor(topic_name="a", partition_index=1))
            )


class ServedTests(HandlerCase):
    """Over the wire."""

    config = {"max.request.partition.size.limit": "1"}

    def test_a_page(self) -> None:
        """The broker's own limit holds, and who asks may do everything with the topic."""
        answer = self.client.ask(DescribeTopicPartitionsRequest(topics=[]), 0)
        (topic,) = answer.topics
        self.assertEqual((topic.name, topic.topic_id, len(topic.partitions)), ("t", self.server.topic_id(), 1))
        self.assertEqual((topic.partitions[0].leader_id, topic.topic_authorized_operations), (0, 0xDF8))
        self.assertEqual(answer.next_cursor, Cursor(topic_name="t", partition_index=1))
