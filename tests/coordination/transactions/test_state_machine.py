"""Tests of :mod:`logbus.coordination.transactions.state_machine`."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.transactions import state_machine
from logbus.coordination.transactions.init_producer_id import (
    abort_timed_out,
    has_timed_out,
    init_producer_id,
    is_expired,
)
from logbus.coordination.transactions.transaction_metadata import (
    LAST_EPOCH,
    V1,
    V2,
    ProducerIdAndEpoch,
    TransactionMetadata,
)
from logbus.coordination.transactions.transaction_state import TransactionState
from logbus.coordination.transactions.transition import ENDING, IDLE, ProducerIdNeeded, Transition, producer_after
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition

E = ErrorCode
S = TransactionState
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
NEW_ID = 900


def transaction(state: TransactionState, epoch: int = 5, version: int = V1, **given: Any) -> TransactionMetadata:
    """One of producer 7."""
    partitions = frozenset({P0}) if state not in IDLE else frozenset()
    known: dict[str, Any] = {"partitions": partitions, "previous_producer_id": 7, "started_ms": 1000, **given}
    return TransactionMetadata("x", 7, epoch, 60_000, state, client_version=version, updated_ms=1000, **known)


def ends(now: TransactionMetadata | None, producer: tuple[int, int], commit: bool, version: int = V1) -> Any:
    """The state after, or the error; what holds already is only said."""
    try:
        step = state_machine.end_transaction(now, ProducerIdAndEpoch(*producer), commit, version, NEW_ID, 2000)
    except ApiError as e:
        return e.code
    return step.transaction.state if step.written else E.NONE


def begins(
    now: TransactionMetadata | None, expected: tuple[int, int] | None = None, fresh_id: int | None = NEW_ID
) -> Any:
    """The producer id and epoch, or the error."""
    try:
        given = None if expected is None else ProducerIdAndEpoch(*expected)
        step = init_producer_id(now, "x", 60_000, given, fresh_id, 2000)
    except ApiError as e:
        return e.code
    return tuple(step.transaction.producer) if step.answer is E.NONE else (step.answer, step.transaction.state)


class EndTests(SynchronousTestCase):
    """EndTxn in every state, at every epoch: the whole table."""

    def test_old_clients(self) -> None:
        """The epoch must be right; a retry of what was done is well, the contrary is not."""
        table = {
            S.EMPTY: (E.INVALID_TXN_STATE, E.INVALID_TXN_STATE),
            S.ONGOING: (S.PREPARE_COMMIT, S.PREPARE_ABORT),
            S.PREPARE_COMMIT: (E.CONCURRENT_TRANSACTIONS, E.INVALID_TXN_STATE),
            S.PREPARE_ABORT: (E.INVALID_TXN_STATE, E.CONCURRENT_TRANSACTIONS),
            S.COMPLETE_COMMIT: (E.NONE, E.INVALID_TXN_STATE),
            S.COMPLETE_ABORT: (E.INVALID_TXN_STATE, E.NONE),
        }
        for state, (commit, abort) in table.items():
            now = transaction(state)
            self.assertEqual((ends(now, (7, 5), True), ends(now, (7, 5), False)), (commit, abort), state)
            for epoch in (4, 6):
                self.assertEqual(ends(now, (7, epoch), True), E.PRODUCER_FENCED, state)
            self.assertEqual(ends(now, (8, 5), True), E.INVALID_PRODUCER_ID_MAPPING, state)
        self.assertEqual(ends(None, (7, 5), True), E.INVALID_PRODUCER_ID_MAPPING)

    def test_new_clients(self) -> None:
        """With the epoch of the transaction that ended it is a retry, with the next one it is the end of the next."""
        table = {
            # state: (commit, abort) with the epoch before, then with the present one
            S.EMPTY: (E.PRODUCER_FENCED, E.PRODUCER_FENCED, E.INVALID_TXN_STATE, S.PREPARE_ABORT),
            S.ONGOING: (E.PRODUCER_FENCED, E.PRODUCER_FENCED, S.PREPARE_COMMIT, S.PREPARE_ABORT),
            S.PREPARE_COMMIT: (
                E.CONCURRENT_TRANSACTIONS,
                E.INVALID_TXN_STATE,
                E.CONCURRENT_TRANSACTIONS,
                E.CONCURRENT_TRANSACTIONS,
            ),
            S.PREPARE_ABORT: (
                E.INVALID_TXN_STATE,
                E.CONCURRENT_TRANSACTIONS,
                E.CONCURRENT_TRANSACTIONS,
                E.CONCURRENT_TRANSACTIONS,
            ),
            S.COMPLETE_COMMIT: (E.NONE, E.INVALID_TXN_STATE, E.INVALID_TXN_STATE, S.PREPARE_ABORT),
            S.COMPLETE_ABORT: (E.INVALID_TXN_STATE, E.NONE, E.INVALID_TXN_STATE, S.PREPARE_ABORT),
        }
        for state, expected in table.items():
            now = transaction(state, version=V2)
            found = tuple(ends(now, (7, epoch), commit, V2) for epoch in (4, 5) for commit in (True, False))
            self.assertEqual(found, expected, state)
            for epoch in (3, 6):
                self.assertEqual(ends(now, (7, epoch), True, V2), E.PRODUCER_FENCED, state)

    def test_the_epoch_grows(self) -> None:
        """For new clients only, in the decision itself: the markers carry it."""
        ongoing = transaction(S.ONGOING)
        for version, epoch in ((V1, 5), (V2, 6)):
            step = state_machine.end_transaction(ongoing, ongoing.producer, True, version, None, 2000)
            self.assertEqual(step.transaction.producer, (7, epoch))
            self.assertEqual(producer_after(step.transaction), (7, epoch))
            self.assertEqual(step.transaction.partitions, {P0})
            self.assertEqual(state_machine.complete_transaction(step.transaction, 3000).producer, (7, epoch))

    def test_epochs_are_used_up(self) -> None:
        """The last markers have the greatest epoch; the producer goes on with another id, at once."""
        ongoing = transaction(S.ONGOING, LAST_EPOCH - 1, V2)
        self.assertRaises(
            ProducerIdNeeded, state_machine.end_transaction, ongoing, ongoing.producer, True, V2, None, 2000
        )
        decided = state_machine.end_transaction(ongoing, ongoing.producer, True, V2, NEW_ID, 2000).transaction
        self.assertEqual(decided.producer, (7, LAST_EPOCH))
        self.assertEqual(producer_after(decided), (NEW_ID, 0))
        # It begins the next transaction before this one is complete.
        self.assertEqual(ends(decided, (NEW_ID, 0), True, V2), E.CONCURRENT_TRANSACTIONS)
        error = self.assertRaises(
            ApiError, state_machine.add_partitions, decided, ProducerIdAndEpoch(NEW_ID, 0), [P1], V2, 10, 2000
        )
        self.assertEqual(error.code, E.CONCURRENT_TRANSACTIONS)
        self.assertEqual(ends(decided, (7, LAST_EPOCH - 1), True, V2), E.CONCURRENT_TRANSACTIONS)
        self.assertEqual(begins(decided, (NEW_ID, 0)), E.CONCURRENT_TRANSACTIONS)
        done = state_machine.complete_transaction(decided, 3000)
        self.assertEqual((done.producer, done.previous_producer_id), ((NEW_ID, 0), 7))
        # Whoever did not hear the answer asks again, as who it was.
        self.assertEqual(ends(done, (7, LAST_EPOCH - 1), True, V2), E.NONE)
        self.assertEqual(ends(done, (7, LAST_EPOCH - 1), False, V2), E.INVALID_TXN_STATE)
        self.assertEqual(begins(done, (7, LAST_EPOCH - 1)), (NEW_ID, 0))
        self.assertEqual(ends(done, (7, LAST_EPOCH - 2), True, V2), E.INVALID_PRODUCER_ID_MAPPING)

    def test_empty_abort(self) -> None:
        """A transaction without partitions increases the epoch, too."""
        step = state_machine.end_transaction(transaction(S.EMPTY), ProducerIdAndEpoch(7, 5), False, V2, None, 2000)
        self.assertEqual((step.transaction.partitions, step.transaction.producer_epoch), (frozenset(), 6))
        self.assertEqual(step.transaction.started_ms, 2000)


class BeginTests(SynchronousTestCase):
    """InitProducerId."""

    def test_new_ids(self) -> None:
        """New ids need a producer id, whatever the producer sends."""
        self.assertRaises(ProducerIdNeeded, begins, None, None, None)
        self.assertEqual(begins(None), (NEW_ID, 0))
        self.assertEqual(begins(None, (3, 4)), (NEW_ID, 0))

    def test_idle(self) -> None:
        """The next epoch; only the present producer may go on."""
        for state in IDLE:
            now = transaction(state)
            self.assertEqual(begins(now), (7, 6))
            self.assertEqual(begins(now, (7, 5)), (7, 6))
            for other in ((7, 4), (7, 6), (8, 5), (8, LAST_EPOCH)):
                self.assertEqual(begins(now, other), E.PRODUCER_FENCED)

    def test_under_way(self) -> None:
        """The transaction is aborted first; a zombie may not have that."""
        now = transaction(S.ONGOING)
        aborted = (E.CONCURRENT_TRANSACTIONS, S.PREPARE_ABORT)
        self.assertEqual((begins(now), begins(now, (7, 5))), (aborted, aborted))
        self.assertEqual(begins(now, (7, 4)), E.PRODUCER_FENCED)
        for state in ENDING:
            self.assertEqual(begins(transaction(state)), E.CONCURRENT_TRANSACTIONS)

    def test_fencing(self) -> None:
        """One epoch is spent on the abort, one on the new producer; the old one can do nothing in between."""
        fenced = init_producer_id(transaction(S.ONGOING), "x", 1, None, None, 2000).transaction
        self.assertEqual((fenced.producer, fenced.client_version), ((7, 6), V1))
        for now in (fenced, state_machine.complete_transaction(fenced, 3000)):
            for version in (V1, V2):
                self.assertEqual(ends(now, (7, 5), False, version), E.PRODUCER_FENCED)
            self.assertEqual(begins(state_machine.complete_transaction(fenced, 3000), (7, 5)), E.PRODUCER_FENCED)
        self.assertEqual(begins(state_machine.complete_transaction(fenced, 3000)), (7, 7))

    def test_going_on_with_a_transaction(self) -> None:
        """A producer that goes on has its transaction aborted, and gets the new epoch."""
        given = ProducerIdAndEpoch(7, 5)
        fenced = init_producer_id(transaction(S.ONGOING), "x", 1, given, None, 2000).transaction
        self.assertEqual(begins(state_machine.complete_transaction(fenced, 3000), (7, 5)), (7, 6))

    def test_a_lost_answer(self) -> None:
        """A retry gets the same result, unless another producer has started."""
        once = init_producer_id(transaction(S.EMPTY), "x", 1, ProducerIdAndEpoch(7, 5), None, 2000).transaction
        self.assertEqual(begins(once, (7, 5)), (7, 6))
        other = init_producer_id(once, "x", 1, None, None, 2000).transaction
        self.assertEqual(begins(other, (7, 5)), E.PRODUCER_FENCED)
        self.assertEqual(begins(other, (7, 6)), E.PRODUCER_FENCED)

    def test_epochs_are_used_up(self) -> None:
        """Then there is another producer id; who did not hear of it may ask again. Nobody gets the greatest epoch."""
        now = transaction(S.EMPTY, LAST_EPOCH - 2)
        self.assertEqual(begins(now, fresh_id=None), (7, LAST_EPOCH - 1))
        for epoch in (LAST_EPOCH - 1, LAST_EPOCH):
            self.assertRaises(ProducerIdNeeded, begins, transaction(S.EMPTY, epoch), None, None)
            self.assertEqual(begins(transaction(S.EMPTY, epoch)), (NEW_ID, 0))
        last = ProducerIdAndEpoch(7, LAST_EPOCH - 1)
        rotated = init_producer_id(transaction(S.EMPTY, LAST_EPOCH - 1), "x", 1, last, NEW_ID, 2000).transaction
        self.assertEqual(begins(rotated, last), (NEW_ID, 0))
        # It was fenced with the greatest epoch, and goes on itself.
        fenced = init_producer_id(transaction(S.ONGOING, LAST_EPOCH - 1), "x", 1, last, None, 2000).transaction
        self.assertEqual(fenced.producer_epoch, LAST_EPOCH)
        self.assertEqual(begins(state_machine.complete_transaction(fenced, 3000), last), (NEW_ID, 0))


class TimeTests(SynchronousTestCase):
    """Transaction timeouts, and expiration of ids."""

    def test_overdue(self) -> None:
        """Counted from the first partition; only what is under way."""
        now = transaction(S.ONGOING)
        self.assertEqual([has_timed_out(now, at) for at in (61_000, 61_001)], [False, True])
        for state in set(TransactionState) - {S.ONGOING}:
            self.assertFalse(has_timed_out(transaction(state), 10**9))

    def test_old_clients(self) -> None:
        """They are fenced; only with InitProducerId they may go on."""
        aborted = abort_timed_out(transaction(S.ONGOING), None, 99_000).transaction
        self.assertEqual((aborted.state, aborted.producer), (S.PREPARE_ABORT, (7, 6)))
        done = state_machine.complete_transaction(aborted, 99_000)
        self.assertEqual((ends(done, (7, 5), True), ends(done, (7, 5), False)), (E.PRODUCER_FENCED,) * 2)
        self.assertEqual(begins(done, (7, 5)), (7, 6))

    def test_new_clients(self) -> None:
        """It is as if they had aborted themselves: an abort is a retry of that, a commit is told the truth."""
        aborted = abort_timed_out(transaction(S.ONGOING, version=V2), None, 99_000).transaction
        done = state_machine.complete_transaction(aborted, 99_000)
        self.assertEqual(ends(done, (7, 5), True, V2), E.INVALID_TXN_STATE)
        self.assertEqual(ends(done, (7, 5), False, V2), E.NONE)
        last = transaction(S.ONGOING, LAST_EPOCH - 1, V2)
        self.assertRaises(ProducerIdNeeded, abort_timed_out, last, None, 99_000)
        done = state_machine.complete_transaction(abort_timed_out(last, NEW_ID, 99_000).transaction, 99_000)
        self.assertEqual(done.producer, (NEW_ID, 0))

    @given(st.sampled_from(TransactionState), st.integers(0, 3000))
    def test_unused(self, state: TransactionState, now_ms: int) -> None:
        """An id expires if no transaction is under way and the last change is as old as it may get."""
        self.assertEqual(is_expired(transaction(state), now_ms, 500), state in IDLE and now_ms - 500 >= 1000)


class PartTests(SynchronousTestCase):
    """AddPartitionsToTxn."""

    def test_adding(self) -> None:
        """The first one begins the transaction; one that takes part already changes nothing."""
        for state in IDLE:
            now = state_machine.add_partitions(
                transaction(state), ProducerIdAndEpoch(7, 5), [P1], V2, 10, 5000
            ).transaction
            self.assertEqual((now.state, now.partitions, now.started_ms), (S.ONGOING, {P1}, 5000))
        now = state_machine.add_partitions(now, now.producer, [P0], V1, 10, 6000).transaction
        self.assertEqual((now.partitions, now.started_ms, now.client_version), ({P0, P1}, 5000, V1))
        self.assertFalse(state_machine.add_partitions(now, now.producer, [P1], V1, 10, 7000).written)

    def test_refusals(self) -> None:
        """Of others than the producer, while another is ended, and of too many."""
        for state, producer, most, code in (
            (S.ONGOING, (7, 4), 10, E.PRODUCER_FENCED),
            (S.ONGOING, (7, 6), 10, E.PRODUCER_FENCED),
            (S.ONGOING, (8, 5), 10, E.INVALID_PRODUCER_ID_MAPPING),
            (S.PREPARE_COMMIT, (7, 5), 10, E.CONCURRENT_TRANSACTIONS),
            (S.PREPARE_ABORT, (7, 5), 10, E.CONCURRENT_TRANSACTIONS),
            (S.ONGOING, (7, 5), 1, E.POLICY_VIOLATION),
        ):
            now = transaction(state)
            error = self.assertRaises(
                ApiError, state_machine.add_partitions, now, ProducerIdAndEpoch(*producer), [P1], V1, most, 5000
            )
            self.assertEqual(error.code, code)
            if code is not E.POLICY_VIOLATION:
                error = self.assertRaises(
                    ApiError, state_machine.verify_partitions, now, ProducerIdAndEpoch(*producer), [P1]
                )
                self.assertEqual(error.code, code)


class Lives(RuleBasedStateMachine):
    """
    One id in the hands of two producers, of which each knows what it was told last.

    Who began last is the only one that gets anything done; epochs of one producer id only grow.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now: TransactionMetadata | None = None
        self.next_id = 100
        self.clock = 10_000
        self.known: dict[str, ProducerIdAndEpoch] = {}
        self.rightful: str | None = None
        self.ids_seen: list[int] = []

    @initialize(epoch=st.sampled_from([0, 5, LAST_EPOCH - 4, LAST_EPOCH - 3, LAST_EPOCH - 2, LAST_EPOCH - 1]))
    def begin(self, epoch: int) -> None:
        """An id that has some history."""
        self.now = transaction(S.EMPTY, epoch)
        self.ids_seen = [7]

    def decide(self, decide: Any) -> Transition | ErrorCode:
        before = self.now
        self.clock += 1
        try:
            try:
                step: Transition = decide(None)
            except ProducerIdNeeded:
                self.next_id += 1
                step = decide(self.next_id)
        except ApiError as e:
            return e.code
        assert step.written or step.transaction is before
        self.check_order(step.transaction)
        self.now = step.transaction
        return step

    def check_order(self, after: TransactionMetadata) -> None:
        assert self.now is not None
        if after.producer_id == self.now.producer_id:
            assert after.producer_epoch >= self.now.producer_epoch
        else:
            assert after.producer_id not in self.ids_seen
            assert after.producer_epoch == 0
            self.ids_seen.append(after.producer_id)

    @rule(who=st.sampled_from("ab"), anew=st.booleans())
    def init(self, who: str, anew: bool) -> None:
        """A producer begins, or goes on."""
        expected = None if anew else self.known.get(who)
        took_over = self.decide(lambda id: init_producer_id(self.now, "x", 500, expected, id, self.clock))
        if isinstance(took_over, Transition):
            if took_over.answer is E.NONE:
                self.known[who] = took_over.transaction.producer
                assert took_over.transaction.producer_epoch < LAST_EPOCH
                self.rightful = who
            elif expected is None:
                # Whoever has the id now is fenced, this one's former self, too.
                self.rightful = None
            else:
                assert self.rightful == who
        elif expected is not None and self.rightful == who:
            assert took_over is E.CONCURRENT_TRANSACTIONS, took_over

    @precondition(lambda self: self.known)
    @rule(data=st.data(), some=st.sampled_from([[P0], [P1], [P0, P1]]), version=st.sampled_from([V1, V2]))
    def add(self, data: st.DataObject, some: list[TopicPartition], version: int) -> None:
        """Only who is in its rights adds anything."""
        who = data.draw(st.sampled_from(sorted(self.known)))
        found = self.decide(
            lambda id: state_machine.add_partitions(self.now, self.known[who], some, version, 10, self.clock)
        )
        if isinstance(found, Transition):
            assert self.rightful == who

    @precondition(lambda self: self.known)
    @rule(data=st.data(), commit=st.booleans(), version=st.sampled_from([V1, V2]), heard=st.booleans())
    def end(self, data: st.DataObject, commit: bool, version: int, heard: bool) -> None:
        """Only who is in its rights ends anything; without an answer it asks again, and gets the same."""
        who = data.draw(st.sampled_from(sorted(self.known)))
        before = self.now
        assert before is not None
        found = self.decide(
            lambda id: state_machine.end_transaction(self.now, self.known[who], commit, version, id, self.clock)
        )
        if not isinstance(found, Transition):
            return
        if found.written:
            assert self.rightful == who
            assert before.state is S.ONGOING or (version == V2 and not commit and before.state in IDLE)
        else:
            ended = S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT
            assert found.transaction.state is ended
        if version == V2 and heard and self.rightful == who:
            self.known[who] = producer_after(found.transaction)
            assert self.known[who].epoch < LAST_EPOCH

    @precondition(lambda self: self.now is not None and self.now.state is S.ONGOING)
    @rule()
    def time_out(self) -> None:
        """The clock ends a transaction."""
        assert self.now is not None
        self.clock += self.now.timeout_ms + 1
        assert has_timed_out(self.now, self.clock)
        self.decide(lambda id: abort_timed_out(self.now, id, self.clock))

    @precondition(lambda self: self.now is not None and self.now.state in ENDING)
    @rule()
    def complete(self) -> None:
        """The markers are there."""
        assert self.now is not None
        after = state_machine.complete_transaction(self.now, self.clock)
        self.check_order(after)
        self.now = after

    @invariant()
    def sound(self) -> None:
        """A transaction under way has partitions and a start; one that is over has none."""
        if self.now is None:
            return
        assert 0 <= self.now.producer_epoch <= LAST_EPOCH
        if self.now.state is S.ONGOING:
            assert self.now.partitions
            assert self.now.started_ms > 0
            assert self.now.producer_epoch < LAST_EPOCH
        if self.now.state in IDLE:
            assert not self.now.partitions
            assert self.now.next_producer_id == -1


LivesTests = Lives.TestCase


class FailedWrites(SynchronousTestCase):
    """A decision after a failed write has the same result."""

    def test_deterministic(self) -> None:
        """The same state gives the same result: a repeated fence does not increase the epoch twice."""
        now = transaction(S.ONGOING)
        first = init_producer_id(now, "x", 1, None, None, 2000)
        second = init_producer_id(now, "x", 1, None, None, 2500)
        self.assertEqual(evolve(second.transaction, updated_ms=2000), first.transaction)
