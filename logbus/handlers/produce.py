"""
Produce: from a request to the logs, and the answer once the demanded acknowledgements are there.

The one request that may be answered after its successors began (see :mod:`logbus.net.protocol`): appending happens at
once and in order, only the waiting for durability overlaps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.replicas import Replica, Replicas
from logbus.errors import ApiError, ErrorCode, ProtocolError, RecordsRefused, StorageError
from logbus.handlers.leaders import LeaderHints
from logbus.handlers.routing import Answer, serves
from logbus.net.context import RequestContext
from logbus.records.checksum import Buffer
from logbus.storage.log import Appended
from logbus.storage.together import AppendedTogether
from logbus.wire.connection import Request
from logbus.wire.messages.records import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from logbus.wire.produced import FIRST, LAST, produced

ALL = -1
#: The first version whose readers know zstd (KIP-110).
ZSTD_VERSION = 7

#: The first version that says who leads (KIP-951).
LEADER_VERSION = 10

Written = tuple[str, PartitionProduceResponse, Replica]
Waiting = tuple[str, PartitionProduceResponse, Deferred[None]]


@define(eq=False)
class ProduceHandlers:
    """
    Serves Produce.

    :ivar hints: says who leads instead of this broker; None: nobody knows.
    :ivar records: appended so far; ``batches`` and ``bytes_written`` likewise.
    :ivar refused: batches that were not appended.
    """

    _replicas: Replicas
    _clock: IReactorTime
    _wall_clock: Callable[[], float]
    _internal_topics: frozenset[str]
    hints: LeaderHints | None = None
    records: int = field(default=0, init=False)
    batches: int = field(default=0, init=False)
    bytes_written: int = field(default=0, init=False)
    refused: int = field(default=0, init=False)
    _log = Logger()

    @serves(0, 3, 11)
    def produce(self, context: RequestContext, request: Request) -> Answer:
        message: ProduceRequest = request.message
        acks, version = message.acks, request.api_version
        if (
            acks in (1, ALL)
            and len(message.topic_data) == 1
            and len(message.topic_data[0].partition_data) == 1
            and FIRST <= version <= LAST
            and message.transactional_id is None
        ):
            return self._produce_one(context, message, version)
        problem = self._problem(message)
        now_ms = self.now_ms()
        written: list[Written] = []
        topics = []
        failed = ""
        for topic in message.topic_data:
            answers = []
            for data in topic.partition_data:
                try:
                    if problem is not None:
                        raise problem
                    replica, appended = self.append(
                        topic.name, data.index, data.records, now_ms, version, all_in_sync=acks == ALL
                    )
                    answer = PartitionProduceResponse(
                        index=data.index,
                        base_offset=appended.base_offset,
                        log_append_time_ms=appended.log_append_time,
                        log_start_offset=appended.log_start_offset,
                    )
                    written.append((topic.name, answer, replica))
                except ApiError as e:
                    failed = f"{e.code.name}: {e.message}"
                    self.refused += 1
                    answer = refusal(data.index, e)
                    self._say_who_leads(answer, topic.name, e, version)
                answers.append(answer)
            topics.append(TopicProduceResponse(name=topic.name, partition_responses=answers))
        if acks == 0:
            if failed:
                # The client asked not to be answered: closing is the only way to tell it (as Kafka does).
                raise ProtocolError(f"a produce request with acks=0 failed: {failed}")
            return None
        response = ProduceResponse(responses=topics)
        if acks == ALL and written:
            return self._when_durable(response, written, message.timeout_ms, context.listener, version)
        if failed:
            self._say_where_leaders_are(response, context.listener)
        return response

    def _produce_one(self, context: RequestContext, message: ProduceRequest, version: int) -> Answer:
        """The usual request: one batch."""
        topic = message.topic_data[0]
        data = topic.partition_data[0]
        try:
            replica, appended = self.append(
                topic.name, data.index, data.records, self.now_ms(), version, all_in_sync=message.acks == ALL
            )
        except ApiError as e:
            self.refused += 1
            return self.refused_one(context, topic.name, data.index, e, version)
        answer = produced(
            topic.name, data.index, appended.base_offset, appended.log_append_time, appended.log_start_offset
        )
        durable = replica.durable() if message.acks == ALL else None
        if durable is None:
            return answer

        def not_durable(failure: Failure) -> ProduceResponse:
            failure.trap(ApiError, StorageError)
            error: Any = failure.value
            return self.refused_one(context, topic.name, data.index, api_error(error), version)

        durable.addTimeout(max(message.timeout_ms, 0) / 1000, self._clock, onTimeoutCancel=_timed_out)
        return durable.addCallbacks(lambda _: answer, not_durable)

    def _problem(self, message: ProduceRequest) -> ApiError | None:
        """What is wrong with the whole request."""
        if message.acks not in (0, 1, ALL):
            return ApiError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be 0, 1 or -1, not {message.acks}")
        if message.transactional_id is not None:
            return ApiError(ErrorCode.INVALID_TXN_STATE, "transactions are not served by this broker")
        return None

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
    ) -> tuple[Replica, Appended]:
        """
        Append one batch.

        :param version: of the Produce request it came in.
        :param all_in_sync: it counts only once all in-sync replicas have it (acks=all).
        :raise ApiError: it was refused, for whatever reason.
        """
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

    def append_together(
        self, topic: str, index: int, batches: Sequence[Buffer], now_ms: int, version: int
    ) -> AppendedTogether | None:
        """
        Append several batches to a partition by one write.

        :return: None: there is something to be said about at least one; none was appended.
        """
        replica = self._replicas.find(topic, index)
        if replica is None or topic in self._internal_topics:
            return None
        appended = replica.append_together(batches, now_ms, version >= ZSTD_VERSION)
        if appended is not None:
            self.batches += len(batches)
            self.bytes_written += appended.size
            self.records += appended.end_offset - appended.base_offsets[0]
        return appended

    def _when_durable(
        self, response: ProduceResponse, written: list[Written], timeout_ms: int, listener: str, version: int
    ) -> Answer:
        """The response, once everything in it is durable on all in-sync replicas."""
        waiting: list[Waiting] = []
        for topic, answer, replica in written:
            durable = replica.durable()
            if durable is not None:
                waiting.append((topic, answer, durable))
        if not waiting:
            self._say_where_leaders_are(response, listener)
            return response
        return Deferred.fromCoroutine(self._wait(response, waiting, timeout_ms, listener, version))

    async def _wait(
        self, response: ProduceResponse, waiting: list[Waiting], timeout_ms: int, listener: str, version: int
    ) -> ProduceResponse:
        deadline = self._clock.seconds() + max(timeout_ms, 0) / 1000
        try:
            for topic, answer, durable in waiting:
                durable.addTimeout(
                    max(0.0, deadline - self._clock.seconds()),
                    self._clock,
                    onTimeoutCancel=_timed_out,
                )
                try:
                    await durable
                except (ApiError, StorageError) as e:
                    error = api_error(e)
                    answer.error_code = error.code
                    answer.error_message = error.message
                    answer.base_offset = answer.log_start_offset = -1
                    self._say_who_leads(answer, topic, error, version)
        except BaseException:
            # The client went away: nobody wants to know any more.
            for _, _, durable in waiting:
                durable.addErrback(lambda _: None)
                durable.cancel()
            raise
        self._say_where_leaders_are(response, listener)
        return response

    # Who leads instead.

    def refused_one(
        self, context: RequestContext, topic: str, index: int, error: ApiError, version: int
    ) -> ProduceResponse:
        """The answer to a request of one batch that was not written."""
        response = refused_one(topic, index, error)
        self._say_who_leads(response.responses[0].partition_responses[0], topic, error, version)
        self._say_where_leaders_are(response, context.listener)
        return response

    def _say_who_leads(self, answer: PartitionProduceResponse, topic: str, error: ApiError, version: int) -> None:
        if self.hints is not None and version >= LEADER_VERSION:
            answer.current_leader = self.hints.hint(topic, answer.index, error)

    def _say_where_leaders_are(self, response: ProduceResponse, listener: str) -> None:
        hints = [answer.current_leader for topic in response.responses for answer in topic.partition_responses]
        if self.hints is not None and any(hints):
            response.node_endpoints = self.hints.endpoints(listener, hints)


def _timed_out(result: object, timeout: float) -> Any:
    raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"the records were not durable after {timeout:g} s")


def api_error(error: ApiError | StorageError) -> ApiError:
    """What a client is told of an error."""
    return error if isinstance(error, ApiError) else ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))


def refused_one(topic: str, index: int, error: ApiError) -> ProduceResponse:
    """The answer to a request of one batch that was not written."""
    return ProduceResponse(responses=[TopicProduceResponse(name=topic, partition_responses=[refusal(index, error)])])


def refusal(index: int, error: ApiError) -> PartitionProduceResponse:
    """The answer for a partition whose batch was not written."""
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_append_time_ms=-1,
        log_start_offset=-1,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=why)
            for number, why in (error.records if isinstance(error, RecordsRefused) else ())
        ],
        error_message=error.message,
    )
