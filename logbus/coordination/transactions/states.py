"""
The states of a transactional id, and the moves between them: one table, on which the code runs. Pure.

``docs/ext/moves.py`` draws the diagram of the documentation from :data:`MOVES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class TransactionState(Enum):
    """Where a transactional id is, as DescribeTransactions and ListTransactions spell it."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"


class Event(Enum):
    """What moves a transactional id, in the words of the diagram."""

    INITIALIZED = "a producer begins, or goes on after an error"
    ADDED = "a partition takes part"
    COMMITTED = "the producer commits"
    ABORTED = "the producer aborts"
    FENCED = "another producer begins, or time is up"
    BUMPED = "the epoch is a new one, and the transaction is aborted for it"
    MARKED = "all partitions have their marker"
    EXPIRED = "nobody used the id for long"


class IllegalMove(Exception):
    """An event that cannot happen in a state: a bug of ours, never a client's fault."""


def _moves(
    table: Mapping[TransactionState, Mapping[Event, TransactionState]],
) -> Mapping[TransactionState, Mapping[Event, TransactionState]]:
    return MappingProxyType({state: MappingProxyType(dict(moves)) for state, moves in table.items()})


_IDLE = {
    Event.INITIALIZED: TransactionState.EMPTY,
    Event.ADDED: TransactionState.ONGOING,
    # A client that works by V2 may abort before any partition took part.
    Event.ABORTED: TransactionState.PREPARE_ABORT,
    Event.EXPIRED: TransactionState.DEAD,
}

MOVES = _moves(
    {
        TransactionState.EMPTY: _IDLE,
        TransactionState.ONGOING: {
            Event.ADDED: TransactionState.ONGOING,
            Event.COMMITTED: TransactionState.PREPARE_COMMIT,
            Event.ABORTED: TransactionState.PREPARE_ABORT,
            Event.FENCED: TransactionState.PREPARE_EPOCH_FENCE,
        },
        TransactionState.PREPARE_EPOCH_FENCE: {
            Event.BUMPED: TransactionState.PREPARE_ABORT,
        },
        TransactionState.PREPARE_COMMIT: {
            Event.MARKED: TransactionState.COMPLETE_COMMIT,
        },
        TransactionState.PREPARE_ABORT: {
            Event.MARKED: TransactionState.COMPLETE_ABORT,
        },
        TransactionState.COMPLETE_COMMIT: _IDLE,
        TransactionState.COMPLETE_ABORT: _IDLE,
        TransactionState.DEAD: {},
    }
)
"""Where each event leads from each state."""


def moved(state: TransactionState, event: Event) -> TransactionState:
    """
    The state after an event.

    :raise IllegalMove: the table has no such move.
    """
    try:
        return MOVES[state][event]
    except KeyError:
        sentence = f"a transactional id that is {state.value} cannot be moved by {event.name}: {event.value}"
        raise IllegalMove(sentence) from None
