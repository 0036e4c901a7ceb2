"""
Administration of transactions (KIP-664): which there are, what partitions know of producers, and ending what hangs.

Part of :class:`~logbus.client.admin.admin_client.AdminClient`, and in its manner: what concerns several things is
answered for each, with what was asked for or with the error as a value.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from attrs import frozen
from twisted.internet.defer import Deferred

from logbus.client.cluster.cluster import Cluster, Node
from logbus.errors import ApiError
from logbus.model import TopicPartition

if TYPE_CHECKING:
    from logbus.client.cluster.coordinators import Coordinators

STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence")
"""What a transactional id can be in the midst of, as coordinators spell it."""


@frozen
class ListedTransaction:
    """
    A transactional id, as the broker lists it that coordinates it.

    :ivar producer_id: the one it has now.
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
    A transactional id with its transaction, if it has one.

    :ivar timeout_ms: how long a transaction may take before the coordinator aborts it.
    :ivar started_ms: when it began, in ms since 1970; None while none is under way.
    :ivar partitions: that it has written to; once it ends, those that have no marker yet.
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
    What a partition remembers of a producer.

    :ivar last_sequence: of its last record; −1: of none.
    :ivar last_timestamp: of its last batch, in ms since 1970; −1: not known.
    :ivar coordinator_epoch: of the coordinator that wrote its last marker; −1: there is none.
    :ivar open_since: the first offset of its transaction that is open here; None: none is.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    open_since: int | None


class TransactionAdmin:
    """What an :class:`~logbus.client.admin.admin_client.AdminClient` does with transactions."""

    _cluster: Cluster
    _timeout: float

    def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int | None = None,
        pattern: str | None = None,
    ) -> Deferred[list[ListedTransaction]]:
        """
        The transactional ids of all brokers, in order.

        :param states: only those in one of :data:`STATES`; none: in any.
        :param producer_ids: only those with one of these producer ids; none: with any.
        :param longer_than_ms: only those whose transaction is under way for longer (KIP-994).
        :param pattern: only those that match this regular expression (RE2; KIP-1152).
        :raises ApiError: (in the Deferred) INVALID_REGULAR_EXPRESSION; UNSUPPORTED_VERSION: a broker is too old for a
            filter; INVALID_REQUEST: one knows no such state.
        """

        async def ask() -> list[ListedTransaction]:
            from logbus.client.admin.transaction_requests import TransactionFilters, list_transactions

            filters = TransactionFilters(list(states), list(producer_ids), longer_than_ms, pattern)
            return await list_transactions(self._cluster, self._timeout, filters)

        return Deferred.fromCoroutine(ask())

    def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> Deferred[dict[str, TransactionDescription | ApiError]]:
        """
        Transactional ids with their transactions.

        The error of one that nobody knows is TRANSACTIONAL_ID_NOT_FOUND.
        """

        async def ask() -> dict[str, TransactionDescription | ApiError]:
            from logbus.client.admin.transaction_requests import describe_at

            return await self._transaction_coordinators().ask(transactional_ids, describe_at)

        return Deferred.fromCoroutine(ask())

    def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
    ) -> Deferred[dict[TopicPartition, tuple[ActiveProducer, ...] | ApiError]]:
        """
        What partitions remember of producers, by producer id.

        :param broker_id: the replica to ask; None: the leader of each.
        :raises ApiError: (in the Deferred) BROKER_NOT_AVAILABLE: there is no such broker.
        :raises Unreachable: a leader cannot be reached.
        """

        async def ask() -> dict[TopicPartition, tuple[ActiveProducer, ...] | ApiError]:
            from logbus.client.admin.transaction_requests import describe_producers

            return await describe_producers(self._cluster, self._timeout, list(partitions), broker_id)

        return Deferred.fromCoroutine(ask())

    def abort_transaction(
        self, partition: TopicPartition, *, producer_id: int, producer_epoch: int, coordinator_epoch: int = 0
    ) -> Deferred[None]:
        """
        End a transaction in one partition, by a marker that its coordinator has not asked for.

        For transactions that hang: that no coordinator knows of any more. The records of one that is under way would be
        lost for readers of committed records, and what its producer writes afterwards would not.

        :param coordinator_epoch: as the partition remembers it of the producer; one that is less is refused.
        :raises ApiError: (in the Deferred) INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED; or the partition is
            not there, or has no leader.
        """

        async def ask() -> None:
            from logbus.client.admin.transaction_requests import AbortTransactionSpec, write_marker

            ending = AbortTransactionSpec(producer_id, producer_epoch, coordinator_epoch)
            await write_marker(self._cluster, self._timeout, partition, ending)

        return Deferred.fromCoroutine(ask())

    def terminate_transaction(self, transactional_id: str) -> Deferred[None]:
        """
        Have the coordinator abort the transaction of a transactional id, and fence its producer, which must start anew.

        :raises ApiError: (in the Deferred) TRANSACTIONAL_ID_NOT_FOUND, or what else the coordinator says.
        """

        async def ask() -> None:
            from logbus.client.admin.transaction_requests import terminate

            await terminate(self._transaction_coordinators(), transactional_id)

        return Deferred.fromCoroutine(ask())

    def _transaction_coordinators(self) -> Coordinators:
        from logbus.client.cluster.coordinators import TRANSACTIONS, Coordinators

        return Coordinators(self._cluster, self._timeout, TRANSACTIONS)
