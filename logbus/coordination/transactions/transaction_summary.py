"""
Summarizes transactional ids for metrics and listings: states and durations. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from attrs import define, field

from logbus.coordination.transactions.transaction_metadata import TransactionMetadata
from logbus.coordination.transactions.transaction_state import TransactionState

UNDER_WAY = frozenset(
    {
        TransactionState.ONGOING,
        TransactionState.PREPARE_EPOCH_FENCE,
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
    }
)
"""A transaction is open, or its markers are being written."""


def transaction_duration_ms(transaction: TransactionMetadata, now_ms: int) -> int | None:
    """
    The age of the transaction, in ms; None without one.

    :param now_ms: ms since 1970.
    """
    if transaction.state not in UNDER_WAY or transaction.started_ms < 0:
        return None
    return max(now_ms - transaction.started_ms, 0)


@define(eq=False)
class TransactionSummary:
    """
    A summary of transactional ids.

    :ivar states: number of ids by the state's name.
    :ivar oldest_ms: duration of the oldest transaction; 0 without any.
    """

    states: Counter[str] = field(factory=Counter)
    oldest_ms: int = 0

    def add(self, transactions: Iterable[TransactionMetadata], now_ms: int) -> None:
        """Add ids to the summary."""
        for each in transactions:
            self.states[each.state.value] += 1
            self.oldest_ms = max(self.oldest_ms, transaction_duration_ms(each, now_ms) or 0)
