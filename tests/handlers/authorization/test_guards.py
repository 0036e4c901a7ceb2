"""What is left of requests and responses for who has some rights."""

from __future__ import annotations

from collections import Counter
from typing import Any

from twisted.logger import ILogObserver, formatEvent, globalLogPublisher
from zope.interface import implementer

from logbus.errors import ErrorCode
from logbus.handlers.authorization.access import Access
from logbus.security.acl.acls import AclOperation, ResourceType
from logbus.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from logbus.wire.messages.metadata import (
    OPERATIONS_UNKNOWN,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from logbus.wire.messages.share_groups import ShareGroupHeartbeatRequest
from logbus.wire.messages.topics import DeleteTopicsRequest, DeleteTopicState
from logbus.wire.messages.transactions import InitProducerIdRequest
from tests.handlers.authorization.test_matrix import CLUSTER, GROUP, TOPIC, AuthorizedCase, Op
from tests.handlers.kit import Client, a_batch, fetch_request, produce_request

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class ManyTests(AuthorizedCase):
    """Rights are asked for in time slices."""

    def slices(self, client: Client, message: Any, version: int) -> int:
        """The number of slices that a request takes."""
        scheduler = self.server.broker.env.slice_scheduler
        before = scheduler.slices
        client.ask(message, version)
        return scheduler.slices - before

    def test_names_in_heartbeats(self) -> None:
        """A member may name very many topics."""
        names = [f"n{number}" for number in range(12_000)]
        groups = [
            ConsumerGroupHeartbeatRequest(
                group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=names, topic_partitions=[]
            ),
            ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=names),
        ]
        for message in groups:
            self.grant([(Op.READ, GROUP, "g")])
            refused = self.slices(self.connect("User:a"), message, 1)
            self.grant([(Op.READ, GROUP, "g"), (Op.DESCRIBE, TOPIC, "*")])
            self.assertGreaterEqual(self.slices(self.connect("User:a"), message, 1), refused + 2)

    def test_operations_on_topics(self) -> None:
        """Who describes very many topics learns what may be done with each."""
        for number in range(120):
            self.server.create(f"n{number}")
        self.grant([(Op.READ, TOPIC, "*")])
        scheduler, operations = self.server.broker.env.slice_scheduler, Access.operations
        scheduler.units = 40
        asked: Counter[int] = Counter()

        def counted(access: Access, kind: ResourceType, name: str) -> int:
            asked[scheduler.slices] += 1
            return operations(access, kind, name)

        self.patch(Access, "operations", counted)
        client, request = self.connect("User:a"), MetadataRequest(topics=None)
        # Once it is encoded for others.
        self.slices(client, request, 12)
        request.include_topic_authorized_operations = True
        pages = DescribeTopicPartitionsRequest(topics=[], response_partition_limit=100, cursor=None)
        for message, version in ((request, 12), (pages, 0)):
            asked.clear()
            self.slices(client, message, version)
            self.assertGreaterEqual(asked.total(), 100)
            self.assertLessEqual(max(asked.values()), 40)


