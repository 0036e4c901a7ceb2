"""Tests of :mod:`logbus.coordination.transactions.transaction_shard`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.transactions.transaction_metadata import TransactionMetadata
from logbus.coordination.transactions.transaction_shard import TransactionShard
from logbus.coordination.transactions.transaction_state import TransactionState
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition

S = TransactionState


@define(eq=False)
class Log:
    """A log whose appends are durable when the test says so."""

    clock: Clock = field(factory=Clock)
    waiting: list[Deferred[None]] = field(factory=list)
    problem: ApiError | None = None
    replica: Any = None
    topic_partition: str = "__transaction_state-0"

    def __attrs_post_init__(self) -> None:
        self.replica = self

    def append(self, records: Sequence[Any], too_large: ErrorCode) -> Deferred[None]:
        if self.problem is not None:
            raise self.problem
        self.waiting.append(Deferred())
        return self.waiting[-1]

    def append_all(self, records: Sequence[Any]) -> Iterator[tuple[Sequence[Any], Deferred[None]]]:
        """Two in a batch."""
        for start in range(0, len(records), 2):
            yield records[start : start + 2], self.append(records, ErrorCode.NONE)


def transaction(
    state: TransactionState = S.EMPTY, name: str = "x", partitions: int = 0, **given: Any
) -> TransactionMetadata:
    some = frozenset(TopicPartition("t", number) for number in range(partitions))
    return TransactionMetadata(name, 7, 0, 1000, state, some, **given)


class ShardTests(SynchronousTestCase):
    """One partition led by this broker."""

    def setUp(self) -> None:
        self.log = Log()
        self.decided: list[TransactionState] = []
        self.shard = TransactionShard(0, 3, cast(Any, self.log), lambda shard, now: self.decided.append(now.state))

    def durable(self, problem: ApiError | None = None) -> None:
        """The first pending append becomes durable, or fails."""
        waiting = self.log.waiting.pop(0)
        if problem is None:
            waiting.callback(None)
        else:
            waiting.errback(problem)
        self.log.clock.advance(0)

    def test_state_takes_effect_when_durable(self) -> None:
        """A state takes effect when it is durable, and waiting requests go on."""
        put = self.shard.put(transaction())
        entry = self.shard.entries["x"]
        waiting = entry.settled()
        self.assertNoResult(put)
        self.assertEqual((entry.current, entry.pending, entry.idle_state), (None, transaction(), None))
        self.durable()
        self.successResultOf(put)
        self.successResultOf(waiting)
        self.assertEqual((entry.current, entry.pending, entry.idle_state), (transaction(), None, transaction()))
        self.assertEqual(self.decided, [])

    def test_decision_callback(self) -> None:
        """The callback runs for durable decisions only, in a turn of its own."""
        for state in (S.ONGOING, S.PREPARE_COMMIT, S.COMPLETE_COMMIT, S.PREPARE_ABORT):
            put = self.shard.put(transaction(state))
            self.log.waiting.pop(0).callback(None)
            self.successResultOf(put)
            before = list(self.decided)
            self.log.clock.advance(0)
            self.assertEqual(self.decided[len(before) :], [state] if state.name.startswith("PREPARE") else [])

    def test_cancelled_request(self) -> None:
        """The state takes effect after a cancellation, too."""
        ending = transaction(S.PREPARE_ABORT)
        put = self.shard.put(ending)
        put.addErrback(lambda _: None)
        put.cancel()
        self.durable()
        self.assertEqual(self.decided, [S.PREPARE_ABORT])
        self.assertEqual(self.shard.entries["x"].current, ending)

    def test_failed_write(self) -> None:
        """An immediate or later error changes nothing; a new id is not kept."""
        problem = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.log.problem = problem
        self.assertRaises(ApiError, self.shard.put, transaction())
        self.log.problem = None
        put = self.shard.put(transaction())
        self.durable(problem)
        self.failureResultOf(put, ApiError)
        self.assertEqual((self.shard.entries, self.decided), ({}, []))
        self.shard.apply(transaction())
        put = self.shard.put(transaction(S.ONGOING, partitions=2))
        self.durable(problem)
        self.failureResultOf(put, ApiError)
        entry = self.shard.entries["x"]
        self.assertEqual((entry.current, entry.pending, self.shard.partitions), (transaction(), None, 0))

    def test_write_completes_after_a_failover(self) -> None:
        """A write that becomes durable after a failover has no effect here."""
        put = self.shard.put(transaction(S.PREPARE_COMMIT))
        self.shard.closed = True
        self.durable()
        self.assertEqual(self.failureResultOf(put, ApiError).value.code, ErrorCode.NOT_COORDINATOR)
        self.assertEqual(self.decided, [])

    def test_deposed_at_once(self) -> None:
        """Between a decision and the turn in which it is carried out."""
        self.shard.put(transaction(S.PREPARE_COMMIT))
        self.log.waiting.pop().callback(None)
        self.shard.closed = True
        self.log.clock.advance(0)
        self.assertEqual(self.decided, [])

    def test_open_transactions(self) -> None:
        """The shard counts ongoing transactions and their partitions."""
        for state, partitions, ongoing in (
            (S.ONGOING, 2, {"x"}),
            (S.ONGOING, 3, {"x"}),
            (S.PREPARE_ABORT, 3, set()),
            (S.COMPLETE_ABORT, 0, set()),
        ):
            self.shard.put(transaction(state, partitions=partitions))
            self.durable()
            self.assertEqual((set(self.shard.ongoing), self.shard.partitions), (ongoing, partitions))

    def test_forgetting(self) -> None:
        """Ids go when their tombstones last; those whose do not stay, and can be used."""
        for name in "abcd":
            self.shard.apply(transaction(name=name))
        self.shard.forget(["a", "b", "c"])
        self.assertIsNone(self.shard.entries["a"].idle_state)
        waiting = self.shard.entries["c"].settled()
        self.durable()
        self.assertEqual(set(self.shard.entries), {"c", "d"})
        self.durable(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        self.successResultOf(waiting)
        self.assertEqual(self.shard.entries["c"].idle_state, transaction(name="c"))

    def test_ids_too_long(self) -> None:
        """They are refused; nothing is written."""
        error = self.assertRaises(ApiError, self.shard.put, transaction(name="x" * 40_000))
        self.assertEqual(error.code, ErrorCode.INVALID_REQUEST)
        self.assertEqual((self.shard.entries, self.log.waiting), ({}, []))
