"""
What brokers tell each other: Introduce (1000), Announce (1001), AlterPartitions (1002), ShutDown (1003), ReportFailed
(1004), Forward (1005), AskPlugin (1006), ReportReplicas (1007), ReportLogEnds (1008).

The numbers are ours, far above Kafka's, and never told to clients. Who asks is known from Introduce, which comes first
on every connection between brokers; the others therefore do not say it again.
"""

from __future__ import annotations

from logbus.wire.schema import Bool, Bytes, Int16, Int32, Int64, String, Uuid, field, message, struct, tagged


@message(1000, versions="0", flexible="0+")
class IntroduceRequest:
    """
    The first request on a connection between brokers: who asks, and whom it wants.

    :ivar incarnation: of the sender's registration; only brokers can know it.
    :ivar receiver_id: the broker that the sender means to talk to.
    """

    cluster_id: String
    broker_id: Int32
    broker_epoch: Int64
    incarnation: Uuid
    receiver_id: Int32
    feature_level: Int16


@message(1000, versions="0", flexible="0+")
class IntroduceResponse:
    """The answer to :class:`IntroduceRequest`; with an error the connection stays a client's."""

    error_code: Int16 = 0
    error_message: String | None = None
    feature_level: Int16 = 0


@struct
class PartitionNumbers:
    """Partitions of one topic."""

    topic: String
    partitions: list[Int32]


@message(1001, versions="0", flexible="0+")
class AnnounceRequest:
    """
    A batch of decisions of the controller.

    :ivar broker_epoch: of the broker that is meant.
    :ivar body: an :class:`AnnouncementBody`, read only once the sender has proved to be the controller that it names.
    """

    controller_id: Int32
    controller_epoch: Int32
    broker_epoch: Int64
    body: Bytes


@struct
class FailedPartition:
    """A partition that could not be brought up."""

    topic: String
    partition: Int32
    error_code: Int16
    error_message: String | None = None


@message(1001, versions="0", flexible="0+")
class AnnounceResponse:
    """The answer to :class:`AnnounceRequest`, once what was announced is served."""

    error_code: Int16 = 0
    error_message: String | None = None
    failed: list[FailedPartition] = field(factory=list)


@struct
class AnnouncedEndpoint:
    """Where a broker is reached on one listener."""

    listener: String
    host: String
    port: Int32
    protocol: String


@struct
class AnnouncedBroker:
    """A broker that lives."""

    broker_id: Int32
    epoch: Int64
    incarnation: Uuid
    feature_level: Int16
    rack: String | None = None
    endpoints: list[AnnouncedEndpoint]
    in_controlled_shutdown: Bool = tagged(0, "0+", default=False, ignorable=True)


@struct
class Setting:
    """A key and its value."""

    name: String
    value: String


@struct
class AnnouncedSettings:
    """The overrides of a topic, a broker or a consumer group."""

    entity: String
    settings: list[Setting]


@struct
class PartitionRole:
    """Who holds a partition, and who leads it."""

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
class AnnouncedTopic:
    """Partitions of one topic."""

    name: String
    topic_id: Uuid
    overrides: list[Setting]
    partitions: list[PartitionRole]


@struct
class AnnouncedDeletion:
    """A topic that is gone, with the number of partitions it had."""

    name: String
    topic_id: Uuid
    partitions: Int32


@message(None, versions="0", flexible="0+")
class AnnouncementBody:
    """What an announcement says, whoever is told."""

    full: Bool
    brokers: list[AnnouncedBroker] | None = None
    deleted: list[AnnouncedDeletion]
    topics: list[AnnouncedTopic]
    configs: list[AnnouncedSettings]
    broker_configs: list[AnnouncedSettings]
    unreadable: list[String]
    group_configs: list[AnnouncedSettings] = tagged(0, "0+", factory=list)


@struct
class WantedIsr:
    """
    The in-sync replicas that the leader of a partition wants.

    :ivar broker_epochs: in which each of them has fetched, in the same order; −1: it is not known.
    """

    topic: String
    partition: Int32
    leader_epoch: Int32
    version: Int32
    isr: list[Int32]
    broker_epochs: list[Int64]


