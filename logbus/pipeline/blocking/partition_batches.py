"""
The waiting and in-flight batches of one partition, and how each response is handled. Pure.

Batches are written in the order in which they were added. With sequence numbers (KIP-98) several are in flight at once
while there are no errors: the leader rejects a batch whose predecessor is missing, and recognizes a duplicate. A batch
keeps its sequence numbers through all retries, and the halves of a split batch have the numbers of the whole. So no
record is in the log twice, however often it is sent. An error that cannot be resolved this way fails the producer, and
the task starts again with its rows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from enum import Enum

from attrs import define, field

from logbus.client.producer.idempotence import MAX_IN_FLIGHT, next_sequence
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.pipeline.blocking.retry import is_retriable
from logbus.records.batch import BatchBuilder, decode_batch
from logbus.records.column_batch import ColumnBatch
from logbus.records.header import NO_SEQUENCE

_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_NOT_WRITTEN = _TOO_LARGE | {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
"""Errors that a leader finds before it appends. NOT_LEADER_OR_FOLLOWER is not among them: a leader that loses its
leadership also returns it for batches that it has appended."""


class RetryDecision(Enum):
    """The decision about a batch after an error or a lost connection."""

    WRITTEN = "it is in the log already"
    AGAIN = "send it again as it is"
    SPLIT = "send it again in two parts"
    FAIL = "give up"


@define(eq=False)
class ProducerBatch:
    """
    A batch of records for one partition (Kafka: ProducerBatch).

    :ivar place: its position in the partition's order; the places of a split batch's halves begin with the whole's.
    :ivar created: when it was added, in seconds of the producer's clock.
    :ivar sequence: its base sequence number; −1: none.
    :ivar attempts: how often it was sent.
    :ivar in_doubt: it may be in the log, although that was not acknowledged.
    :ivar last_error: the error of the last attempt.
    """

    partition: TopicPartition
    body: BatchBuilder | ColumnBatch
    created: float
    place: tuple[int, ...]
    sequence: int = NO_SEQUENCE
    attempts: int = 0
    in_doubt: bool = False
    last_error: Exception | None = None


def decide_retry(error: Exception, *, idempotent: bool, in_doubt: bool, first: bool, splittable: bool) -> RetryDecision:
    """
    Decide how to go on with a batch after an error.

    :param idempotent: it has sequence numbers.
    :param in_doubt: an earlier attempt may have written it.
    :param first: all earlier batches of its partition are written.
    :param splittable: it has several records.
    """
    code = error.code if isinstance(error, ApiError) else None
    if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER and idempotent:
        return RetryDecision.WRITTEN
    if code in _TOO_LARGE:
        # If the whole may be in the log, the leader would not recognize a half as a duplicate. With sequence numbers it
        # would find a gap instead.
        return RetryDecision.SPLIT if splittable and (idempotent or not in_doubt) else RetryDecision.FAIL
    if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and idempotent and not first:
        # Its predecessor is missing, and is sent again.
        return RetryDecision.AGAIN
    return RetryDecision.AGAIN if is_retriable(error) else RetryDecision.FAIL


def may_be_written(error: Exception) -> bool:
    """Whether a batch may be in the log in spite of this error."""
    return not (isinstance(error, ApiError) and error.code in _NOT_WRITTEN)


@define(eq=False)
class PartitionBatches:
    """
    The batches of one partition that are not written yet.

    :ivar idempotent: batches have sequence numbers. Without them one at a time is in flight.
    :ivar waiting: batches to send, in order.
    :ivar in_flight: batches that were sent and have no response, in order.
    :ivar broker: the id of the broker that those in flight were sent to.
    :ivar leader_has_state: the leader has written a batch of this producer. Until then it has no state of the producer,
        and would accept a batch that overtakes its predecessor.
    :ivar attempts: failed attempts in a row.
    :ivar not_before: when the next batch may be sent, in seconds of the producer's clock.
    """

    partition: TopicPartition
    idempotent: bool = True
    waiting: deque[ProducerBatch] = field(factory=deque, init=False)
    in_flight: list[ProducerBatch] = field(factory=list, init=False)
    broker: int = field(default=-1, init=False)
    leader_has_state: bool = field(default=False, init=False)
    attempts: int = field(default=0, init=False)
    not_before: float = field(default=0.0, init=False)
    _next: int = field(default=0, init=False)
    _places: int = field(default=0, init=False)

    @property
    def idle(self) -> bool:
        """Whether all batches are written."""
        return not self.waiting and not self.in_flight

    def add(self, body: BatchBuilder | ColumnBatch, now: float) -> ProducerBatch:
        """Append a batch to those that wait."""
        self._places += 1
        batch = ProducerBatch(self.partition, body, now, (self._places,))
        if self.idempotent:
            batch.sequence = self._next
            self._next = next_sequence(self._next, body.count)
        self.waiting.append(batch)
        return batch

    def may_send(self, broker: int, now: float) -> bool:
        """Whether the first waiting batch may be sent to a broker now."""
        if not self.waiting or now < self.not_before:
            return False
        if not self.in_flight:
            return True
        return (
            self.idempotent
            and self.leader_has_state
            and broker == self.broker
            and len(self.in_flight) < MAX_IN_FLIGHT
            and not self.waiting[0].attempts
            and all(each.attempts == 1 for each in self.in_flight)
        )

    def send_next(self, broker: int) -> ProducerBatch:
        """Move the first waiting batch to those in flight."""
        batch = self.waiting.popleft()
        batch.attempts += 1
        self.in_flight.append(batch)
        self.broker = broker
        return batch

    def unsent(self, batch: ProducerBatch) -> None:
        """Put a batch back that could not be sent."""
        self.in_flight.remove(batch)
        batch.attempts -= 1
        self._put_back(batch)

    def handle_result(self, batch: ProducerBatch, error: Exception | None, pause: float, now: float) -> RetryDecision:
        """
        Handle the result of a batch in flight.

        :param error: None: it is written.
        :param pause: seconds before the next attempt.
        :returns: the decision; after AGAIN and SPLIT the batch waits already.
        """
        self.in_flight.remove(batch)
        if error is None:
            decision = RetryDecision.WRITTEN
        else:
            first = not any(each.place < batch.place for each in (*self.in_flight, *self.waiting))
            decision = decide_retry(
                error, idempotent=self.idempotent, in_doubt=batch.in_doubt, first=first, splittable=batch.body.count > 1
            )
            batch.last_error = error
            batch.in_doubt = batch.in_doubt or may_be_written(error)
        if decision is RetryDecision.WRITTEN:
            self.leader_has_state = True
            self.attempts = 0
        elif decision is RetryDecision.AGAIN:
            self.attempts += 1
            self.not_before = now + pause
            self._put_back(batch)
        elif decision is RetryDecision.SPLIT:
            self._put_back(*self._split(batch))
        return decision

    def _put_back(self, *batches: ProducerBatch) -> None:
        at = bisect_left(self.waiting, batches[0].place, key=lambda each: each.place)
        for each in reversed(batches):
            self.waiting.insert(at, each)

    def _split(self, batch: ProducerBatch) -> list[ProducerBatch]:
        halves, sequence = [], batch.sequence
        for index, body in enumerate(_halves(batch.body)):
            half = ProducerBatch(self.partition, body, batch.created, (*batch.place, index), sequence, batch.attempts)
            if self.idempotent:
                sequence = next_sequence(sequence, body.count)
            halves.append(half)
        return halves


def _halves(whole: BatchBuilder | ColumnBatch) -> tuple[BatchBuilder, BatchBuilder]:
    records = decode_batch(whole.build())
    middle = len(records) // 2
    halves = BatchBuilder(whole.codec, whole.level), BatchBuilder(whole.codec, whole.level)
    for index, (_, timestamp, key, value, headers) in enumerate(records):
        halves[index >= middle].append(timestamp, key, value, headers)
    return halves
