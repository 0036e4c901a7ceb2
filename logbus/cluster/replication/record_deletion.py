"""
The offsets of DeleteRecords: from where records may be deleted, and how far all replicas have deleted them. Pure.
"""

from __future__ import annotations

from collections.abc import Callable

from logbus.cluster.replication.partition import Partition
from logbus.config import TopicConfig
from logbus.errors import ApiError, ErrorCode

TO_HIGH_WATERMARK = -1
"""In a request: delete all that is committed."""


def deletion_offset(partition: Partition, before: int, config: TopicConfig) -> int:
    """
    The log start offset for a deletion of all records before an offset.

    :param before: as in the request; see :data:`TO_HIGH_WATERMARK`.
    :param config: the topic's.
    :raise ApiError: OFFSET_OUT_OF_RANGE above the high watermark; POLICY_VIOLATION: the topic is only compacted, and
        keeps the last record of each key.
    """
    if config.compacted and "delete" not in config.cleanup_policy:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"{partition.topic_partition} is compacted, and keeps the last record of each key: records before an "
            "offset can be deleted if cleanup.policy includes delete",
        )
    high_watermark = partition.high_watermark
    offset = high_watermark if before == TO_HIGH_WATERMARK else before
    if not 0 <= offset <= high_watermark:
        raise ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition.topic_partition} cannot delete before offset {before}: the high watermark is {high_watermark}",
        )
    return offset


def low_watermark(partition: Partition, log_start_offset: int, is_alive: Callable[[int], bool]) -> int:
    """
    The lowest log start offset of all live replicas (Kafka: Partition.lowWatermarkIfLeader).

    :param log_start_offset: the leader's.
    :param is_alive: of a broker.
    """
    followers = [f.log_start_offset for n, f in partition.followers.items() if is_alive(n)]
    return min([log_start_offset, *followers])
