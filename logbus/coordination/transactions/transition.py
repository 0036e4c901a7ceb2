"""
The result of a decision about a transactional id, and the checks that all decisions share. Pure.
"""

from __future__ import annotations

from attrs import frozen

from logbus.coordination.transactions.transaction_metadata import (
    LAST_EPOCH,
    NO_PRODUCER_ID,
    V2,
    ProducerIdAndEpoch,
    TransactionMetadata,
)
from logbus.coordination.transactions.transaction_state import TransactionState
from logbus.errors import ApiError, ErrorCode

IDLE = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
"""States without a transaction."""

ENDING = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""States in which commit or abort is decided, and markers are being written."""


class ProducerIdNeeded(Exception):
    """A new producer id is needed: decide again with one."""


@frozen
class Transition:
    """
    The result of a decision (Kafka: TxnTransitMetadata).

    :ivar transaction: the state to write; the present one, if there is nothing to write.
    :ivar written: whether there is something to write.
    :ivar answer: the response after the write: NONE, or CONCURRENT_TRANSACTIONS, if the client has to retry.
    """

    transaction: TransactionMetadata
    written: bool = True
    answer: ErrorCode = ErrorCode.NONE


def is_exhausted(epoch: int) -> bool:
    """Whether there is no next epoch for a producer of this epoch."""
    return epoch >= LAST_EPOCH - 1


def require_producer_id(fresh_id: int | None) -> int:
    """
    The new producer id.

    :raise ProducerIdNeeded: there is none yet.
    """
    if fresh_id is None:
        raise ProducerIdNeeded
    return fresh_id


def fenced_error(current: TransactionMetadata, epoch: int) -> ApiError:
    """The error for a producer with another epoch than the present one."""
    return ApiError(ErrorCode.PRODUCER_FENCED, f"epoch {epoch} is not that of the producer, {current.producer_epoch}")


def producer_after(transaction: TransactionMetadata) -> ProducerIdAndEpoch:
    """The producer id and epoch after the decided end, with which the producer may go on at once."""
    if transaction.next_producer_id != NO_PRODUCER_ID:
        return ProducerIdAndEpoch(transaction.next_producer_id, 0)
    return transaction.producer


def check_known(current: TransactionMetadata | None) -> TransactionMetadata:
    """
    The state of an id that must exist.

    :raise ApiError: INVALID_PRODUCER_ID_MAPPING: it does not.
    """
    if current is None:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "no producer has begun with this transactional id")
    return current


def check_producer(current: TransactionMetadata, producer: ProducerIdAndEpoch) -> None:
    """
    Refuse a request of another producer id or epoch.

    :raise ApiError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED.
    """
    if producer.producer_id != current.producer_id:
        raise ApiError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"the transactional id belongs to producer {current.producer_id}, not to {producer.producer_id}",
        )
    if producer.epoch != current.producer_epoch:
        raise fenced_error(current, producer.epoch)


def check_not_ahead(current: TransactionMetadata, producer: ProducerIdAndEpoch) -> None:
    """
    Refuse the next transaction of a V2 client while the present one is being completed.

    :raise ApiError: CONCURRENT_TRANSACTIONS.
    """
    if current.state in ENDING and current.client_version >= V2 and producer == producer_after(current):
        raise concurrent(current)


def concurrent(current: TransactionMetadata) -> ApiError:
    """The error while the transaction before is not complete."""
    return ApiError(ErrorCode.CONCURRENT_TRANSACTIONS, f"the transaction before is {current.state.value}")
