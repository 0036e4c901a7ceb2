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

from attrs import evolve, frozen

from logbus.coordination.transactions.states import Event, TransactionState, moved
from logbus.coordination.transactions.transaction import (
    LAST_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    V1,
    V2,
    ProducerIdAndEpoch,
    Transaction,
)
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition

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


def _id_of(fresh_id: int | None) -> int:
    if fresh_id is None:
        raise ProducerIdNeeded
    return fresh_id


def _fenced(now: Transaction, epoch: int) -> ApiError:
    return ApiError(ErrorCode.PRODUCER_FENCED, f"epoch {epoch} is not that of the producer, {now.producer_epoch}")


def _check_producer(now: Transaction, producer: ProducerIdAndEpoch) -> None:
    if producer.producer_id != now.producer_id:
        raise ApiError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"the transactional id belongs to producer {now.producer_id}, not to {producer.producer_id}",
        )
    if producer.epoch != now.producer_epoch:
        raise _fenced(now, producer.epoch)


def _check_not_ahead(now: Transaction, producer: ProducerIdAndEpoch) -> None:
    """A client that works by V2 begins its next transaction as soon as the end of this one is decided."""
    if now.state in ENDING and now.client_version >= V2 and producer == producer_after(now):
        raise _concurrent(now)


def _concurrent(now: Transaction) -> ApiError:
    return ApiError(ErrorCode.CONCURRENT_TRANSACTIONS, f"the transaction before is {now.state.value}")


# A producer begins.


def initialized(
    now: Transaction | None,
    transactional_id: str,
    timeout_ms: int,
    expected: ProducerIdAndEpoch | None,
    fresh_id: int | None,
    now_ms: int,
) -> Step:
    """
    A producer begins, or goes on after an error.

    :param now: None: the id is new.
    :param expected: who it was so far (KIP-360); None: it has just started.
    :param fresh_id: a new producer id, if there is one.
    :raise ApiError: PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    :raise ProducerIdNeeded:
    """
    if now is None:
        return Step(
            Transaction(transactional_id, _id_of(fresh_id), 0, timeout_ms, TransactionState.EMPTY, updated_ms=now_ms)
        )
    if expected is not None and not _may_be(now, expected):
        raise _fenced(now, expected.epoch)
    if now.state in ENDING:
        raise _concurrent(now)
    if now.state is TransactionState.ONGOING:
        if expected is not None and expected != now.producer:
            # A zombie must not end the transaction of who came after it.
            raise _fenced(now, expected.epoch)
        return fenced(now, now_ms, goes_on=expected is not None)
    producer, last_epoch = _next_producer(now, expected, fresh_id)
    return Step(
        evolve(
            now,
            state=moved(now.state, Event.INITIALIZED),
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            last_producer_epoch=last_epoch,
            previous_producer_id=now.producer_id,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            started_ms=NO_TIMESTAMP,
            updated_ms=now_ms,
            client_version=V1,
        )
    )


def _may_be(now: Transaction, expected: ProducerIdAndEpoch) -> bool:
    """Whether a producer has the id that is in force, or had the one before, and knows nothing of the new one."""
    if expected.producer_id == now.producer_id:
        return True
    return expected.producer_id == now.previous_producer_id and is_exhausted(expected.epoch)


def _next_producer(
    now: Transaction, expected: ProducerIdAndEpoch | None, fresh_id: int | None
) -> tuple[ProducerIdAndEpoch, int]:
    """Who the producer is from now on, and the epoch with which it may ask again."""
    is_retry = expected is not None and expected != now.producer
    if is_retry:
        assert expected is not None
        # The answer to a successful call got lost. Nobody else began since: that would have forgotten the last epoch.
        if expected.epoch != now.last_producer_epoch:
            raise _fenced(now, expected.epoch)
        if now.producer_epoch < LAST_EPOCH:
            return now.producer, now.last_producer_epoch
    last_epoch = NO_PRODUCER_EPOCH if expected is None else expected.epoch
    if is_exhausted(now.producer_epoch):
        return ProducerIdAndEpoch(_id_of(fresh_id), 0), last_epoch
    return ProducerIdAndEpoch(now.producer_id, now.producer_epoch + 1), last_epoch


