"""
The states of a classic group and the transitions between them, as a table (Kafka: ClassicGroupState). Pure.

``docs/ext/moves.py`` draws the diagram of the documentation from :data:`MOVES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class GroupState(Enum):
    """The state of a classic group, as DescribeGroups and ListGroups name it."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Event(Enum):
    """An event that changes a group's state, with its label in the diagram."""

    LOADED = "read back from the log with members"
    REBALANCE = "a member joins, leaves, or changes its protocols"
    JOINED = "all members have joined, or the rebalance timeout is over"
    DESERTED = "no member is left"
    ASSIGNED = "the leader's assignment is stored"
    RESIGNED = "another broker takes over, or the group is deleted"


class IllegalMove(Exception):
    """An event that is not possible in a state: a bug of the broker, never a client's fault."""


def _moves(
    table: Mapping[GroupState, Mapping[Event, GroupState]],
) -> Mapping[GroupState, Mapping[Event, GroupState]]:
    return MappingProxyType({state: MappingProxyType(dict(moves)) for state, moves in table.items()})


MOVES = _moves(
    {
        GroupState.EMPTY: {
            Event.LOADED: GroupState.STABLE,
            Event.REBALANCE: GroupState.PREPARING_REBALANCE,
            Event.RESIGNED: GroupState.DEAD,
        },
        GroupState.PREPARING_REBALANCE: {
            Event.JOINED: GroupState.COMPLETING_REBALANCE,
            Event.DESERTED: GroupState.EMPTY,
            Event.RESIGNED: GroupState.DEAD,
        },
        GroupState.COMPLETING_REBALANCE: {
            Event.ASSIGNED: GroupState.STABLE,
            Event.REBALANCE: GroupState.PREPARING_REBALANCE,
            Event.RESIGNED: GroupState.DEAD,
        },
        GroupState.STABLE: {
            Event.REBALANCE: GroupState.PREPARING_REBALANCE,
            Event.RESIGNED: GroupState.DEAD,
        },
        GroupState.DEAD: {
            Event.RESIGNED: GroupState.DEAD,
        },
    }
)
"""The next state, by state and event."""


def moved(state: GroupState, event: Event) -> GroupState:
    """
    The state after an event.

    :raise IllegalMove: the table has no such move.
    """
    try:
        return MOVES[state][event]
    except KeyError:
        raise IllegalMove(f"a group that is {state.value} cannot be moved by {event.name}: {event.value}") from None
