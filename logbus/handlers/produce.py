"""
Produce: appends batches to logs, and responds when they have the requested acknowledgements.

A Produce may be answered after later requests have begun (see :mod:`logbus.net.factory`): batches are appended at
once and in order; only the waits for durability overlap. A transaction's first batch in a partition waits for the
transaction's coordinator, and later ones of the same producer wait behind it
(:mod:`logbus.handlers.transaction_verification`).

Whether a batch is transactional depends on its own header, not on the request (CVE-2018-17196).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar
from uuid import UUID

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.replication.replica_manager import Replica, ReplicaManager
from logbus.errors import ApiError, ErrorCode, ProtocolError, StorageError
from logbus.handlers.produce_errors import ProduceErrors, api_error, no_transactional_id, timed_out
from logbus.handlers.request_router import Answer, serves
from logbus.handlers.transaction_verification import (
    HeldBatches,
    TransactionVerification,
    continues_transaction,
    is_transactional,
    producer_error,
)
from logbus.metrics import Registry
from logbus.net.request_context import RequestContext
from logbus.net.time_slices import TimeSlice
from logbus.records.checksum import Buffer
from logbus.storage.appends.append_many import AppendManyResult
from logbus.storage.log import LogAppendInfo
from logbus.wire.connection import Request
from logbus.wire.messages.records import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from logbus.wire.produce_response import FIRST_VERSION, encode_produce_response

ALL = -1
#: The first version whose clients support zstd (KIP-110).
ZSTD_VERSION = 7

UNITS_TO_APPEND = 4
"""Cost of appending or refusing a batch, in units of a time slice."""

UNITS_TO_ENTER = 2
"""Cost of checking whether a batch must wait for its transaction's coordinator, in units of a time slice."""

#: The first version that names topics by their ids (KIP-516).
TOPIC_ID_VERSION = 13

A = TypeVar("A")
B = TypeVar("B")

NO_HELD_BATCHES = HeldBatches()

Written = tuple[str, PartitionProduceResponse, Replica]
Waiting = tuple[str, list[PartitionProduceResponse], Deferred[None]]


@define(eq=False)
class _Work:
    """
    A request in progress.

    :ivar written: the appended batches, with their responses.
    :ivar failed: the last error, as a text.
    """

    message: ProduceRequest
    version: int
    listener: str
    response: ProduceResponse = field(factory=lambda: ProduceResponse(responses=[]))
    written: list[Written] = field(factory=list)
    failed: str = ""


