"""FindCoordinator, and the creation of internal topics."""

from __future__ import annotations

from logbus.errors import ErrorCode
from logbus.ilogbus import Listener
from logbus.testing.simulation.environment.memory_disk import no_space
from logbus.wire.messages.groups import FindCoordinatorRequest, FindCoordinatorResponse
from tests.handlers.group_kit import commit
from tests.handlers.kit import HandlerCase, MemoryBroker


class FindCoordinatorTests(HandlerCase):
    """On a broker without internal topics."""

    config = {
        "offsets.topic.num.partitions": "7",
        "offsets.topic.segment.bytes": "12345678",
        "share.coordinator.state.topic.num.partitions": "4",
        "share.coordinator.state.topic.segment.bytes": "8888888",
        "transaction.state.log.num.partitions": "5",
        "transaction.state.log.segment.bytes": "7654321",
        "auto.create.topics.enable": "true",
    }

    def find(self, *keys: str, key_type: int = 0, version: int = 6) -> FindCoordinatorResponse:
        request = (
            FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
            if version >= 4
            else FindCoordinatorRequest(key=keys[0], key_type=key_type)
        )
        response: FindCoordinatorResponse = self.client.ask(request, version)
        return response

    def check_topic(self) -> None:
        topic = self.server.broker.member.metadata.topic("__consumer_offsets")
        assert topic is not None
        self.assertEqual(len(topic.partitions), 7)
        self.assertEqual(
            topic.configs, {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "12345678"}
        )

    def test_the_first_question(self) -> None:
        """The first request creates the topic as configured, and is answered when the coordinator is ready."""
        (found,) = self.find("g").coordinators
        self.assertEqual((found.key, found.node_id, found.port), ("g", 0, 9092))
        self.assertEqual(found.host, self.server.broker.endpoints["kafka"].host)
        self.assertEqual((found.error_code, found.error_message), (0, None))
        self.check_topic()
        shards = self.server.broker.coordinators.groups.shards
        self.assertEqual({number: shard.loading for number, shard in shards.items()}, dict.fromkeys(range(7), False))

    def test_versions(self) -> None:
        """One key up to version 3, several from 4 on."""
        for version in range(4):
            found = self.find("g", version=version)
            self.assertEqual((found.error_code, found.node_id, found.port), (0, 0, 9092))
        for version in range(4, 7):
            found = self.find("a", "b", "", version=version)
            self.assertEqual([(one.key, one.error_code) for one in found.coordinators], [("a", 0), ("b", 0), ("", 0)])
            self.assertEqual(self.find(version=version).coordinators, [])

    def test_two_at_once(self) -> None:
        """Both wait for the one topic."""
        others = [self.server.connect() for _ in range(3)]
        for other in others:
            other.send(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        # One who does not wait for the answer.
        others.pop().transport.loseConnection()
        self.assertEqual(self.find("h").coordinators[0].error_code, 0)
        for other in others:
            (answer,) = other.answers()
            self.assertEqual(answer.coordinators[0].error_code, 0)

    def test_unsupported_key_types(self) -> None:
        """Share partitions before version 6, and unknown key types, are refused."""
        for key_type in (2, 3, -1):
            for version in (1, 4):
                answer = self.find("k", key_type=key_type, version=version)
                found = answer.coordinators[0] if version >= 4 else answer
                self.assertEqual((found.error_code, found.node_id, found.port), (ErrorCode.INVALID_REQUEST, -1, -1))
        self.assertIn("transactional ids (1)", self.find("k", key_type=3).coordinators[0].error_message or "")
        self.assertIsNone(self.server.broker.member.metadata.topic("__consumer_offsets"))

    def test_transactional_ids(self) -> None:
        """They have a topic of their own, made as configured; that of the groups is not needed for it."""
        for version in range(1, 7):
            answer = self.find("x", key_type=1, version=version)
            found = answer.coordinators[0] if version >= 4 else answer
            self.assertEqual((found.error_code, found.node_id, found.port), (0, 0, 9092))
        topic = self.server.broker.member.metadata.topic("__transaction_state")
        assert topic is not None
        self.assertEqual(len(topic.partitions), 5)
        self.assertEqual(
            topic.configs,
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": "1",
                "segment.bytes": "7654321",
                "unclean.leader.election.enable": "false",
            },
        )
        shards = self.server.broker.coordinators.transactions.shards
        self.assertEqual({number: shard.loading for number, shard in shards.items()}, dict.fromkeys(range(5), False))
        self.assertIsNone(self.server.broker.member.metadata.topic("__consumer_offsets"))

    def test_share_partitions(self) -> None:
        """The first request creates the topic; a key must be that of a share partition."""
        for wrong in ("g", "g:x:0", "g:AAAAAAAAAAAAAAAAAAAAAQ:x"):
            (found,) = self.find(wrong, key_type=2).coordinators
            self.assertEqual(found.error_code, ErrorCode.INVALID_REQUEST)
        (found,) = self.find("g:AAAAAAAAAAAAAAAAAAAAAQ:0", key_type=2).coordinators
        self.assertEqual((found.error_code, found.node_id, found.port), (0, 0, 9092))
        topic = self.server.broker.member.metadata.topic("__share_group_state")
        assert topic is not None
        self.assertEqual(len(topic.partitions), 4)
        self.assertEqual(
            topic.configs,
            {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": "1",
                "retention.bytes": "-1",
                "retention.ms": "-1",
                "segment.bytes": "8888888",
                "unclean.leader.election.enable": "false",
            },
        )

    def test_the_topic_cannot_be_made(self) -> None:
        """Clients are to try again, and are served after a start with space."""
        self.disk.faults = lambda op, path: no_space() if op in ("create", "make", "replace", "write") else None
        (found,) = self.find("g").coordinators
        self.assertEqual(found.error_code, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.assertTrue(found.error_message)
        self.disk.faults = lambda op, path: None
        self.server.stop()
        self.server = MemoryBroker(self.config, disks=self.server.disks, ensemble=self.server.ensemble).start()
        self.addCleanup(self.server.close)
        self.client = self.server.connect()
        (found,) = self.find("g").coordinators
        self.assertEqual(found.error_code, 0)
        self.assertEqual(commit(self.client, {("t", 0): 1}), {("t", 0): 0})

    def test_internal_topic_on_request(self) -> None:
        """The internal topic that a client asks for has its own settings, not the topic defaults."""
        (topic,) = self.client.metadata("__consumer_offsets", auto_create=True).topics
        self.assertEqual((topic.error_code, topic.is_internal), (0, True))
        self.check_topic()


class ListenerTests(HandlerCase):
    """With several listeners."""

    def test_listener_of_the_client(self) -> None:
        """The coordinator is reached on the listener that the client uses."""
        listeners = [Listener("kafka", "kafka", "tcp:9092"), Listener("other", "kafka", "tcp:9093")]
        server = MemoryBroker(listeners=listeners).start()
        self.addCleanup(server.close)
        for listener, port in (("kafka", 9092), ("other", 9093)):
            client = server.connect(listener=listener)
            (found,) = client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators
            self.assertEqual(found.port, port)
