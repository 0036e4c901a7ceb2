"""CreateTopics, DeleteTopics and CreatePartitions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from attrs import evolve

from logbus.errors import ErrorCode
from logbus.wire.messages.groups import FindCoordinatorRequest
from logbus.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from logbus.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tests.handlers.kit import HandlerCase, MemoryBroker


def assigned(*brokers: list[int], first: int = 0) -> dict[str, Any]:
    given = [CreatableReplicaAssignment(partition_index=n, broker_ids=ids) for n, ids in enumerate(brokers, first)]
    return {"assignments": given, "num_partitions": -1, "replication_factor": -1}


def configured(name: str, value: str | None) -> dict[str, Any]:
    return {"configs": [CreatableTopicConfig(name=name, value=value)]}


class TopicTests(HandlerCase):
    """Creation and deletion of topics, and new partitions."""

    def create(self, version: int = 5, **given: Any) -> Any:
        fields = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": [], **given}
        return self.client.ask(CreateTopicsRequest(topics=[CreatableTopic(name="new", **fields)]), version).topics[0]

    def test_refused(self) -> None:
        """Refused topics, with the reason."""
        for given, code in (
            ({"num_partitions": 0}, ErrorCode.INVALID_PARTITIONS),
            ({"num_partitions": -2}, ErrorCode.INVALID_PARTITIONS),
            ({"replication_factor": 2}, ErrorCode.INVALID_REPLICATION_FACTOR),
            ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
            (assigned([0]) | {"num_partitions": 1}, ErrorCode.INVALID_REQUEST),
            (assigned([9]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (assigned([]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (assigned([0], first=1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (configured("no.such", "1"), ErrorCode.INVALID_CONFIG),
            (configured("retention.ms", "soon"), ErrorCode.INVALID_CONFIG),
            (configured("retention.ms", None), ErrorCode.INVALID_CONFIG),
        ):
            answer = self.create(**given)
            self.assertEqual(answer.error_code, code, given)
            self.assertTrue(answer.error_message, given)
        self.assertNotIn("new", self.server.broker.plugin_services.topics())

    def test_colliding_names(self) -> None:
        """Names that differ only in '.' and '_' are refused: metric names do not tell them apart."""
        self.server.create("p.col_1")
        for names, codes in (
            (["p_col.1"], [ErrorCode.INVALID_TOPIC_EXCEPTION]),
            (["p.col_1"], [ErrorCode.TOPIC_ALREADY_EXISTS]),
            (["p-col_1"], [0]),
            (["q.a", "q_a"], [0, ErrorCode.INVALID_TOPIC_EXCEPTION]),
        ):
            topics = [
                CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
                for name in names
            ]
            answer = self.client.ask(CreateTopicsRequest(topics=topics), 5)
            self.assertEqual([topic.error_code for topic in answer.topics], codes, names)
            self.assertTrue(all(bool(topic.error_message) == bool(topic.error_code) for topic in answer.topics))

    def test_name_that_kafka_keeps(self) -> None:
        """Nobody makes a topic that clients of Kafka would take for the log of the controllers."""
        topic = CreatableTopic(
            name="__cluster_metadata", num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        (answer,) = self.client.ask(CreateTopicsRequest(topics=[topic]), 5).topics
        self.assertEqual(answer.error_code, ErrorCode.INVALID_REQUEST)
        self.assertIn("__cluster_metadata", answer.error_message)
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="__cluster_metadata")])
        (described,) = self.client.ask(asked, 12).topics
        self.assertEqual(described.error_code, ErrorCode.INVALID_REQUEST)
        self.assertEqual(dict(self.server.broker.plugin_services.topics()), {"t": 2})

    def test_assigned(self) -> None:
        """With an assignment the replicas are where it says."""
        answer = self.create(**assigned([0], [0], [0]))
        self.assertEqual((answer.error_code, answer.num_partitions), (0, 3))

    def test_every_version(self) -> None:
        """Made and unmade at each version of both."""
        for version in range(2, 8):
            answer = self.create(version=version)
            self.assertEqual((answer.error_code, answer.name), (0, "new"))
            if version == 7:
                self.assertEqual(answer.topic_id, self.server.topic_id("new"))
                state = DeleteTopicState(topic_id=answer.topic_id)
                request = DeleteTopicsRequest(topics=[state], timeout_ms=1000)
            else:
                request = DeleteTopicsRequest(topic_names=["new"], timeout_ms=1000)
            answer = self.client.ask(request, version - 1).responses[0]
            self.assertEqual((answer.error_code, answer.name), (0, "new"))
        self.assertEqual(dict(self.server.broker.plugin_services.topics()), {"t": 2})

    def test_twice(self) -> None:
        """A topic that is named twice is refused, once."""
        topic = CreatableTopic(name="new", num_partitions=1, replication_factor=1, assignments=[], configs=[])
        (answer,) = self.client.ask(CreateTopicsRequest(topics=[topic, topic]), 5).topics
        self.assertEqual(answer.error_code, ErrorCode.INVALID_REQUEST)

    def test_not_deleted(self) -> None:
        """Neither name nor id, or both; and where delete.topic.enable is false."""
        for state in (DeleteTopicState(), DeleteTopicState(name="t", topic_id=self.server.topic_id())):
            request = DeleteTopicsRequest(topics=[state], timeout_ms=10)
            self.assertEqual(self.client.ask(request, 6).responses[0].error_code, ErrorCode.INVALID_REQUEST)
        server = MemoryBroker({"delete.topic.enable": "false"}).start()
        self.addCleanup(server.close)
        server.create("t")
        answer = server.connect().ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=10), 5).responses[0]
        self.assertEqual(answer.error_code, ErrorCode.TOPIC_DELETION_DISABLED)
        self.assertIn("t", server.broker.plugin_services.topics())

    def test_deleted_twice(self) -> None:
        """A topic that is named twice, also once by its id, is refused, and not deleted (as in Kafka)."""
        by_name, by_id = DeleteTopicState(name="t"), DeleteTopicState(topic_id=self.server.topic_id())
        for topics in ([by_name, by_name], [by_id, by_id], [by_name, by_id]):
            answer = self.client.ask(DeleteTopicsRequest(topics=topics, timeout_ms=10), 6)
            codes = [each.error_code for each in answer.responses]
            self.assertEqual(codes, [ErrorCode.INVALID_REQUEST] * 2)
        self.assertIn("t", self.server.broker.plugin_services.topics())

    def test_deleted_by_the_id_of_another(self) -> None:
        """A topic is not deleted by the id of an earlier one of its name, which this broker takes for the topic yet."""
        metadata = self.server.broker.member.metadata
        earlier = evolve(metadata.topics["t"], topic_id=UUID(int=7))
        self.patch(type(metadata), "topic_by_id", lambda metadata, topic_id: earlier)
        state = DeleteTopicState(topic_id=earlier.topic_id.bytes)
        (answer,) = self.client.ask(DeleteTopicsRequest(topics=[state], timeout_ms=10), 6).responses
        self.assertEqual(answer.error_code, ErrorCode.UNKNOWN_TOPIC_ID)
        self.assertIn("t", self.server.broker.plugin_services.topics())

    def grow(self, count: int, name: str = "t", times: int = 1) -> int:
        topics = [CreatePartitionsTopic(name=name, count=count, assignments=None)] * times
        request = CreatePartitionsRequest(topics=topics, timeout_ms=10, validate_only=False)
        (answer,) = self.client.ask(request, 3).results
        return int(answer.error_code)

    def test_grown(self) -> None:
        """More partitions, that take records when it is answered; not fewer; not of nothing; not twice."""
        self.assertEqual(self.grow(4), 0)
        self.assertEqual(self.client.produce(partition=3).base_offset, 0)
        for count in (4, 3, 0, -1):
            self.assertEqual(self.grow(count), ErrorCode.INVALID_PARTITIONS)
        self.assertEqual(self.grow(4, "none"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.assertEqual(self.grow(9, times=2), ErrorCode.INVALID_REQUEST)
        self.assertEqual(self.server.broker.plugin_services.topics()["t"], 4)

    def test_no_controller(self) -> None:
        """Without a controller each topic gets an error, and the connection stays open."""
        broker = self.server.broker
        active, broker.control.controller.active = broker.control.controller.active, None
        self.assertEqual(self.create().error_code, ErrorCode.NOT_CONTROLLER)
        deleted = self.client.ask(DeleteTopicsRequest(topic_names=["t", "u"], timeout_ms=10), 5).responses
        self.assertEqual([answer.error_code for answer in deleted], [ErrorCode.NOT_CONTROLLER] * 2)
        self.assertEqual(self.grow(9), ErrorCode.NOT_CONTROLLER)
        described = self.client.metadata("auto", auto_create=True).topics[0]
        self.assertEqual(described.error_code, ErrorCode.NOT_CONTROLLER)
        self.assertEqual(broker.kafka_server.net_metrics.failures, 0)
        broker.control.controller.active = active


class LimitTests(HandlerCase):
    """Limits of topics and partitions."""

    config = {"max.topics": "4", "max.partitions.per.broker": "6", "num.partitions": "1"}

    def test_cluster_limits(self) -> None:
        """
        CreateTopics, CreatePartitions and Metadata refuse what is too much, each in words; groups are served.
        """
        codes = [topic.error_code for topic in self.client.create("a", "b").topics]
        self.assertEqual(codes, [0, 0])
        (wide,) = self.client.create("wide", partitions=5).topics
        self.assertEqual(wide.error_code, ErrorCode.POLICY_VIOLATION)
        self.assertIn("max.partitions.per.broker = 6", wide.error_message)
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="a", count=6, assignments=None)], timeout_ms=1000
        )
        (grown,) = self.client.ask(request, 3).results
        self.assertEqual(grown.error_code, ErrorCode.POLICY_VIOLATION)
        auto = self.client.metadata("c", "d", auto_create=True)
        self.assertEqual([topic.error_code for topic in auto.topics], [0, ErrorCode.POLICY_VIOLATION])
        (one,) = self.client.create("e").topics
        self.assertIn("max.topics = 4", one.error_message)
        found = self.client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        self.assertEqual(found.coordinators[0].error_code, 0)


class QuotaTests(HandlerCase):
    """``controller_mutation_rate`` (KIP-599): one partition a second, eleven at once."""

    def setUp(self) -> None:
        super().setUp()
        self.server.broker.kafka_server.quotas.set({"client-id": None}, {"controller_mutation_rate": 1.0})

    def create(self, *counts: int, version: int = 7) -> Any:
        topics = [
            CreatableTopic(name=f"new-{n}", num_partitions=count, replication_factor=1, assignments=[], configs=[])
            for n, count in enumerate(counts)
        ]
        return self.client.ask(CreateTopicsRequest(topics=topics, timeout_ms=1000), version)

    def test_create_topics(self) -> None:
        """What is over the quota is refused; the rest is made."""
        answer = self.create(11, 2, 1)
        codes = [topic.error_code for topic in answer.topics]
        self.assertEqual(codes, [0, 0, ErrorCode.THROTTLING_QUOTA_EXCEEDED])
        self.assertEqual(answer.throttle_time_ms, 2000)
        self.assertNotIn("new-2", self.server.broker.plugin_services.topics())

    def test_older_clients(self) -> None:
        """They are served, and throttled."""
        answer = self.create(11, 2, 1, version=5)
        self.assertEqual([topic.error_code for topic in answer.topics], [0, 0, 0])
        self.assertEqual(answer.throttle_time_ms, 3000)

    def test_delete_and_grow(self) -> None:
        """Deletions and new partitions count as well."""
        self.create(6, 6)
        self.server.reactor.advance(2)
        grown = self.client.ask(
            CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="new-0", count=9)], timeout_ms=1000), 3
        )
        self.assertEqual(grown.results[0].error_code, 0)
        deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="new-1")], timeout_ms=1000)
        self.server.reactor.advance(grown.throttle_time_ms / 1000)
        refused = self.client.ask(deletion, 6)
        self.assertEqual(refused.responses[0].error_code, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        self.server.reactor.advance(refused.throttle_time_ms / 1000 + 0.01)
        self.assertEqual(self.client.ask(deletion, 6).responses[0].error_code, 0)
