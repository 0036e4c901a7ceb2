"""
Sequence numbers of batches (KIP-98), and how to handle the errors about them (KIP-360). Pure.

Sequences count the records of each partition, and restart at 0 with each epoch. The broker accepts a batch only after
its predecessor, and answers a duplicate as if it had just been written. So a batch keeps its numbers until it is
certain that it is not in the log; only then it may get others.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from attrs import define

from logbus.client.retry import is_retriable
from logbus.errors import ApiError, ErrorCode
from logbus.records.header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

MAX_IN_FLIGHT = 5
"""The number of batches whose sequences a broker remembers."""
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
"""Errors that are detected before a batch is appended. NOT_LEADER_OR_FOLLOWER is not among them: a leader that steps
down also returns it for batches that it has appended and that wait for replication."""

_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_LOST_TRACK = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)


class ProducerId(NamedTuple):
    """A producer id with its epoch."""

    producer_id: int
    epoch: int


NO_PRODUCER = ProducerId(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class BatchSequence(NamedTuple):
    """
    The sequence numbers of a batch.

    :ivar sequence: of the first record.
    """

    producer: ProducerId
    sequence: int


class FailureResolution(Enum):
    """The decision about a batch that failed."""

    WRITTEN = "it is in the log already"
    AGAIN = "send it again as it is"
    RENUMBER = "send it again with other numbers: the partition does not count as we do"
    SPLIT = "send it again in two parts"
    FAIL = "tell the user"


def next_sequence(sequence: int, count: int) -> int:
    """The sequence after ``count`` records; wraps to 0 after the highest."""
    return (sequence + count) % _SEQUENCES


def may_be_written(error: BaseException) -> bool:
    """Whether a batch may be in the log in spite of this error."""
    return not isinstance(error, NotSent) and not (isinstance(error, ApiError) and error.code in _NOT_WRITTEN)


class NotSent(Exception):
    """
    A batch was not sent, because no broker could be reached; the cause is chained.

    :ivar error: the reason.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def resolve_failure(
    error: Exception, *, numbered: bool, in_doubt: bool, first: bool, splittable: bool, transactional: bool
) -> FailureResolution:
    """
    Decide what to do with a batch after an error.

    :param numbered: it has sequence numbers.
    :param in_doubt: an earlier attempt may have written it.
    :param first: no earlier batch is unanswered.
    :param splittable: it has several records.
    :param transactional: only the coordinator may change the epoch, so the transaction has to be aborted instead.
    """
    if isinstance(error, NotSent):
        return FailureResolution.AGAIN if is_retriable(error.error) else FailureResolution.FAIL
    code = error.code if isinstance(error, ApiError) else None
    if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER and numbered:
        return FailureResolution.WRITTEN
    if code in _TOO_LARGE:
        # If the whole batch is in the log already, the broker would not recognise its halves.
        return FailureResolution.SPLIT if splittable and not in_doubt else FailureResolution.FAIL
    if code in _LOST_TRACK and numbered:
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not first:
            # An earlier batch is missing, and will be retried.
            return FailureResolution.AGAIN
        # A batch in doubt may still arrive with the old numbers; under new ones it could be written twice.
        return FailureResolution.FAIL if transactional or in_doubt else FailureResolution.RENUMBER
    return FailureResolution.AGAIN if is_retriable(error) else FailureResolution.FAIL


@define
class PartitionSequences:
    """
    The sequence numbers of one partition.

    :ivar producer: the producer id and epoch that they belong to.
    :ivar next: the sequence of the next record.
    :ivar accepted: the partition has accepted a batch with these numbers. Before that it knows nothing of the producer,
        and would accept a batch that arrives before its predecessor.
    :ivar lost: the broker expects other numbers: assign none before :meth:`begin`.
    """

    producer: ProducerId = NO_PRODUCER
    next: int = 0
    accepted: bool = False
    lost: bool = False

    def begin(self, producer: ProducerId) -> None:
        """Restart at 0, under a producer id or epoch that is new to the partition."""
        self.producer, self.next, self.accepted, self.lost = producer, 0, False, False

    def number(self, count: int) -> BatchSequence:
        """Assign numbers to the next batch."""
        numbers = BatchSequence(self.producer, self.next)
        self.next = next_sequence(self.next, count)
        return numbers

    def written(self, numbers: BatchSequence) -> None:
        """Note that a batch was written."""
        if numbers.producer == self.producer:
            self.accepted = True

    def take_back(self, numbers: BatchSequence) -> None:
        """Reuse the numbers of the last batch, which will never be in the log."""
        if numbers.producer == self.producer and not self.lost:
            self.next = numbers.sequence
