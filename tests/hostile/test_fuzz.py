"""Mutated frames of every API: whatever is sent, the broker answers with an error or closes the connection."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.transactions.transition import IDLE
from logbus.model import INTERNAL_TOPICS
from logbus.records.checksum import crc32c
from logbus.records.compression import Codec
from logbus.records.file_slice import joined
from logbus.wire.connection import ClientConnection
from logbus.wire.messages import api
from logbus.wire.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from logbus.wire.messages.api_versions import ApiVersionsRequest, FeatureUpdateKey, UpdateFeaturesRequest
from logbus.wire.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlteredEntity,
    AlteredEntry,
    ComponentData,
    DescribeClientQuotasRequest,
    OpData,
)
from logbus.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    ListConfigResourcesRequest,
)
from logbus.wire.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
    TokenPrincipal,
)
from logbus.wire.messages.elections import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from logbus.wire.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    DescribeLogDirsRequest,
)
from logbus.wire.messages.metadata import (
    Cursor,
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    TopicRequest,
)
from logbus.wire.messages.partitions import NamedTopicPartitions, TopicPartitions
from logbus.wire.messages.records import (
    ForgottenTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from logbus.wire.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from logbus.wire.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from logbus.wire.messages.transactions import InitProducerIdRequest
from logbus.wire.messages.user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from logbus.wire.schema import message_spec
from tests.handlers.kit import Client, MemoryBroker, a_batch, content, fetch_request, produce_request
from tests.hostile.group_requests import GROUPS, INSTANCES, MEMBERS, SUBSCRIPTION, group_requests, with_groups
from tests.hostile.inter_broker_requests import broker_requests, share_state_requests
from tests.hostile.transaction_requests import IDS, a_transactional_batch, transaction_requests, with_transactions
from tests.wire.instances import messages

#: Examples, and frames of each: 600 in all, which share 16 brokers; in the ``long`` profile 100,000.
EXAMPLES, FRAMES = (16, 38) if settings.default.max_examples <= 100 else (settings.default.max_examples, 50)
#: The APIs of groups.
OF_GROUPS = frozenset({8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47, 68, 69, 76, 77, 90, 91, 92})
#: The APIs of transactions.
OF_TRANSACTIONS = frozenset({0, 10, 22, 24, 25, 26, 27, 28, 61, 65, 66})
#: Longer than any session or rebalance.
QUIET_SECONDS = 2000


def valid_requests(server: MemoryBroker) -> list[Any]:
    """Requests that the broker serves, at least one of each API."""
    fetched = fetch_request([("t", 0, 0), ("t", 1, 2), ("compacted", 0, 0)], server, max_wait_ms=50)
    session = fetch_request([("t", 0, 0)], server, session_id=0, session_epoch=0)
    session.forgotten_topics_data = [ForgottenTopic(topic="t", topic_id=server.topic_id(), partitions=[1])]
    return [
        *(produce_request(a_batch(b"v" * 40, b"w", codec=codec), acks=acks) for codec in Codec for acks in (1, -1)),
        produce_request(a_batch(b"v", producer_id=1, producer_epoch=0, base_sequence=0), "compacted"),
        produce_request(a_batch(b"v"), "gzipped", 0, 0),
        fetched,
        session,
        ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name="t",
                    partitions=[ListOffsetsPartition(partition_index=n, timestamp=-n) for n in range(4)],
                )
            ],
        ),
        MetadataRequest(topics=None),
        MetadataRequest(topics=[MetadataRequestTopic(name="t"), MetadataRequestTopic(name="new")]),
        ApiVersionsRequest(client_software_name="fuzz", client_software_version="1.0"),
        SaslHandshakeRequest(mechanism="PLAIN"),
        SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"),
        CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name="made",
                    num_partitions=2,
                    replication_factor=1,
                    assignments=[],
                    configs=[CreatableTopicConfig(name="retention.ms", value="1000")],
                )
            ]
        ),
        DeleteTopicsRequest(topics=[DeleteTopicState(name="made")], topic_names=["made"], timeout_ms=100),
        DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])],
            timeout_ms=100,
        ),
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="made", count=4, assignments=None)], timeout_ms=100, validate_only=False
        ),
        DescribeLogDirsRequest(topics=[TopicPartitions(topic="t", partitions=[0, 1])]),
        AlterReplicaLogDirsRequest(
            dirs=[AlterReplicaLogDir(path="/memory0", topics=[NamedTopicPartitions(name="t", partitions=[0])])]
        ),
        ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[0, 1])], timeout_ms=100),
        AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=0, replicas=[0])])],
            timeout_ms=100,
        ),
        ListPartitionReassignmentsRequest(topics=None, timeout_ms=100),
        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000),
        OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)])]
        ),
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
                for kind, name in ((2, "t"), (4, "0"), (4, ""))
            ]
        ),
        AlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=2, resource_name="t", configs=[AlterableConfig(name="retention.ms", value="5")]
                )
            ]
        ),
        IncrementalAlterConfigsRequest(
            resources=[
                IncrementalAlterConfigsResource(
                    resource_type=2,
                    resource_name="t",
                    configs=[IncrementalAlterableConfig(name="cleanup.policy", config_operation=2, value="compact")],
                )
            ]
        ),
        DescribeClusterRequest(),
        DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t"), TopicRequest(name="new")]),
        DescribeTopicPartitionsRequest(
            topics=[], response_partition_limit=2, cursor=Cursor(topic_name="t", partition_index=1)
        ),
        ListConfigResourcesRequest(),
        ListConfigResourcesRequest(resource_types=[2, 4]),
        DescribeAclsRequest(**ANY_ACL),
        CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3
                )
            ]
        ),
        DeleteAclsRequest(filters=[DeleteAclsFilter(**ANY_ACL)]),
        DescribeUserScramCredentialsRequest(users=[UserName(name="ann"), UserName(name="bob")]),
        AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name="bob", mechanism=2)],
            upsertions=[
                ScramCredentialUpsertion(
                    name="ann", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"p" * 32
                )
            ],
        ),
        DescribeClientQuotasRequest(
            components=[ComponentData(entity_type="user", match_type=0, match="ann")], strict=False
        ),
        AlterClientQuotasRequest(
            entries=[
                AlteredEntry(
                    entity=[AlteredEntity(entity_type="user", entity_name="ann")],
                    ops=[OpData(key="producer_byte_rate", value=1024.0, remove=False)],
                )
            ],
            validate_only=False,
        ),
        CreateDelegationTokenRequest(
            renewers=[TokenPrincipal(principal_type="User", principal_name="bob")], max_lifetime_ms=60_000
        ),
        RenewDelegationTokenRequest(hmac=b"h" * 64, renew_period_ms=1000),
        ExpireDelegationTokenRequest(hmac=b"h" * 64, expiry_time_period_ms=-1),
        DescribeDelegationTokenRequest(owners=None),
        DescribeDelegationTokenRequest(owners=[TokenPrincipal(principal_type="User", principal_name="ann")]),
        UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature="group.version", max_version_level=1)]),
    ]


SETTINGS = {
    "log.flush.before.ack": "true",
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.state.log.num.partitions": "2",
    # All requests pass the guards, as those of a super user.
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}

ANY_ACL: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 3,
    "principal_filter": "User:a",
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


def a_broker() -> MemoryBroker:
    server = MemoryBroker(SETTINGS).start()
    server.create("t", 3)
    server.create("compacted", cleanup_policy="compact")
    server.create("gzipped", compression_type="gzip")
    return server


def a_broker_in_use() -> MemoryBroker:
    """With members in groups, and producers in transactions."""
    server = a_broker()
    with_groups(server)
    with_transactions(server)
    return server


@cache
def corpus() -> dict[int, tuple[bytes, ...]]:
    """Valid frames with their lengths, by API: each request at each version that can say it."""
    server = a_broker()
    frames: dict[int, list[bytes]] = {}
    of_groups = group_requests(server, with_groups(server))
    of_transactions = transaction_requests(with_transactions(server))
    for message in [*valid_requests(server), *broker_requests(), *share_state_requests(), *of_groups, *of_transactions]:
        key = message_spec(type(message)).api_key
        assert key is not None
        first, last = server.broker.kafka_server.router.served[key]
        for version in range(first, last + 1):
            try:
                frames.setdefault(key, []).append(joined(ClientConnection("fuzz").request(message, version)[1]))
            except Exception:  # a version that cannot say this
                continue
    server.close()
    assert {key for key in frames if frames[key]} == server.broker.kafka_server.router.served.keys(), (
        "an API has no example here"
    )
    return {key: tuple(one) for key, one in frames.items()}


INTERESTING = [
    *(bytes([byte]) for byte in (0, 1, 0x7F, 0x80, 0xFF)),
    *(struct.pack(">h", number) for number in (0, -1, 2**15 - 1, -(2**15))),
    *(struct.pack(">i", number) for number in (0, -1, -2, 65536, 2**31 - 1, -(2**31))),
    *(struct.pack(">q", number) for number in (-1, 2**63 - 1, -(2**63))),
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 9 + b"\x01",
    b"../",
    b"\x1b[31m\n",
]


def bend(frame: bytes, how: tuple[int, float, Any]) -> bytes:
    """One change of a frame's inside."""
    kind, where, what = how
    at = int(where * len(frame))
    if kind == 0:  # overwrite
        return frame[:at] + what + frame[at + len(what) :]
    if kind == 1:  # insert
        return frame[:at] + what + frame[at:]
    if kind == 2:  # remove
        return frame[:at] + frame[at + len(what) :]
    if kind == 3:  # cut
        return frame[:at]
    return frame[:at] + frame[at // 2 :]  # repeat


def mend(frame: bytes) -> bytes:
    """Make the checksum of a bent batch right again, so that the bending gets further than the checksum."""
    magic = frame.rfind(b"\x02", 16)
    data = bytearray(frame)
    for base in {magic - 16, *(at - 16 for at in range(16, min(len(frame) - 45, 200)) if frame[at] == 2)}:
        if base >= 0:
            (length,) = struct.unpack_from(">i", data, base + 8)
            if 49 <= length <= len(data) - base - 12:
                struct.pack_into(">I", data, base + 17, crc32c(memoryview(data)[base + 21 : base + 12 + length]))
    return bytes(data)


changes = st.tuples(
    st.sampled_from([0, 0, 0, 1, 2, 3, 4]),
    st.floats(0, 1, exclude_max=True),
    st.one_of(st.sampled_from(INTERESTING), st.binary(max_size=6)),
)
Bent = tuple[int, int, list[tuple[int, float, Any]], bool]
bent = st.tuples(st.integers(0, 1000), st.integers(0, 1000), st.lists(changes, max_size=3), st.booleans())


class FuzzTests(SynchronousTestCase):
    """No bytes of a peer make the broker fail."""

    def run_against(self, server: MemoryBroker, send: Callable[[Client], None], count: int) -> None:
        client = server.connect()
        for _ in range(count):
            if client.closed:
                client = server.connect()
            send(client)
            client.turn()
            if client.protocol.dispatcher.order.waiting:
                # It waits: for the metadata store, the disk, or time.
                client.turn(0.1)
                if client.protocol.dispatcher.order.waiting:
                    client.transport.loseConnection()
            client.frames()
        self.check(server, client)

    def check(self, server: MemoryBroker, client: Client) -> None:
        """No failure, nothing left behind, and others are served; what was written of groups can be read."""
        self.check_failures(server)
        metrics = server.broker.kafka_server.net_metrics
        client.transport.loseConnection()
        server.reactor.advance(0)
        self.assertEqual(len(server.broker.replication.purgatory), 0)
        self.assertEqual(
            (metrics.requests_pending, metrics.connections_open, server.broker.kafka_server.connections.budget.used),
            (0, 0, 0),
        )
        # The topic may have been deleted or reconfigured, which is fair; a new one works.
        other = server.connect()
        server.create("afterwards")
        self.assertEqual(other.produce(a_batch(b"still"), "afterwards").error_code, 0)
        self.assertIn(b"still", content(other.fetch(0, "afterwards")))
        for _ in range(QUIET_SECONDS // 50):
            server.reactor.advance(50)
        self.check_transactions(server)
        self.check_groups(server)

    def check_failures(self, server: MemoryBroker) -> None:
        self.assertEqual(self.flushLoggedErrors(), [])
        self.assertEqual(server.broker.kafka_server.net_metrics.failures, 0)
        self.assertEqual(server.lost, [])

    def check_transactions(self, server: MemoryBroker) -> None:
        """All transactions have ended in time, and do not block read_committed consumers."""
        under_way = [each for each in server.broker.coordinators.transactions.transactions() if each.state not in IDLE]
        self.assertEqual(under_way, [])
        for replica in server.broker.replication.replicas:
            self.assertEqual(replica.last_stable_offset, replica.high_watermark, replica)

    def check_groups(self, server: MemoryBroker) -> None:
        """All members have vanished in time, and the next broker knows what this one knew."""
        coordinator = server.broker.coordinators.groups
        self.assertEqual([group.group_id for group in coordinator.groups() if not group.is_empty], [])
        self.assertEqual(len(coordinator.manager._timers), 0)
        held = {group.group_id: coordinator.committed(group.group_id) for group in coordinator.groups()}
        server.stop()
        self.check_failures(server)
        again = MemoryBroker(SETTINGS, disks=server.disks, ensemble=server.ensemble).start()
        again.reactor.advance(0)
        coordinator = again.broker.coordinators.groups
        self.assertEqual((coordinator.loading, coordinator.metrics.damaged), (False, 0))
        back = {group.group_id: coordinator.committed(group.group_id) for group in coordinator.groups()}
        self.assertEqual(back, held)
        self.check_failures(again)
        again.close()

    def run_bent(self, valid: Sequence[Sequence[bytes]], frames: Sequence[Bent]) -> None:
        stream = iter(frames)

        def send(client: Client) -> None:
            which, index, hows, mended = next(stream)
            examples = valid[which % len(valid)]
            frame = examples[index % len(examples)][4:]
            for how in hows:
                frame = bend(frame, how)
            if mended:
                frame = mend(frame)
            client.feed(struct.pack(">i", len(frame)) + frame)

        self.run_against(a_broker_in_use(), send, len(frames))

    @settings(max_examples=EXAMPLES)
    @given(st.lists(bent, min_size=FRAMES, max_size=FRAMES))
    def test_bent_frames(self, frames: list[Bent]) -> None:
        """Valid requests of every API and version with bytes changed, inserted, removed, cut off and repeated."""
        self.run_bent(list(corpus().values()), frames)

    @settings(max_examples=EXAMPLES)
    @given(st.lists(bent, min_size=FRAMES, max_size=FRAMES))
    def test_bent_frames_of_groups(self, frames: list[Bent]) -> None:
        """The same, of groups only: so that one request finds what others have left."""
        self.run_bent([one for key, one in corpus().items() if key in OF_GROUPS], frames)

    @settings(max_examples=EXAMPLES)
    @given(st.lists(bent, min_size=FRAMES, max_size=FRAMES))
    def test_bent_frames_of_transactions(self, frames: list[Bent]) -> None:
        """The same, of transactions only."""
        self.run_bent([one for key, one in corpus().items() if key in OF_TRANSACTIONS], frames)

    @settings(max_examples=max(20, settings.default.max_examples // 10))
    @given(st.data())
    def test_strange_requests(self, data: st.DataObject) -> None:
        """Well-formed requests with arbitrary content."""
        server = a_broker_in_use()
        served = sorted(server.broker.kafka_server.router.served.items())
        # Before the first request: each may delete the topic whose id is among them.
        content = choices(server)

        def send(client: Client) -> None:
            key, (first, last) = data.draw(st.sampled_from(served))
            version = data.draw(st.integers(first, last))
            message = data.draw(messages(message_spec(api(key).request), version, content))
            client.send(message, version)

        self.run_against(server, send, 10)


def choices(server: MemoryBroker) -> Callable[[tuple[str, ...]], st.SearchStrategy[Any] | None]:
    """Names and numbers that mean something here, most of the time."""
    names = st.sampled_from(
        ["t", "compacted", "gzipped", "new.1", "", "..", "a/b", "x" * 250, "\u2603", *sorted(INTERNAL_TOPICS)]
    )
    numbers = st.sampled_from([0, 1, 2, 3, -1, -2, 2**31 - 1, -(2**31)])
    offsets = st.sampled_from([0, 1, 5, -1, -2, -3, -6, 2**63 - 1, -(2**63)])
    of_producers = [a_transactional_batch(number, sequence) for number in range(3) for sequence in (0, 1)]
    records = st.sampled_from(
        [None, b"", bytes(61), a_batch(b"v"), a_batch(b"v", key=None), 2 * a_batch(b"v"), *of_producers]
    )
    ids = st.sampled_from([bytes(16), server.topic_id(), b"\x01" * 16])
    waits = st.sampled_from([0, 10, 50, -1])
    producers = st.sampled_from([0, 1, 2, 3, -1, 2**63 - 1])
    epochs = st.sampled_from([0, 0, 0, 1, 2, -1, 32767])
    by_name: dict[str, st.SearchStrategy[Any]] = {
        "name": names,
        "topic": names,
        "resource_name": st.one_of(names, st.sampled_from(["0", "1", "x"])),
        "topic_id": ids,
        "partition": numbers,
        "partition_index": numbers,
        "index": numbers,
        "num_partitions": numbers,
        "count": numbers,
        "replication_factor": st.sampled_from([-1, 1, 0, 3, -5]),
        "fetch_offset": offsets,
        "offset": offsets,
        "timestamp": offsets,
        "current_leader_epoch": numbers,
        "last_fetched_epoch": numbers,
        "leader_epoch": numbers,
        "replica_id": st.sampled_from([-1, -1, -1, 0, 5, -2]),
        "records": records,
        "acks": st.sampled_from([-1, 0, 1, 2]),
        "max_wait_ms": waits,
        "timeout_ms": waits,
        "session_id": st.sampled_from([0, 0, 1, -1]),
        "session_epoch": st.sampled_from([-1, 0, 1, 7]),
        "resource_type": st.sampled_from([2, 4, 0, 8, 3]),
        "config_operation": st.sampled_from([0, 1, 2, 3, 4, -1]),
        "replica_state": st.none(),
        "group_id": st.sampled_from(GROUPS),
        "member_id": st.sampled_from(MEMBERS),
        "group_instance_id": st.sampled_from(INSTANCES),
        "instance_id": st.sampled_from(INSTANCES),
        "generation_id": st.sampled_from([1, 2, 0, -1]),
        "generation_id_or_member_epoch": st.sampled_from([1, 2, 3, -1]),
        "member_epoch": st.sampled_from([0, 0, 1, 2, 3, -1, -2]),
        "session_timeout_ms": st.sampled_from([10_000, 10_000, 0, 2**31 - 1]),
        "rebalance_timeout_ms": st.sampled_from([5_000, 0, -1, 2**31 - 1]),
        "protocol_type": st.sampled_from(["consumer", "consumer", "connect"]),
        "metadata": st.sampled_from([SUBSCRIPTION, b"", b"\xff" * 9]),
        "transactional_id": st.sampled_from([*IDS, ""]),
        "v3_and_below_transactional_id": st.sampled_from(IDS),
        "producer_id": producers,
        "v3_and_below_producer_id": producers,
        "producer_epoch": epochs,
        "v3_and_below_producer_epoch": epochs,
        "transaction_timeout_ms": st.sampled_from([1000, 60_000, 0, -1, 2**31 - 1]),
        "transaction_version": st.sampled_from([0, 1, 2, -1]),
        "coordinator_epoch": st.sampled_from([0, 1, -1, 2**31 - 1]),
        "key_type": st.sampled_from([0, 1, 2, -1]),
        "transactional_id_pattern": st.sampled_from([None, "f.*", "", "("]),
        "state_filters": st.lists(st.sampled_from(["Ongoing", "Empty", "Lost"]), max_size=2),
        "subscribed_topic_regex": st.sampled_from([None, "t.*", "", "("]),
    }
    return lambda path: by_name.get(path[-1])
