"""
What is known of one transactional id: the value that a record of ``__transaction_state`` holds. Pure.
"""

from __future__ import annotations

from typing import NamedTuple

from attrs import frozen

from logbus.coordination.transactions.states import TransactionState
from logbus.model import TopicPartition

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
LAST_EPOCH = 32767
"""The greatest epoch. No producer gets it: it is kept for fencing the one before."""

NO_TIMESTAMP = -1

V1 = 0
"""The client keeps its epoch from one transaction to the next, and says itself which partitions take part."""

V2 = 2
"""The epoch grows with each transaction, and partitions take part by being written to (KIP-890)."""


class ProducerIdAndEpoch(NamedTuple):
    """Who a producer is: the id in its batches, and which of its lives (or transactions) it is in."""

    producer_id: int
    epoch: int


@frozen
class Transaction:
    """
    A transactional id with its last transaction.

    :ivar producer_id: with :attr:`producer_epoch`: who may act for the id; whoever has an older epoch is fenced.
    :ivar previous_producer_id: the one before the last change of the producer's identity, −1 if there was none.
    :ivar next_producer_id: what :attr:`producer_id` becomes once the transaction is complete, since its epochs are
        used up; −1: it stays.
    :ivar last_producer_epoch: the epoch before, if its producer may not have heard of the new one and may ask again
        (KIP-360); −1 if whoever has it is fenced.
    :ivar timeout_ms: how long a transaction may take.
    :ivar partitions: those that take part.
    :ivar started_ms: when the transaction began, in ms since 1970, −1 if there is none.
    :ivar updated_ms: when this was written, in ms since 1970.
    :ivar client_version: how the client works: :data:`V1` or :data:`V2`.
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
        """Who may act for the id."""
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)
