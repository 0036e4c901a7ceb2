"""Streams groups of clients that have some rights and lack others (KIP-1071; Kafka: KafkaApis)."""

from __future__ import annotations

from typing import Any

from logbus.errors import ErrorCode
from logbus.security.acl.acls import AclOperation as Op
from logbus.security.acl.acls import ResourceType as Kind
from logbus.wire.messages.groups import FindCoordinatorRequest
from logbus.wire.messages.streams_groups import StreamsGroupDescribeRequest
from tests.handlers.authorization.test_matrix import AuthorizedCase, Right
from tests.handlers.group_kit import commit
from tests.handlers.test_streams_groups import MISSING_INTERNAL, WORD_COUNT, Thread

REPARTITION, CHANGELOG = "app-words-repartition", "app-counts-changelog"
MEMBER: list[Right] = [
    (Op.READ, Kind.GROUP, "g"),
    (Op.DESCRIBE, Kind.TOPIC, "t"),
    (Op.DESCRIBE, Kind.TOPIC, REPARTITION),
    (Op.DESCRIBE, Kind.TOPIC, CHANGELOG),
]
"""What a member needs whose application's topics are there."""
CREATES: list[Right] = [(Op.CREATE, Kind.TOPIC, REPARTITION), (Op.CREATE, Kind.TOPIC, CHANGELOG)]


class StreamsGroupTests(AuthorizedCase):
    """An application that counts words, whose topics are to be made."""

    def setUp(self) -> None:
        # Inherited settings, and no delay of the first assignment.
        self.config = {**AuthorizedCase.config, "group.streams.initial.rebalance.delay.ms": "0"}
        super().setUp()
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        while self.client.ask(find, 4).coordinators[0].error_code:
            self.client.turn(1)
        self.one = Thread(self.connect("User:a"), "m1", topology=WORD_COUNT)

    def described(self) -> Any:
        (found,) = self.one.client.ask(
            StreamsGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True), 0
        ).groups
        return found

    def test_members(self) -> None:
        """Who may not read the group, or describe all topics of the topology, makes no group."""
        for missing in MEMBER:
            self.grant([each for each in MEMBER if each != missing])
            expected = (
                ErrorCode.GROUP_AUTHORIZATION_FAILED
                if missing[1] is Kind.GROUP
                else ErrorCode.TOPIC_AUTHORIZATION_FAILED
            )
            self.assertEqual(self.one.send().error_code, expected, missing)
        (found,) = self.client.ask(StreamsGroupDescribeRequest(group_ids=["g"]), 0).groups
        self.assertEqual(found.error_code, ErrorCode.GROUP_ID_NOT_FOUND)

    def test_internal_topics(self) -> None:
        """They are made for who may create all of them; others are told, with each heartbeat."""
        for rights in ([], CREATES[:1], CREATES[1:]):
            self.grant(MEMBER + rights)
            for _ in range(2):
                answer = self.one.beat()
                (status,) = answer.status
                self.assertEqual(status.status_code, MISSING_INTERNAL)
                lacking = {REPARTITION, CHANGELOG} - {name for _, _, name in rights}
                shown = ", ".join(sorted(lacking))
                self.assertIn(f"the client may not create {shown}", status.status_detail)
        self.assertNotIn(REPARTITION, self.server.broker.plugin_services.topics())
        self.grant(MEMBER + CREATES)
        self.one.beat()
        self.assertEqual(self.one.beat().status, [])
        self.assertEqual(self.one.active, {"0": [0, 1], "1": [0, 1]})
        self.assertLessEqual({REPARTITION, CHANGELOG}, set(self.server.broker.plugin_services.topics()))
        # From now on it needs to create nothing.
        self.grant(MEMBER)
        self.assertEqual(self.one.beat().status, [])

    def test_creation_by_who_may_create_everything(self) -> None:
        """Create on the cluster is enough, as for CreateTopics."""
        self.grant([*MEMBER, (Op.CREATE, Kind.CLUSTER, "kafka-cluster")])
        self.one.beat()
        self.assertEqual(self.one.beat().status, [])

    def test_description(self) -> None:
        """It needs Describe on the group; without a right to a topic neither members nor topology are shown."""
        self.grant(MEMBER + CREATES)
        self.one.beat()
        self.one.beat()
        found = self.described()
        self.assertEqual((found.error_code, len(found.members), len(found.topology.subtopologies)), (0, 1, 2))
        self.assertEqual(found.authorized_operations, 1 << Op.READ | 1 << Op.DESCRIBE)
        for missing in MEMBER[1:]:
            self.grant([each for each in MEMBER if each != missing])
            found = self.described()
            self.assertEqual(found.error_code, ErrorCode.TOPIC_AUTHORIZATION_FAILED, missing)
            self.assertEqual((found.members, found.topology), ([], None))
        self.grant(MEMBER[1:])
        self.assertEqual(self.described().error_code, ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def test_later_heartbeats(self) -> None:
        """Rights that are taken away hold at the next heartbeat; a departure needs Read on the group as well."""
        self.grant(MEMBER + CREATES)
        self.one.beat()
        self.grant(MEMBER[1:])
        for epoch in (self.one.epoch, -1):
            answer = self.one.send(member_epoch=epoch)
            self.assertEqual(answer.error_code, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        # The topology was described when the member joined; Kafka does not look at it again either.
        self.grant(MEMBER[:1])
        self.assertEqual(self.one.send().error_code, 0)

    def test_commits(self) -> None:
        """A member commits what it may read."""
        self.grant(MEMBER + CREATES)
        self.one.beat()
        self.one.beat()
        member = {"generation": self.one.epoch, "member_id": "m1"}
        denied = commit(self.one.client, {("t", 0): 1}, **member)
        self.assertEqual(denied, {("t", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED})
        self.grant([*MEMBER, (Op.READ, Kind.TOPIC, "t")])
        self.assertEqual(commit(self.one.client, {("t", 0): 1}, **member), {("t", 0): 0})
