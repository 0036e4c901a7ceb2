"""
The admin client's part for transactions (KIP-664): lists and describes them, describes the producers of partitions, and
aborts hanging transactions.

A request about several things returns a value or an error for each.
"""

from __future__ import annotations

from collections.abc import Iterable

from logbus.client.admin.transaction_results import ActiveProducer, ListedTransaction, TransactionDescription
from logbus.client.cluster.cluster import Cluster
from logbus.client.validators import texts
from logbus.coroutines import returns_deferred
from logbus.errors import ApiError
from logbus.model import TopicPartition


class TransactionAdmin:
    """The part of :class:`~logbus.client.admin.admin_client.AdminClient` for transactions."""

    _cluster: Cluster
    _timeout: float

    @returns_deferred
    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[ListedTransaction]:
        """
        The transactional ids of all brokers, in order.

        :param states: only these of :data:`~logbus.client.admin.transaction_results.STATES`; empty: all.
        :param producer_ids: only these producer ids; empty: all.
        :param longer_than_ms: only ids whose transaction is older than this (KIP-994); 0: all.
        :param pattern: only ids that match this regular expression (RE2; KIP-1152).
        :raises ApiError: (in the Deferred) INVALID_REGULAR_EXPRESSION; UNSUPPORTED_VERSION: a broker is too old for a
            filter; INVALID_REQUEST: a state is unknown.
        """
        from logbus.client.admin.transaction_requests import list_transactions
        from logbus.wire.messages.transaction_admin import ListTransactionsRequest

        request = ListTransactionsRequest(
            state_filters=texts("states", states),
            producer_id_filters=list(producer_ids),
            duration_filter=-1 if longer_than_ms is None else longer_than_ms,
            transactional_id_pattern=pattern,
        )
        return await list_transactions(self._cluster, self._timeout, request)

    @returns_deferred
    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription | ApiError]:
        """
        Describe transactional ids and their transactions.

        The error for an id that does not exist is TRANSACTIONAL_ID_NOT_FOUND.
        """
        from logbus.client.admin.transaction_requests import describe_at
        from logbus.client.cluster.coordinators import TRANSACTIONS, Coordinators

        coordinators = Coordinators(self._cluster, self._timeout, TRANSACTIONS)
        return await coordinators.ask(texts("transactional_ids", transactional_ids), describe_at)

    @returns_deferred
    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
    ) -> dict[TopicPartition, tuple[ActiveProducer, ...] | ApiError]:
        """
        The producers of partitions, by producer id.

        :param broker_id: the replica to ask; None: the leaders.
        :raises ApiError: (in the Deferred) BROKER_NOT_AVAILABLE: there is no such broker.
        :raises Unreachable: a leader cannot be reached.
        """
        from logbus.client.admin.transaction_requests import describe_producers

        return await describe_producers(self._cluster, self._timeout, list(partitions), broker_id)

    @returns_deferred
    async def abort_transaction(
        self, partition: TopicPartition, *, producer_id: int, producer_epoch: int, coordinator_epoch: int = 0
    ) -> None:
        """
        Abort a transaction in one partition, with a marker written without its coordinator.

        Only for hanging transactions, which no coordinator knows any more. If the transaction is still in progress,
        read_committed consumers lose its records so far, but not those that its producer writes afterwards.

        :param coordinator_epoch: as in the producer's state in the partition; lower ones are refused.
        :raises ApiError: (in the Deferred) INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED; or the partition
            does not exist, or has no leader.
        """
        from logbus.client.admin.transaction_requests import AbortTransactionSpec, write_marker

        ending = AbortTransactionSpec(producer_id, producer_epoch, coordinator_epoch)
        await write_marker(self._cluster, self._timeout, partition, ending)

    @returns_deferred
    async def terminate_transaction(self, transactional_id: str) -> None:
        """
        Make the coordinator abort an id's transaction and fence its producer, which must start again.

        :raises ApiError: (in the Deferred) TRANSACTIONAL_ID_NOT_FOUND, or another error of the coordinator.
        """
        from logbus.client.admin.transaction_requests import terminate
        from logbus.client.cluster.coordinators import TRANSACTIONS, Coordinators

        await terminate(Coordinators(self._cluster, self._timeout, TRANSACTIONS), transactional_id)
