"""The admin client's topics."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.admin.admin_client import AdminClient
from logbus.client.cluster.cluster import Cluster, TopicMetadata
from logbus.errors import ApiError
from tests.client.memory_cluster import MemoryCluster

LONG = 60


class DescribeTopicsTests(SynchronousTestCase):
    """How topics are asked for."""

    def describe(self, brokers: MemoryCluster, *names: str) -> Deferred[dict[str, TopicMetadata | ApiError]]:
        self.brokers = brokers
        brokers.add("a")
        brokers.add("b")
        cluster = Cluster(brokers.clock, "b1:9092", endpoint=brokers.endpoint)
        told = AdminClient(cluster).describe_topics(names)
        brokers.settle()
        return told

    def test_all_at_once(self) -> None:
        """However many topics there are, one request asks for them, and nobody waits for one that the broker lacks."""
        told = self.successResultOf(self.describe(MemoryCluster(), "b", "nosuch", "a"))
        self.assertEqual(list(told), ["b", "nosuch", "a"])
        self.assertEqual(str(told["nosuch"]), "there is no topic 'nosuch'")
        self.assertIsInstance(told["a"], TopicMetadata)
        self.assertEqual(len(self.brokers.requests("Metadata")), 1)

    def test_what_another_broker_has_created(self) -> None:
        """Among several brokers the one that is asked may hear of a topic a moment later."""
        told = self.describe(MemoryCluster(nodes={1, 2}), "new")
        self.assertNoResult(told)
        self.brokers.add("new")
        self.brokers.settle(LONG)
        self.assertIsInstance(self.successResultOf(told)["new"], TopicMetadata)

    def test_nobody_has_it(self) -> None:
        """It does not wait for ever."""
        told = self.describe(MemoryCluster(nodes={1, 2}), "nosuch")
        self.brokers.settle(LONG)
        self.assertEqual(str(self.successResultOf(told)["nosuch"]), "there is no topic 'nosuch'")
