"""Where reading starts or ends, as options say it: before offsets are known. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from logbus.model import TopicPartition

LATEST, EARLIEST = -1, -2
"""Instead of an offset."""


@frozen
class Everywhere:
    """The same for all partitions: :data:`LATEST` or :data:`EARLIEST`."""

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


Position = Everywhere | AtOffsets | AtTime | AtTimes
