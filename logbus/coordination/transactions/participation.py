"""
How partitions take part in a transaction, asked from any broker: the coordinator may be here, or somewhere else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from attrs import define
from twisted.internet.defer import Deferred

from logbus.cluster.metadata import ClusterMetadata
from logbus.cluster.peers import Peers
from logbus.coordination.transactions.coordinator import TransactionCoordinator
from logbus.errors import ErrorCode
from logbus.model import TopicPartition


@define(eq=False)
class TransactionParticipation:
    """Asks the coordinators of transactions, on behalf of those who lead partitions."""

    _broker_id: int
    _metadata: ClusterMetadata
    _coordinator: TransactionCoordinator
    _peers: Peers

    def take_part(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        add: bool,
    ) -> Deferred[Mapping[TopicPartition, ErrorCode]]:
        """
        Let partitions take part in a producer's transaction, or ask whether they do.

        :param add: True: they take part from now on, since records of the transaction came (V2); False: only look.
        :return: fires with NONE or an error for each; it never fails. TRANSACTION_ABORTABLE: it does not take part
            (clients that do not know that: INVALID_TXN_STATE); INVALID_PRODUCER_EPOCH: a newer producer has the id;
            INVALID_PRODUCER_ID_MAPPING: the id is not that producer's; CONCURRENT_TRANSACTIONS,
            COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, NETWORK_EXCEPTION,
            REQUEST_TIMED_OUT: not now, try again; INVALID_REQUEST, INVALID_TXN_STATE, POLICY_VIOLATION: not at all.
        """
        raise NotImplementedError