@define(eq=False)
class ProduceHandlers:
    """
    Serves Produce.

    :param errors: makes error responses.
    :ivar metadata: finds topics by their ids; None: there are no ids.
    :ivar verification: lets transactional batches wait for verification; None: transactions are not supported.
    :ivar records: number of records appended so far; ``batches`` and ``bytes_written`` likewise.
    :ivar refused: number of batches that were not appended.
    """

    _replicas: ReplicaManager
    _clock: IReactorTime
    _wall_clock: Callable[[], float]
    _internal_topics: frozenset[str]
    errors: ProduceErrors = field(factory=ProduceErrors)
    metadata: ClusterMetadata | None = None
    verification: TransactionVerification | None = None
    records: int = field(default=0, init=False)
    batches: int = field(default=0, init=False)
    bytes_written: int = field(default=0, init=False)
    refused: int = field(default=0, init=False)
    _log = Logger()

    def register_metrics(self, registry: Registry) -> None:
        """Declare the metrics of producing."""
        registry.counter("logbus_produced_records_total", "Records appended for producers.", read=lambda: self.records)
        registry.counter("logbus_produced_batches_total", "Batches appended for producers.", read=lambda: self.batches)
        registry.counter(
            "logbus_produced_bytes_total", "Bytes of batches appended for producers.", read=lambda: self.bytes_written
        )
        registry.counter("logbus_produce_errors_total", "Batches refused.", read=lambda: self.refused)

    @serves(0, 3, 13)
    def produce(self, context: RequestContext, request: Request) -> Answer:
        message: ProduceRequest = request.message
        version = request.api_version
        single = (
            message.acks in (1, ALL)
            and len(message.topic_data) == 1
            and len(message.topic_data[0].partition_data) == 1
            and version >= FIRST_VERSION
        )
        if single and (message.transactional_id is None or self._continues_transaction(message.topic_data[0], version)):
            return self._produce_one(context, message, version)
        problem, held = self._problem(message), NO_HELD_BATCHES
        if request.sliced:
            work = _Work(message, version, context.listener)
            return Deferred.fromCoroutine(self._produce_many(work, problem, context.time_slice(request)))
        if problem is None and self.verification is not None and message.transactional_id is not None:
            try:
                held = self.verification.enter(message, version, self._leader)
            except ApiError as e:
                problem = e
            if single and problem is None and not held.waits:
                return self._produce_one(context, message, version)
        work = _Work(message, version, context.listener)
        for _ in self._write_all(work, problem, held.waits):
            pass
        held.ask()
        if all(wait.called for wait in held.waits.values()):
            return self._finish(work)
        request.held = True
        request.exclusive = self.verification is not None and self.verification.crowded
        return Deferred.fromCoroutine(self._finish_later(work, list(held.waits.values())))

    async def _produce_many(self, work: _Work, problem: ApiError | None, time_slice: TimeSlice) -> Answer:
        """Serve a request of many batches in time slices. Later requests wait, which keeps the order."""
        held = HeldBatches()
        try:
            if problem is None and self.verification is not None and work.message.transactional_id is not None:
                entering = self.verification.enter_in_steps(held, work.message, work.version, self._leader)
                try:
                    await time_slice.finish(entering, UNITS_TO_ENTER)
                except ApiError as e:
                    problem = e
            await time_slice.finish(self._write_all(work, problem, held.waits), UNITS_TO_APPEND)
        except Exception:
            _give_up(list(held.waits.values()))
            raise
        finally:
            # Also if the client has disconnected: other batches may be queued behind these.
            held.ask()
        return await self._finish_later(work, list(held.waits.values()), time_slice)

    def _write_all(
        self, work: _Work, problem: ApiError | None, waits: dict[int, Deferred[None]]
    ) -> Generator[None, None, None]:
        """
        Append the batches of a request one by one; those that wait are appended when they may.

        :param waits: by the batches' numbers in the request; from here on they only fail by cancellation.
        """
        now_ms, number = self.now_ms(), 0
        for topic in work.message.topic_data:
            answers = []
            for data in topic.partition_data:
                answer = PartitionProduceResponse(index=data.index)
                answers.append(answer)
                wait = waits.get(number)
                number += 1
                if problem is not None:
                    self._refuse(work, topic.name, answer, problem)
                elif wait is None or data.records is None:
                    self._write(None, work, topic, data.records, answer, now_ms)
                else:
                    # The request's memory is reused after this call.
                    wait.addCallback(self._write, work, topic, bytes(data.records), answer)
                    wait.addErrback(self._not_admitted, work, topic, answer)
                yield
            work.response.responses.append(
                TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
            )

    def _write(
        self,
        _: object,
        work: _Work,
        topic: TopicProduceData,
        records: Buffer | None,
        answer: PartitionProduceResponse,
        now_ms: int | None = None,
    ) -> None:
        """Append one batch, and set its response."""
        message, name = work.message, topic.name
        try:
            name = self.topic_name(name, topic.topic_id, answer.index, work.version)
            replica, appended = self.append(
                name,
                answer.index,
                records,
                self.now_ms() if now_ms is None else now_ms,
                work.version,
                all_in_sync=message.acks == ALL,
                in_transaction=message.transactional_id is not None,
            )
        except ApiError as e:
            self._refuse(work, name, answer, e)
            return
        answer.base_offset = appended.base_offset
        answer.log_append_time_ms = appended.log_append_time
        answer.log_start_offset = appended.log_start_offset
        work.written.append((name, answer, replica))

    def _not_admitted(
        self, failure: Failure, work: _Work, topic: TopicProduceData, answer: PartitionProduceResponse
    ) -> None:
        failure.trap(ApiError)
        error: Any = failure.value
        self._refuse(work, topic.name, answer, producer_error(error, work.version))

    def _refuse(self, work: _Work, topic: str, answer: PartitionProduceResponse, error: ApiError) -> None:
        work.failed = f"{error.code.name}: {error.message}"
        self.refused += 1
        self.errors.refuse(answer, topic, error, work.version)

    def _finish(self, work: _Work, time_slice: TimeSlice | None = None) -> Answer:
        """
        The response, when all batches are appended or refused.

        :param time_slice: the time slice of a request of many batches.
        """
        acks = work.message.acks
        if acks == 0:
            if work.failed:
                # There is no response with acks=0, so the connection is closed to report the error, as in Kafka.
                raise ProtocolError(f"a produce request with acks=0 failed: {work.failed}")
            return None
        if acks == ALL and work.written:
            return self._when_durable(work, time_slice)
        if work.failed:
            self.errors.add_leader_endpoints(work.response, work.listener)
        return work.response

    async def _finish_later(
        self, work: _Work, waits: list[Deferred[None]], time_slice: TimeSlice | None = None
    ) -> Answer:
        """The response, after all waiting batches are appended or refused."""
        try:
            for wait in waits:
                await wait
        except Exception:
            _give_up(waits)
            raise
        answer = self._finish(work, time_slice)
        return await answer if isinstance(answer, Deferred) else answer

    def _produce_one(self, context: RequestContext, message: ProduceRequest, version: int) -> Answer:
        """Serve a request with one batch, the usual case."""
        topic = message.topic_data[0]
        data = topic.partition_data[0]
        name, topic_id = topic.name, topic.topic_id
        try:
            if version >= TOPIC_ID_VERSION:
                name = self.topic_name(name, topic_id, data.index, version)
            replica, appended = self.append(
                name,
                data.index,
                data.records,
                self.now_ms(),
                version,
                all_in_sync=message.acks == ALL,
                in_transaction=message.transactional_id is not None,
            )
        except ApiError as e:
            self.refused += 1
            return self.errors.one(context.listener, name, data.index, e, version, topic_id)
        spelt = name.encode() if version < TOPIC_ID_VERSION else topic_id
        answer = encode_produce_response(
            spelt, data.index, appended.base_offset, appended.log_append_time, appended.log_start_offset, version
        )
        if message.acks != ALL:
            return answer

        def not_durable(error: ApiError) -> ProduceResponse:
            return self.errors.one(context.listener, name, data.index, error, version, topic_id)

        return self.when_durable(replica, message.timeout_ms, answer, not_durable)

    def when_durable(
        self, replica: Replica, timeout_ms: int, answer: A, not_durable: Callable[[ApiError], A | B]
    ) -> A | Deferred[A | B]:
        """
        A response, when all in-sync replicas have everything appended so far: now, or a Deferred.

        :param not_durable: makes the response if that fails.
        """
        durable = replica.durable()
        if durable is None:
            return answer

        def failed(failure: Failure) -> A | B:
            failure.trap(ApiError, StorageError)
            error: Any = failure.value
            return not_durable(api_error(error))

        durable.addTimeout(max(timeout_ms, 0) / 1000, self._clock, onTimeoutCancel=timed_out)
        return durable.addCallbacks(lambda _: answer, failed)

    def _problem(self, message: ProduceRequest) -> ApiError | None:
        """The error of the whole request, if any."""
        if message.acks not in (0, 1, ALL):
            return ApiError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be 0, 1 or -1, not {message.acks}")
        if message.transactional_id is not None:
            if self.verification is None:
                return ApiError(ErrorCode.INVALID_TXN_STATE, "transactions are not served by this broker")
        elif any(is_transactional(data.records) for topic in message.topic_data for data in topic.partition_data):
            return no_transactional_id()
        return None

    def topic_name(self, name: str, topic_id: bytes, index: int, version: int) -> str:
        """
        The name of a topic in a request.

        :param name: the name, in versions without topic ids.
        :param topic_id: the id, in later versions.
        :param index: of one of its partitions.
        :param version: of the request.
        :raise ApiError: UNKNOWN_TOPIC_ID.
        """
        if version < TOPIC_ID_VERSION:
            return name
        wanted = UUID(bytes=topic_id)
        topic = self.metadata.topic_by_id(wanted) if self.metadata is not None else None
        if topic is not None:
            replica = self._replicas.find(topic.name, index)
            if replica is None or replica.topic_id == wanted:
                return topic.name
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {wanted}")

    def _continues_transaction(self, topic: TopicProduceData, version: int) -> bool:
        """Whether the only batch for a topic continues a transaction that is open there, and so need not wait."""
        data = topic.partition_data[0]
        replica = self._leader(topic, data.index, version)
        return replica is not None and self.verification is not None and continues_transaction(data.records, replica)

    def _leader(self, topic: TopicProduceData, index: int, version: int) -> Replica | None:
        """The replica for a batch, if this broker leads the partition and its log is readable."""
        try:
            name = self.topic_name(topic.name, topic.topic_id, index, version)
            replica = self._replicas.find(name, index)
            if replica is None or not replica.partition.is_leader or name in self._internal_topics:
                return None
            known = replica.log.producers  # May read from disk.
        except (ApiError, StorageError):
            return None  # The append will report the error.
        return replica if known is not None else None

    def now_ms(self) -> int:
        """The broker's time, ms since 1970."""
        return int(self._wall_clock() * 1000)

    def append(
        self,
        topic: str,
        index: int,
        records: Buffer | None,
        now_ms: int,
        version: int,
        *,
        all_in_sync: bool = False,
        in_transaction: bool = False,
    ) -> tuple[Replica, LogAppendInfo]:
        """
        Append one batch.

        :param version: of the Produce request it came in.
        :param all_in_sync: whether all in-sync replicas must have it (acks=all).
        :param in_transaction: whether the request has a transactional id; otherwise the batch must not be
            transactional.
        :raise ApiError: it was refused.
        """
        if not in_transaction and is_transactional(records):
            raise no_transactional_id()
        if topic in self._internal_topics:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"clients may not write to the internal topic {topic}")
        if records is None:
            raise ApiError(ErrorCode.INVALID_RECORD, f"no record batch for {topic}-{index}")
        try:
            replica = self._replicas.get(topic, index)
            appended = replica.append(records, now_ms, version >= ZSTD_VERSION, all_in_sync)
        except StorageError as e:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(e)) from e
        except ApiError:
            raise
        except Exception:
            self._log.failure("appending to {topic}-{partition} failed", topic=topic, partition=index)
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR) from None
        self.batches += 1
        self.bytes_written += appended.size
        self.records += appended.last_offset - appended.base_offset + 1
        return replica, appended

    def append_many(
        self,
        topic: str,
        index: int,
        batches: Sequence[Buffer],
        now_ms: int,
        version: int,
        *,
        all_in_sync: bool,
        in_transaction: bool,
    ) -> tuple[Replica, AppendManyResult] | None:
        """
        Append several batches to a partition by one write; arguments as of :meth:`append`.

        :param in_transaction: they continue a transaction that is open there.
        :return: None: at least one needs a response of its own; none was appended.
        """
        replica = self._replicas.find(topic, index)
        if replica is None or topic in self._internal_topics:
            return None
        appended = replica.append_many(batches, now_ms, version >= ZSTD_VERSION, all_in_sync, in_transaction)
        if appended is None:
            return None
        self.batches += len(batches)
        self.bytes_written += appended.size
        self.records += appended.end_offset - appended.base_offsets[0]
        return replica, appended

    def _when_durable(self, work: _Work, time_slice: TimeSlice | None) -> Answer:
        """The response, when all batches are durable on all in-sync replicas."""
        by_replica: dict[Replica, list[PartitionProduceResponse]] = {}
        for _, answer, replica in work.written:
            by_replica.setdefault(replica, []).append(answer)
        waiting: list[Waiting] = []
        for replica, answers in by_replica.items():
            durable = replica.durable()
            if durable is not None:
                waiting.append((replica.topic_partition.topic, answers, durable))
        if not waiting:
            self.errors.add_leader_endpoints(work.response, work.listener)
            return work.response
        return Deferred.fromCoroutine(self._wait(work, waiting, time_slice))

    async def _wait(self, work: _Work, waiting: list[Waiting], time_slice: TimeSlice | None) -> ProduceResponse:
        deadline = self._clock.seconds() + max(work.message.timeout_ms, 0) / 1000
        try:
            for topic, answers, durable in waiting:
                durable.addTimeout(
                    max(0.0, deadline - self._clock.seconds()),
                    self._clock,
                    onTimeoutCancel=timed_out,
                )
                try:
                    await durable
                except (ApiError, StorageError) as e:
                    for answer in answers:
                        answer.base_offset = answer.log_start_offset = -1
                        self.errors.refuse(answer, topic, api_error(e), work.version)
                if time_slice is not None and time_slice.used(UNITS_TO_APPEND):
                    await time_slice.next()
        except Exception:
            # The client has disconnected. (This must not run when the coroutine is garbage-collected, since the
            # cancellation would resume it.)
            for _, _, durable in waiting:
                durable.addErrback(lambda _: None)
                durable.cancel()
            raise
        self.errors.add_leader_endpoints(work.response, work.listener)
        return work.response


def _give_up(waits: Sequence[Deferred[None]]) -> None:
    """Cancel the waits of a disconnected client, so that its retries are not queued behind them."""
    for wait in waits:
        wait.addErrback(lambda _: None)
        wait.cancel()
