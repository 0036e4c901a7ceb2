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
    member: TransactionalWriter
    replica: Replica
    marker: int
    waiting: dict[Deferred[None], _QueuedBatch] = field(factory=dict)

    def saw_a_marker(self) -> bool:
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

    _participation: PartitionVerifier
    _clock: IReactorTime
    _verifies: Callable[[], bool]
    _backoff: RetryBackoff
    _scheduler: SliceScheduler | None = None
    waiting_bytes: int = field(default=0, init=False)
    _lines: dict[_Key, _PartitionQueue] = field(factory=dict, init=False)
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
            member = TransactionalWriter(message.transactional_id, *producers.pop(), version >= ADDING_VERSION)
            yield from self._enter(held, member, found)

    def _enter(
        self, held: HeldBatches, member: TransactionalWriter, batches: Iterable[tuple[int, Replica, BatchHeader]]
    ) -> Generator[None, None, None]:
        new: list[_PartitionQueue] = []

        def ask() -> None:
            if new:
                self._ask(member, new, self._clock.seconds() + self._backoff.most_seconds)

        held.ask = ask
        for number, replica, header in batches:
            yield
            producers = replica.log.producers
            if not self._lines and producers.open_transaction(member.producer_id, member.producer_epoch):
                continue
            key = _Key(member.producer_id, member.producer_epoch, replica.topic_partition)
            line = self._lines.get(key)
            if line is None:
                if not (member.add or self._verifies()) or producers.open_transaction(*key[:2]):
                    continue
                line = _PartitionQueue(key, member, replica, producers.last_marker_offset(member.producer_id))
                self._lines[key] = line
                new.append(line)
            held.waits[number] = self._queue(line, _QueuedBatch(header.base_sequence, header.size))

    def _queue(self, line: _PartitionQueue, place: _QueuedBatch) -> Deferred[None]:
        def left(waiting: Deferred[None]) -> None:
            if line.waiting.pop(waiting, None) is not None:
                self.waiting_bytes -= place.size

        waiting: Deferred[None] = Deferred(left)
        if len(line.waiting) >= MAX_QUEUED_BATCHES or self.waiting_bytes + place.size > MAX_WAITING_BYTES:
            waiting.errback(ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, "too much waits for the coordinators already"))
            return waiting
        if line.replica.log.producers.get(line.key.producer_id) is None:
            self._remember(line.key, place.sequence)
        else:
            self._lowest.pop(line.key, None)
        line.waiting[waiting] = place
        self.waiting_bytes += place.size
        return waiting

    def _remember(self, key: _Key, sequence: int) -> None:
        """Store the first sequence of a producer unknown to the log; after a refusal it must not skip sequences."""
        self._lowest[key] = min(sequence, self._lowest.get(key, sequence))
        self._lowest.move_to_end(key)
        if len(self._lowest) > MAX_REMEMBERED_SEQUENCES:
            self._lowest.popitem(last=False)

    def _ask(self, member: TransactionalWriter, lines: list[_PartitionQueue], until: float) -> None:
        partitions = [line.key.partition for line in lines]
        asked: Deferred[Mapping[TopicPartition, ErrorCode]] = maybeDeferred(
            self._participation.add_or_verify,
            member.transactional_id,
            member.producer_id,
            member.producer_epoch,
            partitions,
            member.add,
        )
        asked.addCallback(lambda codes: Deferred.fromCoroutine(self._answered(codes, member, lines, until)))
        asked.addErrback(self._failed, lines)

    async def _answered(
        self,
        codes: Mapping[TopicPartition, ErrorCode],
        member: TransactionalWriter,
        lines: list[_PartitionQueue],
        until: float,
    ) -> None:
        busy, old = [], []
        # Each queue is checked just before its release, since a marker may be written between two slices.
        async for line in TimeSlice(self._scheduler).over(lines, UNITS_TO_SETTLE):
            code = codes.get(line.key.partition, ErrorCode.NETWORK_EXCEPTION)
            if code == ErrorCode.CONCURRENT_TRANSACTIONS and line.waiting and self._clock.seconds() < until:
                busy.append(line)
            elif code == ErrorCode.NONE and line.waiting and line.saw_a_marker():
                old.append(line)
            else:
                self._settle([line], None if code == ErrorCode.NONE else ApiError(code))
        if busy:
            self._clock.callLater(self._backoff.seconds, self._ask, member, busy, until)
        if old:
            self._ask(member, old, until)

    def _failed(self, failure: Failure, lines: list[_PartitionQueue]) -> None:
        if failure.check(ApiError):
            error = failure.value
            assert isinstance(error, ApiError)
        else:
            self._log.failure("the request to a coordinator failed", failure)
            error = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        self._settle([line for line in lines if self._lines.get(line.key) is line], error)

    def _settle(self, lines: Iterable[_PartitionQueue], error: ApiError | None) -> None:
        """Release the batches in queues, in order, or fail them."""
        for line in lines:
            del self._lines[line.key]
            waiting, line.waiting = line.waiting, {}
            for one, place in waiting.items():
                self.waiting_bytes -= place.size
                problem = error or self._problem(line, place)
                if problem is None:
                    one.callback(None)
                else:
                    one.errback(problem)
            if self._lowest and line.replica.log.producers.get(line.key.producer_id) is not None:
                # A batch was written: from now on the log knows the next sequence.
                self._lowest.pop(line.key, None)

    def _problem(self, line: _PartitionQueue, place: _QueuedBatch) -> ApiError | None:
        """The error of a batch that must not be written although the coordinator has confirmed its partition."""
        producer_id, _, partition = key = line.key
        replica = line.replica
        if not replica.partition.is_leader:
            return None  # The append refuses it.
        producers = replica.log.producers
        if producers.get(producer_id) is None:
            lowest = 0 if line.member.add else self._lowest.get(key, place.sequence)
            if place.sequence > lowest:
                return ApiError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {producer_id} sent sequence {place.sequence} to {partition} before {lowest} was written",
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
