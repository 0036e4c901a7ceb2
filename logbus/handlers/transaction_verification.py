"""
Batches of a transaction wait until the transaction's coordinator knows of the partition (KIP-890).

A transaction's first batch in a partition must not get into the log before the coordinator knows that the partition
takes part: nobody would end the transaction there. What comes behind it from the same producer waits in *line*, so that
the log keeps the producer's order; other producers and other partitions are not held up.

The answer may be old when it arrives: the transaction may have been ended meanwhile. So a line remembers the last
marker that the log had of the producer, and an answer counts only if there is none since. Otherwise the coordinator is
asked again: the marker may have been that of the transaction before, late because its coordinator was.
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
"""Of batches that wait on a broker; further ones are refused until some have gone."""
CROWDED_BYTES = MAX_WAITING_BYTES // 4
"""From here on each connection has one request waiting at most."""
MAX_QUEUED_BATCHES = 64
"""Batches of one producer for one partition: several times what a client has in flight."""
MAX_REMEMBERED_SEQUENCES = 10_000

UNITS_TO_SETTLE = 2
"""Units of a time slice that it takes to let what waits for one partition go on."""

#: The first version whose producers know TRANSACTION_ABORTABLE, and the first that adds partitions by itself.
ABORTABLE_VERSION = 11
ADDING_VERSION = 12

#: Where a batch's producer id is, with its epoch behind it.
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
Where a batch for a topic and a partition, in a request of some version, is to be written; None: not here, so that it is
refused without waiting.
"""


class PartitionVerifier(Protocol):
    """Asks the coordinator of a transaction, wherever it is."""

    def add_or_verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        add: bool,
    ) -> Deferred[Mapping[TopicPartition, ErrorCode]]:
        """
        Whether partitions take part in a producer's transaction: NONE or an error for each.

        :param add: let them, if they do not yet; otherwise it is only looked.
        """


@frozen
class TransactionalWriter:
    """
    Who writes in a transaction.

    :ivar add: its requests let partitions take part; otherwise it has said so to the coordinator before.
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
    """A batch in line."""

    sequence: int
    size: int


@define(eq=False)
class _PartitionQueue:
    """
    Batches of one producer for one partition, in the order they came.

    :ivar marker: offset of the last marker that the log had of the producer when the coordinator was asked.
    """

    key: _Key
    member: TransactionalWriter
    replica: Replica
    marker: int
    waiting: dict[Deferred[None], _QueuedBatch] = field(factory=dict)

    def saw_a_marker(self) -> bool:
        """Whether one came since the last look."""
        before, self.marker = self.marker, self.replica.log.producers.last_marker_offset(self.key.producer_id)
        return self.marker != before


@define(eq=False)
class HeldBatches:
    """
    The batches of a request that must wait.

    :ivar waits: by their numbers in the request. Each fires when its batch may be written, which must be done within
        the callback, lest another overtakes it; or it fails, with an error for :func:`producer_error`. Who cancels it
        gives its place up.
    :ivar ask: to be called once, when it is known what follows; waits may fire within.
    """

    waits: dict[int, Deferred[None]] = field(factory=dict)
    ask: Callable[[], None] = lambda: None


@define(eq=False)
class TransactionVerification:
    """
    Where batches of transactions wait.

    :param verifies: whether also partitions are asked about that the producer adds itself
        (``transaction.partition.verification.enable``).
    :param backoff: how a coordinator is asked again while it ends the producer's last transaction.
    :param scheduler: gives time slices to requests of many partitions; None: they go on at once.
    :ivar waiting_bytes: of the batches that wait.
    """

    _participation: PartitionVerifier
    _clock: IReactorTime
    _verifies: Callable[[], bool]
    _backoff: RetryBackoff
    _scheduler: SliceScheduler | None = None
    waiting_bytes: int = field(default=0, init=False)
    _lines: dict[_Key, _PartitionQueue] = field(factory=dict, init=False)
    #: The lowest sequence that a producer, which the log does not know, was ever in line with.
    _lowest: OrderedDict[_Key, int] = field(factory=OrderedDict, init=False)
    _log = Logger()

    @property
    def crowded(self) -> bool:
        """Whether so much waits that a connection had better send no more."""
        return self.waiting_bytes >= CROWDED_BYTES

    def enter(self, message: ProduceRequest, version: int, leader: Leader) -> HeldBatches:
        """
        Look which batches of a Produce must wait.

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
        The same, one batch a step: others may be served in between.

        :param held: where those go that must wait. Whoever does not take all steps calls its :attr:`~HeldBatches.ask`
            all the same, as others may stand in line behind its batches by then.
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
        """Whoever is unknown to the log may begin anywhere, but not behind what it sent before and was refused."""
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
        # Each line is looked at just before it goes on: a marker may come between two slices.
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
            self._log.failure("asking a coordinator", failure)
            error = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        self._settle([line for line in lines if self._lines.get(line.key) is line], error)

    def _settle(self, lines: Iterable[_PartitionQueue], error: ApiError | None) -> None:
        """Let all in line go on, in their order, or tell them why they may not."""
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
                # Something was written: from here on the log itself knows which sequence is next.
                self._lowest.pop(line.key, None)

    def _problem(self, line: _PartitionQueue, place: _QueuedBatch) -> ApiError | None:
        """Why a batch may not be written although the coordinator said so."""
        producer_id, _, partition = key = line.key
        replica = line.replica
        if not replica.partition.is_leader:
            return None  # It is refused as any other.
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
    """Whether a batch goes on with a transaction that is open in its partition: then nothing of it waits in line."""
    if records is None or not is_transactional(records):
        return False
    return replica.log.producers.open_transaction(*_read_producer(records, PRODUCER_AT))


def is_transactional(records: Buffer | None) -> bool:
    """Whether a batch, of which nothing was checked yet, says that it belongs to a transaction."""
    return (
        records is not None
        and len(records) >= HEADER_SIZE
        and records[ATTRIBUTES_AT + 1] & TRANSACTIONAL_BIT != 0
        and records[MAGIC_AT] == MAGIC
    )


def producer_error(error: ApiError, version: int) -> ApiError:
    """
    What a producer is told of a coordinator's error, as in Kafka: some know only how to try again.

    :param version: of the Produce request.
    """
    code = error.code
    if code in _RETRIABLE or (code is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDING_VERSION):
        return ApiError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"the coordinator could not say whether the partition takes part in the transaction: {code.name}",
        )
    if code is ErrorCode.PRODUCER_FENCED:
        return ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, error.message)
    if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        # That is between the brokers, and nothing that a client could do about.
        return ApiError(ErrorCode.INVALID_TXN_STATE, "the coordinator does not take this broker's word")
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_VERSION:
        return ApiError(ErrorCode.INVALID_TXN_STATE, error.message)
    return error
