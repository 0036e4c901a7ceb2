"""The controller: elections, failures, sessions that break, and the next controller."""

from __future__ import annotations

from typing import Any
from unittest import mock

from twisted.internet.defer import Deferred, fail
from twisted.logger import LogLevel, capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.controller.fence import ControllerMoved
from logbus.cluster.controller.topic_plan import NewTopic
from logbus.cluster.controller.update_batch import UpdateBatch
from logbus.errors import ApiError, ErrorCode
from logbus.metastore.operations import Create, StoreUnusable
from logbus.metastore.znodes import StateZnode
from logbus.model import LeaderAndIsr, TopicPartition
from tests.cluster.control_plane import Cluster, Node, RecordingHost

T0 = TopicPartition("t", 0)


class ControllerCase(SynchronousTestCase):
    """A cluster on one store."""

    latency: float | None = None

    def setUp(self) -> None:
        self.cluster = Cluster(latency=self.latency)

    def create(self, node: Node, *assignment: list[int], name: str = "t", configs: Any = None) -> None:
        """A topic with chosen replicas."""
        answer = node.admin.create_topics([NewTopic(name, assignment=assignment, configs=configs or {})])
        self.cluster.pump()
        [outcome] = self.successResultOf(answer)
        self.assertNotIsInstance(outcome, ApiError)

    def stored(self, name: TopicPartition = T0) -> LeaderAndIsr:
        """A partition's state in the store."""
        data, stat = self.cluster.ensemble.tree.get(StateZnode.path(*name))
        return StateZnode.decode(*name, data, stat.version)

    def controller_epoch(self) -> int:
        """The epoch in the store."""
        return int(self.cluster.ensemble.tree.get("/controller_epoch")[0])

    def seen(self, node: Node, name: TopicPartition = T0) -> LeaderAndIsr:
        """A partition's state as a broker tells its clients; it equals what is stored."""
        image = node.metadata.partition(name)
        assert image is not None
        self.assertEqual(image.leader_and_isr, self.stored(name))
        return image.leader_and_isr


