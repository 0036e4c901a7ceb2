"""
Produce fast path: consecutive requests that differ only in their batches are appended by one write, and are answered
without building messages.

With acks=1 they are answered at once, with acks=all when the last one is durable. If one batch is not regular, each
request is served by itself, in order, with the same result as if it had come alone. Transactional requests take this
path when their transaction is open in the partition; those that may have to wait for verification take the general one.
"""

from __future__ import annotations

from itertools import islice
from typing import Self

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.cluster.replication.replica import Replica
from logbus.errors import ApiError
from logbus.handlers.authorization.access import Authorization
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.current_leaders import CurrentLeaders
from logbus.handlers.produce import ALL
from logbus.handlers.produce_appender import ProduceAppender
from logbus.handlers.produce_errors import ProduceErrors
from logbus.handlers.request_router import serves_coalesced, serves_gathered
from logbus.net.produce_gatherer import GatheredRuns
from logbus.net.request_context import RequestContext
from logbus.net.request_errors import RequestErrors
from logbus.records.checksum import Buffer
from logbus.security.acl.acls import AclOperation, ResourceType
from logbus.storage.appends.recompression import LEAST_FOR_THREAD
from logbus.wire.request_template import PRODUCE, CoalescedProduce, RequestTemplate


@define(eq=False)
class CoalescedProduceHandlers:
    """Serves runs of equal Produce requests, several batches by one write if it can."""

    _appender: ProduceAppender
    _errors: ProduceErrors
    _authorization: Authorization | None = None
    _counted: RequestErrors = field(factory=RequestErrors)

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        errors = ProduceErrors(CurrentLeaders(broker.metadata))
        return cls(broker.produce_appender, errors, broker.authorization, broker.request_errors)

    @serves_coalesced(0)
    def run(self, context: RequestContext, run: CoalescedProduce) -> bytes | Deferred[bytes] | None:
        appender, template, batches = self._appender, run.template, run.batches
        topic, now_ms, transactional = self._topic(template), appender.now_ms(), template.transactional_id is not None
        _, _, index, version, acks = template.partition
        if self._authorization is not None and not self._is_allowed(context, template, topic):
            return None  # The general path gives the error.
        size = len(batches[0])
        if (size >= LEAST_FOR_THREAD or appender.large) and appender.waits(topic, index, size):
            return None  # There the request waits.
        if topic:
            written = appender.append_many(
                topic, index, batches, now_ms, version, all_in_sync=acks == ALL, in_transaction=transactional
            )
            if written is not None:
                replica, (base_offsets, _, start, _) = written
                return self._responses(context, topic, run, replica, start, base_offsets)
        if transactional:
            return None
        answers = [
            self._one(context, template, id, data, now_ms)
            for id, data in zip(run.correlation_ids, batches, strict=True)
        ]
        if acks == ALL:
            return _join_responses(answers)
        return b"".join(answers)  # type: ignore[arg-type]

    @serves_gathered(0)
    def gathered(self, runs: GatheredRuns) -> list[bytes | Deferred[bytes]] | None:
        """Serve runs of several connections: outside of transactions, to one partition."""
        template = runs[0][1].template
        topic = self._topic(template)
        if self._authorization is not None and not all(
            self._is_allowed(context, run.template, topic) for context, run in runs
        ):
            return None
        if not topic or self._appender.waits(topic, template.index, 0):
            return None
        written = self._appender.append_many(
            topic,
            template.index,
            [batch for _, run in runs for batch in run.batches],
            self._appender.now_ms(),
            template.api_version,
            all_in_sync=template.acks == ALL,
            in_transaction=False,
        )
        if written is None:
            return None
        replica, appended = written
        offsets = iter(appended.base_offsets)
        start = appended.log_start_offset
        return [
            self._responses(context, topic, run, replica, start, list(islice(offsets, len(run.batches))))
            for context, run in runs
        ]

    def _is_allowed(self, context: RequestContext, template: RequestTemplate, topic: str) -> bool:
        assert self._authorization is not None
        ask, principal, host = self._authorization.authorizer.authorize, context.principal, context.host
        return ask(principal, host, AclOperation.WRITE, ResourceType.TOPIC, topic) and (
            template.transactional_id is None
            or ask(principal, host, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, template.transactional_id)
        )

    def _topic(self, template: RequestTemplate) -> str:
        """The topic's name; empty if it is unknown."""
        try:
            name, topic_id, index, version, _ = template.partition
            return self._appender.topic_name(name, topic_id, index, version)
        except ApiError:
            return ""

    def _responses(
        self,
        context: RequestContext,
        topic: str,
        run: CoalescedProduce,
        replica: Replica,
        start: int,
        base_offsets: list[int],
    ) -> bytes | Deferred[bytes]:
        """The responses to all requests, when they are durable."""
        template, ids = run.template, run.correlation_ids
        encode = template.written
        if len(ids) == 1:
            answers = encode(ids[0], base_offsets[0], -1, start)
        else:
            answers = b"".join([encode(id, offset, -1, start) for id, offset in zip(ids, base_offsets, strict=True)])
        return answers if template.acks != ALL else self._when_durable(context, topic, run, replica, answers)

    def _when_durable(
        self, context: RequestContext, topic: str, run: CoalescedProduce, replica: Replica, answers: bytes
    ) -> bytes | Deferred[bytes]:
        template, ids = run.template, run.correlation_ids

        def not_durable(error: ApiError) -> bytes:
            return b"".join([self._refused(context, topic, template, id, error) for id in ids])

        return self._appender.when_durable(replica, template.timeout_ms, answers, not_durable)

    def _one(
        self, context: RequestContext, template: RequestTemplate, correlation_id: int, data: Buffer, now_ms: int
    ) -> bytes | Deferred[bytes]:
        appender, topic, index, version = self._appender, template.topic, template.index, template.api_version
        to_all = template.acks == ALL
        try:
            topic = appender.topic_name(topic, template.topic_id, index, version)
            replica, appended = appender.append(topic, index, data, now_ms, version, all_in_sync=to_all)
        except ApiError as e:
            appender.refused += 1
            return self._refused(context, topic, template, correlation_id, e)
        answer = template.written(
            correlation_id, appended.base_offset, appended.log_append_time, appended.log_start_offset
        )
        if not to_all:
            return answer

        def not_durable(error: ApiError) -> bytes:
            return self._refused(context, topic, template, correlation_id, error)

        return appender.when_durable(replica, template.timeout_ms, answer, not_durable)

    def _refused(
        self, context: RequestContext, topic: str, template: RequestTemplate, correlation_id: int, error: ApiError
    ) -> bytes:
        self._counted.count(PRODUCE, error.code)
        response = self._errors.one(
            context.listener, topic, template.index, error, template.api_version, template.topic_id
        )
        return template.refused(correlation_id, response)


def _join_responses(answers: list[bytes | Deferred[bytes]]) -> bytes | Deferred[bytes]:
    """All responses in order, when the last of them is there."""
    if not any(isinstance(answer, Deferred) for answer in answers):
        return b"".join(answers)  # type: ignore[arg-type]

    async def join() -> bytes:
        return b"".join([await answer if isinstance(answer, Deferred) else answer for answer in answers])

    return Deferred.fromCoroutine(join())
