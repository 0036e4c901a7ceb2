"""Tests for :mod:`logbus.coordination.classic.classic_group_state`."""

from __future__ import annotations

from itertools import product

from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.classic.classic_group_state import (
    MOVES,
    ClassicGroupEvent,
    ClassicGroupState,
    IllegalGroupMove,
    next_state,
)


class StatesTests(SynchronousTestCase):
    def test_transition_table(self) -> None:
        """Only the transitions in the table are possible."""
        for state, event in product(ClassicGroupState, ClassicGroupEvent):
            if event in MOVES[state]:
                self.assertIs(next_state(state, event), MOVES[state][event])
            else:
                error = self.assertRaises(IllegalGroupMove, next_state, state, event)
                self.assertIn(state.value, str(error))

    def test_reachable_states(self) -> None:
        """From Empty there is a way to each state; from Dead there is none."""
        reached = {ClassicGroupState.EMPTY}
        for _ in ClassicGroupState:
            reached |= {after for state in reached for after in MOVES[state].values()}
        self.assertEqual(reached, set(ClassicGroupState))
        self.assertEqual(set(MOVES[ClassicGroupState.DEAD].values()), {ClassicGroupState.DEAD})

    def test_every_event_happens_somewhere(self) -> None:
        """The diagram has no word that nothing moves by."""
        self.assertEqual({event for moves in MOVES.values() for event in moves}, set(ClassicGroupEvent))

    def test_a_group_can_be_given_up_in_any_state(self) -> None:
        """Leadership of a partition may go at any time."""
        for state in ClassicGroupState:
            self.assertIs(next_state(state, ClassicGroupEvent.RESIGNED), ClassicGroupState.DEAD)

    def test_the_table_cannot_be_changed(self) -> None:
        """The table is immutable, since the documentation is generated from it."""
        with self.assertRaises(TypeError):
            MOVES[ClassicGroupState.DEAD] = {}  # type: ignore[index]