class LoneBrokerTests(ControllerCase):
    """A cluster of one."""

    def test_single_broker_elects_itself(self) -> None:
        """A single broker is the controller of epoch 1, and knows it."""
        node = self.cluster.started()
        self.assertEqual(node.metadata.controller_id, 0)
        self.assertEqual(node.metadata.brokers[0].epoch, node.membership.epoch)
        self.assertEqual(self.controller_epoch(), 1)

    def test_controller_metrics(self) -> None:
        """Elections, terms and events are counted; no event is queued when all is done."""
        node = self.cluster.started()
        self.create(node, [0], [0])
        metrics = node.controller.metrics
        self.assertEqual((metrics.elections, metrics.unclean_elections, metrics.activations), (2, 0, 1))
        self.assertGreater(metrics.events, 1)
        self.assertEqual(node.controller.queued, 0)

    def test_a_restart_is_an_election(self) -> None:
        """
        After a restart the leader epoch has grown by one, as the log may have lost its end; all that exists is
        announced in one batch before clients see it, and nothing of it is new.
        """
        node = self.cluster.started()
        self.create(node, [0], [0], configs={"a": "b"})
        self.create(node, [0], name="u")
        topic = node.metadata.topic("t")
        assert topic is not None
        node.crash()
        again = self.cluster.started()
        self.assertEqual(self.controller_epoch(), 2)
        self.assertEqual(self.seen(again), LeaderAndIsr(0, 1, (0,), 2, 1))
        [(what, names)] = again.host.log
        self.assertEqual((what, sorted(names)), ("become", [T0, ("t", 1), ("u", 0)]))
        self.assertFalse(again.host.states[T0].is_new)
        image = again.metadata.topic("t")
        assert image is not None
        self.assertEqual((image.topic_id, dict(image.configs)), (topic.topic_id, {"a": "b"}))

    def test_metadata_after_roles_are_taken(self) -> None:
        """While the logs are opened the metadata are not shown to clients."""
        node = self.cluster.started()
        self.create(node, [0])
        node.crash()
        host = RecordingHost()
        host.hold()
        again = self.cluster.started(0, host=host)
        ready = again.metadata.wait_for(lambda metadata: 0 in metadata.brokers)
        self.assertNoResult(ready)
        self.assertIsNone(again.metadata.topic("t"))
        host.release()
        self.successResultOf(ready)
        self.assertIsNotNone(again.metadata.topic("t"))

    def test_deletion_continues_after_a_restart(self) -> None:
        """A topic that was being deleted when the broker died is deleted after the restart, with its logs."""
        node = self.cluster.started()
        self.create(node, [0])
        node.host.hold()
        node.admin.delete_topics(["t"]).addErrback(lambda _: None)
        self.assertIsNotNone(self.cluster.ensemble.tree.exists("/brokers/topics/t"))
        node.crash()
        again = self.cluster.started()
        self.assertEqual(again.host.log, [("remove", [T0])])
        tree = self.cluster.ensemble.tree
        self.assertEqual((tree.children("/brokers/topics"), tree.children("/admin/delete_topics")), ([], []))
        self.assertEqual(tree.children("/config/topics"), [])

    def test_a_creation_cut_short(self) -> None:
        """A topic whose partitions were not all written is completed by the next life."""
        node = self.cluster.started()
        self.create(node, [0], [0])
        tree = self.cluster.ensemble.tree
        for path in (StateZnode.path("t", 1), "/brokers/topics/t/partitions/1"):
            self.successResultOf(node.store.delete(path))
        node.crash()
        again = self.cluster.started()
        self.assertEqual(self.seen(again, TopicPartition("t", 1)), LeaderAndIsr(0, 0, (0,), 2, 0))
        self.assertEqual(tree.children("/brokers/topics/t/partitions"), ["0", "1"])

    def test_unreadable_znodes(self) -> None:
        """
        A topic that cannot be read is named in the log and left alone, with its logs; so are foreign brokers; all
        others are served, and nobody can make a topic of that name.
        """
        node = self.cluster.started()
        for name in ("t", "u", "v", "w"):
            self.create(node, [0], name=name)
        tree = self.cluster.ensemble.tree
        for path, data in (
            ("/brokers/topics/t", b'{"version":9}'),
            (StateZnode.path("u", 0), b"\xff"),
            ("/config/topics/v", b"[]"),
        ):
            self.successResultOf(node.store.set(path, data))
        self.successResultOf(node.store.create("/brokers/topics/no name", b""))
        self.successResultOf(node.store.create("/brokers/ids/x", b""))
        self.successResultOf(node.store.create("/brokers/ids/7", b"{}"))
        before = tree.get("/brokers/topics/t")
        active = node.controller.active
        node.store.suspend()
        node.store.resume()
        self.assertIsNot(node.controller.active, active)
        again = node.controller.active
        assert again is not None
        self.assertEqual(sorted(again.state.topics), ["w"])
        self.assertIn("/brokers/topics/t has version 9", again.state.unreadable["t"])
        self.assertEqual(sorted(again.state.unreadable), ["no name", "t", "u", "v"])
        self.assertEqual(sorted(again.state.brokers), [0])
        self.assertEqual(sorted(node.metadata.topics), ["t", "u", "v", "w"])
        self.assertNotIn("remove", [what for what, _ in node.host.log])
        [refused] = self.successResultOf(node.admin.create_topics([NewTopic("t")]))
        assert isinstance(refused, ApiError)
        self.assertEqual(refused.code, ErrorCode.TOPIC_ALREADY_EXISTS)
        self.assertEqual(tree.get("/brokers/topics/t"), before)
        self.create(node, [0], name="x")

    def test_unexpected_tree_is_read_again(self) -> None:
        """When the tree differs from the context, the client gets an error, and a new term starts by reading it."""
        node = self.cluster.started()
        self.successResultOf(node.store.create("/config/topics/t", b'{"version":1,"config":{}}'))
        answer = node.admin.create_topics([NewTopic("t"), NewTopic("u")])
        failure = self.failureResultOf(answer, ApiError)
        self.assertEqual(failure.value.code, ErrorCode.UNKNOWN_SERVER_ERROR)
        self.assertEqual(len(self.flushLoggedErrors()), 1)
        self.assertIsNone(self.cluster.ensemble.tree.exists("/brokers/topics/u"))
        refused = self.failureResultOf(node.admin.create_topics([NewTopic("v")]), ApiError)
        self.assertEqual(refused.value.code, ErrorCode.NOT_CONTROLLER)
        self.cluster.clock.advance(1.0)
        self.create(node, [0], name="v")

    def test_full_metadata_disk(self) -> None:
        """A full disk is an error for the client, and a log line without a traceback; the controller goes on."""
        node = self.cluster.started()
        full = StoreUnusable("there is no room for a change of the metadata")
        with mock.patch.object(type(node.store), "multi", lambda *_: fail(full)), capturedLogs() as captured:
            refused = self.failureResultOf(node.admin.create_topics([NewTopic("t")]), ApiError)
        self.assertEqual(refused.value.code, ErrorCode.KAFKA_STORAGE_ERROR)
        self.assertIn("no room for a change", refused.value.message)
        (event,) = [event for event in captured if event["log_level"] >= LogLevel.error]
        self.assertIn("no room for a change", event["error"])
        self.assertNotIn("log_failure", event)
        self.cluster.clock.advance(1.0)
        self.create(node, [0], name="t")

    def test_stop(self) -> None:
        """A controller that stops gives its office back and leaves no timer and no listener."""
        node = self.cluster.started()
        self.successResultOf(node.controller.stop())
        self.successResultOf(node.membership.unregister())
        self.assertIsNone(self.cluster.ensemble.tree.exists("/controller"))
        self.assertIsNone(self.cluster.ensemble.tree.exists("/brokers/ids/0"))
        self.assertEqual(self.cluster.clock.getDelayedCalls(), [])
        failure = self.failureResultOf(node.admin.create_topics([NewTopic("v")]), ApiError)
        self.assertEqual(failure.value.code, ErrorCode.NOT_CONTROLLER)


