"""Tests for :mod:`logbus.coordination.classic.classic_group_state`."""

from __future__ import annotations

from itertools import product

from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.classic.classic_group_state import (
    TRANSITIONS,
    ClassicGroupEvent,
    ClassicGroupState,
    IllegalGroupMove,
    next_state,
)


class StatesTests(SynchronousTestCase):
    def test_transition_table(self) -> None:
        """Only the transitions in the table are possible."""
        for state, event in product(ClassicGroupState, ClassicGroupEvent):
            if event in TRANSITIONS[state]:
                self.assertIs(next_state(state, event), TRANSITIONS[state][event])
            else:
                error = self.assertRaises(IllegalGroupMove, next_state, state, event)
                self.assertIn(state.value, str(error))

    def test_reachable_states(self) -> None:
        """From Empty there is a way to each state; from Dead there is none."""
        reached = {ClassicGroupState.EMPTY}
        for _ in ClassicGroupState:
            reached |= {after for state in reached for after in TRANSITIONS[state].values()}
        self.assertEqual(reached, set(ClassicGroupState))
        self.assertEqual(set(TRANSITIONS[ClassicGroupState.DEAD].values()), {ClassicGroupState.DEAD})

    def test_every_event_happens_somewhere(self) -> None:
        """Each event of the diagram has a transition."""
        self.assertEqual({event for events in TRANSITIONS.values() for event in events}, set(ClassicGroupEvent))

    def test_a_group_can_be_given_up_in_any_state(self) -> None:
        """Leadership of a partition may go at any time."""
        for state in ClassicGroupState:
            self.assertIs(next_state(state, ClassicGroupEvent.RESIGNED), ClassicGroupState.DEAD)

    def test_the_table_cannot_be_changed(self) -> None:
        """The table is immutable, since the documentation is generated from it."""
        with self.assertRaises(TypeError):
            TRANSITIONS[ClassicGroupState.DEAD] = {}  # type: ignore[index]
