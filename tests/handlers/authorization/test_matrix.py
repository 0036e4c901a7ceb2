"""Every API that is served, asked by who has no rights, and by who has just those that it needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from attrs import frozen

from logbus.coordination.share_state.recorded_state import StateChange
from logbus.coordination.share_state.share_state import SharePartitionKey
from logbus.coordination.share_state.share_state_calls import (
    Delete,
    Initialize,
    Read,
    Summarize,
    Write,
    request_of,
)
from logbus.errors import ErrorCode
from logbus.security.acl.acls import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclBindingFilter,
    AclOperation,
    AclPermission,
    ResourcePattern,
    ResourceType,
)
from logbus.security.acl.standard_authorizer import StandardAuthorizer
from logbus.wire.connection import Request, ServerConnection, api_key_of
from logbus.wire.encoder_runtime import EncodeError
from logbus.wire.messages import api_name
from logbus.wire.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from logbus.wire.messages.api_versions import ApiVersionsRequest, UpdateFeaturesRequest
from logbus.wire.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlteredEntity,
    AlteredEntry,
    DescribeClientQuotasRequest,
)
from logbus.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    ListConfigResourcesRequest,
)
from logbus.wire.messages.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from logbus.wire.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from logbus.wire.messages.elections import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from logbus.wire.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    ListGroupsRequest,
    SyncGroupRequest,
)
from logbus.wire.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    DescribeLogDirsRequest,
)
from logbus.wire.messages.metadata import (
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    TopicRequest,
)
from logbus.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from logbus.wire.messages.partitions import NamedTopicPartitions, TopicPartitionIndexes, TopicPartitions
from logbus.wire.messages.records import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from logbus.wire.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from logbus.wire.messages.share_fetches import (
    ShareAcknowledgeRequest,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
)
from logbus.wire.messages.share_groups import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
)
from logbus.wire.messages.streams_groups import (
    StreamsGroupDescribeRequest,
    StreamsGroupHeartbeatRequest,
    SubtopologyInfo,
    TopologyInfo,
)
from logbus.wire.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from logbus.wire.messages.transaction_admin import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from logbus.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    WritableTxnMarker,
    WriteTxnMarkersRequest,
)
from logbus.wire.messages.user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from tests.handlers.kit import Client, HandlerCase, a_batch, fetch_request, produce_request

Op, Kind = AclOperation, ResourceType
TOPIC, GROUP, CLUSTER, TXN = Kind.TOPIC, Kind.GROUP, Kind.CLUSTER, Kind.TRANSACTIONAL_ID
FORBIDDEN = {code for code in ErrorCode if code.name.endswith("AUTHORIZATION_FAILED")}

Right = tuple[AclOperation, ResourceType, str]
NAMES = {TOPIC: "t", GROUP: "g", TXN: "x", CLUSTER: CLUSTER_NAME}


def right(operation: AclOperation, kind: ResourceType) -> Right:
    return operation, kind, NAMES[kind]


@frozen
class Row:
    """
    An API.

    :ivar rights: those that it needs; none: it is for everybody.
    :ivar lists: it does not refuse, but leaves out what may not be seen.
    """

    message: Any
    version: int
    rights: Sequence[Right] = ()
    lists: bool = False


SHARED = SharePartitionKey("g", UUID(int=1), 0)

SHARE_STATE_CALLS = (
    Initialize(SHARED, 0, -1),
    Read(SHARED, 0),
    Write(SHARED, StateChange(0, 0, -1, 0, ())),
    Summarize(SHARED),
    Delete(SHARED),
)


def share_fetch(*topic_ids: bytes) -> ShareFetchRequest:
    """A member's first fetch."""
    partitions = [ShareFetchPartition(partition_index=0, acknowledgement_batches=[])]
    return ShareFetchRequest(
        group_id="g",
        member_id="m",
        share_session_epoch=0,
        max_wait_ms=0,
        min_bytes=1,
        max_records=1,
        batch_size=1,
        topics=[ShareFetchTopic(topic_id=topic_id, partitions=partitions) for topic_id in topic_ids],
        forgotten_topics_data=[],
    )


