"""
What is to be seen of transactional ids: which transactions are under way, and for how long. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from attrs import define, field

from logbus.coordination.transactions.states import TransactionState
from logbus.coordination.transactions.transaction import Transaction

UNDER_WAY = frozenset(
    {
        TransactionState.ONGOING,
        TransactionState.PREPARE_EPOCH_FENCE,
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
    }
)
"""A transaction is open, or its markers are being written."""


def under_way_ms(transaction: Transaction, now_ms: int) -> int | None:
    """
    For how long a transaction is under way, in ms; None if none is.

    :param now_ms: ms since 1970.
    """
    if transaction.state not in UNDER_WAY or transaction.started_ms < 0:
        return None
    return max(now_ms - transaction.started_ms, 0)


@define(eq=False)
class Census:
    """
    One look at many transactional ids.

    :ivar states: how many are in which state, by the state's name.
    :ivar oldest_ms: for how long the transaction is under way that began first; 0 without any.
    """

    states: Counter[str] = field(factory=Counter)
    oldest_ms: int = 0

    def look(self, transactions: Iterable[Transaction], now_ms: int) -> None:
        """Take some of them in."""
        for each in transactions:
            self.states[each.state.value] += 1
            self.oldest_ms = max(self.oldest_ms, under_way_ms(each, now_ms) or 0)
