"""Records as a consumer delivers them (Kafka: ConsumerRecord, ConsumerRecords)."""

from __future__ import annotations

from typing import Generic, NamedTuple

from typing_extensions import TypeVar

from logbus.model import NO_EPOCH, TopicPartition
from logbus.records.header import BatchHeader

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


class FetchedBatch(NamedTuple):
    """
    A batch as the log has it; its CRC is right.

    :ivar skip: the number of offsets at its beginning that were not asked for.
    """

    header: BatchHeader
    data: bytes | memoryview
    skip: int = 0


class Fetched(NamedTuple, Generic[K, V]):
    """
    Records of one partition, in order, typed like :class:`ConsumerRecord`.

    :ivar next_offset: the offset to continue at. It may advance without records, since transaction markers and
        compacted records have offsets, too.
    :ivar high_watermark: the end of the partition for consumers, at the time of the fetch.
    :ivar epoch: the leader epoch before ``next_offset``, −1: not known.
    :ivar size: bytes on the wire.
    :ivar batches: with the option ``encoded``, the batches with these records, which are not decoded.
    """

    partition: TopicPartition
    records: list[ConsumerRecord[K, V]]
    next_offset: int
    high_watermark: int
    size: int
    epoch: int = NO_EPOCH
    batches: tuple[FetchedBatch, ...] = ()
