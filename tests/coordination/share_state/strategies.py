"""Hypothesis strategies of states of share partitions."""

from __future__ import annotations

from hypothesis import strategies as st

from logbus.coordination.share_state.recorded_state import StateChange
from logbus.coordination.share_state.share_state import ACKNOWLEDGED, ARCHIVED, AVAILABLE, StateBatch

MOST = 40
"""The highest offset."""


@st.composite
def state_batches(draw: st.DrawFn) -> StateBatch:
    """A batch; short ones, so that there are neighbours and overlaps."""
    first = draw(st.integers(0, MOST))
    return StateBatch(
        first,
        min(MOST, first + draw(st.integers(0, 12))),
        draw(st.sampled_from((AVAILABLE, ACKNOWLEDGED, ARCHIVED))),
        draw(st.integers(0, 3)),
    )


@st.composite
def state_changes(draw: st.DrawFn, state_epoch: int = 0, leader_epoch: int = 0) -> StateChange:
    """A change of a leader."""
    return StateChange(
        state_epoch,
        leader_epoch,
        draw(st.integers(-1, MOST)),
        draw(st.integers(-1, 5)),
        tuple(draw(st.lists(state_batches(), max_size=4))),
    )
