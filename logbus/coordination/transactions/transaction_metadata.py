"""
The state of one transactional id, as a record of ``__transaction_state`` holds it (Kafka: TransactionMetadata). Pure.
"""

from __future__ import annotations

from typing import NamedTuple

from attrs import frozen

from logbus.coordination.transactions.transaction_state import TransactionState
from logbus.model import TopicPartition

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
LAST_EPOCH = 32767
"""The greatest epoch. No producer gets it: it is reserved for fencing the one before."""

NO_TIMESTAMP = -1

V1 = 0
"""Transaction version 1: the epoch stays the same, and the client adds partitions by AddPartitionsToTxn."""

V2 = 2
"""Transaction version 2 (KIP-890): the epoch grows with each transaction, and writing to a partition adds it."""


class ProducerIdAndEpoch(NamedTuple):
    """A producer's id, and the epoch of its present instance (V1) or transaction (V2)."""

    producer_id: int
    epoch: int


@frozen
class TransactionMetadata:
    """
    A transactional id with its last transaction.

    :ivar producer_id: with :attr:`producer_epoch`, the producer that may use the id; older epochs are fenced.
    :ivar previous_producer_id: the one before the last change of the producer's identity, −1 if there was none.
    :ivar next_producer_id: the value of :attr:`producer_id` after the transaction, if its epochs are used up; −1: it
        stays.
    :ivar last_producer_epoch: the epoch before, if its producer may have missed the new one and may retry (KIP-360);
        −1 if it is fenced.
    :ivar timeout_ms: how long a transaction may take.
    :ivar partitions: the partitions of the transaction.
    :ivar started_ms: when the transaction began, in ms since 1970, −1 if there is none.
    :ivar updated_ms: when this was written, in ms since 1970.
    :ivar client_version: the client's transaction version: :data:`V1` or :data:`V2`.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition] = frozenset()
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    started_ms: int = NO_TIMESTAMP
    updated_ms: int = NO_TIMESTAMP
    client_version: int = V1

    @property
    def producer(self) -> ProducerIdAndEpoch:
        """The producer that may use the id."""
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)