class SessionTests(ControllerCase):
    """What becomes of the controller when its connection or session breaks."""

    def test_suspension(self) -> None:
        """Cut off it refuses; connected again it goes on in the same epoch, having read everything again."""
        node = self.cluster.started()
        self.create(node, [0])
        node.store.suspend()
        failure = self.failureResultOf(node.admin.create_topics([NewTopic("v")]), ApiError)
        self.assertEqual(failure.value.code, ErrorCode.NOT_CONTROLLER)
        node.store.resume()
        self.assertEqual(self.controller_epoch(), 1)
        self.create(node, [0], name="v")
        self.assertEqual(self.seen(node).leader_epoch, 0)

    def test_expiry(self) -> None:
        """After an expiry the broker registers once, with a new epoch, and elects itself and its leaders anew."""
        node = self.cluster.started()
        self.create(node, [0])
        before = node.membership.epoch
        node.store.expire()
        self.assertGreater(node.membership.epoch, before)
        self.assertEqual(node.metadata.brokers[0].epoch, node.membership.epoch)
        self.assertEqual(self.controller_epoch(), 2)
        self.assertEqual(self.seen(node), LeaderAndIsr(0, 1, (0,), 2, 1))
        self.assertEqual(node.failures, [])
        self.create(node, [0], name="v")

    def test_repeated_expiry(self) -> None:
        """It survives any number of them."""
        node = self.cluster.started()
        self.create(node, [0])
        for _ in range(5):
            node.store.suspend()
            node.store.expire()
            node.store.resume()
        self.assertEqual(self.controller_epoch(), 6)
        self.assertEqual(self.seen(node).leader_epoch, 5)