class TopicTests(AuthorizedCase):
    """Topics that may be seen, and others."""

    def setUp(self) -> None:
        super().setUp()
        for name in ("seen", "secret"):
            self.server.create(name)
        self.grant([(Op.READ, TOPIC, "seen")])
        self.alice = self.connect("User:a")

    def test_all_topics(self) -> None:
        """Only those that may be described are listed, at every version."""
        for version in (0, 1, 9, 12):
            answer = self.alice.ask(MetadataRequest(topics=None if version else []), version)
            self.assertEqual([topic.name for topic in answer.topics], ["seen"], version)
            self.assertTrue(answer.brokers)
        self.grant([])
        for version in (0, 1, 12):
            self.assertEqual(self.alice.ask(MetadataRequest(topics=None if version else []), version).topics, [])
        answer = self.alice.ask(DescribeTopicPartitionsRequest(topics=[]), 0)
        self.assertEqual(answer.topics, [])

    def test_absent_and_forbidden_look_alike(self) -> None:
        """Nobody learns that a topic exists; and it is not created by asking."""
        answer = self.alice.metadata("secret", "absent", "seen", auto_create=True)
        found = {topic.name: topic.error_code for topic in answer.topics}
        self.assertEqual(found, {"seen": 0, "secret": DENIED, "absent": DENIED})
        self.assertIsNone(self.server.broker.member.metadata.topic("absent"))
        by_id = MetadataRequestTopic(topic_id=self.server.topic_id("secret"), name=None)
        (topic,) = self.alice.ask(MetadataRequest(topics=[by_id]), 12).topics
        self.assertEqual((topic.error_code, topic.name), (ErrorCode.UNKNOWN_TOPIC_ID, None))

    def test_regular_expressions(self) -> None:
        """A member of a group gets partitions of those topics that it may describe."""
        self.grant([(Op.READ, TOPIC, "seen"), (Op.READ, GROUP, "g")])
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=[],
            subscribed_topic_regex=".*",
            topic_partitions=[],
        )
        self.server.create("__consumer_offsets")
        answer = self.alice.ask(heartbeat, 1)
        while answer.error_code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
            self.server.reactor.advance(0.1)
            answer = self.alice.ask(heartbeat, 1)
        self.assertEqual((answer.error_code, answer.error_message), (0, None))
        assigned = [topic.topic_id for topic in answer.assignment.topic_partitions]
        self.assertEqual(assigned, [self.server.topic_id("seen")])

    def test_auto_creation(self) -> None:
        """Describe is not enough to have a topic created; Create is, on the topic or the cluster."""
        self.grant([(Op.DESCRIBE, TOPIC, "new")])
        self.assertEqual(self.alice.metadata("new", auto_create=True).topics[0].error_code, DENIED)
        self.grant([(Op.DESCRIBE, TOPIC, "new"), (Op.CREATE, TOPIC, "new")])
        self.assertEqual(self.alice.metadata("new", auto_create=True).topics[0].error_code, 0)

    def test_authorized_operations(self) -> None:
        """The bits of what is allowed, with what it implies."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name="seen")], include_topic_authorized_operations=True)
        (topic,) = self.alice.ask(request, 9).topics
        self.assertEqual(topic.topic_authorized_operations, 1 << Op.READ | 1 << Op.DESCRIBE)
        self.assertNotEqual(topic.topic_authorized_operations, OPERATIONS_UNKNOWN)

    def test_deletion_by_id(self) -> None:
        """Who may not describe the topic does not learn its name; what may go goes."""
        self.grant([(Op.DELETE, TOPIC, "seen")])
        states = [DeleteTopicState(topic_id=self.server.topic_id(name)) for name in ("secret", "seen")]
        answer = self.alice.ask(DeleteTopicsRequest(topics=states, timeout_ms=1000), 6)
        self.assertEqual({(each.name, each.error_code) for each in answer.responses}, {("seen", 0), (None, DENIED)})
        self.assertIsNotNone(self.server.broker.member.metadata.topic("secret"))

    def test_produce(self) -> None:
        """Also without acks, by id, and for requests that are served together; nothing is appended."""
        self.grant([(Op.DESCRIBE, TOPIC, "t")])
        for _ in range(3):
            answer = self.alice.ask(produce_request(a_batch(b"a")), 9)
            self.assertEqual(answer.responses[0].partition_responses[0].error_code, DENIED)
        silent = self.connect("User:a")
        silent.send(produce_request(a_batch(b"a"), acks=0), 9, expects_response=False)
        silent.turn()
        self.assertTrue(silent.closed)
        self.assertEqual(self.client.fetch(0).high_watermark, 0)

    def test_revoked_from_a_producer(self) -> None:
        """In the middle of a stream of requests that are served together; and granted again."""
        self.grant([(Op.WRITE, TOPIC, "t")])
        codes = []
        for step in range(9):
            if step == 3:
                self.grant([])
            if step == 6:
                self.grant([(Op.WRITE, TOPIC, "t")])
            answer = self.alice.ask(produce_request(a_batch(b"a")), 9)
            codes.append(answer.responses[0].partition_responses[0].error_code)
        self.assertEqual(codes, [0, 0, 0, DENIED, DENIED, DENIED, 0, 0, 0])
        self.assertEqual(self.client.fetch(0).high_watermark, 6)

    def test_revoked_in_a_fetch_session(self) -> None:
        """The session goes on, refuses what may not be read any more, and reads it again later."""
        self.client.produce(b"a")
        self.grant([(Op.READ, TOPIC, "t")])
        first = self.alice.ask(fetch_request([("t", 0, 0)], session_epoch=0), 12)
        self.assertTrue(first.session_id)
        found = []
        for epoch, rights in enumerate(([], [], [(Op.READ, TOPIC, "t")]), 1):
            self.grant(rights)
            answer = self.alice.ask(fetch_request([], session_id=first.session_id, session_epoch=epoch), 12)
            found.append([each.error_code for topic in answer.responses for each in topic.partitions])
        self.assertEqual(found, [[DENIED], [DENIED], [0]])


class OtherTests(AuthorizedCase):
    """Producers, groups and the log."""

    def test_idempotent_producer(self) -> None:
        """Write on some topic is enough (KIP-679)."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        alice = self.connect("User:a")
        self.grant([(Op.READ, TOPIC, "t"), (Op.WRITE, GROUP, "t")])
        self.assertEqual(alice.ask(request, 4).error_code, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        self.grant([(Op.WRITE, TOPIC, "t")])
        self.assertEqual(alice.ask(request, 4).error_code, 0)

    def test_audit_log(self) -> None:
        """A line for a refusal, and for a privileged operation that is allowed: who, from where, what."""
        lines: list[str] = []

        @implementer(ILogObserver)
        def note(event: Any) -> None:
            if event.get("log_namespace") == "logbus.audit":
                lines.append(formatEvent(event))

        globalLogPublisher.addObserver(note)
        self.addCleanup(globalLogPublisher.removeObserver, note)
        self.grant([(Op.CREATE, TOPIC, "new")])
        alice = self.connect("User:a")
        alice.metadata("t")
        alice.create("new")
        self.assertEqual(
            lines,
            [
                "denied: User:a from 10.0.0.1 on kafka: Describe on Topic 't' by Metadata",
                "allowed: User:a from 10.0.0.1 on kafka: Create on Topic 'new' by CreateTopics",
            ],
        )
        lines.clear()
        self.grant([(Op.CREATE, CLUSTER, "kafka-cluster")])
        alice.metadata("t")
        alice.create("newer")
        self.assertEqual(lines, ["allowed: User:a from 10.0.0.1 on kafka: Create on Topic 'newer' by CreateTopics"])
        lines.clear()
        self.server.reactor.advance(2)
        alice.metadata("t")
        self.assertEqual(
            lines,
            [
                "denied: User:a from 10.0.0.1 on kafka: Describe on Topic 't' by Metadata (1 more denials suppressed)",
            ],
        )


class KindTests(AuthorizedCase):
    """Rights are for one type of resource."""

    def test_same_name(self) -> None:
        """A right to a group is none to the topic of its name."""
        self.grant([(AclOperation.READ, ResourceType.GROUP, "t")])
        answer = self.connect("User:a").ask(fetch_request([("t", 0, 0)]), 12)
        self.assertEqual(answer.responses[0].partitions[0].error_code, DENIED)
