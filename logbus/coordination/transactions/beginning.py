"""
A producer begins with a transactional id, or time is up: epochs, and the ends of transactions that nobody asked to end.
Pure.
"""

from __future__ import annotations

from attrs import evolve

from logbus.coordination.transactions.states import Event, TransactionState, moved
from logbus.coordination.transactions.step import ENDING, IDLE, Step, concurrent, fenced_error, id_of, is_exhausted
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
from logbus.errors import ErrorCode


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
            Transaction(transactional_id, id_of(fresh_id), 0, timeout_ms, TransactionState.EMPTY, updated_ms=now_ms)
        )
    if now.state in ENDING:
        # First of all: who goes on may have heard already which producer id it has afterwards.
        raise concurrent(now)
    if expected is not None and not _may_be(now, expected):
        raise fenced_error(now, expected.epoch)
    if now.state is TransactionState.ONGOING:
        if expected is not None and expected != now.producer:
            # A zombie must not end the transaction of who came after it.
            raise fenced_error(now, expected.epoch)
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
            raise fenced_error(now, expected.epoch)
        if now.producer_epoch < LAST_EPOCH:
            return now.producer, now.last_producer_epoch
    last_epoch = NO_PRODUCER_EPOCH if expected is None else expected.epoch
    if is_exhausted(now.producer_epoch):
        return ProducerIdAndEpoch(id_of(fresh_id), 0), last_epoch
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
    next_id = id_of(fresh_id) if is_exhausted(now.producer_epoch) else NO_PRODUCER_ID
    return Step(evolve(bumped, client_version=V2, next_producer_id=next_id))


# Nobody uses an id.


def is_expired(now: Transaction, now_ms: int, expiration_ms: int) -> bool:
    """Whether nobody used an id for so long that it can be forgotten."""
    return now.state in IDLE and now.updated_ms <= now_ms - expiration_ms


def dead(now: Transaction) -> Transaction:
    """The id is to be forgotten."""
    return evolve(now, state=moved(now.state, Event.EXPIRED))
