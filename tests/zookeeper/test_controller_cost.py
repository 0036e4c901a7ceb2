"""The cost of a new controller on a real ZooKeeper, and fencing of the former one."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logbus.cluster.controller.fence import ControllerMoved
from logbus.cluster.controller.topic_plan import NewTopic
from logbus.errors import ApiError
from logbus.metastore.operations import Create, SessionState
from tests.cluster.control_plane import Cluster, Node
from tests.zookeeper.reactor_case import PumpedTestCase

PARTITIONS = 1000


class TakingOverTests(PumpedTestCase):
    """Brokers without a data plane, on ZooKeeper."""

    def started(self, cluster: Cluster, number: int) -> Node:
        """A broker that serves."""
        node = cluster.nodes[number] = Node(cluster, number, self.opened())  # type: ignore[arg-type]
        self.successResultOf(Deferred.fromCoroutine(node.start()))
        self.addCleanup(lambda: self.outcome(node.controller.stop()))
        return node

    def test_a_thousand_partitions(self) -> None:
        """The next controller has read, written and announced everything in little time; the first one is no more."""
        cluster = Cluster(clock=self.reactor)
        one, two = self.started(cluster, 1), self.started(cluster, 2)
        self.wait_until(lambda: 2 in one.metadata.brokers, "the controller to hear of the other broker")
        for number in range(PARTITIONS // 100):
            topic = NewTopic(f"t{number}", assignment=[[1, 2]] * 100)
            [outcome] = self.successResultOf(one.admin.create_topics([topic]))
            self.assertNotIsInstance(outcome, ApiError)
        active = one.controller.active
        assert active is not None
        session, credentials = one.store.session_id, one.store.credentials  # type: ignore[attr-defined]
        self.zookeeper.expire(*credentials)
        self.wait_until(lambda: two.controller.active is not None, "another controller")
        self.assertLess(two.controller.metrics.activation_seconds, 10)
        # Whoever leads now, all were elected again, as their leader began a new life.
        images = [image for topic in two.metadata.topics.values() for image in topic.partitions]
        self.assertEqual({image.leader_epoch >= 1 for image in images}, {True})
        # The first one may hear of the end of its session after the second one did.
        store = one.store
        self.wait_until(lambda: store.session_id != session and store.state is SessionState.CONNECTED, "a new session")
        self.failureResultOf(Deferred.fromCoroutine(active.fence.write([[Create("/zombie")]])), ControllerMoved)
