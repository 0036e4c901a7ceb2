"""
Records on their way into batches. Pure: it knows neither the network nor the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from attrs import define, field

from logbus.model import TopicPartition
from logbus.records.batch import BatchBuilder, Headers
from logbus.records.compression import Codec


class Delivered(NamedTuple):
    """
    A batch was written.

    :ivar base_offset: of its first record; −1 if nobody waited for the answer (acks=0).
    :ivar timestamp: milliseconds since 1970 that the log gave its records; −1: they keep their own.
    """

    base_offset: int
    timestamp: int


Outcome = Delivered | Exception


@define(eq=False)
class Batch:
    """
    Records for one partition that travel together.

    :ivar created: when the first record came, in seconds of the producer's clock.
    :ivar attempts: how often it was sent.
    :ivar outcome: None until it is known.
    """

    partition: TopicPartition
    builder: BatchBuilder
    created: float
    attempts: int = 0
    outcome: Outcome | None = None
    _listeners: list[Callable[[Outcome], object]] = field(factory=list, init=False)

    @property
    def size(self) -> int:
        """Bytes, uncompressed."""
        return self.builder.size

    def when_done(self, fn: Callable[[Outcome], object]) -> None:
        """Call ``fn`` with the outcome once it is known."""
        if self.outcome is None:
            self._listeners.append(fn)
        else:
            fn(self.outcome)

    def finish(self, outcome: Outcome) -> None:
        """The outcome is known; who listens is told."""
        self.outcome = outcome
        listeners, self._listeners = self._listeners, []
        for each in listeners:
            each(outcome)


@define(eq=False)
class Accumulator:
    """
    Collects records into batches, one growing batch for each partition and behind it those that are full.

    :ivar batch_bytes: a batch is full at so many bytes, uncompressed; a larger record has one of its own.
    :ivar codec: how batches are compressed.
    :ivar level: the codec's level; None is its default.
    """

    batch_bytes: int
    codec: Codec = Codec.NONE
    level: int | None = None
    _growing: dict[TopicPartition, Batch] = field(factory=dict, init=False)
    _full: dict[TopicPartition, deque[Batch]] = field(factory=dict, init=False)

    def append(
        self,
        partition: TopicPartition,
        now: float,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
    ) -> tuple[Batch, int, bool]:
        """
        Add a record.

        :param now: seconds of the producer's clock.
        :param timestamp: milliseconds since 1970.
        :returns: its batch, its index in it, and whether the batch before it became full by that.
        """
        batch = self._growing.get(partition)
        filled = False
        if batch is not None and not batch.builder.room_for(self.batch_bytes, key, value, headers):
            self.seal(partition)
            batch, filled = None, True
        if batch is None:
            batch = self._growing[partition] = Batch(partition, BatchBuilder(self.codec, self.level), now)
        return batch, batch.builder.append(timestamp, key, value, headers), filled

    def seal(self, partition: TopicPartition) -> None:
        """The growing batch of a partition is complete."""
        batch = self._growing.pop(partition, None)
        if batch is not None:
            self._full.setdefault(partition, deque()).append(batch)

    def seal_older(self, created: float) -> float | None:
        """
        Complete the growing batches whose first record came at or before ``created``.

        :returns: when the oldest one that is left was begun; None if none is.
        """
        for partition, batch in list(self._growing.items()):
            if batch.created <= created:
                self.seal(partition)
        return min((batch.created for batch in self._growing.values()), default=None)

    def seal_all(self) -> bool:
        """Complete all growing batches; says whether there were any."""
        growing = list(self._growing)
        for partition in growing:
            self.seal(partition)
        return bool(growing)

    def ready(self) -> list[TopicPartition]:
        """The partitions with complete batches."""
        return [partition for partition, batches in self._full.items() if batches]

    def first(self, partition: TopicPartition) -> Batch:
        """The complete batch of a partition that is to be sent first."""
        return self._full[partition][0]

    def take(self, partition: TopicPartition) -> Batch:
        """Take out the complete batch of a partition that is to be sent first."""
        batches = self._full[partition]
        batch = batches.popleft()
        if not batches:
            del self._full[partition]
        return batch

    def put_back(self, batch: Batch) -> None:
        """A batch is to be sent again, before all others of its partition."""
        self._full.setdefault(batch.partition, deque()).appendleft(batch)
