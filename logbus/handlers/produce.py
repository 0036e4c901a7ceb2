"""
Produce: appends batches to logs, and responds when they have the requested acknowledgements.

A Produce may be answered after later requests have begun (see :mod:`logbus.net.pending_responses`): batches are
appended at once and in order; only the waits for durability overlap. A transaction's first batch in a partition waits
for the transaction's coordinator, and later ones of the same producer wait behind it
(:mod:`logbus.handlers.transaction_verification`).

Whether a batch is transactional depends on its own header, not on the request (CVE-2018-17196).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial
from typing import Any, Self

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from logbus.cluster.replication.replica_manager import Replica, ReplicaManager
from logbus.config import keys
from logbus.coordination.transactions.add_partitions_to_txn_manager import RetryBackoff
from logbus.errors import ApiError, ErrorCode, ProtocolError, StorageError
from logbus.handlers.authorization.access import Authorization
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.current_leaders import CurrentLeaders
from logbus.handlers.delayed_produce import UNITS_TO_APPEND, Waiting, Written, not_durable_yet, wait_until_durable
from logbus.handlers.produce_appender import TOPIC_ID_VERSION, ProduceAppender
from logbus.handlers.produce_errors import ProduceErrors, no_transactional_id
from logbus.handlers.request_router import Answer, response_of, serves
from logbus.handlers.transaction_verification import (
    HeldBatches,
    TransactionVerification,
    continues_transaction,
    is_transactional,
    producer_error,
)
from logbus.model import INTERNAL_TOPICS
from logbus.net.request_context import RequestContext
from logbus.net.time_slices import TimeSlice
from logbus.records.checksum import Buffer
from logbus.security.acl.acls import AclOperation, ResourceType
from logbus.wire.connection import Request
from logbus.wire.messages.records import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from logbus.wire.produce_response import FIRST_VERSION, encode_produce_response
from logbus.wire.request_template import PRODUCE

ALL = -1

UNITS_TO_ENTER = 2
"""Cost of checking whether a batch must wait for its transaction's coordinator, in units of a time slice."""

NO_HELD_BATCHES = HeldBatches()


@define(eq=False)
class _Work:
    """
    A request in progress.

    :ivar written: the appended batches, with their responses.
    :ivar failed: the last error, as a text.
    """

    message: ProduceRequest
    version: int
    context: RequestContext
    response: ProduceResponse = field(factory=lambda: ProduceResponse(responses=[]))
    written: list[Written] = field(factory=list)
    failed: str = ""