def fenced(now: Transaction, now_ms: int, *, goes_on: bool) -> Step:
    """
    Abort a transaction that is under way, since a producer begins.

    :param goes_on: it is the same that may go on; else whoever has the present epoch is fenced.
    :return: the client must come again.
    """
    return Step(_bumped(now, now_ms, goes_on=goes_on), answer=ErrorCode.CONCURRENT_TRANSACTIONS)


def _bumped(now: Transaction, now_ms: int, *, goes_on: bool) -> Transaction:
    fence = moved(now.state, Event.FENCED)
    return evolve(
        now,
        state=moved(fence, Event.BUMPED),
        producer_epoch=now.producer_epoch + 1,
        last_producer_epoch=now.producer_epoch if goes_on else NO_PRODUCER_EPOCH,
        updated_ms=now_ms,
        client_version=V1,
    )


def is_overdue(now: Transaction, now_ms: int) -> bool:
    """Whether a transaction took longer than it may."""
    return now.state is TransactionState.ONGOING and now.started_ms + now.timeout_ms < now_ms


def timed_out(now: Transaction, fresh_id: int | None, now_ms: int) -> Step:
    """
    Abort a transaction that takes too long, with a new epoch, so that what is still on its way comes too late.

    For a client that works by V2 it is as if it had aborted itself, and not heard the answer: it may go on.

    :raise ProducerIdNeeded:
    """
    bumped = _bumped(now, now_ms, goes_on=True)
    if now.client_version < V2:
        return Step(bumped)
    next_id = _id_of(fresh_id) if is_exhausted(now.producer_epoch) else NO_PRODUCER_ID
    return Step(evolve(bumped, client_version=V2, next_producer_id=next_id))


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
    now = _known(now)
    _check_not_ahead(now, producer)
    _check_producer(now, producer)
    if now.state in ENDING:
        raise _concurrent(now)
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
    now = _known(now)
    _check_not_ahead(now, producer)
    _check_producer(now, producer)
    if now.state in ENDING:
        raise _concurrent(now)
    return {
        partition: ErrorCode.NONE if partition in now.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }


def _known(now: Transaction | None) -> Transaction:
    if now is None:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "no producer has begun with this transactional id")
    return now


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
    now = _known(now)
    _check_not_ahead(now, producer)
    again = _is_again(now, producer)
    if not again:
        _check_producer(now, producer)
    if now.state is TransactionState.ONGOING:
        return _decided(now, commit, client_version, fresh_id, now_ms)
    if now.state in ENDING:
        if (now.state is TransactionState.PREPARE_COMMIT) is not commit:
            raise _not_so(now, commit)
        raise _concurrent(now)
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
    decided = evolve(
        now,
        state=moved(now.state, Event.COMMITTED if commit else Event.ABORTED),
        started_ms=now.started_ms if now.state is TransactionState.ONGOING else now_ms,
        updated_ms=now_ms,
        client_version=client_version,
    )
    if client_version >= V2:
        # The markers carry the new epoch: whatever of this transaction comes after them is refused.
        decided = evolve(
            decided,
            producer_epoch=now.producer_epoch + 1,
            last_producer_epoch=now.producer_epoch,
            next_producer_id=_id_of(fresh_id) if is_exhausted(now.producer_epoch) else NO_PRODUCER_ID,
        )
    return Step(decided)


def producer_after(ending: Transaction) -> ProducerIdAndEpoch:
    """Who the producer is, once an end is decided: it may go on as that at once."""
    if ending.next_producer_id != NO_PRODUCER_ID:
        return ProducerIdAndEpoch(ending.next_producer_id, 0)
    return ending.producer


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


def is_expired(now: Transaction, now_ms: int, expiration_ms: int) -> bool:
    """Whether nobody used an id for so long that it can be forgotten."""
    return now.state in IDLE and now.updated_ms <= now_ms - expiration_ms


def dead(now: Transaction) -> Transaction:
    """The id is to be forgotten."""
    return evolve(now, state=moved(now.state, Event.EXPIRED))
