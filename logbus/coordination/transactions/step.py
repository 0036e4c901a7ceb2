"""
What a decision about a transactional id comes to, and what all decisions have in common. Pure.
"""

from __future__ import annotations

from attrs import frozen

from logbus.coordination.transactions.states import TransactionState
from logbus.coordination.transactions.transaction import (
    LAST_EPOCH,
    NO_PRODUCER_ID,
    V2,
    ProducerIdAndEpoch,
    Transaction,
)
from logbus.errors import ApiError, ErrorCode

IDLE = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
"""No transaction is under way."""

ENDING = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""How it ends is decided; the markers are not all there."""


class ProducerIdNeeded(Exception):
    """It cannot be decided without a new producer id: decide again with one."""


@frozen
class Step:
    """
    What is to be done.

    :ivar transaction: the state to write; the one that holds, if there is nothing to write.
    :ivar written: whether there is.
    :ivar answer: what to say then: NONE, or CONCURRENT_TRANSACTIONS, if the client has to come again.
    """

    transaction: Transaction
    written: bool = True
    answer: ErrorCode = ErrorCode.NONE


def is_exhausted(epoch: int) -> bool:
    """Whether a producer of this epoch cannot get the next one."""
    return epoch >= LAST_EPOCH - 1


def id_of(fresh_id: int | None) -> int:
    """
    The new producer id.

    :raise ProducerIdNeeded: there is none yet.
    """
    if fresh_id is None:
        raise ProducerIdNeeded
    return fresh_id


def fenced_error(now: Transaction, epoch: int) -> ApiError:
    """Whoever has this epoch is not the producer any more, or not yet."""
    return ApiError(ErrorCode.PRODUCER_FENCED, f"epoch {epoch} is not that of the producer, {now.producer_epoch}")


def producer_after(ending: Transaction) -> ProducerIdAndEpoch:
    """Who the producer is, once an end is decided: it may go on as that at once."""
    if ending.next_producer_id != NO_PRODUCER_ID:
        return ProducerIdAndEpoch(ending.next_producer_id, 0)
    return ending.producer


def known(now: Transaction | None) -> Transaction:
    """
    What is known of an id.

    :raise ApiError: INVALID_PRODUCER_ID_MAPPING: nothing.
    """
    if now is None:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "no producer has begun with this transactional id")
    return now


def check_producer(now: Transaction, producer: ProducerIdAndEpoch) -> None:
    """
    Refuse whoever is not the producer.

    :raise ApiError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED.
    """
    if producer.producer_id != now.producer_id:
        raise ApiError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"the transactional id belongs to producer {now.producer_id}, not to {producer.producer_id}",
        )
    if producer.epoch != now.producer_epoch:
        raise fenced_error(now, producer.epoch)


def check_not_ahead(now: Transaction, producer: ProducerIdAndEpoch) -> None:
    """
    A client that works by V2 begins its next transaction as soon as the end of this one is decided.

    :raise ApiError: CONCURRENT_TRANSACTIONS: it has.
    """
    if now.state in ENDING and now.client_version >= V2 and producer == producer_after(now):
        raise concurrent(now)


def concurrent(now: Transaction) -> ApiError:
    """Something else has to be over first."""
    return ApiError(ErrorCode.CONCURRENT_TRANSACTIONS, f"the transaction before is {now.state.value}")
