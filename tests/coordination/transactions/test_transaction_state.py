"""The table of states of a transactional id."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.transactions.transaction_records import STATUS
from logbus.coordination.transactions.transaction_state import (
    TRANSITIONS,
    IllegalTransactionMove,
    TransactionEvent,
    TransactionState,
    next_state,
)
from logbus.coordination.transactions.transition import ENDING, IDLE


class TableTests(SynchronousTestCase):
    """Possible and impossible transitions."""

    @given(st.sampled_from(TransactionState), st.sampled_from(TransactionEvent))
    def test_every_pair(self, state: TransactionState, event: TransactionEvent) -> None:
        """Transitions in the table lead to its states; others raise an error that names them."""
        if event in TRANSITIONS[state]:
            self.assertIs(next_state(state, event), TRANSITIONS[state][event])
        else:
            error = self.assertRaises(IllegalTransactionMove, next_state, state, event)
            self.assertIn(state.value, str(error))

    def test_every_state_is_reached(self) -> None:
        """Each state can be reached from Empty, and Dead from each state but Dead."""

        def reach(start: TransactionState) -> set[TransactionState]:
            found, left = {start}, [start]
            while left:
                for after in TRANSITIONS[left.pop()].values():
                    if after not in found:
                        found.add(after)
                        left.append(after)
            return found

        self.assertEqual(reach(TransactionState.EMPTY), set(TransactionState))
        for state in TransactionState:
            self.assertIn(TransactionState.DEAD, reach(state))

    def test_a_decision_stands(self) -> None:
        """A decided commit ends as committed, a decided abort as aborted."""
        self.assertEqual(set(TRANSITIONS[TransactionState.PREPARE_COMMIT].values()), {TransactionState.COMPLETE_COMMIT})
        self.assertEqual(set(TRANSITIONS[TransactionState.PREPARE_ABORT].values()), {TransactionState.COMPLETE_ABORT})

    def test_stored_states(self) -> None:
        """Records can have all states but two, in which no transaction stays."""
        transient = {TransactionState.PREPARE_EPOCH_FENCE, TransactionState.DEAD}
        self.assertEqual(set(STATUS), set(TransactionState) - transient)
        self.assertEqual(IDLE | ENDING | {TransactionState.ONGOING}, set(STATUS))