@message(1002, versions="0", flexible="0+")
class AlterPartitionsRequest:
    """A leader asks the controller to change in-sync replicas (as AlterPartition does, KIP-497)."""

    broker_epoch: Int64
    changes: list[WantedIsr]


@struct
class AlteredPartition:
    """The state of a partition that is in the metadata store now, or why it was not changed."""

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
    """The answer to :class:`AlterPartitionsRequest`."""

    error_code: Int16 = 0
    error_message: String | None = None
    partitions: list[AlteredPartition] = field(factory=list)


@message(1003, versions="0", flexible="0+")
class ShutDownRequest:
    """A broker is about to stop, and asks the controller to have others lead what it leads."""

    broker_epoch: Int64


@message(1003, versions="0", flexible="0+")
class ShutDownResponse:
    """The answer to :class:`ShutDownRequest`, with what the broker leads all the same."""

    error_code: Int16 = 0
    error_message: String | None = None
    remaining: list[PartitionNumbers] = field(factory=list)


@message(1004, versions="0", flexible="0+")
class ReportFailedRequest:
    """A broker's replicas went offline with their log directory."""

    broker_epoch: Int64
    failed: list[PartitionNumbers]


@message(1004, versions="0", flexible="0+")
class ReportFailedResponse:
    """The answer to :class:`ReportFailedRequest`."""

    error_code: Int16 = 0
    error_message: String | None = None


@message(1005, versions="0", flexible="0+")
class ForwardRequest:
    """
    A client's request that only the controller can serve, from the broker that it came to.

    :ivar body: the request's, without its header, at ``api_version``.
    """

    api_key: Int16
    api_version: Int16
    principal: String
    client_id: String | None = None
    host: String
    body: Bytes


@message(1005, versions="0", flexible="0+")
class ForwardResponse:
    """The answer to :class:`ForwardRequest`: the response's body as the client is to get it, or why there is none."""

    error_code: Int16 = 0
    error_message: String | None = None
    body: Bytes = b""


@message(1006, versions="0", flexible="0+")
class AskPluginRequest:
    """
    A plugin on one broker asks its like on another.

    :ivar plugin: the name that it answers to.
    :ivar body: what is asked, in words of the plugin's own.
    """

    plugin: String
    body: Bytes


@message(1006, versions="0", flexible="0+")
class AskPluginResponse:
    """The answer to :class:`AskPluginRequest`: what the plugin says, or why nobody does."""

    error_code: Int16 = 0
    error_message: String | None = None
    body: Bytes = b""


@struct
class ReportedReplica:
    """
    A replica that lacks committed records, or holds damaged ones.

    :ivar replica: the broker that it is on: the one that reports, or its leader.
    :ivar leader_epoch: the one that the reporter knows.
    :ivar complete: the replica, reported before, has everything again.
    """

    topic: String
    partition: Int32
    replica: Int32
    leader_epoch: Int32
    complete: Bool
    reason: String


@message(1007, versions="0", flexible="0+")
class ReportReplicasRequest:
    """A broker reports replicas that must not lead while a complete one can."""

    broker_epoch: Int64
    replicas: list[ReportedReplica]


@message(1007, versions="0", flexible="0+")
class ReportReplicasResponse:
    """The answer to :class:`ReportReplicasRequest`: the states after it."""

    error_code: Int16 = 0
    error_message: String | None = None
    partitions: list[AlteredPartition] = field(factory=list)


@struct
class ReportedLogEnd:
    """
    How far a log goes: the leader epoch of its last record, −1 if it has none, and its end.

    :ivar leader_epoch: of the state that has no leader.
    """

    partition: Int32
    leader_epoch: Int32
    last_epoch: Int32
    end_offset: Int64


@struct
class ReportedLogEnds:
    """Those of one topic."""

    topic: String
    partitions: list[ReportedLogEnd]


@message(1008, versions="0", flexible="0+")
class ReportLogEndsRequest:
    """A broker says how far its logs go, of partitions that have no leader (as GetReplicaLogInfo asks, KIP-966)."""

    broker_epoch: Int64
    topics: list[ReportedLogEnds]


@message(1008, versions="0", flexible="0+")
class ReportLogEndsResponse:
    """The answer to :class:`ReportLogEndsRequest`."""

    error_code: Int16 = 0
    error_message: String | None = None
