"""
Finds the ongoing transactions of producer ids at the coordinators of all brokers (KIP-664).

A marker names a producer id, but a coordinator is found by transactional id. So all coordinators are asked: with
ListTransactions for the transactional ids of the producers, and with DescribeTransactions for their partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from attrs import define
from twisted.internet.defer import Deferred, FirstError, gatherResults

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.peers import LOOKUP, Peers
from logbus.coordination.transactions.transaction_coordinator import TransactionCoordinator
from logbus.errors import ApiError, ErrorCode, error_of
from logbus.model import TRANSACTIONS_TOPIC, TopicPartition
from logbus.wire.messages.transaction_admin import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

Known = Mapping[int, frozenset[TopicPartition]]


@define(eq=False)
class TransactionLookup:
    """Queries all coordinators."""

    _broker_id: int
    _metadata: ClusterMetadata
    _coordinator: TransactionCoordinator
    _peers: Peers

    async def partitions_to_end(self, producer_ids: Collection[int]) -> Known:
        """
        The partitions in which coordinators will end transactions of some producers.

        :return: by producer id, the partitions of its transaction without a marker, perhaps none. Producers that no
            coordinator knows are missing.
        :raise ApiError: not all coordinators answered: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS.
        """
        before = self._leaders()
        asking = [Deferred.fromCoroutine(self._ask(leader, producer_ids)) for leader in sorted({n for n, _ in before})]
        try:
            answers = await gatherResults(asking, consumeErrors=True)
        except FirstError as e:
            why = e.subFailure.value
            if not isinstance(why, ApiError) or why.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                e.subFailure.raiseException()
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"a coordinator cannot be asked: {why}") from None
        if self._leaders() != before:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{TRANSACTIONS_TOPIC} was given other leaders")
        known: dict[int, frozenset[TopicPartition]] = {}
        for answer in answers:
            for producer_id, partitions in answer.items():
                known[producer_id] = known.get(producer_id, frozenset()) | partitions
        return known

    def _leaders(self) -> list[tuple[int, int]]:
        """Leader and leader epoch of each partition of the internal topic; empty without it."""
        topic = self._metadata.topic(TRANSACTIONS_TOPIC)
        if topic is None:
            return []
        for number, partition in enumerate(topic.partitions):
            if partition.leader < 0:
                raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{TRANSACTIONS_TOPIC}-{number} has no leader")
        return [(partition.leader, partition.leader_epoch) for partition in topic.partitions]

    async def _ask(self, broker_id: int, producer_ids: Collection[int]) -> Known:
        if broker_id == self._broker_id:
            return self._known_here(producer_ids)
        broker = self._peers.broker(broker_id)
        wanted = ListTransactionsRequest(state_filters=[], producer_id_filters=sorted(producer_ids))
        listed: ListTransactionsResponse = await self._peers.request(broker, wanted, LOOKUP)
        if listed.error_code:
            raise error_of(listed.error_code)
        names = [each.transactional_id for each in listed.transaction_states]
        if not names:
            return {}
        asked = DescribeTransactionsRequest(transactional_ids=names)
        described: DescribeTransactionsResponse = await self._peers.request(broker, asked, LOOKUP)
        known: dict[int, frozenset[TopicPartition]] = {}
        for each in described.transaction_states:
            if each.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                continue  # It has just expired.
            if each.error_code:
                raise error_of(each.error_code)
            known[each.producer_id] = frozenset(
                TopicPartition(topic.topic, number) for topic in each.topics for number in topic.partitions
            )
        return known

    def _known_here(self, producer_ids: Collection[int]) -> Known:
        coordinator = self._coordinator
        if coordinator.loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{TRANSACTIONS_TOPIC} is being read")
        known: dict[int, frozenset[TopicPartition]] = {}
        for each in coordinator.transactions():
            if each.producer_id in producer_ids:
                left: Iterable[TopicPartition] | None = coordinator.markers.left(each.transactional_id)
                known[each.producer_id] = frozenset(each.partitions if left is None else left)
        return known
