"""
Lets transactional batches wait until the coordinator has added, or verified, their partition (KIP-890; Kafka:
VerificationStateEntry).

A transaction's first batch in a partition must not be appended before the coordinator knows the partition: otherwise
the transaction would never be ended there. Later batches of the same producer wait in a queue, which keeps their order;
other producers and partitions are not delayed.

The coordinator's answer may be outdated, if the transaction was ended meanwhile. So a queue stores the offset of the
producer's last marker in the log, and an answer counts only if there is no later one. Otherwise the coordinator is
asked again, since the marker may be a delayed one of the transaction before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from struct import Struct
from typing import NamedTuple, Protocol

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.replication.replica import Replica
from logbus.coordination.transactions.add_partitions_to_txn_manager import RetryBackoff
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.net.time_slices import SliceScheduler, TimeSlice
from logbus.records.checksum import Buffer
from logbus.records.header import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    read_header,
)
from logbus.wire.messages.records import ProduceRequest, TopicProduceData

MAX_WAITING_BYTES = 64 << 20
"""Limit of the bytes of all waiting batches; further ones are refused."""
CROWDED_BYTES = MAX_WAITING_BYTES // 4
"""Number of waiting bytes above which each connection may have one waiting request only."""
MAX_QUEUED_BATCHES = 64
"""Limit of the waiting batches of one producer for one partition: several times a client's requests in flight."""
MAX_REMEMBERED_SEQUENCES = 10_000

UNITS_TO_SETTLE = 2
"""Cost of releasing the batches that wait for one partition, in units of a time slice."""

#: The first version with TRANSACTION_ABORTABLE, and the first in which a batch adds its partition.
ABORTABLE_VERSION = 11
ADDING_VERSION = 12

#: Position of the producer id in a batch; the epoch follows it.
PRODUCER_AT = 43
_read_producer = Struct(">qh").unpack_from

_RETRIABLE = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


Leader = Callable[[TopicProduceData, int, int], "Replica | None"]
"""
Finds the replica for a batch by topic, partition and request version; None: it cannot be written here, so the batch is
refused without waiting.
"""


class PartitionVerifier(Protocol):
    """Asks the coordinator of a transaction, on any broker."""

    def add_or_verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        add: bool,
    ) -> Deferred[Mapping[TopicPartition, ErrorCode]]:
        """
        Add partitions to a producer's transaction, or verify that they are part of it: NONE or an error for each.

        :param add: add them; otherwise only verify.
        """


