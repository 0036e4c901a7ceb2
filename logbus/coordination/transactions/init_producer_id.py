"""
Transitions of InitProducerId, of the transaction timeout and of the expiration of transactional ids (KIP-360, KIP-890).
Pure.
"""

from __future__ import annotations

from attrs import evolve

from logbus.coordination.transactions.transaction_metadata import (
    LAST_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    V1,
    V2,
    ProducerIdAndEpoch,
    TransactionMetadata,
)
from logbus.coordination.transactions.transaction_state import TransactionEvent, TransactionState, next_state
from logbus.coordination.transactions.transition import (
    ENDING,
    IDLE,
    Transition,
    concurrent,
    fenced_error,
    is_exhausted,
    require_producer_id,
)
from logbus.errors import ErrorCode


def init_producer_id(
    current: TransactionMetadata | None,
    transactional_id: str,
    timeout_ms: int,
    expected: ProducerIdAndEpoch | None,
    fresh_id: int | None,
    now_ms: int,
) -> Transition:
    """
    Handle InitProducerId: a producer starts, or goes on after an error.

    :param current: None: the id is new.
    :param expected: its present producer id and epoch (KIP-360); None: it has just started.
    :param fresh_id: a new producer id, if there is one.
    :raise ApiError: PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    :raise ProducerIdNeeded:
    """
    if current is None:
        return Transition(
            TransactionMetadata(
                transactional_id,
                require_producer_id(fresh_id),
                0,
                timeout_ms,
                TransactionState.EMPTY,
                updated_ms=now_ms,
            )
        )
    if current.state in ENDING:
        # This check comes first: a producer that goes on may already have the producer id of the next transaction.
        raise concurrent(current)
    if expected is not None and not _may_be(current, expected):
        raise fenced_error(current, expected.epoch)
    if current.state is TransactionState.ONGOING:
        if expected is not None and expected != current.producer:
            # A zombie must not end the transaction of its successor.
            raise fenced_error(current, expected.epoch)
        return abort_for_new_producer(current, now_ms, goes_on=expected is not None)
    producer, last_epoch = _next_producer(current, expected, fresh_id)
    return Transition(
        evolve(
            current,
            state=next_state(current.state, TransactionEvent.INITIALIZED),
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            last_producer_epoch=last_epoch,
            previous_producer_id=current.producer_id,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            started_ms=NO_TIMESTAMP,
            updated_ms=now_ms,
            client_version=V1,
        )
    )


def _may_be(current: TransactionMetadata, expected: ProducerIdAndEpoch) -> bool:
    """Whether a producer has the present id, or the previous one without knowing that it was replaced."""
    if expected.producer_id == current.producer_id:
        return True
    return expected.producer_id == current.previous_producer_id and is_exhausted(expected.epoch)


def _next_producer(
    current: TransactionMetadata, expected: ProducerIdAndEpoch | None, fresh_id: int | None
) -> tuple[ProducerIdAndEpoch, int]:
    """The new producer id and epoch, and the last epoch, with which the producer may retry."""
    is_retry = expected is not None and expected != current.producer
    if is_retry:
        assert expected is not None
        # The response to a successful call was lost. No other producer has started since: that would have cleared the
        # last epoch.
        if expected.epoch != current.last_producer_epoch:
            raise fenced_error(current, expected.epoch)
        if current.producer_epoch < LAST_EPOCH:
            return current.producer, current.last_producer_epoch
    last_epoch = NO_PRODUCER_EPOCH if expected is None else expected.epoch
    if is_exhausted(current.producer_epoch):
        return ProducerIdAndEpoch(require_producer_id(fresh_id), 0), last_epoch
    return ProducerIdAndEpoch(current.producer_id, current.producer_epoch + 1), last_epoch


def abort_for_new_producer(current: TransactionMetadata, now_ms: int, *, goes_on: bool) -> Transition:
    """
    Abort the ongoing transaction, because a producer starts.

    :param goes_on: the same producer goes on; else the holder of the present epoch is fenced.
    :return: a result that makes the client retry.
    """
    return Transition(_bumped(current, now_ms, goes_on=goes_on), answer=ErrorCode.CONCURRENT_TRANSACTIONS)


def _bumped(current: TransactionMetadata, now_ms: int, *, goes_on: bool) -> TransactionMetadata:
    fence = next_state(current.state, TransactionEvent.FENCED)
    return evolve(
        current,
        state=next_state(fence, TransactionEvent.BUMPED),
        producer_epoch=current.producer_epoch + 1,
        last_producer_epoch=current.producer_epoch if goes_on else NO_PRODUCER_EPOCH,
        updated_ms=now_ms,
        client_version=V1,
    )


def has_timed_out(current: TransactionMetadata, now_ms: int) -> bool:
    """Whether a transaction has exceeded its timeout."""
    return current.state is TransactionState.ONGOING and current.started_ms + current.timeout_ms < now_ms


def abort_timed_out(current: TransactionMetadata, fresh_id: int | None, now_ms: int) -> Transition:
    """
    Abort a transaction that has exceeded its timeout, with a new epoch, which fences requests still on their way.

    A V2 client may go on, as if it had aborted the transaction itself and missed the response.

    :raise ProducerIdNeeded:
    """
    bumped = _bumped(current, now_ms, goes_on=True)
    if current.client_version < V2:
        return Transition(bumped)
    next_id = require_producer_id(fresh_id) if is_exhausted(current.producer_epoch) else NO_PRODUCER_ID
    return Transition(evolve(bumped, client_version=V2, next_producer_id=next_id))


# Expiration of transactional ids.


def is_expired(current: TransactionMetadata, now_ms: int, expiration_ms: int) -> bool:
    """Whether an id has been unused for longer than ``transactional.id.expiration.ms``."""
    return current.state in IDLE and current.updated_ms <= now_ms - expiration_ms


def mark_dead(current: TransactionMetadata) -> TransactionMetadata:
    """The state of an id that is being removed."""
    return evolve(current, state=next_state(current.state, TransactionEvent.EXPIRED))
