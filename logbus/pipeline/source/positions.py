"""Start and end positions as options give them, before they are resolved (Spark: KafkaOffsetRangeLimit). Pure."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from logbus.model import TopicPartition

LATEST, EARLIEST = -1, -2
"""Instead of an offset."""


@frozen
class EarliestOrLatest:
    """:data:`LATEST` or :data:`EARLIEST` for all partitions."""

    offset: int


@frozen
class AtOffsets:
    """An offset, :data:`LATEST` or :data:`EARLIEST` for each partition."""

    offsets: Mapping[TopicPartition, int]


@frozen
class AtTime:
    """The first record at or after a time in each partition: milliseconds since 1970."""

    timestamp: int


@frozen
class AtTimes:
    """A time for each partition."""

    timestamps: Mapping[TopicPartition, int]


Position = EarliestOrLatest | AtOffsets | AtTime | AtTimes