ROWS = [
    Row(produce_request(a_batch(b"a")), 9, [right(Op.WRITE, TOPIC)]),
    Row(fetch_request([("t", 0, 0)]), 12, [right(Op.READ, TOPIC)]),
    Row(
        ListOffsetsRequest(
            topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])]
        ),
        7,
        [right(Op.DESCRIBE, TOPIC)],
    ),
    Row(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9, [right(Op.DESCRIBE, TOPIC)]),
    Row(
        OffsetCommitRequest(
            group_id="g",
            topics=[
                OffsetCommitRequestTopic(
                    name="t", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
                )
            ],
        ),
        8,
        [right(Op.READ, GROUP), right(Op.READ, TOPIC)],
    ),
    Row(
        OffsetFetchRequest(group_id="g", topics=[TopicPartitionIndexes(name="t", partition_indexes=[0])]),
        7,
        [right(Op.DESCRIBE, GROUP), right(Op.DESCRIBE, TOPIC)],
    ),
    Row(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g")]), 8, [right(Op.DESCRIBE, GROUP)]),
    Row(FindCoordinatorRequest(key="g"), 3, [right(Op.DESCRIBE, GROUP)]),
    Row(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4, [right(Op.DESCRIBE, TXN)]),
    Row(FindCoordinatorRequest(key_type=2, coordinator_keys=[str(SHARED)]), 6, [right(Op.CLUSTER_ACTION, CLUSTER)]),
    Row(
        JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        ),
        5,
        [right(Op.READ, GROUP)],
    ),
    Row(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4, [right(Op.READ, GROUP)]),
    Row(LeaveGroupRequest(group_id="g", member_id="m"), 1, [right(Op.READ, GROUP)]),
    Row(SyncGroupRequest(group_id="g", generation_id=1, member_id="m"), 3, [right(Op.READ, GROUP)]),
    Row(DescribeGroupsRequest(groups=["g"]), 5, [right(Op.DESCRIBE, GROUP)]),
    Row(ListGroupsRequest(), 4, [right(Op.DESCRIBE, GROUP)], lists=True),
    Row(ApiVersionsRequest(), 0),
    Row(SaslHandshakeRequest(mechanism="PLAIN"), 1),
    Row(SaslAuthenticateRequest(auth_bytes=b""), 2),
    Row(
        CreateTopicsRequest(topics=[CreatableTopic(name="u", num_partitions=1, replication_factor=1)]),
        5,
        [(Op.CREATE, TOPIC, "u"), (Op.DESCRIBE_CONFIGS, TOPIC, "u")],
    ),
    Row(
        CreateTopicsRequest(topics=[CreatableTopic(name="v", num_partitions=1, replication_factor=1)]),
        4,
        [right(Op.CREATE, CLUSTER)],
    ),
    Row(
        DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])],
            timeout_ms=1000,
        ),
        2,
        [right(Op.DELETE, TOPIC)],
    ),
    Row(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 4, [(Op.WRITE, TOPIC, "elsewhere")]),
    Row(
        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 3, [right(Op.IDEMPOTENT_WRITE, CLUSTER)]
    ),
    Row(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000), 4, [right(Op.WRITE, TXN)]),
    Row(
        OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)])]
        ),
        4,
        [right(Op.DESCRIBE, TOPIC)],
    ),
    Row(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_topics=[NamedTopicPartitions(name="t", partitions=[0])],
        ),
        3,
        [right(Op.WRITE, TXN), right(Op.WRITE, TOPIC)],
    ),
    Row(AddPartitionsToTxnRequest(), 4, [right(Op.CLUSTER_ACTION, CLUSTER)]),
    Row(
        AddOffsetsToTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0, group_id="g"),
        3,
        [right(Op.WRITE, TXN), right(Op.READ, GROUP)],
    ),
    Row(
        EndTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0, committed=True), 3, [right(Op.WRITE, TXN)]
    ),
    Row(
        WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=1,
                    producer_epoch=0,
                    transaction_result=False,
                    topics=[TopicPartitionIndexes(name="t", partition_indexes=[0])],
                    coordinator_epoch=0,
                )
            ]
        ),
        1,
        [right(Op.ALTER, CLUSTER)],
    ),
    Row(
        TxnOffsetCommitRequest(
            transactional_id="x",
            group_id="g",
            producer_id=1,
            producer_epoch=0,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
                    ],
                )
            ],
        ),
        3,
        [right(Op.WRITE, TXN), right(Op.READ, GROUP), right(Op.READ, TOPIC)],
    ),
    Row(
        DescribeAclsRequest(
            resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, operation=1, permission_type=1
        ),
        2,
        [right(Op.DESCRIBE, CLUSTER)],
    ),
    Row(
        CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=2,
                    resource_name="n",
                    principal="User:n",
                    host="*",
                    operation=3,
                    permission_type=3,
                )
            ]
        ),
        2,
        [right(Op.ALTER, CLUSTER)],
    ),
    Row(
        DeleteAclsRequest(
            filters=[
                DeleteAclsFilter(
                    resource_type_filter=2,
                    resource_name_filter="n",
                    principal_filter=None,
                    host_filter=None,
                    operation=1,
                    permission_type=1,
                )
            ]
        ),
        2,
        [right(Op.ALTER, CLUSTER)],
    ),
    Row(
        DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=2, resource_name="t")]),
        4,
        [right(Op.DESCRIBE_CONFIGS, TOPIC)],
    ),
    Row(
        DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=4, resource_name="0")]),
        4,
        [right(Op.DESCRIBE_CONFIGS, CLUSTER)],
    ),
    Row(
        DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=32, resource_name="g")]),
        4,
        [right(Op.DESCRIBE_CONFIGS, GROUP)],
    ),
    Row(
        AlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=2, resource_name="t", configs=[AlterableConfig(name="retention.ms", value="1000")]
                )
            ]
        ),
        2,
        [right(Op.ALTER_CONFIGS, TOPIC)],
    ),
    Row(
        IncrementalAlterConfigsRequest(
            resources=[IncrementalAlterConfigsResource(resource_type=4, resource_name="0", configs=[])]
        ),
        1,
        [right(Op.ALTER_CONFIGS, CLUSTER)],
    ),
    Row(
        AlterReplicaLogDirsRequest(
            dirs=[AlterReplicaLogDir(path="/memory0", topics=[NamedTopicPartitions(name="t", partitions=[0])])]
        ),
        2,
        [right(Op.ALTER, CLUSTER)],
    ),
    Row(DescribeLogDirsRequest(), 4, [right(Op.DESCRIBE, CLUSTER)]),
    Row(
        CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=3)], timeout_ms=1000),
        3,
        [right(Op.ALTER, TOPIC)],
    ),
    Row(DeleteGroupsRequest(groups_names=["g"]), 2, [right(Op.DELETE, GROUP)]),
    Row(ElectLeadersRequest(topic_partitions=None), 2, [right(Op.ALTER, CLUSTER)]),
    Row(
        ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[0])]),
        0,
        [right(Op.ALTER, CLUSTER)],
    ),
    Row(AlterPartitionReassignmentsRequest(topics=[]), 0, [right(Op.ALTER, CLUSTER)]),
    Row(ListPartitionReassignmentsRequest(), 0, [right(Op.DESCRIBE, CLUSTER)]),
    Row(
        OffsetDeleteRequest(
            group_id="g",
            topics=[OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])],
        ),
        0,
        [right(Op.DELETE, GROUP)],
    ),
    Row(DescribeClientQuotasRequest(components=[], strict=False), 1, [right(Op.DESCRIBE_CONFIGS, CLUSTER)]),
    Row(
        AlterClientQuotasRequest(
            entries=[AlteredEntry(entity=[AlteredEntity(entity_type="user", entity_name="u")], ops=[])],
            validate_only=True,
        ),
        1,
        [right(Op.ALTER_CONFIGS, CLUSTER)],
    ),
    Row(DescribeUserScramCredentialsRequest(users=None), 0, [right(Op.DESCRIBE, CLUSTER)]),
    Row(
        AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="u", mechanism=1)], upsertions=[]),
        0,
        [right(Op.ALTER, CLUSTER)],
    ),
    Row(CreateDelegationTokenRequest(renewers=[]), 3),
    Row(
        CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="b", renewers=[]),
        3,
        [(Op.CREATE_TOKENS, Kind.USER, "User:b")],
    ),
    Row(RenewDelegationTokenRequest(hmac=b"none"), 2),
    Row(ExpireDelegationTokenRequest(hmac=b"none"), 2),
    Row(DescribeDelegationTokenRequest(), 3, [(Op.DESCRIBE_TOKENS, Kind.USER, "User:b")], lists=True),
    Row(UpdateFeaturesRequest(feature_updates=[]), 1, [right(Op.ALTER, CLUSTER)]),
    Row(DescribeClusterRequest(), 0),
    Row(
        DescribeProducersRequest(topics=[TopicPartitionIndexes(name="t", partition_indexes=[0])]),
        0,
        [right(Op.READ, TOPIC)],
    ),
    Row(DescribeTransactionsRequest(transactional_ids=["x"]), 0, [right(Op.DESCRIBE, TXN)]),
    Row(ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 0, [right(Op.DESCRIBE, TXN)], lists=True),
    Row(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=5), 0, [right(Op.READ, GROUP)]),
    Row(ConsumerGroupDescribeRequest(group_ids=["g"]), 0, [right(Op.DESCRIBE, GROUP)]),
    Row(ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=5), 1, [right(Op.READ, GROUP)]),
    Row(ShareGroupDescribeRequest(group_ids=["g"]), 1, [right(Op.DESCRIBE, GROUP)]),
    Row(
        StreamsGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            member_epoch=0,
            topology=TopologyInfo(
                epoch=0,
                subtopologies=[
                    SubtopologyInfo(
                        subtopology_id="0",
                        source_topics=["t"],
                        source_topic_regex=[],
                        state_changelog_topics=[],
                        repartition_sink_topics=[],
                        repartition_source_topics=[],
                        copartition_groups=[],
                    )
                ],
            ),
        ),
        0,
        [right(Op.READ, GROUP), right(Op.DESCRIBE, TOPIC)],
    ),
    Row(StreamsGroupDescribeRequest(group_ids=["g"]), 0, [right(Op.DESCRIBE, GROUP)]),
    Row(
        DescribeShareGroupOffsetsRequest(
            groups=[
                DescribeShareGroupOffsetsRequestGroup(
                    group_id="g", topics=[DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0])]
                )
            ]
        ),
        1,
        [right(Op.DESCRIBE, GROUP), right(Op.DESCRIBE, TOPIC)],
    ),
    Row(
        AlterShareGroupOffsetsRequest(
            group_id="g",
            topics=[
                AlterShareGroupOffsetsRequestTopic(
                    topic_name="t",
                    partitions=[AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)],
                )
            ],
        ),
        0,
        [right(Op.READ, GROUP), right(Op.READ, TOPIC)],
    ),
    Row(
        DeleteShareGroupOffsetsRequest(group_id="g", topics=[DeleteShareGroupOffsetsRequestTopic(topic_name="t")]),
        0,
        [right(Op.DELETE, GROUP), right(Op.READ, TOPIC)],
    ),
    Row(share_fetch(), 2, [right(Op.READ, GROUP)]),
    Row(
        ShareAcknowledgeRequest(group_id="g", member_id="m", share_session_epoch=5, topics=[]),
        2,
        [right(Op.READ, GROUP)],
    ),
    *(Row(request_of([call]), 0, [right(Op.CLUSTER_ACTION, CLUSTER)]) for call in SHARE_STATE_CALLS),
    Row(ListConfigResourcesRequest(), 1, [right(Op.DESCRIBE_CONFIGS, CLUSTER)]),
    Row(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")]), 0, [right(Op.DESCRIBE, TOPIC)]),
    # Last, since others need the topic.
    Row(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000), 6, [right(Op.DELETE, TOPIC)]),
]

