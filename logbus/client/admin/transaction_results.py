"""Transactional ids and the producers of partitions, as the admin client lists and describes them (KIP-664)."""

from __future__ import annotations

from attrs import frozen

from logbus.client.cluster.cluster import Node
from logbus.model import TopicPartition

STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence")
"""The states of transactional ids, as coordinators report them."""


@frozen
class ListedTransaction:
    """
    A transactional id in the list of its coordinator.

    :ivar producer_id: its current producer id.
    :ivar state: one of :data:`STATES`.
    :ivar coordinator: the broker's id.
    """

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@frozen
class TransactionDescription:
    """
    A transactional id and its transaction, if it has one.

    :ivar timeout_ms: after which the coordinator aborts a transaction.
    :ivar started_ms: when the transaction began, in ms since 1970; None: there is none.
    :ivar partitions: of the transaction; while it ends, those that have no marker yet.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None
    partitions: tuple[TopicPartition, ...]
    coordinator: Node


@frozen
class ActiveProducer:
    """
    A partition's state of a producer.

    :ivar last_sequence: of its last record; −1: none.
    :ivar last_timestamp: of its last batch, in ms since 1970; −1: not known.
    :ivar coordinator_epoch: of the coordinator that wrote its last marker; −1: none.
    :ivar open_since: the first offset of its open transaction in this partition; None: none is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    open_since: int | None