class SlowSessionTests(SessionTests):
    """The same when the store takes its time, and what is cut off on its way."""

    latency = 0.01

    def test_suspension(self) -> None:
        """Cut off it refuses; connected again it goes on in the same epoch."""
        node = self.cluster.started()
        self.create(node, [0])
        node.store.suspend()
        failure = self.failureResultOf(node.admin.create_topics([NewTopic("v")]), ApiError)
        self.assertEqual(failure.value.code, ErrorCode.NOT_CONTROLLER)
        node.store.resume()
        self.cluster.pump()
        self.assertEqual(self.controller_epoch(), 1)
        self.create(node, [0], name="v")

    def test_expiry(self) -> None:
        """After an expiry the broker registers once, with a new epoch, and elects itself and its leaders anew."""
        node = self.cluster.started()
        self.create(node, [0])
        node.store.expire()
        self.cluster.pump()
        self.assertEqual(node.metadata.brokers[0].epoch, node.membership.epoch)
        self.assertEqual(self.controller_epoch(), 2)
        self.assertEqual(self.seen(node).leader_epoch, 1)

    def test_repeated_expiry(self) -> None:
        """Expiries in the middle of what the last one set off do no harm."""
        node = self.cluster.started()
        self.create(node, [0])
        for step in range(40):
            node.store.expire()
            self.cluster.clock.pump([0.01] * (step % 13))
        self.cluster.pump()
        self.assertEqual(node.metadata.brokers[0].epoch, node.membership.epoch)
        self.assertEqual(self.seen(node).leader, 0)
        self.create(node, [0], name="v")

    def test_cut_off_at_every_step_of_the_start(self) -> None:
        """
        Whenever the connection breaks while the controller takes office, and whether or not what was on its way got
        through, there is one controller afterwards, and it serves.
        """
        for steps in range(1, 25):
            for applied in (False, True):
                self.cluster = Cluster(latency=self.latency)
                node = self.cluster.started()
                self.create(node, [0])
                node.store.expire()
                self.cluster.clock.pump([0.01] * steps)
                node.store.suspend(applied=applied)
                self.cluster.clock.pump([0.01] * 3)
                node.store.resume()
                self.cluster.pump()
                self.assertEqual(node.metadata.brokers[0].epoch, node.membership.epoch, (steps, applied))
                self.assertEqual(self.controller_epoch(), 2)
                self.assertEqual(self.seen(node).leader_epoch, 1)
                self.create(node, [0], name="v")

    def test_cut_off_during_a_creation(self) -> None:
        """The client is told that nobody knows; afterwards the topic is there whole or not at all."""
        for steps in range(1, 4):
            for applied in (False, True):
                self.cluster = Cluster(latency=self.latency)
                node = self.cluster.started()
                answer = node.admin.create_topics([NewTopic("t", 3, 1)])
                self.cluster.clock.pump([0.01] * (steps - 1))
                if answer.called:
                    continue
                node.store.suspend(applied=applied)
                self.assertEqual(self.failureResultOf(answer, ApiError).value.code, ErrorCode.NOT_CONTROLLER)
                node.store.resume()
                self.cluster.pump()
                topic = node.metadata.topic("t")
                self.assertEqual(topic is not None, applied)
                if topic is not None:
                    self.assertEqual([one.leader for one in topic.partitions], [0, 0, 0])


