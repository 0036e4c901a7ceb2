"""
What is on its way to one partition, and what a leader's answer means for it. Pure.

Batches reach the log in the order in which they were added. With numbers (KIP-98) several are under way at once while
all goes well: the leader refuses one that comes without the one before it, and knows again one that comes twice. A
batch keeps its numbers for as long as it lives, and both halves of one that was split have the numbers of the whole;
so nothing is ever in the log twice, however often it is sent. What cannot be settled that way fails, and whoever has
the rows begins anew with them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from enum import Enum

from attrs import define, field

from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.pipeline.blocking.retry import is_retriable
from logbus.records.batch import NO_SEQUENCE, BatchBuilder, decode_batch

MOST_IN_FLIGHT = 5
"""Of so many batches a leader remembers the numbers."""
_SEQUENCES = 0x7FFFFFFF

_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_NOT_WRITTEN = _TOO_LARGE | {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
"""What leaders find out before they append. NOT_LEADER_OR_FOLLOWER is not among them: a leader that steps down says it
of batches, too, that it had appended."""


class Verdict(Enum):
    """What is to be done with a batch that was refused, or not answered."""

    WRITTEN = "it is in the log already"
    AGAIN = "send it again as it is"
    SPLIT = "send it again in two parts"
    FAIL = "give up"


@define(eq=False)
class Batch:
    """
    Records for one partition that travel together.

    :ivar place: where it is in the order of its partition; of the halves of a batch both begin with the whole's.
    :ivar created: when it was added, in seconds of the producer's clock.
    :ivar sequence: number of its first record; −1: it has none.
    :ivar attempts: how often it was sent.
    :ivar in_doubt: it may be in the log although nobody said so.
    :ivar trouble: what became of the last attempt.
    """

    partition: TopicPartition
    body: BatchBuilder
    created: float
    place: tuple[int, ...]
    sequence: int = NO_SEQUENCE
    attempts: int = 0
    in_doubt: bool = False
    trouble: Exception | None = None


def judge(error: Exception, *, numbered: bool, in_doubt: bool, first: bool, splittable: bool) -> Verdict:
    """
    What an error means for a batch.

    :param in_doubt: it may be in the log from an attempt before.
    :param first: no batch of its partition that comes before it is still to be written.
    :param splittable: it has several records.
    """
    code = error.code if isinstance(error, ApiError) else None
    if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER and numbered:
        return Verdict.WRITTEN
    if code in _TOO_LARGE:
        # A part of what may be in the log as a whole would not be known again; with numbers it would leave a gap.
        return Verdict.SPLIT if splittable and (numbered or not in_doubt) else Verdict.FAIL
    if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and numbered and not first:
        # The one before it is missing, and comes again.
        return Verdict.AGAIN
    return Verdict.AGAIN if is_retriable(error) else Verdict.FAIL


def may_be_written(error: Exception) -> bool:
    """Whether a batch may be in the log, although this was the answer to it."""
    return not (isinstance(error, ApiError) and error.code in _NOT_WRITTEN)


@define(eq=False)
class Lane:
    """
    :ivar numbered: batches have numbers. Without, one at a time is under way.
    :ivar waiting: batches to send, in order.
    :ivar in_flight: batches that were sent and not answered, in order.
    :ivar broker: whom those in flight were sent to.
    :ivar heard: the leader has taken something: before that it knows nothing of us, and would take a batch that comes
        before the one it follows.
    :ivar attempts: how often in a row nothing came of it.
    :ivar not_before: nothing is sent before, in seconds of the producer's clock.
    """

    partition: TopicPartition
    numbered: bool = True
    waiting: deque[Batch] = field(factory=deque, init=False)
    in_flight: list[Batch] = field(factory=list, init=False)
    broker: int = field(default=-1, init=False)
    heard: bool = field(default=False, init=False)
    attempts: int = field(default=0, init=False)
    not_before: float = field(default=0.0, init=False)
    _next: int = field(default=0, init=False)
    _places: int = field(default=0, init=False)

    @property
    def idle(self) -> bool:
        """Whether all that was added is written."""
        return not self.waiting and not self.in_flight

    def add(self, body: BatchBuilder, now: float) -> Batch:
        """Something to send, behind all else."""
        self._places += 1
        batch = Batch(self.partition, body, now, (self._places,))
        if self.numbered:
            batch.sequence = self._next
            self._next = _after(self._next, body.count)
        self.waiting.append(batch)
        return batch

    def may_send(self, broker: int, now: float) -> bool:
        """Whether the first batch that waits may be sent to a broker now, for all that is under way."""
        if not self.waiting or now < self.not_before:
            return False
        if not self.in_flight:
            return True
        return (
            self.numbered
            and self.heard
            and broker == self.broker
            and len(self.in_flight) < MOST_IN_FLIGHT
            and not self.waiting[0].attempts
            and all(each.attempts == 1 for each in self.in_flight)
        )

    def depart(self, broker: int) -> Batch:
        """The first batch that waits is sent."""
        batch = self.waiting.popleft()
        batch.attempts += 1
        self.in_flight.append(batch)
        self.broker = broker
        return batch

    def unsent(self, batch: Batch) -> None:
        """A batch that departed did not leave at all."""
        self.in_flight.remove(batch)
        batch.attempts -= 1
        self._put_back(batch)

    def returned(self, batch: Batch, error: Exception | None, pause: float, now: float) -> Verdict:
        """
        A batch that was sent is answered, or will not be.

        :param error: None: it is written.
        :param pause: seconds before the next attempt.
        :returns: what becomes of it; at AGAIN and SPLIT it waits already.
        """
        self.in_flight.remove(batch)
        if error is None:
            verdict = Verdict.WRITTEN
        else:
            first = not any(each.place < batch.place for each in (*self.in_flight, *self.waiting))
            verdict = judge(
                error, numbered=self.numbered, in_doubt=batch.in_doubt, first=first, splittable=batch.body.count > 1
            )
            batch.trouble = error
            batch.in_doubt = batch.in_doubt or may_be_written(error)
        if verdict is Verdict.WRITTEN:
            self.heard = True
            self.attempts = 0
        elif verdict is Verdict.AGAIN:
            self.attempts += 1
            self.not_before = now + pause
            self._put_back(batch)
        elif verdict is Verdict.SPLIT:
            self._put_back(*self._split(batch))
        return verdict

    def _put_back(self, *batches: Batch) -> None:
        at = bisect_left(self.waiting, batches[0].place, key=lambda each: each.place)
        for each in reversed(batches):
            self.waiting.insert(at, each)

    def _split(self, batch: Batch) -> list[Batch]:
        halves, sequence = [], batch.sequence
        for index, body in enumerate(_halves(batch.body)):
            half = Batch(self.partition, body, batch.created, (*batch.place, index), sequence, batch.attempts)
            if self.numbered:
                sequence = _after(sequence, body.count)
            halves.append(half)
        return halves


def _after(sequence: int, count: int) -> int:
    """The sequence that follows on ``count`` records; behind the highest comes 0."""
    return (sequence + count) & _SEQUENCES


def _halves(whole: BatchBuilder) -> tuple[BatchBuilder, BatchBuilder]:
    records = decode_batch(whole.build())
    middle = len(records) // 2
    halves = BatchBuilder(whole.codec, whole.level), BatchBuilder(whole.codec, whole.level)
    for index, (_, timestamp, key, value, headers) in enumerate(records):
        halves[index >= middle].append(timestamp, key, value, headers)
    return halves
