"""
Messages between brokers: Introduce (1000), MetadataUpdate (1001), AlterPartitions (1002), ShutDown (1003), ReportFailed
(1004), Forward (1005), AskPlugin (1006), ReportReplicas (1007), ReportLogEnds (1008), ProveIdentity (1009).

The API keys are our own, far above Kafka's, and never advertised to clients. Introduce comes first on every connection
between brokers, and identifies the sender of the requests that follow. ProveIdentity comes second, and proves what
Introduce said.
"""

from __future__ import annotations

from logbus.wire.messages.partitions import TopicPartitions
from logbus.wire.schema import Bool, Bytes, Int16, Int32, Int64, String, Uuid, field, message, struct


@message(1000, versions="1", flexible="0+")
class IntroduceRequest:
    """
    The first request on a connection between brokers: identifies the sender, and names the intended receiver.

    :ivar receiver_id: the broker that the sender wants to reach.
    :ivar nonce: drawn for this connection.
    """

    cluster_id: String
    broker_id: Int32
    broker_epoch: Int64
    receiver_id: Int32
    feature_level: Int16
    nonce: Bytes


@message(1000, versions="1", flexible="0+")
class IntroduceResponse:
    """
    The response to :class:`IntroduceRequest`; with an error the connection stays a client's.

    :ivar nonce: drawn for this connection.
    :ivar proof: of the receiver (:mod:`logbus.security.broker_challenge`).
    """

    error_code: Int16 = 0
    error_message: String | None = None
    feature_level: Int16 = 0
    nonce: Bytes = b""
    proof: Bytes = b""


@message(1009, versions="0", flexible="0+")
class ProveIdentityRequest:
    """
    The second request on a connection between brokers: proves the sender's identity.

    :ivar proof: of the sender (:mod:`logbus.security.broker_challenge`).
    """

    proof: Bytes


@message(1009, versions="0", flexible="0+")
class ProveIdentityResponse:
    """The response to :class:`ProveIdentityRequest`; with an error the connection stays a client's."""

    error_code: Int16 = 0
    error_message: String | None = None


@message(1001, versions="0", flexible="0+")
class MetadataUpdateRequest:
    """
    Decisions of the controller for one broker (Kafka: LeaderAndIsr, UpdateMetadata, StopReplica).

    :ivar broker_epoch: of the receiving broker.
    :ivar body: a :class:`MetadataUpdateBody`, decoded once the sender is known to be the controller that it names.
    :ivar number: grows from request to request of a controller; 0: it is of a release that does not count them.
    """

    controller_id: Int32
    controller_epoch: Int32
    broker_epoch: Int64
    body: Bytes
    number: Int64 = field("0+", default=0, tag=0, ignorable=True)


@struct
class FailedPartition:
    """A partition whose replica could not be started."""

    topic: String
    partition: Int32
    error_code: Int16
    error_message: String | None = None


@message(1001, versions="0", flexible="0+")
class MetadataUpdateResponse:
    """The response to :class:`MetadataUpdateRequest`, once the broker serves it."""

    error_code: Int16 = 0
    error_message: String | None = None
    failed: list[FailedPartition] = field(factory=list)


@struct
class MetadataUpdateEndpoint:
    """A broker's address on one listener."""

    listener: String
    host: String
    port: Int32
    protocol: String


@struct
class MetadataUpdateBroker:
    """A live broker."""

    broker_id: Int32
    epoch: Int64
    incarnation: Uuid
    feature_level: Int16
    rack: String | None = None
    endpoints: list[MetadataUpdateEndpoint]
    in_controlled_shutdown: Bool = field("0+", default=False, tag=0, ignorable=True)


@struct
class Setting:
    """A key and its value."""

    name: String
    value: String


@struct
class EntityConfig:
    """The overrides of a topic, a broker or a consumer group."""

    entity: String
    settings: list[Setting]


@struct
class MetadataUpdatePartitionState:
    """A partition's replicas, leader and in-sync replicas."""

    partition: Int32
    leader: Int32
    leader_epoch: Int32
    controller_epoch: Int32
    version: Int32
    is_new: Bool
    replicas: list[Int32]
    isr: list[Int32]
    eligible: list[Int32]
    unclean_epoch: Int32


@struct
class MetadataUpdateTopicState:
    """Partitions of one topic."""

    name: String
    topic_id: Uuid
    overrides: list[Setting]
    partitions: list[MetadataUpdatePartitionState]


@struct
class DeletedTopicState:
    """A deleted topic, with its former number of partitions."""

    name: String
    topic_id: Uuid
    partitions: Int32


@struct
class SecurityNode:
    """A node of users, quotas, ACLs or delegation tokens; without data: it is gone."""

    path: String
    data: Bytes | None = None


@message(None, versions="0", flexible="0+")
class MetadataUpdateBody:
    """The content of a metadata update, the same for all receivers."""

    full: Bool
    brokers: list[MetadataUpdateBroker] | None = None
    deleted: list[DeletedTopicState]
    topics: list[MetadataUpdateTopicState]
    configs: list[EntityConfig]
    broker_configs: list[EntityConfig]
    unreadable: list[String]
    group_configs: list[EntityConfig] = field("0+", factory=list, tag=0)
    security_nodes: list[SecurityNode] | None = field("0+", default=None, tag=1)


