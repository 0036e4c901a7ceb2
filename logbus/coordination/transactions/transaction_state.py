"""
The states of a transactional id and the transitions between them, as a table (Kafka: TransactionState). Pure.

``docs/ext/state_diagram.py`` draws the diagram of the documentation from :data:`TRANSITIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class TransactionState(Enum):
    """The state of a transactional id, as DescribeTransactions and ListTransactions name it."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"


class TransactionEvent(Enum):
    """An event that changes a transactional id's state, with its label in the diagram."""

    INITIALIZED = "a producer starts, or goes on after an error"
    ADDED = "a partition is added"
    COMMITTED = "the producer commits"
    ABORTED = "the producer aborts"
    FENCED = "another producer starts, or the transaction times out"
    BUMPED = "the epoch is increased, and the transaction is aborted"
    MARKED = "all markers are written"
    EXPIRED = "the id has expired"


class IllegalTransactionMove(Exception):
    """An event that is not possible in a state: a bug of the broker, never a client's fault."""


def _transitions(
    table: Mapping[TransactionState, Mapping[TransactionEvent, TransactionState]],
) -> Mapping[TransactionState, Mapping[TransactionEvent, TransactionState]]:
    return MappingProxyType({state: MappingProxyType(dict(events)) for state, events in table.items()})


_IDLE = {
    TransactionEvent.INITIALIZED: TransactionState.EMPTY,
    TransactionEvent.ADDED: TransactionState.ONGOING,
    # A V2 client may abort before any partition is added.
    TransactionEvent.ABORTED: TransactionState.PREPARE_ABORT,
    TransactionEvent.EXPIRED: TransactionState.DEAD,
}

TRANSITIONS = _transitions(
    {
        TransactionState.EMPTY: _IDLE,
        TransactionState.ONGOING: {
            TransactionEvent.ADDED: TransactionState.ONGOING,
            TransactionEvent.COMMITTED: TransactionState.PREPARE_COMMIT,
            TransactionEvent.ABORTED: TransactionState.PREPARE_ABORT,
            TransactionEvent.FENCED: TransactionState.PREPARE_EPOCH_FENCE,
        },
        TransactionState.PREPARE_EPOCH_FENCE: {
            TransactionEvent.BUMPED: TransactionState.PREPARE_ABORT,
        },
        TransactionState.PREPARE_COMMIT: {
            TransactionEvent.MARKED: TransactionState.COMPLETE_COMMIT,
        },
        TransactionState.PREPARE_ABORT: {
            TransactionEvent.MARKED: TransactionState.COMPLETE_ABORT,
        },
        TransactionState.COMPLETE_COMMIT: _IDLE,
        TransactionState.COMPLETE_ABORT: _IDLE,
        TransactionState.DEAD: {},
    }
)
"""The next state, by state and event."""


def next_state(state: TransactionState, event: TransactionEvent) -> TransactionState:
    """
    The state after an event.

    :raise IllegalTransactionMove: the table has no such transition.
    """
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        sentence = f"a transactional id that is {state.value} cannot be moved by {event.name}: {event.value}"
        raise IllegalTransactionMove(sentence) from None
