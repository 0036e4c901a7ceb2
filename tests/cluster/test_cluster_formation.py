"""Formation of a cluster of several brokers: their metadata, updates and answers."""

from __future__ import annotations

from typing import Any

from logbus.errors import ErrorCode
from logbus.wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from logbus.wire.messages.groups import FindCoordinatorRequest
from logbus.wire.messages.metadata import DescribeClusterRequest
from logbus.wire.messages.topics import DeleteTopicsRequest, DeleteTopicState
from tests.cluster.memory_cluster import PORT, ClusterCase, Several, host_of
from tests.handlers.kit import Client


class SeveralCase(ClusterCase):
    """Three brokers, and how clients talk to them."""

    def client(self, broker_id: int) -> Client:
        """A client of one broker."""
        return self.cluster[broker_id].connect(host="192.0.2.1")

    def ask(self, broker_id: int, message: Any, version: int) -> Any:
        """Ask one broker, and have the answer after as much time as brokers need among themselves."""
        client = self.client(broker_id)
        client.send(message, version)
        for _ in range(120):
            self.cluster.settle(0.05)
            answers = client.answers()
            if answers:
                return answers[0]
        raise AssertionError(f"broker {broker_id} did not answer {message!r}")


class FormationTests(SeveralCase):
    """Brokers that come and go."""

    def test_all_brokers_have_all_metadata(self) -> None:
        """Every broker knows every other, and who the controller is."""
        for broker_id in self.cluster.alive:
            metadata = self.cluster.metadata(broker_id)
            self.assertEqual((sorted(metadata.brokers), metadata.controller_id), ([0, 1, 2], 0))
            self.assertEqual(self.cluster[broker_id].broker.readiness.not_ready(), [])

    def test_late_comer(self) -> None:
        """A broker that comes later is told everything there is."""
        self.cluster[0].create("t", 4)
        self.cluster.boot(3)
        self.assertEqual(self.leaders("t", 3), self.leaders("t", 0))
        self.assertEqual(sorted(self.cluster.metadata(3).brokers), [0, 1, 2, 3])

    def test_clean_stop(self) -> None:
        """The others notice at once that a broker has stopped."""
        self.cluster.stop(2)
        self.cluster.settle()
        for broker_id in (0, 1):
            self.assertEqual(sorted(self.cluster.metadata(broker_id).brokers), [0, 1])

    def test_another_controller(self) -> None:
        """When the controller dies another takes over, and tells everybody."""
        self.cluster.kill(0)
        self.cluster.settle(1)
        self.assertIn(self.cluster.controller, (1, 2))
        for broker_id in (1, 2):
            metadata = self.cluster.metadata(broker_id)
            self.assertEqual((sorted(metadata.brokers), metadata.controller_id), ([1, 2], self.cluster.controller))
        self.ask(1, create("t", 4), 5)
        self.assertEqual(set(self.leaders("t", 1)), {1, 2})

    def test_killed_broker_restarts(self) -> None:
        """A broker that was killed has its records after the restart, and leads them again."""
        self.cluster[0].create("t", 3)
        mine = self.leaders("t").index(2)
        self.client(2).produce(partition=mine)
        self.cluster.kill(2)
        self.assertEqual(self.leaders("t")[mine], -1)
        self.cluster.boot(2)
        self.cluster.settle(1)
        self.assertEqual(self.leaders("t")[mine], 2)
        self.assertEqual(self.client(2).produce(partition=mine).base_offset, 1)

    def test_cut_off_from_the_controller(self) -> None:
        """A broker that the controller cannot reach goes on serving; later it is told what it missed."""
        self.cluster[0].create("t", 3)
        mine = self.leaders("t").index(2)
        self.cluster.cut(0, 2)
        created = self.ask(1, create("u", 3, timeout_ms=500), 5)
        self.assertEqual(created.topics[0].error_code, ErrorCode.REQUEST_TIMED_OUT)
        self.assertEqual(self.client(2).produce(partition=mine).error_code, 0)
        self.assertIsNone(self.cluster.metadata(2).topic("u"))
        self.cluster.mend()
        self.cluster.settle(40)
        self.assertEqual(self.leaders("u", 2), self.leaders("u", 0))

    def test_waits_for_the_controller(self) -> None:
        """A broker that has not been told yet is not ready; a question about the cluster waits until it is."""
        self.cluster.cut(0, 3)
        starting = self.cluster.boot(3, wait=False)
        self.cluster.settle(1)
        self.assertEqual(starting.broker.readiness.not_ready(), ["the broker is starting or stopping"])
        client = starting.connect()
        client.send(DescribeClusterRequest(), 1)
        self.cluster.settle(1)
        self.assertEqual(client.answers(), [])
        self.cluster.mend()
        self.cluster.settle(40)
        self.assertEqual(starting.broker.readiness.not_ready(), [])
        self.assertEqual([broker.broker_id for broker in client.answers()[0].brokers], [0, 1, 2, 3])

    def test_stop_while_waiting_for_metadata(self) -> None:
        """A broker can be stopped while it waits for its first metadata update, and leaves nothing behind."""
        self.cluster.cut(0, 3)
        starting = self.cluster.boot(3, wait=False)
        self.cluster.settle(1)
        self.cluster.stop(3)
        self.cluster.settle(1)
        self.assertFalse(starting.disks[0].locked)
        self.assertEqual(sorted(self.cluster.metadata(0).brokers), [0, 1, 2])


