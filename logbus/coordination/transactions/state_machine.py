"""
The state machine of a transactional id (Kafka: TransactionCoordinator, TransactionMetadata). Pure.

Each function takes the durable state of the id, a request and the time, and returns a :class:`Transition`: the state to
write, and the response to send when it is durable. Nothing changes before that, so a failed write can be decided again
with the same result.

Producers are fenced by epochs. A producer that starts gets a new epoch, and so does every transaction of a V2 client
(KIP-890); requests and batches with an older one are refused. No producer gets the greatest epoch, so that its
predecessor can still be fenced; then the id gets another producer id.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from attrs import evolve

from logbus.coordination.transactions.transaction_metadata import (
    LAST_EPOCH,
    NO_PRODUCER_ID,
    V2,
    ProducerIdAndEpoch,
    TransactionMetadata,
)
from logbus.coordination.transactions.transaction_state import TransactionEvent, TransactionState, next_state
from logbus.coordination.transactions.transition import (
    ENDING,
    IDLE,
    Transition,
    check_known,
    check_not_ahead,
    check_producer,
    concurrent,
    is_exhausted,
    producer_after,
    require_producer_id,
)
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition

# Adding partitions.


def add_partitions(
    current: TransactionMetadata | None,
    producer: ProducerIdAndEpoch,
    partitions: Collection[TopicPartition],
    client_version: int,
    most: int,
    now_ms: int,
) -> Transition:
    """
    Add partitions to the transaction, which begins with the first.

    :param most: the limit of partitions in a transaction.
    :raise ApiError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, POLICY_VIOLATION.
    """
    current = check_known(current)
    check_not_ahead(current, producer)
    check_producer(current, producer)
    if current.state in ENDING:
        raise concurrent(current)
    begins = current.state is not TransactionState.ONGOING
    if not begins and current.partitions.issuperset(partitions):
        return Transition(current, written=False)
    together = current.partitions.union(partitions)
    if len(together) > most:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"a transaction of {len(together)} partitions: transaction.max.partitions is {most}",
        )
    return Transition(
        evolve(
            current,
            state=next_state(current.state, TransactionEvent.ADDED),
            partitions=together,
            started_ms=now_ms if begins else current.started_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )
    )


def verify_partitions(
    current: TransactionMetadata | None, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
) -> Mapping[TopicPartition, ErrorCode]:
    """
    Whether partitions are part of the transaction: NONE, or TRANSACTION_ABORTABLE.

    :raise ApiError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    current = check_known(current)
    check_not_ahead(current, producer)
    check_producer(current, producer)
    if current.state in ENDING:
        raise concurrent(current)
    return {
        partition: ErrorCode.NONE if partition in current.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }


# Ending.


def end_transaction(
    current: TransactionMetadata | None,
    producer: ProducerIdAndEpoch,
    commit: bool,
    client_version: int,
    fresh_id: int | None,
    now_ms: int,
) -> Transition:
    """
    Commit or abort the transaction; may be a retry after a lost response.

    :param client_version: V2: the next transaction gets another epoch.
    :raise ApiError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE.
    :raise ProducerIdNeeded:
    """
    current = check_known(current)
    check_not_ahead(current, producer)
    again = _is_again(current, producer)
    if not again:
        check_producer(current, producer)
    if current.state is TransactionState.ONGOING:
        return _decided(current, commit, client_version, fresh_id, now_ms)
    if current.state in ENDING:
        if (current.state is TransactionState.PREPARE_COMMIT) is not commit:
            raise _not_so(current, commit)
        raise concurrent(current)
    as_before = (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT) is current.state
    if as_before and again is (current.client_version >= V2):
        return Transition(current, written=False)
    if client_version >= V2 and not commit and not again:
        # The producer cannot know whether one of its batches has added a partition.
        return _decided(current, commit, client_version, fresh_id, now_ms)
    raise _not_so(current, commit)


def _is_again(current: TransactionMetadata, producer: ProducerIdAndEpoch) -> bool:
    """Whether a V2 client has ended this transaction before, and missed the response with its new epoch."""
    if (
        current.client_version < V2
        or current.state is TransactionState.ONGOING
        or current.state is TransactionState.EMPTY
    ):
        return False
    if producer == (current.producer_id, current.producer_epoch - 1):
        return True
    return (
        current.state in IDLE
        and current.producer_epoch == 0
        and producer == (current.previous_producer_id, LAST_EPOCH - 1)
    )


def _not_so(current: TransactionMetadata, commit: bool) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_TXN_STATE,
        f"there is no transaction to {'commit' if commit else 'abort'}: the transactional id is {current.state.value}",
    )


def _decided(
    current: TransactionMetadata, commit: bool, client_version: int, fresh_id: int | None, now_ms: int
) -> Transition:
    changes: dict[str, Any] = {}
    if client_version >= V2:
        # The markers carry the new epoch, so batches of this transaction that arrive after them are refused.
        changes = {
            "producer_epoch": current.producer_epoch + 1,
            "last_producer_epoch": current.producer_epoch,
            "next_producer_id": require_producer_id(fresh_id)
            if is_exhausted(current.producer_epoch)
            else NO_PRODUCER_ID,
        }
    return Transition(
        evolve(
            current,
            state=next_state(current.state, TransactionEvent.COMMITTED if commit else TransactionEvent.ABORTED),
            started_ms=current.started_ms if current.state is TransactionState.ONGOING else now_ms,
            updated_ms=now_ms,
            client_version=client_version,
            **changes,
        )
    )


def complete_transaction(current: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """Complete the transaction: all markers are written."""
    producer = producer_after(current)
    return evolve(
        current,
        state=next_state(current.state, TransactionEvent.MARKED),
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        previous_producer_id=current.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
        updated_ms=now_ms,
    )
