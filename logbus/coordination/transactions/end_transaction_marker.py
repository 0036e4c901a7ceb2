"""
The outcome of a transaction, as its markers carry it (Kafka: EndTransactionMarker, TxnMarkerEntry). Pure.
"""

from __future__ import annotations

from attrs import frozen

from logbus.coordination.transactions.transaction_metadata import TransactionMetadata
from logbus.coordination.transactions.transaction_state import TransactionState


@frozen
class EndTransactionMarker:
    """
    The outcome of a producer's transaction.

    :ivar producer_epoch: the epoch in the markers; batches of the producer with an older one are refused from then on.
    :ivar coordinator_epoch: the leader epoch of the partition of ``__transaction_state``.
    :ivar version: the client's transaction version, V1 or V2.
    """

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    version: int = 0

    @classmethod
    def of(cls, transaction: TransactionMetadata, coordinator_epoch: int) -> EndTransactionMarker:
        """The outcome in the state of a transaction whose end is decided."""
        committed = transaction.state is TransactionState.PREPARE_COMMIT
        return cls(
            transaction.producer_id,
            transaction.producer_epoch,
            committed,
            coordinator_epoch,
            transaction.client_version,
        )
