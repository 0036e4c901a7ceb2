"""Metadata and DescribeCluster."""

from __future__ import annotations

from logbus.errors import ErrorCode
from logbus.handlers import metadata
from logbus.wire.messages.metadata import DescribeClusterRequest, MetadataRequest, MetadataRequestTopic
from tests.handlers.kit import HandlerCase


class MetadataTests(HandlerCase):
    """Metadata and DescribeCluster."""

    def test_responses_are_cached(self) -> None:
        """A repeated request gets the same response until the metadata change."""
        first = self.client.metadata("t")
        self.assertEqual(self.client.metadata("t"), first)
        self.server.create("u")
        self.assertEqual([topic.name for topic in self.client.metadata().topics], ["t", "u"])
        self.server.now(self.server.broker.control.topic_admin.delete_topics(["t"]))
        self.assertEqual(self.client.metadata("t").topics[0].error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def test_by_id(self) -> None:
        """A topic by its id, next to one by name."""
        wanted = [MetadataRequestTopic(topic_id=self.server.topic_id(), name=None), MetadataRequestTopic(name="no")]
        topics = self.client.ask(MetadataRequest(topics=wanted), 12).topics
        outcomes = [(topic.name, topic.error_code) for topic in topics]
        self.assertEqual(outcomes, [("t", 0), ("no", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)])

    def test_every_version(self) -> None:
        """Each version tells the topic, its leader, and the broker."""
        for version in range(14):
            response = self.client.ask(MetadataRequest(topics=None if version else []), version)
            (topic,) = response.topics
            partitions = [(p.partition_index, p.leader_id, p.isr_nodes) for p in topic.partitions]
            self.assertEqual(partitions, [(0, 0, [0]), (1, 0, [0])])
            self.assertEqual([broker.port for broker in response.brokers], [9092])

    def test_authorized_operations(self) -> None:
        """All operations are authorized, if the request asks for them."""
        wanted = [MetadataRequestTopic(name="t"), MetadataRequestTopic(name="new"), MetadataRequestTopic(name="")]
        for version in (8, 10, 12):
            asked = MetadataRequest(topics=wanted, include_topic_authorized_operations=True)
            topics = self.client.ask(asked, version).topics
            # READ 3, WRITE 4, CREATE 5, DELETE 6, ALTER 7, DESCRIBE 8, DESCRIBE_CONFIGS 10, ALTER_CONFIGS 11
            self.assertEqual([topic.topic_authorized_operations for topic in topics], [0xDF8, 0xDF8, -(2**31)])
        (topic,) = self.client.metadata("t").topics
        self.assertEqual(topic.topic_authorized_operations, -(2**31))
        both = MetadataRequest(topics=[], include_cluster_authorized_operations=True)
        self.assertEqual(self.client.ask(both, 10).cluster_authorized_operations, 0x1FA0)
        asked_cluster = DescribeClusterRequest(include_cluster_authorized_operations=True)
        self.assertEqual(self.client.ask(asked_cluster, 1).cluster_authorized_operations, 0x1FA0)

    def test_many_partitions(self) -> None:
        """Topics of very many partitions are described in time slices, and no different."""
        named = [MetadataRequestTopic(name="t"), MetadataRequestTopic(name="u")]
        by_id = [MetadataRequestTopic(topic_id=self.server.topic_id(), name=None), MetadataRequestTopic(name="u")]
        self.server.create("u")
        asked = [
            MetadataRequest(topics=topics, include_topic_authorized_operations=operations)
            for topics in (None, named, by_id)
            for operations in (False, True)
        ]
        before = [self.client.ask(message, 12) for message in asked]
        self.patch(metadata, "MANY_PARTITIONS", 1)
        self.patch(metadata, "PARTITIONS_AT_ONCE", 1)
        self.server.create("v")
        self.server.now(self.server.broker.control.topic_admin.delete_topics(["v"]))
        self.assertEqual([self.client.ask(message, 12) for message in asked], before)

    def test_cluster(self) -> None:
        """DescribeCluster names the brokers, of which none is fenced; of controllers there is no other listener."""
        for version in range(3):
            response = self.client.ask(DescribeClusterRequest(include_fenced_brokers=version == 2), version)
            self.assertEqual((response.error_code, response.controller_id), (0, 0))
            self.assertEqual([(broker.port, broker.is_fenced) for broker in response.brokers], [(9092, False)])
        for kind, code in (
            (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
            (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        ):
            self.assertEqual(self.client.ask(DescribeClusterRequest(endpoint_type=kind), 2).error_code, code)
