"""
How a transaction ended, as its markers say. Pure.
"""

from __future__ import annotations

from attrs import frozen

from logbus.coordination.transactions.states import TransactionState
from logbus.coordination.transactions.transaction import Transaction


@frozen
class Ending:
    """
    How a producer's transaction ended.

    :ivar producer_epoch: what the markers carry: whatever of the producer has an older one is refused from then on.
    :ivar coordinator_epoch: the leader epoch of the partition of ``__transaction_state``.
    :ivar version: how the client works, V1 or V2.
    """

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    version: int = 0

    @classmethod
    def of(cls, transaction: Transaction, coordinator_epoch: int) -> Ending:
        """The one that was decided."""
        committed = transaction.state is TransactionState.PREPARE_COMMIT
        return cls(
            transaction.producer_id,
            transaction.producer_epoch,
            committed,
            coordinator_epoch,
            transaction.client_version,
        )