@frozen
class TransactionalWriter:
    """
    The producer of a transaction.

    :ivar add: its batches add their partitions; otherwise it has sent AddPartitionsToTxn before.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    add: bool


class _Key(NamedTuple):
    producer_id: int
    producer_epoch: int
    partition: TopicPartition


class _QueuedBatch(NamedTuple):
    """A waiting batch."""

    sequence: int
    size: int


@define(eq=False)
class _PartitionQueue:
    """
    The waiting batches of one producer for one partition, in order.

    :ivar marker: offset of the producer's last marker in the log when the coordinator was asked.
    """

    key: _Key
    writer: TransactionalWriter
    replica: Replica
    marker: int
    waiting: dict[Deferred[None], _QueuedBatch] = field(factory=dict)

    def has_new_marker(self) -> bool:
        """Whether a marker was written since the last call."""
        before, self.marker = self.marker, self.replica.log.producers.last_marker_offset(self.key.producer_id)
        return self.marker != before


@define(eq=False)
class HeldBatches:
    """
    The batches of a request that must wait.

    :ivar waits: by their numbers in the request. Each fires when its batch may be written; the callback must write it,
        so that no other batch overtakes it. Or it fails, with an error for :func:`producer_error`. It may be cancelled.
    :ivar ask: must be called once, when callbacks are attached; waits may fire within the call.
    """

    waits: dict[int, Deferred[None]] = field(factory=dict)
    ask: Callable[[], None] = lambda: None


@define(eq=False)
class TransactionVerification:
    """
    Queues transactional batches that must wait for the coordinator.

    :param verifies: whether partitions that the producer has added itself are verified
        (``transaction.partition.verification.enable``).
    :param backoff: for retries while the coordinator completes the producer's last transaction.
    :param scheduler: gives time slices to requests of many partitions; None: they go on at once.
    :ivar waiting_bytes: size of the waiting batches.
    """

    _verifier: PartitionVerifier
    _clock: IReactorTime
    _verifies: Callable[[], bool]
    _backoff: RetryBackoff
    _scheduler: SliceScheduler | None = None
    waiting_bytes: int = field(default=0, init=False)
    _queues: dict[_Key, _PartitionQueue] = field(factory=dict, init=False)
    #: The lowest sequence that was queued by a producer without state in the log.
    _lowest: OrderedDict[_Key, int] = field(factory=OrderedDict, init=False)
    _log = Logger()

    @property
    def crowded(self) -> bool:
        """Whether so many bytes wait that connections should stop sending."""
        return self.waiting_bytes >= CROWDED_BYTES

    def enter(self, message: ProduceRequest, version: int, leader: Leader) -> HeldBatches:
        """
        Queue the batches of a Produce that must wait.

        :raise ApiError: INVALID_PRODUCER_ID_MAPPING: they are of several producers.
        """
        held = HeldBatches()
        for _ in self.enter_in_steps(held, message, version, leader):
            pass
        return held

    def enter_in_steps(
        self, held: HeldBatches, message: ProduceRequest, version: int, leader: Leader
    ) -> Generator[None, None, None]:
        """
        The same, one batch a step, so that other requests can be served in between.

        :param held: receives the batches that must wait. The caller must call its :attr:`~HeldBatches.ask` even if it
            does not take all steps, since other batches may be queued behind these by then.
        :raise ApiError: as of :meth:`enter`; none waits.
        """
        found: list[tuple[int, Replica, BatchHeader]] = []
        producers = set()
        number = -1
        for topic in message.topic_data:
            for data in topic.partition_data:
                number += 1
                yield
                records = data.records
                if records is None or not is_transactional(records):
                    continue
                header = read_header(records)
                if header.producer_id < 0:
                    continue
                producers.add((header.producer_id, header.producer_epoch))
                replica = leader(topic, data.index, version)
                if replica is not None:
                    found.append((number, replica, header))
        if len(producers) > 1:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the batches of a request belong to transactions of one producer"
            )
        if found and message.transactional_id is not None:
            writer = TransactionalWriter(message.transactional_id, *producers.pop(), version >= ADDING_VERSION)
            yield from self._enter(held, writer, found)

    def _enter(
        self, held: HeldBatches, writer: TransactionalWriter, batches: Iterable[tuple[int, Replica, BatchHeader]]
    ) -> Generator[None, None, None]:
        new: list[_PartitionQueue] = []

        def ask() -> None:
            if new:
                self._ask(writer, new, self._clock.seconds() + self._backoff.max_seconds)

        held.ask = ask
        for number, replica, header in batches:
            yield
            producers = replica.log.producers
            if not self._queues and producers.open_transaction(writer.producer_id, writer.producer_epoch):
                continue
            key = _Key(writer.producer_id, writer.producer_epoch, replica.topic_partition)
            queue = self._queues.get(key)
            if queue is None:
                if not (writer.add or self._verifies()) or producers.open_transaction(*key[:2]):
                    continue
                queue = _PartitionQueue(key, writer, replica, producers.last_marker_offset(writer.producer_id))
                self._queues[key] = queue
                new.append(queue)
            held.waits[number] = self._enqueue(queue, _QueuedBatch(header.base_sequence, header.size))

    def _enqueue(self, queue: _PartitionQueue, batch: _QueuedBatch) -> Deferred[None]:
        def left(waiting: Deferred[None]) -> None:
            if queue.waiting.pop(waiting, None) is not None:
                self.waiting_bytes -= batch.size

        waiting: Deferred[None] = Deferred(left)
        if len(queue.waiting) >= MAX_QUEUED_BATCHES or self.waiting_bytes + batch.size > MAX_WAITING_BYTES:
            waiting.errback(ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, "too many batches wait for coordinators"))
            return waiting
        if queue.replica.log.producers.get(queue.key.producer_id) is None:
            self._store_first_sequence(queue.key, batch.sequence)
        else:
            self._lowest.pop(queue.key, None)
        queue.waiting[waiting] = batch
        self.waiting_bytes += batch.size
        return waiting

    def _store_first_sequence(self, key: _Key, sequence: int) -> None:
        """Store the first sequence of a producer unknown to the log; after a refusal it must not skip sequences."""
        self._lowest[key] = min(sequence, self._lowest.get(key, sequence))
        self._lowest.move_to_end(key)
        if len(self._lowest) > MAX_REMEMBERED_SEQUENCES:
            self._lowest.popitem(last=False)

    def _ask(self, writer: TransactionalWriter, queues: list[_PartitionQueue], until: float) -> None:
        partitions = [queue.key.partition for queue in queues]
        asked: Deferred[Mapping[TopicPartition, ErrorCode]] = maybeDeferred(
            self._verifier.add_or_verify,
            writer.transactional_id,
            writer.producer_id,
            writer.producer_epoch,
            partitions,
            writer.add,
        )
        asked.addCallback(lambda codes: Deferred.fromCoroutine(self._answered(codes, writer, queues, until)))
        asked.addErrback(self._failed, queues)

    async def _answered(
        self,
        codes: Mapping[TopicPartition, ErrorCode],
        writer: TransactionalWriter,
        queues: list[_PartitionQueue],
        until: float,
    ) -> None:
        busy, old = [], []
        # Each queue is checked just before its release, since a marker may be written between two slices.
        async for queue in TimeSlice(self._scheduler).over(queues, UNITS_TO_SETTLE):
            code = codes.get(queue.key.partition, ErrorCode.NETWORK_EXCEPTION)
            if code == ErrorCode.CONCURRENT_TRANSACTIONS and queue.waiting and self._clock.seconds() < until:
                busy.append(queue)
            elif code == ErrorCode.NONE and queue.waiting and queue.has_new_marker():
                old.append(queue)
            else:
                self._settle([queue], None if code == ErrorCode.NONE else ApiError(code))
        if busy:
            self._clock.callLater(self._backoff.seconds, self._ask, writer, busy, until)
        if old:
            self._ask(writer, old, until)

    def _failed(self, failure: Failure, queues: list[_PartitionQueue]) -> None:
        if failure.check(ApiError):
            error = failure.value
            assert isinstance(error, ApiError)
        else:
            self._log.failure("the request to a coordinator failed", failure)
            error = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        self._settle([queue for queue in queues if self._queues.get(queue.key) is queue], error)

    def _settle(self, queues: Iterable[_PartitionQueue], error: ApiError | None) -> None:
        """Release the batches in queues, in order, or fail them."""
        for queue in queues:
            del self._queues[queue.key]
            waiting, queue.waiting = queue.waiting, {}
            for one, batch in waiting.items():
                self.waiting_bytes -= batch.size
                problem = error or self._problem(queue, batch)
                if problem is None:
                    one.callback(None)
                else:
                    one.errback(problem)
            if self._lowest and queue.replica.log.producers.get(queue.key.producer_id) is not None:
                # A batch was written: from now on the log knows the next sequence.
                self._lowest.pop(queue.key, None)

    def _problem(self, queue: _PartitionQueue, batch: _QueuedBatch) -> ApiError | None:
        """The error of a batch that must not be written although the coordinator has confirmed its partition."""
        producer_id, _, partition = key = queue.key
        replica = queue.replica
        if not replica.partition.is_leader:
            return None  # The append refuses it.
        producers = replica.log.producers
        if producers.get(producer_id) is None:
            lowest = 0 if queue.writer.add else self._lowest.get(key, batch.sequence)
            if batch.sequence > lowest:
                return ApiError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {producer_id} sent sequence {batch.sequence} to {partition} before {lowest} was written",
                )
        return None


def continues_transaction(records: Buffer | None, replica: Replica) -> bool:
    """Whether a batch continues a transaction that is open in its partition; then no batch of it is waiting."""
    if records is None or not is_transactional(records):
        return False
    return replica.log.producers.open_transaction(*_read_producer(records, PRODUCER_AT))


def is_transactional(records: Buffer | None) -> bool:
    """Whether the header of an unchecked batch has the transactional flag."""
    return (
        records is not None
        and len(records) >= HEADER_SIZE
        and records[ATTRIBUTES_AT + 1] & TRANSACTIONAL_BIT != 0
        and records[MAGIC_AT] == MAGIC
    )


def producer_error(error: ApiError, version: int) -> ApiError:
    """
    The error for a producer, by the coordinator's error, as in Kafka; older producers only know retriable ones.

    :param version: of the Produce request.
    """
    code = error.code
    if code in _RETRIABLE or (code is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDING_VERSION):
        return ApiError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"the coordinator could not verify that the partition is part of the transaction: {code.name}",
        )
    if code is ErrorCode.PRODUCER_FENCED:
        return ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, error.message)
    if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        # Authorization between brokers does not concern the client.
        return ApiError(ErrorCode.INVALID_TXN_STATE, "the coordinator does not accept requests of this broker")
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_VERSION:
        return ApiError(ErrorCode.INVALID_TXN_STATE, error.message)
    return error
