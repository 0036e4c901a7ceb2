"""
The transaction coordinator: which transactional ids are here, and what becomes of their transactions.

One shard for each partition of ``__transaction_state`` that this broker leads. A change is written to it first, and in
force once it is durable; then the markers go out, and then it is written that all of them are there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from attrs import define
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from logbus.cluster.metadata import ClusterMetadata
from logbus.cluster.producerids import ProducerIds
from logbus.cluster.replicas import Replicas
from logbus.config import ConfigView
from logbus.coordination.transactions.transaction import V1, ProducerIdAndEpoch, Transaction
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition

TRANSACTIONS_TOPIC = "__transaction_state"


@define(eq=False)
class TransactionCoordinator:
    """
    All transactional ids that this broker coordinates.

    Every method may refuse with COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS, and with
    CONCURRENT_TRANSACTIONS while something else of the same id is not durable yet; all of these can be tried again.

    :param wall_ms: ms since 1970.
    """

    _replicas: Replicas
    _metadata: ClusterMetadata
    _ids: ProducerIds
    config: ConfigView
    clock: IReactorTime
    wall_ms: Callable[[], int]

    def partition_of(self, transactional_id: str) -> int:
        """The partition that holds a transactional id, of those there are or will be."""
        raise NotImplementedError

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None = None
    ) -> Deferred[ProducerIdAndEpoch]:
        """
        Let a producer begin: whoever used the id before is fenced, and its transaction aborted.

        :param timeout_ms: how long each of its transactions may take.
        :param expected: who it was so far, if it goes on after an error (KIP-360).
        :raise ApiError: INVALID_REQUEST (no id), INVALID_TRANSACTION_TIMEOUT, PRODUCER_FENCED.
        """
        raise NotImplementedError

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        client_version: int = V1,
    ) -> Deferred[None]:
        """
        Let partitions take part in the producer's transaction, which begins with the first; all or none.

        :param client_version: V1: the client asks; V2: it wrote to them.
        :return: fires when that is durable.
        :raise ApiError: INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, POLICY_VIOLATION (too many).
        """
        raise NotImplementedError

    def verify(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """
        Whether partitions take part in the producer's transaction: NONE, or TRANSACTION_ABORTABLE.

        :raise ApiError: INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED.
        """
        raise NotImplementedError

    def end(
        self, transactional_id: str, producer: ProducerIdAndEpoch, commit: bool, client_version: int = V1
    ) -> Deferred[ProducerIdAndEpoch]:
        """
        Commit or abort the producer's transaction.

        :return: fires, when that is durable, with who the producer is from now on; markers are yet to be written.
        :raise ApiError: INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_TXN_STATE.
        """
        raise NotImplementedError

    # For those who look.

    @property
    def loading(self) -> bool:
        """Whether some transactional ids are not known yet."""
        raise NotImplementedError

    def describe(self, transactional_id: str) -> Transaction:
        """
        What is durable of a transactional id.

        :raise ApiError: INVALID_REQUEST, TRANSACTIONAL_ID_NOT_FOUND.
        """
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def transactions(self) -> Sequence[Transaction]:
        """All transactional ids of the shards that are loaded."""
        raise NotImplementedError