class ClusterTests(ControllerCase):
    """Several brokers, announcements delivered directly."""

    def setUp(self) -> None:
        super().setUp()
        self.nodes = [self.cluster.started(number) for number in range(3)]

    def test_all_brokers_have_all_metadata(self) -> None:
        """All brokers see all brokers, topics and the controller; only replicas take roles."""
        self.create(self.nodes[0], [1, 2])
        for node in self.nodes:
            self.assertEqual(sorted(node.metadata.brokers), [0, 1, 2])
            self.assertEqual(self.seen(node), LeaderAndIsr(1, 0, (1, 2), 1, 0))
            self.assertEqual(node.metadata.controller_id, 0)
            self.assertEqual(T0 in node.host.states, node.broker_id in (1, 2))

    def test_a_leader_dies(self) -> None:
        """The next in-sync replica leads in a new epoch; the dead one leaves the ISR."""
        self.create(self.nodes[0], [1, 2, 0])
        self.nodes[1].crash()
        for node in (self.nodes[0], self.nodes[2]):
            self.assertEqual(self.seen(node), LeaderAndIsr(2, 1, (2, 0), 1, 1))
            self.assertEqual(sorted(node.metadata.brokers), [0, 2])

    def test_the_controller_dies(self) -> None:
        """Another one is elected with a greater epoch, and the dead one's partitions are led by others."""
        self.create(self.nodes[0], [0, 1])
        self.nodes[0].crash()
        self.assertEqual(self.controller_epoch(), 2)
        for node in self.nodes[1:]:
            self.assertEqual(self.seen(node), LeaderAndIsr(1, 1, (1,), 2, 1))
            self.assertIn(node.metadata.controller_id, (1, 2))
        self.create(self.cluster.nodes[self.nodes[1].metadata.controller_id], [2], name="v")

    def test_returning_broker(self) -> None:
        """A broker that returns gets all metadata, including what was deleted and created while it was away."""
        self.create(self.nodes[0], [1], name="gone")
        self.create(self.nodes[0], [1])
        self.nodes[1].crash()
        self.assertEqual(self.seen(self.nodes[0]).leader, -1)
        self.successResultOf(self.nodes[0].admin.delete_topics(["gone"]))
        self.create(self.nodes[0], [2], name="new")
        again = self.cluster.started(1)
        self.assertEqual(sorted(again.metadata.topics), ["new", "t"])
        self.assertEqual(list(again.host.states), [T0])
        self.assertEqual(self.seen(again), LeaderAndIsr(1, 2, (1,), 1, 2))

    def test_no_replica_in_sync(self) -> None:
        """The partition waits for a replica of its ISR, unless the topic allows an unclean election."""
        self.create(self.nodes[0], [1, 2])
        self.nodes[1].crash()
        self.nodes[2].crash()
        self.assertEqual(self.seen(self.nodes[0]), LeaderAndIsr(-1, 2, (2,), 1, 2))
        self.cluster.started(1)
        self.assertEqual(self.seen(self.nodes[0]).leader, -1)
        edit = {"t": lambda now: {"unclean.leader.election.enable": "true"}}
        self.successResultOf(self.nodes[0].configs_admin.alter_topic_configs(edit))
        self.assertEqual(self.seen(self.nodes[0]), LeaderAndIsr(1, 3, (1,), 1, 3, unclean_epoch=3))

    def test_in_sync_replica_returns(self) -> None:
        """It becomes leader, in a clean election."""
        self.create(self.nodes[0], [1, 2])
        self.nodes[1].crash()
        self.nodes[2].crash()
        self.cluster.started(2)
        self.assertEqual(self.seen(self.nodes[0]), LeaderAndIsr(2, 3, (2,), 1, 3))

    def test_a_log_directory_fails(self) -> None:
        """What it led is led by others, until its broker registers again."""
        self.create(self.nodes[0], [1, 2])
        broker = self.nodes[0].metadata.brokers[1]
        self.nodes[0].controller.report_failed(broker, frozenset([T0]))
        self.assertEqual(self.seen(self.nodes[1]), LeaderAndIsr(2, 1, (2,), 1, 1))
        self.nodes[2].crash()
        self.assertEqual(self.seen(self.nodes[0]).leader, -1)

    def test_replaced_controller_is_fenced(self) -> None:
        """A controller that was replaced without noticing is stopped by the fence, and resigns."""
        self.create(self.nodes[0], [0, 1])
        active = self.nodes[0].controller.active
        assert active is not None
        self.nodes[0].store.suspend()
        self.nodes[0].store.expire()
        self.assertEqual(self.controller_epoch(), 2)
        before = self.stored()
        self.assertEqual(before.leader, 1)
        self.nodes[0].store.resume()
        self.cluster.nodes[0] = self.nodes[0]
        writing = Deferred.fromCoroutine(active.fence.write([[Create("/zombie")]]))
        self.failureResultOf(writing, ControllerMoved)
        self.assertIsNone(self.cluster.ensemble.tree.exists("/zombie"))
        self.assertIsNone(self.nodes[0].controller.active)
        self.assertEqual(self.nodes[0].metadata.controller_id, self.nodes[1].metadata.controller_id)

    def test_an_old_controllers_announcements_are_refused(self) -> None:
        """Brokers that have heard of a newer one answer STALE_CONTROLLER_EPOCH."""
        self.create(self.nodes[0], [0, 1])
        active = self.nodes[0].controller.active
        assert active is not None
        self.nodes[0].store.suspend()
        self.nodes[0].store.expire()
        before = self.seen(self.nodes[2])
        active.state.partition(T0).state = LeaderAndIsr(0, 99, (0,), 1, 99)
        active.channels.send(UpdateBatch(partitions=frozenset([T0])))
        self.assertEqual(self.seen(self.nodes[2]), before)
