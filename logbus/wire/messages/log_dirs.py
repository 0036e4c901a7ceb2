"""A broker's log directories: AlterReplicaLogDirs (34), DescribeLogDirs (35)."""

from __future__ import annotations

from logbus.wire.messages.partitions import NamedTopicPartitions, PartitionErrorCode, TopicPartitions
from logbus.wire.schema import Bool, Int16, Int32, Int64, String, field, message, struct


@message(35, versions="0-5", flexible="2+")
class DescribeLogDirsRequest:
    """Describe log directories, with the sizes of logs (KIP-113); ``topics`` None stands for all."""

    topics: list[TopicPartitions] | None = None


@struct
class DescribeLogDirsPartition:
    """
    One log.

    :ivar partition_size: bytes of its segments.
    :ivar offset_lag: how far its end is behind the high watermark.
    """

    partition_index: Int32
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: Bool = False


@struct
class DescribeLogDirsTopic:
    """The logs of one topic."""

    name: String
    partitions: list[DescribeLogDirsPartition] = field(factory=list)


@struct
class DescribeLogDirsResult:
    """
    One log directory.

    :ivar total_bytes: of its volume, as ``usable_bytes`` (KIP-827); −1: unknown.
    :ivar is_cordoned: whether new logs go elsewhere (KIP-1066).
    """

    error_code: Int16 = 0
    log_dir: String = ""
    topics: list[DescribeLogDirsTopic] = field(factory=list)
    total_bytes: Int64 = field("4+", default=-1, ignorable=True)
    usable_bytes: Int64 = field("4+", default=-1, ignorable=True)
    is_cordoned: Bool = field("5+", default=False, ignorable=True)


@message(35, versions="0-5", flexible="2+")
class DescribeLogDirsResponse:
    """The response to :class:`DescribeLogDirsRequest`."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = field("3+", default=0, ignorable=True)
    results: list[DescribeLogDirsResult] = field(factory=list)


@struct
class AlterReplicaLogDir:
    """The partitions to be moved to one directory."""

    path: String
    topics: list[NamedTopicPartitions]


@message(34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    """Move logs to other log directories of the receiving broker (KIP-113)."""

    dirs: list[AlterReplicaLogDir]


@struct
class AlterReplicaLogDirTopicResult:
    """The results for one topic."""

    topic_name: String
    partitions: list[PartitionErrorCode] = field(factory=list)


@message(34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsResponse:
    """The response to :class:`AlterReplicaLogDirsRequest`: the moves have begun, not ended."""

    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = field(factory=list)
