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
from logbus.pipeline.blocking.produce_requests import batch_results, produce_request, version_for
from logbus.pipeline.blocking.retry import is_retriable
from logbus.pipeline.blocking.transactions import ProducerIdentity, add_partitions_to_txn, transaction_error
from logbus.pipeline.errors import DeliveryFailed, Disconnected
from logbus.records.batch import BatchBuilder
from logbus.wire.messages.records import ProduceRequest

_PRODUCE = 0
_LEADER_SHARE = 0.9
"""The part of the request timeout that the leader may use, so that it answers before the client hangs up."""
_NAP = 0.05
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)

_POOLS: dict[ConnectionSettings, ConnectionPool] = {}
# Responses come in the order of requests: Produce has connections of its own, so as not to delay other requests.
os.register_at_fork(after_in_child=_POOLS.clear)


@frozen
class DeliverySettings:
    """
    How batches are sent; each setting is named after Kafka's.

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
class _Asked:
    """A request without a response yet."""

    request: ProduceRequest
    batches: list[ProducerBatch]


@define(eq=False)
class _Leader:
    """A broker with its connection and its outstanding requests."""

    node_id: int
    connection: Connection
    asked: deque[_Asked] = field(factory=deque)


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
        self._lanes: dict[TopicPartition, PartitionBatches] = {}
        self._busy: dict[TopicPartition, PartitionBatches] = {}
        self._leaders: dict[int, _Leader] = {}
        self._order: deque[int] = deque()
        self._joined: set[TopicPartition] = set()
        self._bytes = 0

    def send(self, partition: TopicPartition, body: BatchBuilder) -> None:
        """
        Send a batch, perhaps later; :meth:`flush` waits for it.

        :raises DeliveryFailed: this batch or an earlier one cannot be written.
        :raises Fenced: a newer producer has the transactional id.
        :raises TransactionLost: the transaction is not open any more.
        """
        lane = self._lanes.get(partition)
        if lane is None:
            lane = self._lanes[partition] = PartitionBatches(partition, numbered=self._identity is not None)
        lane.add(body, self._clock())
        self._busy[partition] = lane
        self._bytes += body.size
        self._pump()
        while self._bytes > self._delivery.buffer_bytes:
            self._wait()
            self._pump()

    def flush(self) -> None:
        """Wait until all batches are written; raises what :meth:`send` raises."""
        while self._busy:
            self._pump()
            self._wait()

    def close(self) -> None:
        """Release the connections; batches that are not written are dropped."""
        self._busy.clear()
        self._leaders.clear()
        self._order.clear()
        self._pool.release()
        self._brokers.release()

    # Requests.

    def _pump(self) -> None:
        """Send all batches that may be sent now."""
        now = self._clock()
        while True:
            ready: dict[int, list[PartitionBatches]] = {}
            for lane in list(self._busy.values()):
                if not lane.waiting:
                    continue
                self._check_time(lane.waiting[0], now)
                if now >= lane.not_before and (node := self._leader_of(lane, now)) is not None:
                    leader = self._leaders.get(node)
                    if leader is not None and len(leader.asked) >= self._delivery.in_flight:
                        continue
                    if lane.may_send(node, now):
                        ready.setdefault(node, []).append(lane)
            if not ready:
                return
            self._join(lane.partition for lanes in ready.values() for lane in lanes)
            for node, lanes in ready.items():
                self._send_to(node, lanes, now)

    def _leader_of(self, lane: PartitionBatches, now: float) -> int | None:
        try:
            return self._brokers.leader_id(lane.partition)
        except Exception as e:
            self._trouble(lane, e, now)
            return None

    def _join(self, partitions: Iterable[TopicPartition]) -> None:
        """Before KIP-890: add partitions to the transaction before anything is sent to them."""
        identity = self._identity
        if identity is None or identity.transactional_id is None or identity.is_second:
            return
        if new := [each for each in partitions if each not in self._joined]:
            add_partitions_to_txn(self._brokers, identity, new)
            self._joined.update(new)

    def _send_to(self, node_id: int, lanes: list[PartitionBatches], now: float) -> None:
        """Send one request with as many partitions' batches as fit."""
        leader = self._connect(node_id, lanes, now)
        if leader is None:
            return
        batches: list[ProducerBatch] = []
        topics: dict[str, TopicMetadata] = {}
        size = 0
        for lane in lanes:
            size += lane.waiting[0].body.size
            if batches and size > self._delivery.request_bytes:
                break
            name = lane.partition.topic
            try:
                # An error of another partition may have dropped the topic's metadata.
                topics[name] = self._brokers.topic(name)
            except Exception as e:
                self._trouble(lane, e, now)
            else:
                batches.append(lane.depart(node_id))
        if not batches:
            return
        timeout = self._settings.request_timeout * _LEADER_SHARE
        request = produce_request(batches, topics, self._identity, acks=self._delivery.acks, timeout=timeout)
        version = version_for(leader.connection.version(_PRODUCE), topics.values(), self._identity)
        leader.asked.append(_Asked(request, batches))
        self._order.append(node_id)
        try:
            leader.connection.send(request, version=version)
        except Disconnected as e:
            self._lost(leader, e)

    def _connect(self, node_id: int, lanes: list[PartitionBatches], now: float) -> _Leader | None:
        leader = self._leaders.get(node_id)
        if leader is None:
            try:
                leader = _Leader(node_id, self._connection(node_id))
            except Disconnected as e:
                for lane in lanes:
                    self._brokers.forget(lane.partition)
                    self._trouble(lane, e, now)
                return None
            self._leaders[node_id] = leader
        return leader

    def _connection(self, node_id: int) -> Connection:
        node = self._brokers.nodes.get(node_id)
        if node is None:
            raise Disconnected(f"broker {node_id} is not among the known ones")
        return self._pool.get((node.host, node.port))

    # Responses.

    def _wait(self) -> None:
        """Receive the response to the oldest request; without one, sleep until the next retry."""
        if not self._order:
            if self._busy:
                soonest = min(lane.not_before for lane in self._busy.values())
                self._sleep(min(max(soonest - self._clock(), 0.001), _NAP))
            return
        leader = self._leaders[self._order[0]]
        try:
            response = leader.connection.receive()
        except Disconnected as e:
            self._lost(leader, e)
            return
        self._order.popleft()
        asked = leader.asked.popleft()
        for batch, answer, error in batch_results(asked.batches, asked.request, response):
            if error is not None:
                self._hear(batch.partition, answer, response)
            self._returned(batch, error)

    def _lost(self, leader: _Leader, error: Disconnected) -> None:
        """Handle a lost connection: the batches in flight on it may or may not be written."""
        del self._leaders[leader.node_id]
        self._order = deque(each for each in self._order if each != leader.node_id)
        leader.connection.close()
        for asked in leader.asked:
            for batch in asked.batches:
                self._brokers.forget(batch.partition)
        for asked in leader.asked:
            for batch in asked.batches:
                self._returned(batch, error)

    def _returned(self, batch: ProducerBatch, error: Exception | None) -> None:
        lane = self._lanes[batch.partition]
        now = self._clock()
        verdict = lane.returned(batch, error, self._pause(lane), now)
        if verdict is RetryDecision.WRITTEN:
            self._bytes -= batch.body.size
            if lane.idle:
                self._busy.pop(batch.partition, None)
        elif verdict is RetryDecision.FAIL:
            raise self._failure(batch, error) from error
        elif verdict is RetryDecision.SPLIT:
            self._bytes += sum(each.body.size for each in list(lane.waiting)[:2]) - batch.body.size
        elif batch.attempts > self._delivery.retries:
            raise self._failure(batch, error) from error

    def _hear(self, partition: TopicPartition, answer: object, response: object) -> None:
        hint = getattr(answer, "current_leader", None)
        nodes = [Node(each.node_id, each.host, each.port) for each in getattr(response, "node_endpoints", ())]
        if hint is None or not self._brokers.moved(partition, hint.leader_id, hint.leader_epoch, nodes):
            self._brokers.forget(partition)

    # Errors.

    def _trouble(self, lane: PartitionBatches, error: Exception, now: float) -> None:
        """Handle an error before a partition's batch was sent."""
        if not is_retriable(error):
            raise self._failure(lane.waiting[0], error) from error
        lane.waiting[0].trouble = error
        lane.not_before = now + self._pause(lane)
        lane.attempts += 1

    def _pause(self, lane: PartitionBatches) -> float:
        return min(self._settings.backoff_max, self._settings.backoff * (1 << min(lane.attempts, 16)))

    def _check_time(self, batch: ProducerBatch, now: float) -> None:
        if now - batch.created > self._delivery.timeout:
            raise self._failure(batch, batch.trouble, late=True) from batch.trouble

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
