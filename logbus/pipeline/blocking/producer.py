"""
A blocking producer of encoded batches, with retries, idempotence and transactions (Kafka: KafkaProducer, Sender).

It is used by one thread. Several requests are in flight to each broker; :meth:`Producer.send` blocks only while the
buffer is full. :class:`~logbus.pipeline.blocking.partition_batches.PartitionBatches` decides how responses are
handled. The first batch that cannot be written fails the producer, and with it the Spark task.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable

from attrs import define, field, frozen

from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.pipeline.blocking.brokers import Brokers, Node, TopicMetadata
from logbus.pipeline.blocking.connection import Connection
from logbus.pipeline.blocking.connection_pool import ConnectionPool
from logbus.pipeline.blocking.connection_settings import ConnectionSettings
from logbus.pipeline.blocking.partition_batches import PartitionBatches, ProducerBatch, RetryDecision
from logbus.pipeline.blocking.patience import PATIENCE, warn
from logbus.pipeline.blocking.produce_requests import batch_results, produce_request, version_for
from logbus.pipeline.blocking.retry import is_retriable
from logbus.pipeline.blocking.transactions import ProducerIdentity, add_partitions_to_txn, transaction_error
from logbus.pipeline.errors import DeliveryFailed, Disconnected
from logbus.records.batch import BatchBuilder
from logbus.records.column_batch import ColumnBatch
from logbus.wire.messages.records import ProduceRequest

_PRODUCE = 0
_LEADER_SHARE = 0.9
"""The part of the request timeout that the leader may use, so that it answers before the client hangs up."""
_MAX_SLEEP = 0.05
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)

_POOLS: dict[ConnectionSettings, ConnectionPool] = {}
# Responses come in the order of requests: Produce has connections of its own, so as not to delay other requests.
os.register_at_fork(after_in_child=_POOLS.clear)


@frozen
class DeliverySettings:
    """
    The settings of sending batches; each is named after Kafka's.

    :ivar acks: −1: all in-sync replicas; 1: the leader only (``acks``).
    :ivar timeout: seconds (``delivery.timeout.ms``).
    :ivar retries: how often at most a batch is sent again (``retries``).
    :ivar request_bytes: of several batches in one request (``max.request.size``).
    :ivar buffer_bytes: of batches that are not written yet (``buffer.memory``).
    :ivar in_flight: requests to one broker (``max.in.flight.requests.per.connection``).
    """

    acks: int = -1
    timeout: float = 120.0
    retries: int = 2**31 - 1
    request_bytes: int = 1 << 20
    buffer_bytes: int = 32 << 20
    in_flight: int = 5


@frozen
class _Outstanding:
    """A request without a response yet."""

    request: ProduceRequest
    batches: list[ProducerBatch]


@define(eq=False)
class _Leader:
    """A broker with its connection and its outstanding requests."""

    node_id: int
    connection: Connection
    outstanding: deque[_Outstanding] = field(factory=deque)


class Producer:
    """
    Writes batches to partitions.

    :param identity: producer id and epoch; None: not idempotent, so that retries may write duplicates.
    :param clock: seconds.
    """

    def __init__(
        self,
        brokers: Brokers,
        delivery: DeliverySettings,
        identity: ProducerIdentity | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._brokers = brokers
        self._settings = brokers.settings
        self._delivery = delivery
        self._identity = identity
        self._clock = clock
        self._sleep = sleep
        self._pool = _POOLS.get(brokers.settings) or _POOLS.setdefault(
            brokers.settings, ConnectionPool(brokers.settings)
        )
        self._queues: dict[TopicPartition, PartitionBatches] = {}
        self._busy: dict[TopicPartition, PartitionBatches] = {}
        self._leaders: dict[int, _Leader] = {}
        self._order: deque[int] = deque()
        self._in_transaction: set[TopicPartition] = set()
        self._bytes = 0
        self._told = False

    def send(self, partition: TopicPartition, body: BatchBuilder | ColumnBatch) -> None:
        """
        Send a batch, perhaps later; :meth:`flush` waits for it.

        :raises DeliveryFailed: this batch or an earlier one cannot be written.
        :raises ProducerFenced: a newer producer has the transactional id.
        :raises TransactionLost: the transaction is not open any more.
        """
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = PartitionBatches(partition, idempotent=self._identity is not None)
        queue.add(body, self._clock())
        self._busy[partition] = queue
        self._bytes += body.size
        self._send_ready()
        while self._bytes > self._delivery.buffer_bytes:
            self._receive()
            self._send_ready()

    def flush(self) -> None:
        """Wait until all batches are written; raises what :meth:`send` raises."""
        while self._busy:
            self._send_ready()
            self._receive()

    def close(self) -> None:
        """Release the connections; batches that are not written are dropped."""
        self._busy.clear()
        self._leaders.clear()
        self._order.clear()
        self._pool.release()
        self._brokers.release()

    # Requests.

    def _send_ready(self) -> None:
        """Send all batches that may be sent now."""
        now = self._clock()
        while True:
            ready: dict[int, list[PartitionBatches]] = {}
            for queue in list(self._busy.values()):
                if not queue.waiting:
                    continue
                self._check_time(queue.waiting[0], now)
                if now >= queue.not_before and (node := self._leader_of(queue, now)) is not None:
                    leader = self._leaders.get(node)
                    if leader is not None and len(leader.outstanding) >= self._delivery.in_flight:
                        continue
                    if queue.may_send(node, now):
                        ready.setdefault(node, []).append(queue)
            if not ready:
                return
            self._add_to_transaction(queue.partition for queues in ready.values() for queue in queues)
            for node, queues in ready.items():
                self._send_to(node, queues, now)

    def _leader_of(self, queue: PartitionBatches, now: float) -> int | None:
        try:
            return self._brokers.leader_id(queue.partition)
        except Exception as e:
            self._handle_send_error(queue, e, now)
            return None

    def _add_to_transaction(self, partitions: Iterable[TopicPartition]) -> None:
        """Before KIP-890: add partitions to the transaction before anything is sent to them."""
        identity = self._identity
        if identity is None or identity.transactional_id is None or identity.transaction_v2:
            return
        if new := [each for each in partitions if each not in self._in_transaction]:
            add_partitions_to_txn(self._brokers, identity, new)
            self._in_transaction.update(new)

    def _send_to(self, node_id: int, queues: list[PartitionBatches], now: float) -> None:
        """Send one request with as many partitions' batches as fit."""
        leader = self._connect(node_id, queues, now)
        if leader is None:
            return
        batches: list[ProducerBatch] = []
        topics: dict[str, TopicMetadata] = {}
        size = 0
        for queue in queues:
            size += queue.waiting[0].body.size
            if batches and size > self._delivery.request_bytes:
                break
            name = queue.partition.topic
            try:
                # An error of another partition may have dropped the topic's metadata.
                topics[name] = self._brokers.topic(name)
            except Exception as e:
                self._handle_send_error(queue, e, now)
            else:
                batches.append(queue.send_next(node_id))
        if not batches:
            return
        timeout = self._settings.request_timeout * _LEADER_SHARE
        request = produce_request(batches, topics, self._identity, acks=self._delivery.acks, timeout=timeout)
        version = version_for(leader.connection.version(_PRODUCE), topics.values(), self._identity)
        leader.outstanding.append(_Outstanding(request, batches))
        self._order.append(node_id)
        try:
            leader.connection.send(request, version=version)
        except Disconnected as e:
            self._disconnected(leader, e)

    def _connect(self, node_id: int, queues: list[PartitionBatches], now: float) -> _Leader | None:
        leader = self._leaders.get(node_id)
        if leader is None:
            try:
                leader = _Leader(node_id, self._connection(node_id))
            except Disconnected as e:
                for queue in queues:
                    self._brokers.forget(queue.partition)
                    self._handle_send_error(queue, e, now)
                return None
            self._leaders[node_id] = leader
        return leader

    def _connection(self, node_id: int) -> Connection:
        node = self._brokers.nodes.get(node_id)
        if node is None:
            raise Disconnected(f"broker {node_id} is not among the known ones")
        return self._pool.get((node.host, node.port))

    # Responses.

    def _receive(self) -> None:
        """Receive the response to the oldest request; without one, sleep until the next retry."""
        if not self._order:
            if self._busy:
                soonest = min(queue.not_before for queue in self._busy.values())
                self._sleep(min(max(soonest - self._clock(), 0.001), _MAX_SLEEP))
            return
        leader = self._leaders[self._order[0]]
        try:
            response = leader.connection.receive()
        except Disconnected as e:
            self._disconnected(leader, e)
            return
        self._order.popleft()
        outstanding = leader.outstanding.popleft()
        for batch, answer, error in batch_results(outstanding.batches, outstanding.request, response):
            if error is not None:
                self._update_leader(batch.partition, answer, response)
            self._handle_result(batch, error)

    def _disconnected(self, leader: _Leader, error: Disconnected) -> None:
        """Handle a lost connection: the batches in flight on it may or may not be written."""
        del self._leaders[leader.node_id]
        self._order = deque(each for each in self._order if each != leader.node_id)
        leader.connection.close()
        for outstanding in leader.outstanding:
            for batch in outstanding.batches:
                self._brokers.forget(batch.partition)
        for outstanding in leader.outstanding:
            for batch in outstanding.batches:
                self._handle_result(batch, error)

    def _handle_result(self, batch: ProducerBatch, error: Exception | None) -> None:
        queue = self._queues[batch.partition]
        now = self._clock()
        decision = queue.handle_result(batch, error, self._pause(queue), now)
        if decision is RetryDecision.WRITTEN:
            self._bytes -= batch.body.size
            if queue.idle:
                self._busy.pop(batch.partition, None)
        elif decision is RetryDecision.FAIL:
            raise self._failure(batch, error) from error
        elif decision is RetryDecision.SPLIT:
            # Batches before them may wait, too.
            halves = sum(each.body.size for each in queue.waiting if each.place[:-1] == batch.place)
            self._bytes += halves - batch.body.size
        elif batch.attempts > self._delivery.retries:
            raise self._failure(batch, error) from error

    def _update_leader(self, partition: TopicPartition, answer: object, response: object) -> None:
        hint = getattr(answer, "current_leader", None)
        nodes = [Node(each.node_id, each.host, each.port) for each in getattr(response, "node_endpoints", ())]
        if hint is None or not self._brokers.update_leader(partition, hint.leader_id, hint.leader_epoch, nodes):
            self._brokers.forget(partition)

    # Errors.

    def _handle_send_error(self, queue: PartitionBatches, error: Exception, now: float) -> None:
        """Handle an error before a partition's batch was sent."""
        if not is_retriable(error):
            raise self._failure(queue.waiting[0], error) from error
        queue.waiting[0].last_error = error
        queue.not_before = now + self._pause(queue)
        queue.attempts += 1

    def _pause(self, queue: PartitionBatches) -> float:
        return min(self._settings.backoff_max, self._settings.backoff * (1 << min(queue.attempts, 16)))

    def _check_time(self, batch: ProducerBatch, now: float) -> None:
        if now - batch.created > self._delivery.timeout:
            raise self._failure(batch, batch.last_error, late=True) from batch.last_error
        if not self._told and batch.last_error is not None and now - batch.created >= PATIENCE:
            self._told = True
            left = self._delivery.timeout - (now - batch.created)
            warn(f"{batch.partition}: {batch.last_error}; still trying for {left:.0f} s")

    def _failure(self, batch: ProducerBatch, error: Exception | None, *, late: bool = False) -> Exception:
        if isinstance(error, ApiError) and self._identity is not None:
            meant = transaction_error(error, self._identity.transactional_id)
            if meant is not error:
                return meant
        why = str(error) if error is not None else "no broker took them"
        if isinstance(error, ApiError) and error.code in _TOO_LARGE:
            why += f"; a batch of {batch.body.size} bytes is more than the topic's max.message.bytes"
        if late:
            why = f"not within {self._delivery.timeout:g} s (kafka.delivery.timeout.ms): {why}"
        what = f"{batch.body.count} records" if batch.body.count > 1 else "a record"
        return DeliveryFailed(f"{batch.partition}: {what} could not be written: {why}")