CODES = {"error_code", "partition_error_code", "topic_config_error_code"}


def codes(value: Any) -> Iterator[int]:
    """All error codes in a response."""
    if isinstance(value, list):
        for each in value:
            yield from codes(each)
    elif hasattr(type(value), "__slots__"):
        for name in dir(type(value)):
            if name.startswith("_"):
                continue
            found = getattr(value, name, None)
            if name in CODES and found:
                yield found
            elif isinstance(found, list):
                yield from codes(found)


class AuthorizedCase(HandlerCase):
    """A cluster whose administrator is the client of the set-up."""

    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "delegation.token.secret.key": "secret",
    }

    def setUp(self) -> None:
        super().setUp()
        found = self.server.broker.kafka_server.authorization
        assert found is not None
        authorizer: Any = found.authorizer
        assert isinstance(authorizer, StandardAuthorizer)
        self.authorizer: StandardAuthorizer = authorizer

    def grant(self, rights: Sequence[Right]) -> None:
        """Give User:a these rights, and no others."""
        bindings = [each.pattern for some in self.authorizer.select(AclBindingFilter()) for each in some]
        self.authorizer.set_acls([(pattern, ()) for pattern in bindings])
        entries: dict[ResourcePattern, tuple[AccessControlEntry, ...]] = {}
        for operation, kind, name in rights:
            pattern = ResourcePattern(kind, name)
            entry = AccessControlEntry("User:a", "*", operation, AclPermission.ALLOW)
            entries[pattern] = (*entries.get(pattern, ()), entry)
        self.authorizer.set_acls(entries.items())

    def connect(self, principal: str) -> Client:
        client = self.server.connect()
        client.protocol.context.principal = principal
        return client


