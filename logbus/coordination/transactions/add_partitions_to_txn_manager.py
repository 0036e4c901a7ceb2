"""
Adds partitions to transactions, or verifies that they were added, at the transaction's coordinator, here or on another
broker (KIP-890; Kafka: AddPartitionsToTxnManager).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Mapping

from attrs import define, field, frozen
from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.peers import Peers
from logbus.config import ConfigView, keys
from logbus.coordination.transactions.marker_codec import partitions_by_topic
from logbus.coordination.transactions.transaction_coordinator import TransactionCoordinator
from logbus.coordination.transactions.transaction_metadata import V2, ProducerIdAndEpoch
from logbus.errors import ApiError, ErrorCode, error_of
from logbus.model import TRANSACTIONS_TOPIC, TopicPartition
from logbus.wire.messages.partitions import NamedTopicPartitions
from logbus.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTransaction,
)

PARTICIPATION = "participation"
CONNECTIONS_PER_COORDINATOR = 4
"""Connections to each coordinator: a request that must wait delays later ones on one connection only."""

MAX_TRANSACTIONS_PER_REQUEST = 100
"""Maximum number of transactions in one request."""

Outcomes = Mapping[TopicPartition, ErrorCode]


@frozen
class RetryBackoff:
    """
    The retries that the leader of a partition makes on behalf of the producer while the producer's last transaction is
    being completed (Kafka: ReplicaManager).

    :ivar seconds: between two attempts.
    :ivar max_seconds: time limit of all attempts.
    """

    seconds: float
    max_seconds: float

    @classmethod
    def of(cls, config: ConfigView) -> RetryBackoff:
        """As configured."""
        most = min(config.get(keys.ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS), config.get(keys.REQUEST_TIMEOUT_MS))
        return cls(config.get(keys.ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MS) / 1000, most / 1000)


@define(eq=False)
class _PendingRequest:
    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: frozenset[TopicPartition]
    add: bool
    answer: Deferred[Outcomes]

    def all(self, code: ErrorCode) -> Outcomes:
        return dict.fromkeys(self.partitions, _for_producers(code))

    def settle(self, outcomes: Outcomes) -> None:
        if not self.answer.called:  # The caller may have cancelled.
            self.answer.callback(outcomes)


@define(eq=False)
class AddPartitionsToTxnManager:
    """
    Sends AddPartitionsToTxn to the coordinators of transactions, for the leaders of partitions.

    Requests for the same broker are batched while its connections are busy.
    """

    _broker_id: int
    _metadata: ClusterMetadata
    _coordinator: TransactionCoordinator
    _peers: Peers
    _queues: dict[int, deque[_PendingRequest]] = field(factory=lambda: defaultdict(deque), init=False)
    _busy: dict[int, set[int]] = field(factory=lambda: defaultdict(set), init=False)
    _log = Logger()

    def add_or_verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        add: bool,
    ) -> Deferred[Outcomes]:
        """
        Add partitions to a producer's transaction, or verify that they are part of it.

        :param add: True: add them, since records of the transaction have arrived (V2); False: only verify.
        :return: fires with NONE or an error for each; it never fails. TRANSACTION_ABORTABLE: it is not part of it
            (for older clients INVALID_TXN_STATE); INVALID_PRODUCER_EPOCH: a newer producer has the id;
            INVALID_PRODUCER_ID_MAPPING: the id is not that producer's; CONCURRENT_TRANSACTIONS,
            COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, NETWORK_EXCEPTION,
            REQUEST_TIMED_OUT, UNKNOWN_TOPIC_OR_PARTITION: may be retried; INVALID_REQUEST, INVALID_TXN_STATE,
            POLICY_VIOLATION: may not.
        """
        producer = ProducerIdAndEpoch(producer_id, producer_epoch)
        pending = _PendingRequest(transactional_id, producer, frozenset(partitions), add, Deferred())
        number = self._coordinator.partition_of(transactional_id)
        image = self._metadata.partition(TopicPartition(TRANSACTIONS_TOPIC, number))
        if image is None or image.leader < 0:
            return succeed(pending.all(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        if image.leader == self._broker_id:
            return Deferred.fromCoroutine(self._ask_here(pending))
        self._queues[image.leader].append(pending)
        self._dispatch(image.leader)
        return pending.answer

    async def _ask_here(self, pending: _PendingRequest) -> Outcomes:
        coordinator = self._coordinator
        if any(self._metadata.partition(partition) is None for partition in pending.partitions):
            # A broker leads a partition before its metadata shows it. A transaction that ended by then would leave it
            # out, as if it were deleted.
            return pending.all(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        try:
            if not pending.add:
                found = coordinator.verify(pending.transactional_id, pending.producer, pending.partitions)
                return {partition: _for_producers(code) for partition, code in found.items()}
            await coordinator.add_partitions(pending.transactional_id, pending.producer, pending.partitions, V2)
        except ApiError as e:
            return pending.all(e.code)
        except CancelledError:
            raise  # The caller has cancelled.
        except Exception:
            self._log.failure("partitions cannot be added to a transaction, or verified")
            return pending.all(ErrorCode.UNKNOWN_SERVER_ERROR)
        return pending.all(ErrorCode.NONE)

    def _dispatch(self, broker_id: int) -> None:
        """Send queued requests to a broker while one of its connections is free."""
        queue, busy = self._queues[broker_id], self._busy[broker_id]
        while queue and len(busy) < CONNECTIONS_PER_COORDINATOR:
            batch = _batch(queue)
            if not batch:
                break
            connection = next(number for number in range(CONNECTIONS_PER_COORDINATOR) if number not in busy)
            busy.add(connection)
            self._send(broker_id, connection, batch)

    def _send(self, broker_id: int, connection: int, batch: Mapping[str, _PendingRequest]) -> None:
        request = AddPartitionsToTxnRequest(transactions=[_encode_request(pending) for pending in batch.values()])
        try:
            asked = self._peers.request(self._peers.broker(broker_id), request, f"{PARTICIPATION}-{connection}")
        except ApiError as e:
            asked = fail(e)
        asked.addBoth(self._answered, broker_id, connection, batch).addErrback(
            lambda failure: self._log.failure("a coordinator's response cannot be processed", failure)
        )

    def _answered(
        self,
        result: AddPartitionsToTxnResponse | Failure,
        broker_id: int,
        connection: int,
        batch: Mapping[str, _PendingRequest],
    ) -> None:
        self._busy[broker_id].discard(connection)
        problem = self._problem(result, broker_id)
        found = {} if isinstance(result, Failure) else _outcomes(result)
        for name, pending in batch.items():
            pending.settle({one: _for_producers(found.get((name, one), problem)) for one in pending.partitions})
        self._dispatch(broker_id)

    def _problem(self, result: AddPartitionsToTxnResponse | Failure, broker_id: int) -> ErrorCode:
        """The error for partitions that are missing in the response."""
        if not isinstance(result, Failure):
            if result.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                return ErrorCode.INVALID_TXN_STATE  # Authorization between brokers does not concern the producer.
            return error_of(result.error_code).code if result.error_code else ErrorCode.NETWORK_EXCEPTION
        if isinstance(result.value, ApiError):
            code = result.value.code
            return ErrorCode.COORDINATOR_NOT_AVAILABLE if code is ErrorCode.BROKER_NOT_AVAILABLE else code
        self._log.error("the request to broker {broker} failed: {why!r}", broker=broker_id, why=result.value)
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _batch(queue: deque[_PendingRequest]) -> dict[str, _PendingRequest]:
    """The next requests, at most one for each transactional id; later ones of the same id stay queued."""
    batch: dict[str, _PendingRequest] = {}
    passed: list[_PendingRequest] = []
    while queue and len(batch) < MAX_TRANSACTIONS_PER_REQUEST:
        pending = queue.popleft()
        if pending.answer.called:
            continue
        if batch.setdefault(pending.transactional_id, pending) is not pending:
            passed.append(pending)
    queue.extendleft(reversed(passed))
    return batch


def _encode_request(pending: _PendingRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=pending.transactional_id,
        producer_id=pending.producer.producer_id,
        producer_epoch=pending.producer.epoch,
        verify_only=not pending.add,
        topics=[
            NamedTopicPartitions(name=topic, partitions=list(numbers))
            for topic, numbers in partitions_by_topic(pending.partitions).items()
        ],
    )


def _for_producers(code: ErrorCode) -> ErrorCode:
    """The error code as Produce names it: producers do not know PRODUCER_FENCED."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED else code


def _outcomes(response: AddPartitionsToTxnResponse) -> dict[tuple[str, TopicPartition], ErrorCode]:
    return {
        (result.transactional_id, TopicPartition(topic.name, one.partition_index)): error_of(
            one.partition_error_code
        ).code
        for result in response.results_by_transaction
        for topic in result.topic_results
        for one in topic.results_by_partition
    }
