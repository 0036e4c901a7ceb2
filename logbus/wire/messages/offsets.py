"""Committed offsets of groups: OffsetCommit (8), OffsetFetch (9), OffsetDelete (47)."""

from __future__ import annotations

from logbus.wire.messages.partitions import PartitionErrorCode, TopicErrorCodes, TopicPartitionIndexes
from logbus.wire.schema import ZERO_UUID, Bool, Int16, Int32, Int64, String, Uuid, field, message, struct


@struct
class OffsetCommitRequestPartition:
    """The offset to commit for one partition, that of the next record to read."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field("6+", default=-1, ignorable=True)
    commit_timestamp: Int64 = field("1", default=-1, ignorable=True)
    committed_metadata: String | None = ""


@struct
class OffsetCommitRequestTopic:
    """The offsets to commit for one topic; named up to version 9, by id from 10."""

    name: String = field("0-9", default="", ignorable=True)
    topic_id: Uuid = field("10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitRequestPartition]


@message(8, versions="0-10", flexible="8+")
class OffsetCommitRequest:
    """Commit offsets; a simple consumer has generation −1 and no member id."""

    group_id: String
    generation_id_or_member_epoch: Int32 = field("1+", default=-1, ignorable=True)
    member_id: String = field("1+", default="", ignorable=True)
    group_instance_id: String | None = field("7+", default=None)
    retention_time_ms: Int64 = field("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic]


@struct
class OffsetCommitResponseTopic:
    """The result of the commits for one topic."""

    name: String = field("0-9", default="", ignorable=True)
    topic_id: Uuid = field("10+", default=ZERO_UUID, ignorable=True)
    partitions: list[PartitionErrorCode]


@message(8, versions="0-10", flexible="8+")
class OffsetCommitResponse:
    """The response to :class:`OffsetCommitRequest`."""

    throttle_time_ms: Int32 = field("3+", default=0, ignorable=True)
    topics: list[OffsetCommitResponseTopic]


@struct
class OffsetFetchRequestTopics:
    """The partitions of one topic to look up, from version 8; named up to version 9, by id from 10."""

    name: String = field("8-9", default="", ignorable=True)
    topic_id: Uuid = field("10+", default=ZERO_UUID, ignorable=True)
    partition_indexes: list[Int32]


@struct
class OffsetFetchRequestGroup:
    """The partitions to look up for one group; None stands for all its topics."""

    group_id: String
    member_id: String | None = field("9+", default=None, ignorable=True)
    member_epoch: Int32 = field("9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = None


@message(9, versions="0-10", flexible="6+")
class OffsetFetchRequest:
    """Look up committed offsets: of one group up to version 7, of several from 8. ``topics`` None stands for all."""

    group_id: String = field("0-7", default="")
    topics: list[TopicPartitionIndexes] | None = field("0-7", factory=list, nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field("8+", factory=list)
    require_stable: Bool = field("7+", default=False)


@struct
class OffsetFetchResponsePartition:
    """The committed offset of one partition; −1 without an error if there is none."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field("5+", default=-1, ignorable=True)
    metadata: String | None = ""
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopic:
    """The committed offsets of one topic, up to version 7."""

    name: String
    partitions: list[OffsetFetchResponsePartition]


@struct
class OffsetFetchResponseTopics:
    """The committed offsets of one topic, from version 8; named up to version 9, by id from 10."""

    name: String = field("8-9", default="", ignorable=True)
    topic_id: Uuid = field("10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetFetchResponsePartition]


@struct
class OffsetFetchResponseGroup:
    """The committed offsets of one group."""

    group_id: String
    topics: list[OffsetFetchResponseTopics]
    error_code: Int16 = 0


@message(9, versions="0-10", flexible="6+")
class OffsetFetchResponse:
    """The response to :class:`OffsetFetchRequest`."""

    throttle_time_ms: Int32 = field("3+", default=0, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field("0-7", factory=list)
    error_code: Int16 = field("2-7", default=0, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field("8+", factory=list)


@struct
class OffsetDeleteRequestPartition:
    """A partition whose committed offset is to be deleted."""

    partition_index: Int32


@struct
class OffsetDeleteRequestTopic:
    """The partitions of one topic."""

    name: String
    partitions: list[OffsetDeleteRequestPartition]


@message(47, versions="0", flexible="none")
class OffsetDeleteRequest:
    """Delete committed offsets of topics that the group does not consume."""

    group_id: String
    topics: list[OffsetDeleteRequestTopic]


@message(47, versions="0", flexible="none")
class OffsetDeleteResponse:
    """The response to :class:`OffsetDeleteRequest`."""

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[TopicErrorCodes] = field(factory=list)