class MatrixTests(AuthorizedCase):
    """Each API."""

    def asked(self, row: Row) -> set[int]:
        """The error codes that User:a gets."""
        client = self.connect("User:a")
        try:
            return set(codes(client.ask(row.message, row.version)))
        except AssertionError as e:
            raise AssertionError(f"{row}: {e}") from e

    def test_rights(self) -> None:
        """Without rights, and without any one of them, it is refused; with all of them it is not."""
        wrong = []
        for row in ROWS:
            name = type(row.message).__name__
            for missing in range(len(row.rights)):
                self.grant([each for at, each in enumerate(row.rights) if at != missing])
                if not (row.lists or self.asked(row) & FORBIDDEN):
                    wrong.append(f"{name} is served without {row.rights[missing]}")
            self.grant(row.rights)
            if refused := self.asked(row) & FORBIDDEN:
                wrong.append(f"{name} is refused with {row.rights}: {refused}")
        self.assertEqual(wrong, [])

    def test_each_version_can_say_no(self) -> None:
        """Who has no rights gets an answer at each version that can say the request."""
        self.grant([])
        client = self.connect("User:a")
        for row in ROWS:
            first, last = self.server.broker.kafka_server.router.served[api_key_of(row.message)]
            for version in range(first, last + 1):
                try:
                    client.send(row.message, version)
                except EncodeError:
                    continue
                for _ in range(20):
                    client.turn()
                self.assertEqual((len(client.answers()), client.closed), (1, False), f"{row.message}, v{version}")

    def test_responses_are_those_of_their_apis(self) -> None:
        """Refused or not: a request that another broker forwarded is answered in the encoding of the response's API."""
        wrong: list[str] = []
        respond = ServerConnection.respond

        def checked(wire: ServerConnection, request: Request, response: Any, encoded: Any = None) -> Any:
            if not isinstance(response, bytes) and api_key_of(response) != request.api_key:
                wrong.append(f"{api_name(request.api_key)}: {type(response).__name__}")
            return respond(wire, request, response, encoded)

        self.patch(ServerConnection, "respond", checked)
        for row in ROWS:
            for rights in ([], row.rights):
                self.grant(rights)
                self.asked(row)
        self.assertEqual(wrong, [])

    def test_all_apis_are_here(self) -> None:
        """But for those between brokers, whose handlers ask for a proof."""
        served = self.server.broker.kafka_server.router.apis.keys()
        here = {api_key_of(row.message) for row in ROWS}
        missing = sorted(key for key in served - here if key < 1000)
        self.assertEqual([api_name(key) for key in missing], [])

    def test_topics_of_share_groups(self) -> None:
        """A member gets an error for each topic that it may not read."""
        self.server.create("u")
        self.grant([right(Op.READ, GROUP), right(Op.READ, TOPIC)])
        response = self.connect("User:a").ask(share_fetch(self.server.topic_id("t"), self.server.topic_id("u")), 2)
        found = {bytes(topic.topic_id): topic.partitions[0].error_code for topic in response.responses}
        self.assertEqual(found[self.server.topic_id("u")], ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        self.assertNotIn(found.get(self.server.topic_id("t"), 0), FORBIDDEN)

    def test_tokens_of_others(self) -> None:
        """Who may see a token: those it concerns, and who has a right to it or to its owner's tokens."""
        for name in ("a", "b"):
            message = CreateDelegationTokenRequest(renewers=[])
            self.assertEqual(self.connect(f"User:{name}").ask(message, 3).error_code, 0)

        def seen() -> list[str]:
            answer = self.connect("User:a").ask(DescribeDelegationTokenRequest(), 3)
            return sorted(token.principal_name for token in answer.tokens)

        self.assertEqual(seen(), ["a"])
        (token,) = self.connect("User:b").ask(DescribeDelegationTokenRequest(), 3).tokens
        for right in (
            (Op.DESCRIBE, Kind.DELEGATION_TOKEN, token.token_id),
            (Op.DESCRIBE_TOKENS, Kind.USER, "User:b"),
        ):
            self.grant([right])
            self.assertEqual(seen(), ["a", "b"])
