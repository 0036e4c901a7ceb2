"""
The batches of one partition (Kafka: ProducerBatch): the one that grows, complete ones, and those in flight. Pure.

Batches reach the log in the order in which they were created. Several are in flight at once only with idempotence,
where the broker rejects a batch that arrives before its predecessor. After a failure they are sent one at a time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any, NamedTuple

from attrs import define, field

from logbus.client.producer.encoded_batch import EncodedBatch
from logbus.client.producer.idempotence import (
    LAST_EPOCH,
    MAX_IN_FLIGHT,
    NO_PRODUCER,
    BatchSequence,
    FailureResolution,
    NotSent,
    PartitionSequences,
    ProducerId,
    may_be_written,
    resolve_failure,
)
from logbus.model import TopicPartition
from logbus.records.batch import BatchBuilder, decode_batch


class BatchWritten(NamedTuple):
    """
    The offset and timestamp of a batch that was written.

    :ivar base_offset: of its first record; −1: not known, because there is no response (acks=0), or the broker answered
        that it had the batch already.
    :ivar timestamp: log append time, in milliseconds since 1970; −1: records keep their own.
    """

    base_offset: int
    timestamp: int


BatchOutcome = BatchWritten | Exception


@define(eq=False)
class ProducerBatch:
    """
    Records for one partition that are sent together.

    :ivar place: its position in the order of batches; the two halves of a split batch share the prefix of the whole.
    :ivar created: when its first record was added, in seconds of the producer's clock.
    :ivar attempts: how often it was sent.
    :ivar numbers: producer id, epoch and sequence; None: none, or not assigned yet.
    :ivar in_doubt: it may be in the log although no response said so.
    :ivar outcome: None until it is known.
    :ivar sends: the Deferreds of its records, by index; None, or missing at the end: no Deferred.
    :ivar stamps: their timestamps.
    :ivar waiters: the number of Deferreds when it was split.
    :ivar settle: called with the outcome before all listeners.
    """

    partition: TopicPartition
    builder: BatchBuilder | EncodedBatch
    created: float
    place: tuple[int, ...] = ()
    attempts: int = 0
    numbers: BatchSequence | None = None
    in_doubt: bool = False
    outcome: BatchOutcome | None = None
    sends: list[Any] = field(factory=list)
    stamps: list[int] = field(factory=list)
    waiters: int = 0
    settle: Callable[[ProducerBatch, BatchOutcome], object] | None = None
    _listeners: list[Callable[[BatchOutcome], object]] = field(factory=list, init=False)
    _failed_half: tuple[int, ProducerBatch] | None = field(default=None, init=False)

    @property
    def failed_part(self) -> tuple[int, ProducerBatch]:
        """The smallest part that failed, and the index of its first record: this one, unless it was split."""
        if self._failed_half is None:
            return 0, self
        first, half = self._failed_half
        index, part = half.failed_part
        return first + index, part

    @property
    def size(self) -> int:
        """Bytes, uncompressed."""
        return self.builder.size

    def wait_for(self, index: int, timestamp: int, sent: Any) -> None:
        """Register the Deferred of a record, in the order of records."""
        sends = self.sends
        if len(sends) != index:
            missing = index - len(sends)
            sends += [None] * missing
            self.stamps += [0] * missing
        sends.append(sent)
        self.stamps.append(timestamp)

    def when_done(self, fn: Callable[[BatchOutcome], object]) -> None:
        """Call ``fn`` with the outcome once it is known."""
        if self.outcome is None:
            self._listeners.append(fn)
        else:
            fn(self.outcome)

    def finish(self, outcome: BatchOutcome) -> None:
        """Set the outcome and call the listeners, once."""
        if self.outcome is None:
            self.outcome = outcome
            if self.settle is not None:
                self.settle(self, outcome)
            listeners, self._listeners = self._listeners, []
            for each in listeners:
                each(outcome)


@define(eq=False)
class PartitionQueue:
    """
    The batches of one partition, and what is known of its sequence numbers.

    :ivar growing: the batch that records are appended to.
    :ivar waiting: complete batches, in sending order.
    :ivar in_flight: batches that were sent and not answered, in order.
    :ivar not_before: nothing is sent before this time, in seconds of the producer's clock.
    :ivar broker: the broker that the batches in flight were sent to.
    :ivar attempts: consecutive failures, for the backoff.
    :ivar last_error: the last error.
    :ivar missing_since: when brokers first answered that there is no such partition; None: there is, or was.
    :ivar taken: bytes of all records ever appended.
    """

    partition: TopicPartition
    growing: ProducerBatch | None = None
    waiting: list[ProducerBatch] = field(factory=list)
    in_flight: list[ProducerBatch] = field(factory=list)
    sequences: PartitionSequences = field(factory=PartitionSequences)
    not_before: float = 0.0
    broker: int = -1
    attempts: int = 0
    last_error: Exception | None = None
    missing_since: float | None = None
    taken: int = 0
    _places: int = field(default=0, init=False)

    def begin(self, builder: BatchBuilder | EncodedBatch, now: float) -> ProducerBatch:
        """Start a new growing batch."""
        self._places += 1
        batch = self.growing = ProducerBatch(self.partition, builder, now, (self._places,))
        return batch

    def seal(self) -> None:
        """Complete the growing batch."""
        if self.growing is not None:
            self.waiting.append(self.growing)
            self.growing = None

    def may_send(self, broker: int, *, idempotent: bool) -> bool:
        """Whether the first waiting batch may be sent to a broker now, given those in flight."""
        if not self.in_flight:
            return True
        head = self.waiting[0] if self.waiting else self.growing
        return (
            idempotent
            and head is not None
            and broker == self.broker
            and len(self.in_flight) < MAX_IN_FLIGHT
            and self.sequences.accepted
            and not self.sequences.lost
            and not head.attempts
            and all(each.attempts == 1 and each.outcome is None for each in self.in_flight)
        )

    def take_next(self, broker: int, producer: ProducerId | None) -> ProducerBatch:
        """
        Move the first waiting batch in flight, and return it.

        :param producer: assigns sequence numbers if the batch has none; None: no idempotence.
        """
        if not self.waiting:
            self.seal()
        batch = self.waiting[0]
        if producer is not None and not batch.in_doubt:
            self._number(batch, producer)
        del self.waiting[0]
        batch.attempts += 1
        self.in_flight.append(batch)
        self.broker = broker
        return batch

    def _number(self, batch: ProducerBatch, producer: ProducerId) -> None:
        sequences = self.sequences
        is_alone = not self.in_flight
        if is_alone and (sequences.lost or sequences.producer != producer) and self._begin(producer):
            # This batch is not in the log, so no later one is.
            for each in self.waiting:
                each.numbers, each.in_doubt = None, False
        if batch.numbers is None:
            batch.numbers = sequences.number(batch.builder.count)

    def _begin(self, producer: ProducerId) -> bool:
        """
        Restart sequences at 0 under a new producer id or epoch, if that is needed; returns whether it was. Without a
        coordinator the client increments the epoch itself.
        """
        sequences = self.sequences
        mine = sequences.producer
        if mine.producer_id != producer.producer_id or mine.epoch < producer.epoch:
            sequences.begin(producer)
        elif sequences.lost:
            sequences.begin(ProducerId(mine.producer_id, mine.epoch + 1))
        else:
            return False
        return True

    def has_exhausted(self, producer: ProducerId | None) -> bool:
        """Whether a new epoch of a producer id is needed and the last one is used: then another id is needed."""
        last = self.sequences.producer
        return (
            self.sequences.lost
            and last.epoch >= LAST_EPOCH
            and producer is not None
            and last.producer_id == producer.producer_id
        )

    def handle_result(
        self, batch: ProducerBatch, outcome: BatchOutcome, *, final: bool = False, transactional: bool = False
    ) -> list[tuple[ProducerBatch, BatchOutcome]]:
        """
        Handle the response or failure of a batch in flight.

        :param outcome: the broker's response; :class:`~logbus.client.producer.idempotence.NotSent` if the request was
            never sent.
        :param final: do not retry, whatever the error.
        :returns: the batches that are finished by this, with their outcomes; none if the batch is retried.
        """
        self.in_flight.remove(batch)
        if isinstance(outcome, NotSent):
            batch.attempts -= 1
        if isinstance(outcome, BatchWritten):
            return self._written(batch, outcome)
        resolution = resolve_failure(
            outcome,
            numbered=batch.numbers is not None,
            in_doubt=batch.in_doubt,
            first=self._is_first(batch),
            splittable=batch.builder.count > 1,
            transactional=transactional,
        )
        if resolution is FailureResolution.WRITTEN:
            return self._written(batch, BatchWritten(-1, -1))
        if may_be_written(outcome):
            batch.in_doubt = True
        if resolution is not FailureResolution.SPLIT:
            self.attempts += 1
        if final or resolution is FailureResolution.FAIL or batch.outcome is not None:
            self.give_up(batch)
            return [(batch, outcome.error if isinstance(outcome, NotSent) else outcome)]
        if resolution is FailureResolution.SPLIT:
            self._put_back(*self._split(batch))
            return []
        if resolution is FailureResolution.RENUMBER:
            self.sequences.lost = True
        self._put_back(batch)
        return []

    def give_up(self, batch: ProducerBatch) -> None:
        """Remove a batch that is not to be sent again; it waits, or has just failed."""
        if batch in self.waiting:
            self.waiting.remove(batch)
        elif batch is self.growing:
            self.growing = None
        if batch.numbers is None or batch.in_doubt:
            # Later batches keep their numbers: the broker rejects them if it does not have this one.
            return
        if self._numbered_behind(batch):
            # Later batches cannot be in the log without this one; the broker rejects each of them.
            self.sequences.lost = True
        else:
            self.sequences.take_back(batch.numbers)

    def _written(self, batch: ProducerBatch, outcome: BatchWritten) -> list[tuple[ProducerBatch, BatchOutcome]]:
        self.attempts = 0
        if batch.numbers is not None:
            self.sequences.written(batch.numbers)
        return [(batch, outcome)]

    def _is_first(self, batch: ProducerBatch) -> bool:
        """Whether all earlier numbered batches are answered."""
        return not any(each.numbers and each.place < batch.place for each in (*self.in_flight, *self.waiting))

    def _numbered_behind(self, batch: ProducerBatch) -> bool:
        return any(each.numbers and each.place > batch.place for each in (*self.in_flight, *self.waiting))

    def _put_back(self, *batches: ProducerBatch) -> None:
        at = bisect_left(self.waiting, batches[0].place, key=lambda each: each.place)
        self.waiting[at:at] = batches

    def _split(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """Split a batch in two halves that share its sequence numbers; the batch is finished when both are."""
        records = decode_batch(batch.builder.build())
        middle = len(records) // 2
        parts: list[ProducerBatch] = []
        for part, records_of in enumerate((records[:middle], records[middle:])):
            builder = BatchBuilder(batch.builder.codec, batch.builder.level)
            for _, timestamp, key, value, headers in records_of:
                builder.append(timestamp, key, value, headers)
            half = ProducerBatch(batch.partition, builder, batch.created, (*batch.place, part), batch.attempts)
            first = middle * part
            half.settle = batch.settle
            last = first + len(records_of)
            half.sends, half.stamps = batch.sends[first:last], batch.stamps[first:last]
            if batch.numbers is not None:
                numbers = batch.numbers
                half.numbers = BatchSequence(numbers.producer, (numbers.sequence + first) & 0x7FFFFFFF)
            parts.append(half)
        batch.waiters = sum(each is not None for each in batch.sends)
        batch.sends, batch.stamps = [], []

        def done(_: BatchOutcome) -> None:
            outcomes = [each.outcome for each in parts]
            if None not in outcomes:
                failed = [part for part, each in enumerate(outcomes) if isinstance(each, Exception)]
                if failed:
                    batch._failed_half = middle * failed[0], parts[failed[0]]
                whole = outcomes[failed[0] if failed else 0]
                assert whole is not None
                batch.finish(whole)

        for half in parts:
            half.when_done(done)
        return parts


__all__ = ["NO_PRODUCER", "ProducerBatch", "BatchWritten", "BatchOutcome", "PartitionQueue"]
