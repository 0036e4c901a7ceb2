"""Records as a consumer delivers them (Kafka: ConsumerRecord, ConsumerRecords)."""

from __future__ import annotations

from typing import Generic, NamedTuple

from typing_extensions import TypeVar

from logbus.model import NO_EPOCH, TopicPartition

K = TypeVar("K", default=bytes | None)
V = TypeVar("V", default=bytes | None)


class ConsumerRecord(NamedTuple, Generic[K, V]):
    """
    A record and its position. A plain ``ConsumerRecord`` has bytes; ``ConsumerRecord[K, V]`` has the types that
    deserializers return.

    :ivar timestamp: milliseconds since 1970; -1: none.
    :ivar key: bytes, or the key deserializer's result; None: no key.
    :ivar value: the same; None is a tombstone: compaction removes the key.
    :ivar headers: pairs of name and value, in order.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: K
    value: V
    headers: tuple[tuple[str, bytes | None], ...]


class Fetched(NamedTuple, Generic[K, V]):
    """
    Records of one partition, in order, typed like :class:`ConsumerRecord`.

    :ivar next_offset: the offset to continue at. It may advance without records, since transaction markers and
        compacted records have offsets, too.
    :ivar high_watermark: the end of the partition for consumers, at the time of the fetch.
    :ivar epoch: the leader epoch before ``next_offset``, −1: not known.
    :ivar size: bytes on the wire.
    """

    partition: TopicPartition
    records: list[ConsumerRecord[K, V]]
    next_offset: int
    high_watermark: int
    size: int
    epoch: int = NO_EPOCH
