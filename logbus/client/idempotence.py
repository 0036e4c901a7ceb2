"""
Idempotence: the numbers by which brokers tell a batch that is sent again from a new one (KIP-98), and what the errors
about them mean (KIP-360). Pure.

Sequences count records, for each partition from 0, and begin anew with each epoch. The broker takes a batch only behind
the one before it, and answers one it has already as if it had just come. So a batch keeps its numbers until it is
certain that it is not in the log; only then it may get others.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from attrs import define

from logbus.client.retry import is_retriable
from logbus.errors import ApiError, ErrorCode
from logbus.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

MOST_IN_FLIGHT = 5
"""Of so many batches a broker remembers the numbers."""
LAST_EPOCH = 0x7FFF
_SEQUENCES = 1 << 31

_NOT_WRITTEN = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    }
)
"""What brokers find out before they append. NOT_LEADER_OR_FOLLOWER is not among them: a leader that steps down says so
of batches, too, that it had appended and that wait for other replicas."""

_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_LOST_TRACK = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)


class ProducerId(NamedTuple):
    """Who a producer is to brokers."""

    producer_id: int
    epoch: int


NOBODY = ProducerId(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class Numbers(NamedTuple):
    """
    A batch's numbers.

    :ivar sequence: of its first record.
    """

    producer: ProducerId
    sequence: int


class Verdict(Enum):
    """What is to be done with a batch that was refused, or not answered."""

    WRITTEN = "it is in the log already"
    AGAIN = "send it again as it is"
    RENUMBER = "send it again with other numbers: the partition does not count as we do"
    SPLIT = "send it again in two parts"
    FAIL = "tell the user"


def after(sequence: int, count: int) -> int:
    """The sequence that follows on ``count`` records; behind the highest comes 0."""
    return (sequence + count) % _SEQUENCES


def may_be_written(error: BaseException) -> bool:
    """Whether a batch may be in the log, although this was the answer to it."""
    return not isinstance(error, NotSent) and not (isinstance(error, ApiError) and error.code in _NOT_WRITTEN)


class NotSent(Exception):
    """
    A batch did not leave: no broker could be asked. What was in the way is the cause.

    :ivar error: the reason.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def judge(
    error: Exception, *, numbered: bool, in_doubt: bool, first: bool, splittable: bool, transactional: bool
) -> Verdict:
    """
    What an error means for a batch.

    :param numbered: it has numbers.
    :param in_doubt: it may be in the log from an attempt before.
    :param first: no batch with lower numbers is still to be answered.
    :param splittable: it has several records.
    :param transactional: the epoch is the coordinator's to change: the transaction has to be aborted instead.
    """
    if isinstance(error, NotSent):
        return Verdict.AGAIN if is_retriable(error.error) else Verdict.FAIL
    code = error.code if isinstance(error, ApiError) else None
    if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER and numbered:
        return Verdict.WRITTEN
    if code in _TOO_LARGE:
        # A part of what may be in the log as a whole would not be known again.
        return Verdict.SPLIT if splittable and not in_doubt else Verdict.FAIL
    if code in _LOST_TRACK and numbered:
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not first:
            # The one before it is missing, and comes again.
            return Verdict.AGAIN
        # What is in doubt may still be on its way with the old numbers: with others it could be in the log twice.
        return Verdict.FAIL if transactional or in_doubt else Verdict.RENUMBER
    return Verdict.AGAIN if is_retriable(error) else Verdict.FAIL


@define
class Sequences:
    """
    How one partition counts.

    :ivar producer: whose numbers these are.
    :ivar next: the sequence of the next record.
    :ivar heard: the partition has taken something with these numbers. Before that it knows nothing of the producer, and
        would take a batch that comes before the one it follows.
    :ivar lost: the partition does not count as we do: nothing may be numbered before :meth:`begin`.
    """

    producer: ProducerId = NOBODY
    next: int = 0
    heard: bool = False
    lost: bool = False

    def begin(self, producer: ProducerId) -> None:
        """Count from 0, under an id or epoch that the partition has not seen."""
        self.producer, self.next, self.heard, self.lost = producer, 0, False, False

    def number(self, count: int) -> Numbers:
        """The numbers of the next batch, of so many records."""
        numbers = Numbers(self.producer, self.next)
        self.next = after(self.next, count)
        return numbers

    def written(self, numbers: Numbers) -> None:
        """A batch is in the log."""
        if numbers.producer == self.producer:
            self.heard = True

    def take_back(self, numbers: Numbers) -> None:
        """The last batch that was numbered is not in the log and never will be: the next one takes its place."""
        if numbers.producer == self.producer and not self.lost:
            self.next = numbers.sequence
