"""
Selects the segments that retention deletes. Pure.

Policies are plugins: any provider of :class:`~logbus.storage.istorage.IDeletePolicy` will do. The built-in one honours
``retention.ms``, ``retention.bytes`` and the log start offset, as Kafka does.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen
from zope.interface import implementer

from logbus.config.topic_config import TopicConfig
from logbus.storage.istorage import IDeletePolicy, LogView, SegmentView


@implementer(IDeletePolicy)
@frozen
class TimeAndSize:
    """
    Kafka's retention: by age, by size, and below the log start offset.

    A segment is deleted by age when its youngest record is older than ``retention.ms``; by size, oldest first, as long
    as the rest is at least ``retention.bytes``. Neither applies to topics that are only compacted.
    """

    name: str = "time-and-size"

    def expired(self, log: LogView, now_ms: int) -> Sequence[SegmentView]:
        """The oldest segments that may be deleted."""
        config, segments = log.config, log.segments
        if "delete" not in config.cleanup_policy:
            return segments[: _given_up(log)]
        count = max(_given_up(log), _too_old(segments, config.retention_ms, now_ms))
        return segments[: max(count, _too_many(segments, config.retention_bytes))]


def _given_up(log: LogView) -> int:
    """Number of segments wholly before the log start offset."""
    segments = log.segments
    count = 0
    while count + 1 < len(segments) and segments[count + 1].base_offset <= log.log_start_offset:
        count += 1
    return count


def _too_old(segments: Sequence[SegmentView], retention_ms: int, now_ms: int) -> int:
    if retention_ms < 0:
        return 0
    count = 0
    for segment in segments:
        youngest = segment.max_timestamp if segment.max_timestamp >= 0 else segment.modified_ms()
        if now_ms - youngest <= retention_ms:
            break
        count += 1
    return count


def _too_many(segments: Sequence[SegmentView], retention_bytes: int) -> int:
    if retention_bytes < 0:
        return 0
    excess = sum(segment.size for segment in segments) - retention_bytes
    count = 0
    for segment in segments:
        excess -= segment.size
        if excess < 0:
            break
        count += 1
    return count


@frozen
class LocalView:
    """
    A log with remote storage, as a policy sees it: with the retention of local segments.

    :ivar high_watermark: nothing that is not in remote storage may be deleted.
    """

    config: TopicConfig
    segments: Sequence[SegmentView]
    log_start_offset: int
    log_end_offset: int
    high_watermark: int


def local_view(log: LogView, copied_end: int) -> LocalView:
    """
    A log with remote storage, as a policy sees it.

    :param copied_end: everything below it is in remote storage.
    """
    return LocalView(
        log.config.local(),
        log.segments,
        log.log_start_offset,
        log.log_end_offset,
        min(log.high_watermark, max(copied_end, log.log_start_offset)),
    )


def deletable(log: LogView, policy: IDeletePolicy, now_ms: int) -> int:
    """
    Number of oldest segments that may be deleted by a policy: whole ones below the high watermark, and the active one
    only if it is not empty.
    """
    segments = log.segments
    count = 0
    for segment in policy.expired(log, now_ms):
        end = segments[count + 1].base_offset if count + 1 < len(segments) else log.log_end_offset
        if segment is not segments[count] or end > log.high_watermark or not segment.size:
            break
        count += 1
    return count
