"""
Records that a mirror leaves out, since they are larger than the target takes (Kafka Connect: errors.tolerance). Pure.

Each has a record in a topic at the target, written in the transaction that has the records around it. So it is known
what is missing, and a mirror that begins again leaves out the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from uuid import UUID

from attrs import define, field, frozen

from logbus.errors import DecodeError
from logbus.mirror.copied_range import TopicIds
from logbus.mirror.offset_table import OffsetTable
from logbus.model import TopicPartition
from logbus.records.batch import HEADER_SIZE, BatchBuilder, BatchHeader, Record
from logbus.records.compression import Codec
from logbus.records.record import max_record_size


@frozen
class SkippedRecord:
    """
    A record that was left out.

    :ivar partition: of the source.
    :ivar size: bytes of a batch that has only this record.
    :ivar limit: the most that the copy took then; None: not known.
    :ivar ids: of the topics on both sides.
    """

    partition: TopicPartition
    offset: int
    size: int
    limit: int | None
    ids: TopicIds

    @property
    def key(self) -> bytes:
        """The key of its record."""
        return f"{self.partition}@{self.offset}".encode()

    @property
    def value(self) -> bytes:
        """The value of its record."""
        told = {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "offset": self.offset,
            "size": self.size,
            "limit": self.limit,
            "source_id": str(self.ids.source),
            "target_id": str(self.ids.target),
        }
        return json.dumps(told).encode()

    @classmethod
    def decode(cls, value: bytes | None) -> SkippedRecord:
        """
        Read a value.

        :raises DecodeError: it is none.
        """
        try:
            told = json.loads(value or b"")
            ids = TopicIds(UUID(told["source_id"]), UUID(told["target_id"]))
            limit = None if told["limit"] is None else int(told["limit"])
            partition = TopicPartition(str(told["topic"]), int(told["partition"]))
            return cls(partition, int(told["offset"]), int(told["size"]), limit, ids)
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise DecodeError(f"it does not tell of a record that was left out: {e!r}") from None


@define(eq=False)
class Sieve:
    """
    Takes records out of the batches of a partition.

    :ivar limit: the most bytes of a batch that the copy takes, as far as it is known.
    :ivar ids: of the topics on both sides.
    :ivar known: records that were left out already, of these topics or of others of their names.
    :ivar refused: sizes of records that the target has refused.
    :ivar end: where to stop: what comes from there on is taken out; None: nowhere.
    :ivar found: offsets and sizes of records that were taken out now, since they are too large.
    """

    limit: int | None
    ids: TopicIds
    known: OffsetTable[SkippedRecord] = field(factory=OffsetTable)
    refused: OffsetTable[int] = field(factory=OffsetTable)
    end: int | None = None
    found: dict[int, int] = field(factory=dict, init=False)

    def passes(self, header: BatchHeader) -> bool:
        """Whether no record of a batch has to be looked at; what lies elsewhere costs nothing."""
        if self.limit is not None and header.size > self.limit:
            return False
        if self.end is not None and header.last_offset >= self.end:
            return False
        first, last = header.base_offset, header.last_offset
        if any(each.ids == self.ids for each in self.known.between(first, last)):
            return False
        return not any(True for _ in self.refused.between(first, last))

    def keeps(self, record: Record, codec: Codec) -> bool:
        """Whether a record is copied, as one of a batch with this codec."""
        offset = record.offset
        if self.end is not None and offset >= self.end:
            return False
        known = self.known.get(offset)
        # Without topic ids, as brokers before 2.8 have none, it may be another record.
        if known is not None and known.ids == self.ids and _excess(record, codec, known.limit) is not None:
            return False
        if (size := self.refused.get(offset)) is not None:
            self.found[offset] = size
            return False
        if self.limit is None or (size := _excess(record, codec, self.limit)) is None:
            return True
        self.found[offset] = size
        return False


def _excess(record: Record, codec: Codec, limit: int | None) -> int | None:
    """The size of a batch with only this record, if that is larger than a limit or there is none; else None."""
    _, timestamp, key, value, headers = record
    if limit is not None and HEADER_SIZE + max_record_size(key, value, headers) <= limit:
        return None
    builder = BatchBuilder(codec)
    builder.append(timestamp, key, value, headers)
    size = len(builder.build())
    return None if limit is not None and size <= limit else size


@define(eq=False)
class SkippedRecords:
    """The records left out of a source's partitions."""

    _known: dict[TopicPartition, OffsetTable[SkippedRecord]] = field(factory=dict, init=False)
    _refused: dict[TopicPartition, OffsetTable[int]] = field(factory=dict, init=False)
    _limits: dict[TopicPartition, int | None] = field(factory=dict, init=False)
    _ends: dict[TopicPartition, tuple[int, str]] = field(factory=dict, init=False)

    def add(self, skipped: SkippedRecord) -> None:
        """Note a record that was left out, of which the target knows."""
        self._known.setdefault(skipped.partition, OffsetTable()).set(skipped.offset, skipped)
        if (refused := self._refused.get(skipped.partition)) is not None:
            refused.discard(skipped.offset)

    def refuse(self, partition: TopicPartition, offset: int, size: int, limit: int | None) -> None:
        """Note a record that the target has refused; from now on those of its partition are looked at."""
        self._refused.setdefault(partition, OffsetTable()).set(offset, size)
        self._limits[partition] = limit

    def stop_before(self, partition: TopicPartition, offset: int, reason: str) -> None:
        """Have what is before a record copied, and then the partition stopped."""
        self._ends[partition] = offset, reason

    def capped(self, partition: TopicPartition, offset: int) -> int:
        """An offset, or where its partition is to be stopped if that is before it."""
        return min(offset, self._ends[partition][0]) if partition in self._ends else offset

    def reached(self, passed: Mapping[TopicPartition, int]) -> Iterator[tuple[TopicPartition, str]]:
        """
        The partitions that are to be stopped now, each once, and why.

        :param passed: the next offsets of those of which something was copied.
        """
        for partition, offset in passed.items():
            if partition in self._ends and offset >= self._ends[partition][0]:
                yield partition, self._ends.pop(partition)[1]

    def limit(self, partition: TopicPartition) -> int | None:
        """The most bytes that a copy takes; None: not known."""
        return self._limits.get(partition)

    def offsets(self, partition: TopicPartition, ids: TopicIds) -> frozenset[int]:
        """The records that were left out already, of these topics."""
        known = self._known.get(partition, OffsetTable[SkippedRecord]())
        return frozenset(offset for offset, each in known.items() if each.ids == ids)

    def sieve(self, partition: TopicPartition, ids: TopicIds) -> Sieve | None:
        """What takes these records out of batches; None: there is nothing to take out."""
        known, refused = self._known.get(partition, OffsetTable()), self._refused.get(partition, OffsetTable())
        if not known and partition not in self._limits and partition not in self._ends:
            return None
        end, _ = self._ends.get(partition, (None, ""))
        return Sieve(self._limits.get(partition), ids, known, refused, end)


def left_out_lines(skipped: Iterable[SkippedRecord], copies: Mapping[str, str]) -> Iterator[str]:
    """
    A line for each partition of which a transaction has left something out.

    :param copies: names of topics at the target, by those at the source.
    """
    for partition, group in groupby(sorted(skipped, key=lambda each: each.partition), lambda each: each.partition):
        theirs = list(group)
        first = theirs[0]
        what = "1 record" if len(theirs) == 1 else f"{len(theirs)} records, the first"
        takes = "" if first.limit is None else f", which takes {first.limit}"
        yield (
            f"{partition}: left out {what} of {first.size} bytes at offset {first.offset}: too large for "
            f"{copies[partition.topic]}{takes}"
        )
