"""
Large Produce requests wait until threads have written their records, or have given them the topic's codec, and small
ones for the same log behind them: see
:mod:`logbus.storage.appends.large_appends`. Then each is served as any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from attrs import define
from twisted.internet.defer import Deferred

from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.errors import ApiError, StorageError
from logbus.handlers.authorization.access import Authorization
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.produce_appender import ProduceAppender
from logbus.handlers.request_router import prepares
from logbus.handlers.transaction_verification import continues_transaction, is_transactional
from logbus.model import INTERNAL_TOPICS
from logbus.net.request_context import RequestContext
from logbus.records.checksum import Buffer
from logbus.security.acl.acls import AclOperation, ResourceType
from logbus.storage.appends.recompression import LEAST_FOR_THREAD, is_rewritten
from logbus.storage.filesystem.slow_writes import LARGE
from logbus.storage.log import Log
from logbus.wire.connection import Request
from logbus.wire.messages.records import ProduceRequest, TopicProduceData
from logbus.wire.request_template import PRODUCE

ALL = -1

_MOST = 64
"""Batches of a request that are looked at; with more of them it is served without waiting."""


@define(eq=False)
class LargeProduce:
    """Says for what a Produce request waits before it is served."""

    _appender: ProduceAppender
    _replicas: ReplicaManager
    _authorization: Authorization | None = None

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(broker.produce_appender, broker.replicas, broker.authorization)

    @prepares(PRODUCE)
    def prepare(self, context: RequestContext, request: Request) -> Deferred[None] | None:
        appends = self._appender.large
        if request.size < LEAST_FOR_THREAD and not appends:
            return None
        for topic, index, batch in _batches(request.message):
            log = self._log(context, topic, index, request)
            if log is None:
                continue
            size = len(batch)
            if size >= LARGE or (size >= LEAST_FOR_THREAD and is_rewritten(batch, log.config)):
                log = self._log(context, topic, index, request, batch)
                waiting = None if log is None else appends.turn(log, batch)
            else:
                waiting = appends.after_turn(log)
            if waiting is not None:
                return waiting
        return None

    def _log(
        self,
        context: RequestContext,
        topic: TopicProduceData,
        index: int,
        request: Request,
        batch: Buffer | None = None,
    ) -> Log | None:
        """
        The log of a partition that the client may write to; None: there is none.

        :param batch: it must be likely to be appended there.
        """
        message: ProduceRequest = request.message
        try:
            name = self._appender.topic_name(topic.name, topic.topic_id, index, request.api_version)
        except ApiError:
            return None
        replica = self._replicas.find(name, index)
        if replica is None or not replica.partition.is_leader or name in INTERNAL_TOPICS:
            return None
        if batch is None:
            return replica.log
        try:
            if is_transactional(batch) and not continues_transaction(batch, replica):
                return None
        except (ApiError, StorageError):
            return None
        if message.acks not in (0, 1) and not (message.acks == ALL and replica.partition.has_enough_replicas):
            return None
        if self._authorization is not None:
            ask = self._authorization.authorizer.authorize
            if not ask(context.principal, context.host, AclOperation.WRITE, ResourceType.TOPIC, name):
                return None
        return replica.log


def _batches(message: ProduceRequest) -> Iterator[tuple[TopicProduceData, int, Buffer]]:
    """The first batches of a request, with their topics and partitions."""
    left = _MOST
    for topic in message.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                yield topic, data.index, data.records
            left -= 1
            if not left:
                return
