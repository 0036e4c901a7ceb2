"""A fetched batch being delivered to the application, with the position reached in it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import length_hint
from typing import Any

from attrs import define, field

from logbus.client.consumer.consumer_record import ConsumerRecord, Fetched
from logbus.client.serializers import Deserializer
from logbus.errors import LogbusError
from logbus.model import TopicPartition


class RecordError(LogbusError):
    """
    A record cannot be deserialized; the message names topic, partition and offset. It stays the next record:
    ``consumer.seek(error.partition, error.offset + 1)`` skips it.
    """

    def __init__(self, partition: TopicPartition, offset: int, problem: Exception) -> None:
        super().__init__(f"{partition}@{offset}: {type(problem).__name__}: {problem}")
        self.partition = partition
        self.offset = offset


@define(eq=False)
class BatchDelivery:
    """
    A deserialized batch of one partition that is being delivered.

    :ivar fetched: the batch, with deserialized records.
    :ivar keys: the records' keys as bytes, if they were deserialized.
    :ivar rest: iterates over the records not delivered yet.
    :ivar error: raised after these.
    :ivar floor: the first offset of an earlier batch that is not processed yet.
    """

    fetched: Fetched[Any, Any]
    keys: Sequence[bytes | None] | None = None
    error: RecordError | None = None
    floor: int | None = None
    rest: Iterator[ConsumerRecord[Any, Any]] = field(init=False)
    _undone: int | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.rest = iter(self.fetched.records)

    @property
    def left(self) -> int:
        """The number of records not delivered yet."""
        # The list's iterator knows it, so the loop over records need not count.
        return length_hint(self.rest)

    @property
    def is_over(self) -> bool:
        """Whether there is neither a record nor an error left."""
        return not self.left and self.error is None

    @property
    def position(self) -> int:
        """The offset of the next record to deliver."""
        return self._offset_at(len(self.fetched.records) - self.left)

    @property
    def done(self) -> int:
        """
        The offset after the last processed record.

        In a loop over records the last one delivered is still being processed, until the next is asked for.
        """
        if self.floor is not None:
            return self.floor
        handed = len(self.fetched.records) - self.left
        return self._offset_at(max(handed - 1, 0) if self._undone is None else self._undone)

    def take(self, count: int) -> list[ConsumerRecord[Any, Any]]:
        """Deliver a number of records at once; they are processed when more is asked for."""
        self._undone = handed = len(self.fetched.records) - self.left
        taken = self.fetched.records[handed : handed + count]
        for _ in taken:
            next(self.rest)
        return taken

    def take_keyed(self, count: int) -> list[tuple[bytes | None, ConsumerRecord[Any, Any]]]:
        """As :meth:`take`, with each record's key as it is on the wire."""
        handed = len(self.fetched.records) - self.left
        taken = self.take(count)
        if self.keys is None:
            return [(each.key, each) for each in taken]
        return list(zip(self.keys[handed:], taken, strict=False))

    def settle(self) -> None:
        """Mark the delivered records as processed."""
        self.floor = None
        self._undone = len(self.fetched.records) - self.left

    def iterate(self) -> None:
        """Deliver records one by one from now on."""
        self._undone = None

    def drop(self) -> None:
        """Deliver nothing more of it."""
        self.rest = iter(())

    def _offset_at(self, index: int) -> int:
        records = self.fetched.records
        if index < len(records):
            return records[index].offset
        return self.fetched.next_offset if self.error is None else self.error.offset


def deserialize_batch(
    fetched: Fetched, key: Deserializer[Any] | None, value: Deserializer[Any] | None
) -> BatchDelivery:
    """
    Deserialize the records of a batch.

    :param key: called with the topic and the bytes of a key; None: leave them as they are. Likewise ``value``.
    """
    if key is None and value is None:
        return BatchDelivery(fetched)
    records: list[ConsumerRecord[Any, Any]] = []
    error = None
    for each in fetched.records:
        try:
            changed: ConsumerRecord[Any, Any] = each
            if key is not None:
                changed = changed._replace(key=key(each.topic, each.key))
            if value is not None:
                changed = changed._replace(value=value(each.topic, each.value))
        except Exception as e:
            error = RecordError(fetched.partition, each.offset, e)
            error.__cause__ = e
            break
        records.append(changed)
    keys = None if key is None else [each.key for each in fetched.records]
    return BatchDelivery(fetched._replace(records=records), keys, error)
