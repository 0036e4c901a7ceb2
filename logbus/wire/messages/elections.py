"""Elections and reassignments: ElectLeaders (43), AlterPartitionReassignments (45), ListPartitionReassignments (46)."""

from __future__ import annotations

from logbus.wire.messages.partitions import TopicPartitionIndexes, TopicPartitions
from logbus.wire.schema import Bool, Int8, Int16, Int32, String, field, message, struct


@message(43, versions="0-2", flexible="2+")
class ElectLeadersRequest:
    """
    Elect leaders: the preferred ones (type 0), or any live replica where there is no leader (type 1).

    ``topic_partitions`` None stands for all.
    """

    election_type: Int8 = field("1+", default=0)
    topic_partitions: list[TopicPartitions] | None
    timeout_ms: Int32 = 60_000


@struct
class PartitionResult:
    """The result for one partition."""

    partition_id: Int32
    error_code: Int16 = 0
    error_message: String | None = None


@struct
class ReplicaElectionResult:
    """The result for a topic's partitions."""

    topic: String
    partition_result: list[PartitionResult]


@message(43, versions="0-2", flexible="2+")
class ElectLeadersResponse:
    """The response to :class:`ElectLeadersRequest`."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = field("1+", default=0)
    replica_election_results: list[ReplicaElectionResult] = field(factory=list)


@struct
class ReassignablePartition:
    """The new replicas of a partition; None cancels a reassignment."""

    partition_index: Int32
    replicas: list[Int32] | None = None


@struct
class ReassignableTopic:
    """Partitions of one topic to reassign."""

    name: String
    partitions: list[ReassignablePartition]


@message(45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest:
    """Begin or cancel reassignments (KIP-455)."""

    timeout_ms: Int32 = 60_000
    allow_replication_factor_change: Bool = field("1+", default=True)
    topics: list[ReassignableTopic]


@struct
class ReassignablePartitionResponse:
    """The result for one partition."""

    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = None


@struct
class ReassignableTopicResponse:
    """The result for a topic's partitions."""

    name: String
    partitions: list[ReassignablePartitionResponse]


@message(45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse:
    """The response to :class:`AlterPartitionReassignmentsRequest`."""

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Bool = field("1+", default=True, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = None
    responses: list[ReassignableTopicResponse] = field(factory=list)


@message(46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    """List the ongoing reassignments; ``topics`` None: all of them."""

    timeout_ms: Int32 = 60_000
    topics: list[TopicPartitionIndexes] | None = None


@struct
class OngoingPartitionReassignment:
    """An ongoing reassignment."""

    partition_index: Int32
    replicas: list[Int32]
    adding_replicas: list[Int32]
    removing_replicas: list[Int32]


@struct
class OngoingTopicReassignment:
    """The ongoing reassignments of a topic."""

    name: String
    partitions: list[OngoingPartitionReassignment]


@message(46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse:
    """The response to :class:`ListPartitionReassignmentsRequest`."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    topics: list[OngoingTopicReassignment] = field(factory=list)
