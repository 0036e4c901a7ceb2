"""
What a producer has for one partition: the batch that grows, those that are complete, and those under way. Pure.

Batches reach the log in the order in which they were begun. Several are under way at once only while all goes well, and
only with idempotence, where the broker refuses one that comes without the one before it. As soon as one has to be sent
again they go one at a time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any, NamedTuple

from attrs import define, field

from logbus.client.idempotence import (
    LAST_EPOCH,
    MOST_IN_FLIGHT,
    NOBODY,
    NotSent,
    Numbers,
    ProducerId,
    Sequences,
    Verdict,
    judge,
    may_be_written,
)
from logbus.model import TopicPartition
from logbus.records.batch import BatchBuilder, decode_batch


class Delivered(NamedTuple):
    """
    A batch was written.

    :ivar base_offset: of its first record; −1 if it is not known: nobody waited for the answer (acks=0), or the broker
        only said that it had the batch already.
    :ivar timestamp: milliseconds since 1970 that the log gave its records; −1: they keep their own.
    """

    base_offset: int
    timestamp: int


Outcome = Delivered | Exception


@define(eq=False)
class Batch:
    """
    Records for one partition that travel together.

    :ivar place: where it is in the order of its partition; of the two parts of a batch both begin with the whole's.
    :ivar created: when the first record came, in seconds of the producer's clock.
    :ivar attempts: how often it was sent.
    :ivar numbers: by which brokers know it again; None: it has none, or none yet.
    :ivar in_doubt: it may be in the log although nobody said so.
    :ivar outcome: None until it is known.
    :ivar sends: who waits for single records, by their index; None, or nothing at the end: nobody does.
    :ivar stamps: their timestamps.
    :ivar waiters: how many there were when it was split.
    :ivar settle: told of the outcome before all who listen.
    """

    partition: TopicPartition
    builder: BatchBuilder
    created: float
    place: tuple[int, ...] = ()
    attempts: int = 0
    numbers: Numbers | None = None
    in_doubt: bool = False
    outcome: Outcome | None = None
    sends: list[Any] = field(factory=list)
    stamps: list[int] = field(factory=list)
    waiters: int = 0
    settle: Callable[[Batch, Outcome], object] | None = None
    _listeners: list[Callable[[Outcome], object]] = field(factory=list, init=False)

    @property
    def size(self) -> int:
        """Bytes, uncompressed."""
        return self.builder.size

    def wait_for(self, index: int, timestamp: int, sent: Any) -> None:
        """Somebody waits for a record, one behind all that somebody waits for."""
        sends = self.sends
        if len(sends) != index:
            missing = index - len(sends)
            sends += [None] * missing
            self.stamps += [0] * missing
        sends.append(sent)
        self.stamps.append(timestamp)

    def when_done(self, fn: Callable[[Outcome], object]) -> None:
        """Call ``fn`` with the outcome once it is known."""
        if self.outcome is None:
            self._listeners.append(fn)
        else:
            fn(self.outcome)

    def finish(self, outcome: Outcome) -> None:
        """The outcome is known; who listens is told, once."""
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
    :ivar growing: the batch that takes records.
    :ivar waiting: complete batches in the order in which they are to be sent.
    :ivar in_flight: batches that were sent and not answered, in order.
    :ivar not_before: nothing is sent before this time, in seconds of the producer's clock.
    :ivar broker: whom those in flight were sent to.
    :ivar attempts: how often in a row nothing came of it, for the length of pauses.
    :ivar trouble: what was last in the way.
    :ivar taken: bytes of records that were ever put in.
    """

    partition: TopicPartition
    growing: Batch | None = None
    waiting: list[Batch] = field(factory=list)
    in_flight: list[Batch] = field(factory=list)
    sequences: Sequences = field(factory=Sequences)
    not_before: float = 0.0
    broker: int = -1
    attempts: int = 0
    trouble: Exception | None = None
    taken: int = 0
    _places: int = field(default=0, init=False)

    def begin(self, builder: BatchBuilder, now: float) -> Batch:
        """The next batch that takes records."""
        self._places += 1
        batch = self.growing = Batch(self.partition, builder, now, (self._places,))
        return batch

    def seal(self) -> None:
        """The growing batch is complete."""
        if self.growing is not None:
            self.waiting.append(self.growing)
            self.growing = None

    def may_send(self, broker: int, *, idempotent: bool) -> bool:
        """Whether the first batch that waits may be sent to a broker now, for all that is under way."""
        if not self.in_flight:
            return True
        head = self.waiting[0] if self.waiting else self.growing
        return (
            idempotent
            and head is not None
            and broker == self.broker
            and len(self.in_flight) < MOST_IN_FLIGHT
            and self.sequences.heard
            and not self.sequences.lost
            and not head.attempts
            and all(each.attempts == 1 and each.outcome is None for each in self.in_flight)
        )

    def depart(self, broker: int, producer: ProducerId | None) -> Batch:
        """
        The first batch that waits is sent.

        :param producer: whose numbers it gets, if it has none; None: it gets none.
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

    def _number(self, batch: Batch, producer: ProducerId) -> None:
        sequences = self.sequences
        is_alone = not self.in_flight
        if is_alone and (sequences.lost or sequences.producer != producer) and self._begin(producer):
            # This one is not in the log, so none behind it is.
            for each in self.waiting:
                each.numbers, each.in_doubt = None, False
        if batch.numbers is None:
            batch.numbers = sequences.number(batch.builder.count)

    def _begin(self, producer: ProducerId) -> bool:
        """Count from 0; the next epoch is ours to choose where no coordinator does. Says whether there is a need to."""
        sequences = self.sequences
        mine = sequences.producer
        if mine.producer_id != producer.producer_id or mine.epoch < producer.epoch:
            sequences.begin(producer)
        elif sequences.lost:
            sequences.begin(ProducerId(mine.producer_id, mine.epoch + 1))
        else:
            return False
        return True

    @property
    def is_exhausted(self) -> bool:
        """Whether another epoch is needed and there is none left: only another producer id helps."""
        return self.sequences.lost and self.sequences.producer.epoch >= LAST_EPOCH

    def returned(
        self, batch: Batch, outcome: Outcome, *, final: bool = False, transactional: bool = False
    ) -> list[tuple[Batch, Outcome]]:
        """
        A batch that was sent is answered, or will not be.

        :param outcome: what the broker said; :class:`~logbus.client.idempotence.NotSent` if nobody was asked.
        :param final: it is not to be sent again, whatever is wrong.
        :returns: the batches whose outcome is known by that; none if it is sent again.
        """
        self.in_flight.remove(batch)
        if isinstance(outcome, NotSent):
            batch.attempts -= 1
        if isinstance(outcome, Delivered):
            return self._written(batch, outcome)
        verdict = judge(
            outcome,
            numbered=batch.numbers is not None,
            in_doubt=batch.in_doubt,
            first=self._is_first(batch),
            splittable=batch.builder.count > 1,
            transactional=transactional,
        )
        if verdict is Verdict.WRITTEN:
            return self._written(batch, Delivered(-1, -1))
        if may_be_written(outcome):
            batch.in_doubt = True
        if verdict is not Verdict.SPLIT:
            self.attempts += 1
        if final or verdict is Verdict.FAIL or batch.outcome is not None:
            self.give_up(batch)
            return [(batch, outcome.error if isinstance(outcome, NotSent) else outcome)]
        if verdict is Verdict.SPLIT:
            self._put_back(*self._split(batch))
            return []
        if verdict is Verdict.RENUMBER:
            self.sequences.lost = True
        self._put_back(batch)
        return []

    def give_up(self, batch: Batch) -> None:
        """A batch is not to be sent any more; it waits, or has just come back."""
        if batch in self.waiting:
            self.waiting.remove(batch)
        elif batch is self.growing:
            self.growing = None
        if batch.numbers is None or batch.in_doubt:
            # Those behind a batch in doubt keep their numbers: the broker refuses them if it does not have that one.
            return
        if self._numbered_behind(batch):
            # They cannot be in the log without this one, and the broker says so of each.
            self.sequences.lost = True
        else:
            self.sequences.take_back(batch.numbers)

    def _written(self, batch: Batch, outcome: Delivered) -> list[tuple[Batch, Outcome]]:
        self.attempts = 0
        if batch.numbers is not None:
            self.sequences.written(batch.numbers)
        return [(batch, outcome)]

    def _is_first(self, batch: Batch) -> bool:
        """Whether all that was numbered before it is answered."""
        return not any(each.numbers and each.place < batch.place for each in (*self.in_flight, *self.waiting))

    def _numbered_behind(self, batch: Batch) -> bool:
        return any(each.numbers and each.place > batch.place for each in (*self.in_flight, *self.waiting))

    def _put_back(self, *batches: Batch) -> None:
        at = bisect_left(self.waiting, batches[0].place, key=lambda each: each.place)
        self.waiting[at:at] = batches

    def _split(self, batch: Batch) -> list[Batch]:
        """Two batches with the records of one, and its numbers; the whole has the outcome of both."""
        records = decode_batch(batch.builder.build())
        middle = len(records) // 2
        parts: list[Batch] = []
        for part, records_of in enumerate((records[:middle], records[middle:])):
            builder = BatchBuilder(batch.builder.codec, batch.builder.level)
            for _, timestamp, key, value, headers in records_of:
                builder.append(timestamp, key, value, headers)
            half = Batch(batch.partition, builder, batch.created, (*batch.place, part), batch.attempts)
            first = middle * part
            half.settle = batch.settle
            last = first + len(records_of)
            half.sends, half.stamps = batch.sends[first:last], batch.stamps[first:last]
            if batch.numbers is not None:
                numbers = batch.numbers
                half.numbers = Numbers(numbers.producer, (numbers.sequence + first) & 0x7FFFFFFF)
            parts.append(half)
        batch.waiters = sum(each is not None for each in batch.sends)
        batch.sends, batch.stamps = [], []

        def done(_: Outcome) -> None:
            outcomes = [each.outcome for each in parts]
            if None not in outcomes:
                failed = [each for each in outcomes if isinstance(each, Exception)]
                whole = failed[0] if failed else outcomes[0]
                assert whole is not None
                batch.finish(whole)

        for half in parts:
            half.when_done(done)
        return parts


__all__ = ["NOBODY", "Batch", "Delivered", "Outcome", "PartitionQueue"]
