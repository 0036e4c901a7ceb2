"""
The share coordinator (KIP-932): InitializeShareGroupState (83), ReadShareGroupState (84), WriteShareGroupState (85),
DeleteShareGroupState (86), ReadShareGroupStateSummary (87). Brokers send them to each other.
"""

from __future__ import annotations

from logbus.wire.schema import Int8, Int16, Int32, Int64, String, Uuid, field, message, struct


@struct
class ShareStateBatch:
    """Records with the same delivery state (0: available, 2: acknowledged, 4: archived); both offsets are included."""

    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


@struct
class ShareStateResult:
    """The outcome for a partition."""

    partition: Int32
    error_code: Int16 = 0
    error_message: String | None = None


@struct
class ShareStateTopicResults:
    """The outcomes for a topic's partitions."""

    topic_id: Uuid
    partitions: list[ShareStateResult]


@struct
class InitializedSharePartition:
    """The first state of a partition; start offset −1: not known yet."""

    partition: Int32
    state_epoch: Int32
    start_offset: Int64


@struct
class InitializedShareTopic:
    """A topic whose partitions get a state."""

    topic_id: Uuid
    partitions: list[InitializedSharePartition]


@message(83, versions="0", flexible="0+")
class InitializeShareGroupStateRequest:
    """Create states, or set them anew."""

    group_id: String
    topics: list[InitializedShareTopic]


@message(83, versions="0", flexible="0+")
class InitializeShareGroupStateResponse:
    """The response to :class:`InitializeShareGroupStateRequest`."""

    results: list[ShareStateTopicResults]


@struct
class LeaderEpochStart:
    """A leader epoch of a partition's log, and the offset of its first record."""

    epoch: Int32
    start_offset: Int64


@struct
class ShareLeader:
    """
    A partition, with the epoch of the leader that asks; −1: none.

    :ivar log_end_offset: of that leader's log, behind which a state has nothing; −1: not told. Kafka has no such field,
        nor ``log_epochs``: the last leader epochs of that log, oldest first.
    """

    partition: Int32
    leader_epoch: Int32
    log_end_offset: Int64 = field("0+", default=-1, tag=0, ignorable=True)
    log_epochs: list[LeaderEpochStart] = field("0+", factory=list, tag=1, ignorable=True)


@struct
class ShareLeaderTopic:
    """A topic whose states are read."""

    topic_id: Uuid
    partitions: list[ShareLeader]


@struct
class SummarizedShareLeader:
    """A partition whose state is summarized, with the epoch of the leader that asks; −1: none."""

    partition: Int32
    leader_epoch: Int32


@struct
class SummarizedShareLeaderTopic:
    """A topic whose states are summarized."""

    topic_id: Uuid
    partitions: list[SummarizedShareLeader]


@message(84, versions="0", flexible="0+")
class ReadShareGroupStateRequest:
    """Read states, and fence leaders with lower epochs."""

    group_id: String
    topics: list[ShareLeaderTopic]


@struct
class ReadSharePartition:
    """The state of a partition, or an error."""

    partition: Int32
    error_code: Int16 = 0
    error_message: String | None = None
    state_epoch: Int32 = 0
    start_offset: Int64 = 0
    state_batches: list[ShareStateBatch] = field(factory=list)


@struct
class ReadShareTopic:
    """The states of a topic's partitions."""

    topic_id: Uuid
    partitions: list[ReadSharePartition]


@message(84, versions="0", flexible="0+")
class ReadShareGroupStateResponse:
    """The response to :class:`ReadShareGroupStateRequest`."""

    results: list[ReadShareTopic]


@struct
class WrittenSharePartition:
    """A change of a partition's state; start offset −1: unchanged."""

    partition: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field("1+", default=-1, ignorable=True)
    state_batches: list[ShareStateBatch]


@struct
class WrittenShareTopic:
    """A topic whose states change."""

    topic_id: Uuid
    partitions: list[WrittenSharePartition]


@message(85, versions="0-1", flexible="0+")
class WriteShareGroupStateRequest:
    """Change states; from version 1 with the number of records that are done (KIP-1226)."""

    group_id: String
    topics: list[WrittenShareTopic]


@message(85, versions="0-1", flexible="0+")
class WriteShareGroupStateResponse:
    """The response to :class:`WriteShareGroupStateRequest`."""

    results: list[ShareStateTopicResults]


@struct
class DeletedSharePartition:
    """A partition whose state is removed."""

    partition: Int32


@struct
class DeletedShareTopic:
    """A topic whose states are removed."""

    topic_id: Uuid
    partitions: list[DeletedSharePartition]


@message(86, versions="0", flexible="0+")
class DeleteShareGroupStateRequest:
    """Remove states."""

    group_id: String
    topics: list[DeletedShareTopic]


@message(86, versions="0", flexible="0+")
class DeleteShareGroupStateResponse:
    """The response to :class:`DeleteShareGroupStateRequest`."""

    results: list[ShareStateTopicResults]


@message(87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryRequest:
    """Read states without their batches."""

    group_id: String
    topics: list[SummarizedShareLeaderTopic]


@struct
class SummarizedSharePartition:
    """The state of a partition without its batches, or an error."""

    partition: Int32
    error_code: Int16 = 0
    error_message: String | None = None
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = field("1+", default=-1, ignorable=True)


@struct
class SummarizedShareTopic:
    """The states of a topic's partitions."""

    topic_id: Uuid
    partitions: list[SummarizedSharePartition]


@message(87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryResponse:
    """The response to :class:`ReadShareGroupStateSummaryRequest`; from version 1 with the records that are done."""

    results: list[SummarizedShareTopic]