class AnswerTests(SeveralCase):
    """What clients are told by whichever broker they ask."""

    def setUp(self) -> None:
        super().setUp()
        self.cluster[0].create("t", 3)
        self.cluster.settle()

    def test_metadata(self) -> None:
        """The same everywhere, with the addresses of the listener that was asked."""
        everywhere = [(broker_id, host_of(broker_id), PORT) for broker_id in (0, 1, 2)]
        for broker_id in self.cluster.alive:
            answer = self.client(broker_id).metadata("t")
            self.assertEqual([(b.node_id, b.host, b.port) for b in answer.brokers], everywhere)
            self.assertEqual(answer.controller_id, 0)
            self.assertEqual([p.leader_id for p in answer.topics[0].partitions], list(self.leaders("t")))
            described = self.ask(broker_id, DescribeClusterRequest(), 1)
            self.assertEqual([(b.broker_id, b.host, b.port) for b in described.brokers], everywhere)
            self.assertEqual((described.controller_id, described.cluster_id), (0, answer.cluster_id))

    def test_leaders_are_spread(self) -> None:
        """Each partition is served by its leader, and nobody else."""
        self.assertEqual(sorted(self.leaders("t")), [0, 1, 2])
        for partition, leader in enumerate(self.leaders("t")):
            for broker_id in self.cluster.alive:
                client = self.client(broker_id)
                wanted = ErrorCode.NONE if broker_id == leader else ErrorCode.NOT_LEADER_OR_FOLLOWER
                self.assertEqual(client.produce(partition=partition).error_code, wanted)
                self.assertEqual(client.fetch(partition=partition).error_code, wanted)

    def test_creation(self) -> None:
        """Topics are created by way of any broker; all serve them when the answer comes."""
        for broker_id in self.cluster.alive:
            name = f"by-{broker_id}"
            (created,) = self.ask(broker_id, create(name, 3), 7).topics
            self.assertEqual((created.error_code, created.num_partitions), (0, 3))
            for other in self.cluster.alive:
                self.assertEqual(self.leaders(name, other), self.leaders(name))
        (again,) = self.ask(2, create("t", 3), 7).topics
        self.assertEqual(again.error_code, ErrorCode.TOPIC_ALREADY_EXISTS)

    def test_creation_by_use(self) -> None:
        """So they are when a client asks for one that is missing, or a plugin writes to it."""
        client = self.client(1)
        client.send(metadata_request("asked-for"), 9)
        self.cluster.settle(1)
        (answer,) = client.answers()
        self.assertEqual((answer.topics[0].name, answer.topics[0].error_code), ("asked-for", 0))
        self.cluster.now(self.cluster[2].broker.plugin_services.create_topic("made", 2))
        self.assertEqual(len(self.leaders("made", 1)), 2)

    def test_deletion(self) -> None:
        """They are deleted by way of any broker, and gone everywhere."""
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000)
        (answer,) = self.ask(2, request, 6).responses
        self.assertEqual(answer.error_code, 0)
        for broker_id in self.cluster.alive:
            self.assertIsNone(self.cluster.metadata(broker_id).topic("t"))
            self.assertEqual(len(self.cluster[broker_id].broker.replication.replicas), 0)

    def test_settings(self) -> None:
        """Settings, of a topic and of another broker, are changed by way of any broker."""
        change = [IncrementalAlterableConfig(name="retention.ms", config_operation=0, value="77")]
        mine = [IncrementalAlterableConfig(name="log.cleaner.backoff.ms", config_operation=0, value="5")]
        request = IncrementalAlterConfigsRequest(
            resources=[
                IncrementalAlterConfigsResource(resource_type=2, resource_name="t", configs=change),
                IncrementalAlterConfigsResource(resource_type=4, resource_name="2", configs=mine),
            ]
        )
        answer = self.ask(1, request, 1)
        self.assertEqual([one.error_code for one in answer.responses], [0, 0], answer)
        for broker_id in self.cluster.alive:
            topic = self.cluster.metadata(broker_id).topic("t")
            assert topic is not None
            self.assertEqual(topic.configs["retention.ms"], "77")
            replicas = list(self.cluster[broker_id].broker.replication.replicas)
            self.assertEqual({each.log.config.retention_ms for each in replicas}, {77}, replicas)

    def test_settings_of_another_broker(self) -> None:
        """Any broker tells them, as the other one has them; of one that cannot be asked it says so."""
        self.cluster.stop(2)
        self.cluster.boot(2, log_cleaner_backoff_ms="777")
        self.cluster.settle(1)
        asked = [DescribeConfigsResource(resource_type=4, resource_name=name) for name in ("1", "2", "7", "")]
        for resource in asked:
            resource.configuration_keys = ["log.cleaner.backoff.ms"]
        request = DescribeConfigsRequest(resources=asked)
        found = {one.resource_name: one for one in self.ask(1, request, 4).results}
        self.assertEqual(found["2"].configs[0].value, "777")
        self.assertNotEqual(found["1"].configs[0].value, "777")
        self.assertEqual(found["7"].error_code, ErrorCode.INVALID_REQUEST)
        self.cluster.kill(2, expire=False)
        self.cluster.settle(1)
        found = {one.resource_name: one for one in self.ask(1, request, 4).results}
        self.assertEqual(found["2"].error_code, ErrorCode.BROKER_NOT_AVAILABLE)
        self.assertEqual(found["1"].error_code, 0)

    def test_coordinators(self) -> None:
        """All brokers name the same coordinator for a group: the leader of its partition."""
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g", "h", "i"])
        answers = [self.ask(broker_id, request, 4).coordinators for broker_id in (2, 1, 0)]
        self.assertEqual(answers[0], answers[1])
        self.assertEqual(answers[0], answers[2])
        for found in answers[0]:
            self.assertEqual((found.error_code, found.host), (0, host_of(found.node_id)))

    def test_no_reachable_controller(self) -> None:
        """A request that only the controller can serve gets its own error when the controller is unreachable."""
        self.cluster.cut(0, 1)
        self.cluster.settle(1)
        (answer,) = self.ask(1, create("u", 1), 7).topics
        self.assertEqual(answer.error_code, ErrorCode.NOT_CONTROLLER)


class AddressTests(SeveralCase):
    """The listener that brokers use among themselves."""

    def test_named(self) -> None:
        """It can be named, in whatever case."""
        cluster = Several({"inter.broker.listener.name": "KAFKA"})
        self.addCleanup(cluster.close)
        cluster.boot(0)
        cluster.boot(1)
        self.assertEqual(sorted(cluster.metadata(1).brokers), [0, 1])


def create(name: str, partitions: int, timeout_ms: int = 5000) -> Any:
    """A request to create a topic with one replica of each partition."""
    from logbus.wire.messages.topics import CreatableTopic, CreateTopicsRequest

    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms)


def metadata_request(name: str) -> Any:
    """A request that has a topic made."""
    from logbus.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

    return MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