@define(eq=False)
class ProduceHandlers:
    """
    Serves Produce.

    :param authorization: asks the authorizer; None: everybody may write everything.
    :ivar verification: lets transactional batches wait for verification.
    """

    _appender: ProduceAppender
    _replicas: ReplicaManager
    _clock: IReactorTime
    _errors: ProduceErrors
    verification: TransactionVerification
    _authorization: Authorization | None = None

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        config = broker.config
        verification = TransactionVerification(
            broker.add_partitions_manager,
            broker.reactor,
            lambda: config.get(keys.TRANSACTION_PARTITION_VERIFICATION_ENABLE),
            RetryBackoff.of(config),
            broker.slice_scheduler,
        )
        errors = ProduceErrors(CurrentLeaders(broker.metadata))
        return cls(broker.produce_appender, broker.replicas, broker.reactor, errors, verification, broker.authorization)

    @serves(0, 3, 13, at_start=True)
    def produce(self, context: RequestContext, request: Request) -> Answer:
        message: ProduceRequest = request.message
        version = request.api_version
        single = (
            message.acks in (1, ALL)
            and len(message.topic_data) == 1
            and len(message.topic_data[0].partition_data) == 1
            and version >= FIRST_VERSION
        )
        if single and (message.transactional_id is None or self._continues_transaction(context, message, version)):
            return self._produce_one(context, message, version)
        problem, held = self._problem(context, message), NO_HELD_BATCHES
        if request.sliced:
            work = _Work(message, version, context)
            return Deferred.fromCoroutine(self._produce_many(work, problem, context.time_slice(request)))
        if problem is None and message.transactional_id is not None:
            try:
                held = self.verification.enter(message, version, partial(self._leader, context))
            except ApiError as e:
                problem = e
            if single and problem is None and not held.waits:
                return self._produce_one(context, message, version)
        work = _Work(message, version, context)
        for _ in self._write_all(work, problem, held.waits):
            pass
        held.ask()
        if all(wait.called for wait in held.waits.values()):
            return self._finish(work)
        request.held = True
        request.exclusive = self.verification.crowded
        return Deferred.fromCoroutine(self._finish_later(work, list(held.waits.values())))

    async def _produce_many(self, work: _Work, problem: ApiError | None, time_slice: TimeSlice) -> Answer:
        """Serve a request of many batches in time slices. Later requests wait, which keeps the order."""
        held = HeldBatches()
        try:
            if problem is None and work.message.transactional_id is not None:
                entering = self.verification.enter_in_steps(
                    held, work.message, work.version, partial(self._leader, work.context)
                )
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
        now_ms, number = self._appender.now_ms(), 0
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
            name = self._topic_name(work.context, topic, answer.index, work.version)
            replica, appended = self._appender.append(
                name,
                answer.index,
                records,
                self._appender.now_ms() if now_ms is None else now_ms,
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
        self._appender.refused += 1
        self._errors.refuse(answer, topic, error, work.version)

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
            self._errors.add_leader_endpoints(work.response, work.context.listener)
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
        return await response_of(self._finish(work, time_slice))

    def _produce_one(self, context: RequestContext, message: ProduceRequest, version: int) -> Answer:
        """Serve a request with one batch, the usual case."""
        topic = message.topic_data[0]
        data = topic.partition_data[0]
        name, topic_id = topic.name, topic.topic_id
        try:
            if version >= TOPIC_ID_VERSION or self._authorization is not None:
                name = self._topic_name(context, topic, data.index, version)
            replica, appended = self._appender.append(
                name,
                data.index,
                data.records,
                self._appender.now_ms(),
                version,
                all_in_sync=message.acks == ALL,
                in_transaction=message.transactional_id is not None,
            )
        except ApiError as e:
            self._appender.refused += 1
            return self._errors.one(context.listener, name, data.index, e, version, topic_id)
        spelt = name.encode() if version < TOPIC_ID_VERSION else topic_id
        answer = encode_produce_response(
            spelt, data.index, appended.base_offset, appended.log_append_time, appended.log_start_offset, version
        )
        if message.acks != ALL:
            return answer

        def not_durable(error: ApiError) -> ProduceResponse:
            return self._errors.one(context.listener, name, data.index, error, version, topic_id)

        return self._appender.when_durable(replica, message.timeout_ms, answer, not_durable)

    def _topic_name(self, context: RequestContext, topic: TopicProduceData, index: int, version: int) -> str:
        """
        The name of a topic that may be written to.

        :raise ApiError: TOPIC_AUTHORIZATION_FAILED, or as of :meth:`.ProduceAppender.topic_name`.
        """
        name = self._appender.topic_name(topic.name, topic.topic_id, index, version)
        if self._authorization is not None:
            self._authorization.access(context, PRODUCE).require(AclOperation.WRITE, ResourceType.TOPIC, name)
        return name

    def _may_be_transactional(self, context: RequestContext, message: ProduceRequest) -> bool:
        """Whether the principal may use the transactional id."""
        return self._authorization is None or self._authorization.access(context, PRODUCE).allows(
            AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, message.transactional_id or ""
        )

    def _problem(self, context: RequestContext, message: ProduceRequest) -> ApiError | None:
        """The error of the whole request, if any."""
        if message.acks not in (0, 1, ALL):
            return ApiError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be 0, 1 or -1, not {message.acks}")
        if (message.transactional_id is None or self._authorization is not None) and any(
            is_transactional(data.records) for topic in message.topic_data for data in topic.partition_data
        ):
            if message.transactional_id is None:
                return no_transactional_id()
            if not self._may_be_transactional(context, message):
                return ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return None

    def _continues_transaction(self, context: RequestContext, message: ProduceRequest, version: int) -> bool:
        """Whether the only batch of a request continues a transaction that is open, and so need not wait."""
        topic = message.topic_data[0]
        data = topic.partition_data[0]
        replica = self._leader(context, topic, data.index, version)
        return (
            replica is not None
            and continues_transaction(data.records, replica)
            and self._may_be_transactional(context, message)
        )

    def _leader(self, context: RequestContext, topic: TopicProduceData, index: int, version: int) -> Replica | None:
        """The replica for a batch, if this broker leads the partition and its log is readable."""
        try:
            name = self._topic_name(context, topic, index, version)
            replica = self._replicas.find(name, index)
            if replica is None or not replica.partition.is_leader or name in INTERNAL_TOPICS:
                return None
            known = replica.log.producers  # May read from disk.
        except (ApiError, StorageError):
            return None  # The append will report the error.
        return replica if known is not None else None

    def _when_durable(self, work: _Work, time_slice: TimeSlice | None) -> Answer:
        """The response, when all batches are durable on all in-sync replicas."""
        waiting = not_durable_yet(work.written)
        if not waiting:
            self._errors.add_leader_endpoints(work.response, work.context.listener)
            return work.response
        return Deferred.fromCoroutine(self._respond_when_durable(work, waiting, time_slice))

    async def _respond_when_durable(
        self, work: _Work, waiting: Sequence[Waiting], time_slice: TimeSlice | None
    ) -> ProduceResponse:
        def refuse(answer: PartitionProduceResponse, topic: str, error: ApiError) -> None:
            self._errors.refuse(answer, topic, error, work.version)

        await wait_until_durable(waiting, self._clock, work.message.timeout_ms, refuse, time_slice)
        self._errors.add_leader_endpoints(work.response, work.context.listener)
        return work.response


def _give_up(waits: Sequence[Deferred[None]]) -> None:
    """Cancel the waits of a disconnected client, so that its retries are not queued behind them."""
    for wait in waits:
        wait.addErrback(lambda _: None)
        wait.cancel()
