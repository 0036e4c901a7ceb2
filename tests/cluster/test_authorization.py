"""A cluster with an authorizer: rights hold on every broker, and brokers work for one another all the same."""

from __future__ import annotations

from typing import Any

from logbus.errors import ErrorCode
from logbus.security.acl.acls import AclOperation, AclPermission, PatternType, ResourceType
from logbus.wire.messages.acls import AclCreation, CreateAclsRequest
from logbus.wire.messages.delegation_tokens import CreateDelegationTokenRequest, DescribeDelegationTokenRequest
from logbus.wire.messages.groups import FindCoordinatorRequest
from logbus.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from logbus.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from tests.cluster.memory_cluster import ClusterCase
from tests.handlers.kit import a_batch, fetch_request, produce_request

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class AuthorizationTests(ClusterCase):
    """Three brokers, whose clients' principals are given."""

    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:root",
        "min.insync.replicas": "3",
        "delegation.token.secret.key": "secret",
    }

    def ask(self, principal: str, broker_id: int, message: Any, version: int) -> Any:
        """Ask a broker, and have the answer after as much time as brokers need among themselves."""
        client = self.cluster[broker_id].connect()
        client.protocol.context.principal = principal
        client.send(message, version)
        for _ in range(120):
            self.cluster.settle(0.05)
            answers = client.answers()
            if answers:
                return answers[0]
        raise AssertionError(f"broker {broker_id} did not answer {message!r}")

    def create(self, principal: str, broker_id: int, name: str) -> int:
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=3)
        code: int = self.ask(principal, broker_id, CreateTopicsRequest(topics=[topic]), 5).topics[0].error_code
        return code

    def allow(self, operation: AclOperation, name: str, kind: ResourceType = ResourceType.TOPIC) -> None:
        """Let User:a do something, by way of a broker that is not the controller."""
        acl = AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=PatternType.LITERAL,
            principal="User:a",
            host="*",
            operation=operation,
            permission_type=AclPermission.ALLOW,
        )
        (result,) = self.ask("User:root", 2, CreateAclsRequest(creations=[acl]), 3).results
        self.assertEqual(result.error_code, 0, result.error_message)

    def test_forwarded_requests(self) -> None:
        """The controller asks whether the client may do what another broker forwards."""
        self.assertEqual(self.create("User:a", 1, "t"), DENIED)
        self.assertEqual(self.create("User:root", 1, "t"), 0)
        self.allow(AclOperation.CREATE, "u")
        self.assertEqual(self.create("User:a", 2, "u"), 0)

    def test_every_broker(self) -> None:
        """What is granted by way of one broker holds on all; replicas fetch without rights of their own."""
        self.create("User:root", 0, "t")
        (leader,) = self.leaders("t")
        write, read = produce_request(a_batch(b"a"), acks=-1), fetch_request([("t", 0, 0)])

        def codes() -> list[int]:
            written = self.ask("User:a", leader, write, 9).responses[0].partition_responses[0].error_code
            fetched = self.ask("User:a", leader, read, 12).responses[0].partitions[0].error_code
            return [written, fetched]

        self.assertEqual(codes(), [DENIED, DENIED])
        self.allow(AclOperation.WRITE, "t")
        self.assertEqual(codes(), [0, DENIED])
        self.allow(AclOperation.READ, "t")
        self.assertEqual(codes(), [0, 0])

    def test_brokers_create_for_clients(self) -> None:
        """A topic that a client may create is created by its request for metadata; internal ones by the brokers."""
        self.allow(AclOperation.CREATE, "new")
        self.allow(AclOperation.DESCRIBE, "new")
        wanted = MetadataRequest(topics=[MetadataRequestTopic(name="new"), MetadataRequestTopic(name="other")])
        answer = self.ask("User:a", 1, wanted, 9)
        self.assertEqual({topic.name: topic.error_code for topic in answer.topics}, {"new": 0, "other": DENIED})
        self.allow(AclOperation.DESCRIBE, "g", ResourceType.GROUP)
        self.assertEqual(self.ask("User:a", 1, FindCoordinatorRequest(key="g"), 3).error_code, 0)

    def test_restarted_broker(self) -> None:
        """It knows the ACLs before it serves, also those of a time when it was away."""
        self.create("User:root", 0, "t")
        self.cluster.stop(1)
        self.cluster.settle(1)
        self.allow(AclOperation.DESCRIBE, "t")
        self.cluster.boot(1)
        answer = self.ask("User:a", 1, MetadataRequest(topics=None), 9)
        self.assertEqual([topic.name for topic in answer.topics], ["t"])

    def test_delegation_tokens(self) -> None:
        """A token that is made by way of one broker is known to all, and how a client has logged in to each."""
        request = CreateDelegationTokenRequest(renewers=[])
        made = self.ask("User:a", 2, request, 3)
        self.assertEqual(made.error_code, 0)
        for broker_id in range(3):
            (found,) = self.ask("User:a", broker_id, DescribeDelegationTokenRequest(), 3).tokens
            self.assertEqual((found.token_id, bytes(found.hmac)), (made.token_id, bytes(made.hmac)))
            client = self.cluster[broker_id].connect()
            client.protocol.context.principal, client.protocol.context.by_delegation_token = "User:a", True
            client.send(request, 3)
            while not (answers := client.answers()):
                self.cluster.settle(0.05)
            self.assertEqual(answers[0].error_code, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)

    def test_made_up_salts(self) -> None:
        """No broker tells by a salt of its own that a user does not exist."""
        made = {
            self.cluster[each].broker.security.sasl.unknown_users.credential("SCRAM-SHA-256", "nobody").salt
            for each in range(3)
        }
        self.assertEqual(len(made), 1)