@struct
class AlterPartitionData:
    """
    The in-sync replicas that the leader of a partition asks for.

    :ivar broker_epochs: with which each of them has fetched, in the same order; −1: unknown.
    """

    topic: String
    partition: Int32
    leader_epoch: Int32
    version: Int32
    isr: list[Int32]
    broker_epochs: list[Int64]


@message(1002, versions="0", flexible="0+")
class AlterPartitionsRequest:
    """Ask the controller, as a leader, to change in-sync replicas (Kafka: AlterPartition, KIP-497)."""

    broker_epoch: Int64
    changes: list[AlterPartitionData]


@struct
class AlteredPartition:
    """The partition state in the metadata store now, or the error."""

    topic: String
    partition: Int32
    error_code: Int16 = 0
    error_message: String | None = None
    leader: Int32 = -1
    leader_epoch: Int32 = -1
    controller_epoch: Int32 = -1
    version: Int32 = -1
    isr: list[Int32] = field(factory=list)
    eligible: list[Int32] = field(factory=list)
    unclean_epoch: Int32 = -1


@message(1002, versions="0", flexible="0+")
class AlterPartitionsResponse:
    """The response to :class:`AlterPartitionsRequest`."""

    error_code: Int16 = 0
    error_message: String | None = None
    partitions: list[AlteredPartition] = field(factory=list)


@message(1003, versions="0", flexible="0+")
class ShutDownRequest:
    """Ask the controller to move leadership away from a broker that is about to stop (Kafka: ControlledShutdown)."""

    broker_epoch: Int64


@message(1003, versions="0", flexible="0+")
class ShutDownResponse:
    """The response to :class:`ShutDownRequest`, with the partitions that the broker still leads."""

    error_code: Int16 = 0
    error_message: String | None = None
    remaining: list[TopicPartitions] = field(factory=list)


@message(1004, versions="0", flexible="0+")
class ReportFailedRequest:
    """Report replicas that went offline with their log directory."""

    broker_epoch: Int64
    failed: list[TopicPartitions]


@message(1004, versions="0", flexible="0+")
class ReportFailedResponse:
    """The response to :class:`ReportFailedRequest`."""

    error_code: Int16 = 0
    error_message: String | None = None


@message(1005, versions="0", flexible="0+")
class ForwardRequest:
    """
    A client's request that only the controller can serve, forwarded by the broker that received it (Kafka: Envelope).

    :ivar body: the request's, without its header, at ``api_version``.
    :ivar by_delegation_token: whether the client has logged in by a delegation token.
    """

    api_key: Int16
    api_version: Int16
    principal: String
    client_id: String | None = None
    host: String
    body: Bytes
    by_delegation_token: Bool = field("0+", default=False, tag=0)


@message(1005, versions="0", flexible="0+")
class ForwardResponse:
    """The response to :class:`ForwardRequest`: the response body for the client, or the error."""

    error_code: Int16 = 0
    error_message: String | None = None
    body: Bytes = b""


@message(1006, versions="0", flexible="0+")
class AskPluginRequest:
    """
    A request of a plugin on one broker to the same plugin on another.

    :ivar plugin: the plugin's name.
    :ivar body: in the plugin's own format.
    """

    plugin: String
    body: Bytes


@message(1006, versions="0", flexible="0+")
class AskPluginResponse:
    """The response to :class:`AskPluginRequest`: the plugin's, or the error."""

    error_code: Int16 = 0
    error_message: String | None = None
    body: Bytes = b""


@struct
class ReportedReplica:
    """
    A replica that lacks committed records, or holds damaged ones.

    :ivar replica: the broker that it is on: the reporting one, or one that follows it.
    :ivar leader_epoch: the one known to the reporter.
    :ivar complete: a replica reported before is complete again.
    """

    topic: String
    partition: Int32
    replica: Int32
    leader_epoch: Int32
    complete: Bool
    reason: String


@message(1007, versions="0", flexible="0+")
class ReportReplicasRequest:
    """Report replicas that must not lead while a complete one can."""

    broker_epoch: Int64
    replicas: list[ReportedReplica]


@message(1007, versions="0", flexible="0+")
class ReportReplicasResponse:
    """The response to :class:`ReportReplicasRequest`: the partition states after it."""

    error_code: Int16 = 0
    error_message: String | None = None
    partitions: list[AlteredPartition] = field(factory=list)


@struct
class ReportedLogEnd:
    """
    The end of a log, and the leader epoch of its last record (−1 without one).

    :ivar leader_epoch: of the partition state without a leader.
    """

    partition: Int32
    leader_epoch: Int32
    last_epoch: Int32
    end_offset: Int64


@struct
class ReportedLogEnds:
    """Log ends of one topic."""

    topic: String
    partitions: list[ReportedLogEnd]


@message(1008, versions="0", flexible="0+")
class ReportLogEndsRequest:
    """Report the ends of a broker's logs, of partitions without a leader (Kafka: GetReplicaLogInfo, KIP-966)."""

    broker_epoch: Int64
    topics: list[ReportedLogEnds]


@message(1008, versions="0", flexible="0+")
class ReportLogEndsResponse:
    """The response to :class:`ReportLogEndsRequest`."""

    error_code: Int16 = 0
    error_message: String | None = None
