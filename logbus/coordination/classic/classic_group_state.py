"""
The states of a classic group and the transitions between them, as a table (Kafka: ClassicGroupState). Pure.

``docs/ext/state_diagram.py`` draws the diagram of the documentation from :data:`TRANSITIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class ClassicGroupState(Enum):
    """The state of a classic group, as DescribeGroups and ListGroups name it."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicGroupEvent(Enum):
    """An event that changes a group's state, with its label in the diagram."""

    LOADED = "read back from the log with members"
    REBALANCE = "a member joins, leaves, or changes its protocols"
    JOINED = "all members have joined, or the rebalance timeout is over"
    EMPTIED = "no member is left"
    ASSIGNED = "the leader's assignment is stored"
    RESIGNED = "another broker takes over, or the group is deleted"


class IllegalGroupMove(Exception):
    """An event that is not possible in a state: a bug of the broker, never a client's fault."""


def _transitions(
    table: Mapping[ClassicGroupState, Mapping[ClassicGroupEvent, ClassicGroupState]],
) -> Mapping[ClassicGroupState, Mapping[ClassicGroupEvent, ClassicGroupState]]:
    return MappingProxyType({state: MappingProxyType(dict(events)) for state, events in table.items()})


TRANSITIONS = _transitions(
    {
        ClassicGroupState.EMPTY: {
            ClassicGroupEvent.LOADED: ClassicGroupState.STABLE,
            ClassicGroupEvent.REBALANCE: ClassicGroupState.PREPARING_REBALANCE,
            ClassicGroupEvent.RESIGNED: ClassicGroupState.DEAD,
        },
        ClassicGroupState.PREPARING_REBALANCE: {
            ClassicGroupEvent.JOINED: ClassicGroupState.COMPLETING_REBALANCE,
            ClassicGroupEvent.EMPTIED: ClassicGroupState.EMPTY,
            ClassicGroupEvent.RESIGNED: ClassicGroupState.DEAD,
        },
        ClassicGroupState.COMPLETING_REBALANCE: {
            ClassicGroupEvent.ASSIGNED: ClassicGroupState.STABLE,
            ClassicGroupEvent.REBALANCE: ClassicGroupState.PREPARING_REBALANCE,
            ClassicGroupEvent.RESIGNED: ClassicGroupState.DEAD,
        },
        ClassicGroupState.STABLE: {
            ClassicGroupEvent.REBALANCE: ClassicGroupState.PREPARING_REBALANCE,
            ClassicGroupEvent.RESIGNED: ClassicGroupState.DEAD,
        },
        ClassicGroupState.DEAD: {
            ClassicGroupEvent.RESIGNED: ClassicGroupState.DEAD,
        },
    }
)
"""The next state, by state and event."""


def next_state(state: ClassicGroupState, event: ClassicGroupEvent) -> ClassicGroupState:
    """
    The state after an event.

    :raise IllegalGroupMove: the table has no such transition.
    """
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise IllegalGroupMove(
            f"a group that is {state.value} cannot be moved by {event.name}: {event.value}"
        ) from None
