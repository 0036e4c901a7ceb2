"""
What becomes of one transactional id, whatever is asked: decisions without a reactor, by the table of states. Pure.

Each function takes what is durable of the id, what is asked and the time, and gives a :class:`Step`: the state to
write, and what to answer once it is durable. Nothing changes before that: what could not be written is decided again
from the same state, and comes out the same.

Epochs are what fences. Whoever begins with an id gets a new epoch, and so does every transaction of a client that works
by :data:`.V2`; whatever carries an older one is refused. The greatest epoch goes to no producer, so that the one before
can be fenced; then the id gets another producer id.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from attrs import evolve

from logbus.coordination.transactions.beginning import dead, fenced, initialized, is_expired, is_overdue, timed_out
from logbus.coordination.transactions.states import Event, TransactionState, moved
from logbus.coordination.transactions.step import (
    ENDING,
    IDLE,
    ProducerIdNeeded,
    Step,
    check_not_ahead,
    check_producer,
    concurrent,
    id_of,
    is_exhausted,
    known,
    producer_after,
)
from logbus.coordination.transactions.transaction import (
    LAST_EPOCH,
    NO_PRODUCER_ID,
    V2,
    ProducerIdAndEpoch,
    Transaction,
)
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition

__all__ = [
    "ENDING",
    "IDLE",
    "ProducerIdNeeded",
    "Step",
    "added",
    "completed",
    "dead",
    "ended",
    "fenced",
    "initialized",
    "is_expired",
    "is_overdue",
    "producer_after",
    "timed_out",
    "verified",
]

# Partitions take part.


def added(
    now: Transaction | None,
    producer: ProducerIdAndEpoch,
    partitions: Collection[TopicPartition],
    client_version: int,
    most: int,
    now_ms: int,
) -> Step:
    """
    Partitions take part in the transaction, which begins with the first.

    :param most: how many may take part.
    :raise ApiError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, POLICY_VIOLATION.
    """
    now = known(now)
    check_not_ahead(now, producer)
    check_producer(now, producer)
    if now.state in ENDING:
        raise concurrent(now)
    begins = now.state is not TransactionState.ONGOING
    if not begins and now.partitions.issuperset(partitions):
        return Step(now, written=False)
    together = now.partitions.union(partitions)
    if len(together) > most:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"a transaction of {len(together)} partitions: transaction.max.partitions is {most}",
        )
    return Step(
        evolve(
            now,
            state=moved(now.state, Event.ADDED),
            partitions=together,
            started_ms=now_ms if begins else now.started_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )
    )


def verified(
    now: Transaction | None, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
) -> Mapping[TopicPartition, ErrorCode]:
    """
    Whether partitions take part: NONE, or TRANSACTION_ABORTABLE.

    :raise ApiError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    now = known(now)
    check_not_ahead(now, producer)
    check_producer(now, producer)
    if now.state in ENDING:
        raise concurrent(now)
    return {
        partition: ErrorCode.NONE if partition in now.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }


# The end.


def ended(
    now: Transaction | None,
    producer: ProducerIdAndEpoch,
    commit: bool,
    client_version: int,
    fresh_id: int | None,
    now_ms: int,
) -> Step:
    """
    The producer commits or aborts, perhaps for the second time, because it did not hear the answer.

    :param client_version: V2: the next transaction gets another epoch.
    :raise ApiError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE.
    :raise ProducerIdNeeded:
    """
    now = known(now)
    check_not_ahead(now, producer)
    again = _is_again(now, producer)
    if not again:
        check_producer(now, producer)
    if now.state is TransactionState.ONGOING:
        return _decided(now, commit, client_version, fresh_id, now_ms)
    if now.state in ENDING:
        if (now.state is TransactionState.PREPARE_COMMIT) is not commit:
            raise _not_so(now, commit)
        raise concurrent(now)
    as_before = (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT) is now.state
    if as_before and again is (now.client_version >= V2):
        return Step(now, written=False)
    if client_version >= V2 and not commit and not again:
        # It wrote, and cannot know whether any partition came to take part.
        return _decided(now, commit, client_version, fresh_id, now_ms)
    raise _not_so(now, commit)


def _is_again(now: Transaction, producer: ProducerIdAndEpoch) -> bool:
    """Whether a client that works by V2 has ended this transaction, and did not hear of its new epoch."""
    if now.client_version < V2 or now.state is TransactionState.ONGOING or now.state is TransactionState.EMPTY:
        return False
    if producer == (now.producer_id, now.producer_epoch - 1):
        return True
    return now.state in IDLE and now.producer_epoch == 0 and producer == (now.previous_producer_id, LAST_EPOCH - 1)


def _not_so(now: Transaction, commit: bool) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_TXN_STATE,
        f"there is no transaction to {'commit' if commit else 'abort'}: the transactional id is {now.state.value}",
    )


def _decided(now: Transaction, commit: bool, client_version: int, fresh_id: int | None, now_ms: int) -> Step:
    changes: dict[str, Any] = {}
    if client_version >= V2:
        # The markers carry the new epoch: whatever of this transaction comes after them is refused.
        changes = {
            "producer_epoch": now.producer_epoch + 1,
            "last_producer_epoch": now.producer_epoch,
            "next_producer_id": id_of(fresh_id) if is_exhausted(now.producer_epoch) else NO_PRODUCER_ID,
        }
    return Step(
        evolve(
            now,
            state=moved(now.state, Event.COMMITTED if commit else Event.ABORTED),
            started_ms=now.started_ms if now.state is TransactionState.ONGOING else now_ms,
            updated_ms=now_ms,
            client_version=client_version,
            **changes,
        )
    )


def completed(now: Transaction, now_ms: int) -> Transaction:
    """All markers are there."""
    producer = producer_after(now)
    return evolve(
        now,
        state=moved(now.state, Event.MARKED),
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        previous_producer_id=now.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
        updated_ms=now_ms,
    )
