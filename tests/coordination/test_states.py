"""Tests for :mod:`logbus.coordination.states`."""

from __future__ import annotations

from itertools import product

from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.states import MOVES, Event, GroupState, IllegalMove, moved


class StatesTests(SynchronousTestCase):
    def test_moves_are_those_of_the_table_and_no_others(self) -> None:
        """What the table has leads on; every other event is a bug, and says so."""
        for state, event in product(GroupState, Event):
            if event in MOVES[state]:
                self.assertIs(moved(state, event), MOVES[state][event])
            else:
                error = self.assertRaises(IllegalMove, moved, state, event)
                self.assertIn(state.value, str(error))

    def test_every_state_is_reached_and_all_but_the_last_are_left(self) -> None:
        """From Empty there is a way to each state; from Dead there is none."""
        reached = {GroupState.EMPTY}
        for _ in GroupState:
            reached |= {after for state in reached for after in MOVES[state].values()}
        self.assertEqual(reached, set(GroupState))
        self.assertEqual(set(MOVES[GroupState.DEAD].values()), {GroupState.DEAD})

    def test_every_event_happens_somewhere(self) -> None:
        """The diagram has no word that nothing moves by."""
        self.assertEqual({event for moves in MOVES.values() for event in moves}, set(Event))

    def test_a_group_can_be_given_up_in_any_state(self) -> None:
        """Leadership of a partition may go at any time."""
        for state in GroupState:
            self.assertIs(moved(state, Event.RESIGNED), GroupState.DEAD)

    def test_the_table_cannot_be_changed(self) -> None:
        """What the code runs on is what the documentation shows."""
        with self.assertRaises(TypeError):
            MOVES[GroupState.DEAD] = {}  # type: ignore[index]
