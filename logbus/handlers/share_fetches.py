"""
ShareFetch, ShareAcknowledge: members of share groups (KIP-932) acquire records, and say what became of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Self, TypeAlias
from uuid import UUID

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.config import keys
from logbus.coordination.share.heartbeat import MAX_MEMBER_ID
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.authorization.access import Access, Authorization
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.current_leaders import CurrentLeaders
from logbus.handlers.request_router import serves, task
from logbus.handlers.share_acknowledgements import (
    Acknowledgements,
    read_topics,
)
from logbus.handlers.share_responses import Outcomes, ShareResponses
from logbus.metrics import Registry, metric
from logbus.net.lost_connections import LostConnections
from logbus.net.request_context import RequestContext, quota_user
from logbus.net.time_slices import TimeSlice
from logbus.quotas.quota_managers import QuotaManagers
from logbus.security.acl.acls import AclOperation, ResourceType
from logbus.share.ended_sessions import EndedSessions
from logbus.share.share_fetches import ShareFetcher, ShareFetchParams, SharePartitionResult
from logbus.share.share_partition import AcknowledgementBatch
from logbus.share.share_partition_manager import SharePartitionManager
from logbus.share.share_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    SessionKey,
    SharedPartition,
    ShareSession,
    ShareSessionCache,
)
from logbus.wire.connection import Request
from logbus.wire.messages.share_fetches import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

SHARE_FETCH, SHARE_ACKNOWLEDGE = 78, 79
RECORD_LIMIT = 1
"""The acquire mode in which no more records are acquired than asked for (KIP-1206)."""

UNITS_TO_CHECK = 1
"""Units of a time slice for checking the right to read a partition."""

UNITS_TO_ACKNOWLEDGE = 4
"""The same for acknowledging records of a partition."""

Pending: TypeAlias = "dict[SharedPartition, Deferred[ApiError | None]]"
"""What becomes of acknowledgements."""


@define(eq=False)
class ShareFetchTotals:
    """Counts."""

    acquired: int = metric("logbus_share_records_acquired_total", "Records that members of share groups acquired.")
    bytes_sent: int = metric("logbus_share_fetched_bytes_total", "Bytes of batches sent to members of share groups.")
    acknowledgements: int = metric(
        "logbus_share_acknowledgements_total", "Requests of members of share groups that acknowledged records."
    )


@define(eq=False)
class ShareFetchHandlers:
    """
    Serves members of share groups.

    :ivar partitions: the share partitions that this broker leads; ``sessions``: of their members.
    :param max_bytes: size limit of a response (``fetch.max.bytes``).
    """

    partitions: SharePartitionManager
    _fetcher: ShareFetcher
    sessions: ShareSessionCache
    _ended: EndedSessions
    _responses: ShareResponses
    _lost: LostConnections
    _max_bytes: int
    _metadata: ClusterMetadata
    _authorization: Authorization | None = None
    _quotas: QuotaManagers = field(factory=QuotaManagers)
    totals: ShareFetchTotals = field(factory=ShareFetchTotals, init=False)

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        def topic_name(topic_id: UUID) -> str:
            topic = broker.metadata.topic_by_id(topic_id)
            return "" if topic is None else topic.name

        return cls(
            broker.share_partitions,
            broker.share_fetcher,
            ShareSessionCache(
                broker.config.get(keys.GROUP_SHARE_MAX_SHARE_SESSIONS),
                broker.config.get(keys.MAX_INCREMENTAL_FETCH_SESSION_CACHE_PARTITIONS),
            ),
            EndedSessions(broker.share_partitions, broker.slice_scheduler),
            ShareResponses(CurrentLeaders(broker.metadata), topic_name),
            broker.lost_connections,
            broker.config.get(keys.FETCH_MAX_BYTES),
            broker.metadata,
            broker.authorization,
            broker.client_quotas,
        )

    def register_metrics(self, registry: Registry) -> None:
        """Declare the metrics of share groups' members."""
        registry.add_fields(self.totals)
        registry.gauge("logbus_share_sessions", "Sessions of members of share groups.", read=lambda: len(self.sessions))
        registry.gauge(
            "logbus_share_session_partitions",
            "Partitions in the sessions of members of share groups.",
            read=lambda: self.sessions.partitions,
        )
        registry.gauge(
            "logbus_share_partitions_led",
            "Partitions that share groups read, of which this broker is the leader.",
            read=lambda: len(self.partitions),
        )
        registry.gauge(
            "logbus_share_records_in_flight",
            "Records that members of share groups have acquired and not acknowledged.",
            read=lambda: self.partitions.acquired_count,
        )

    # Requests.

    @serves(SHARE_FETCH, 1, 2)
    @task
    async def fetch(self, context: RequestContext, request: Request) -> ShareFetchResponse:
        message: ShareFetchRequest = request.message
        time_slice = context.time_slice(request)
        try:
            key = self._key(context, request)
            named, acknowledgements = await read_topics(message, time_slice, is_fetch=True)
            forgotten: list[SharedPartition] = []
            async for topic in time_slice.over(message.forgotten_topics_data):
                topic_id = UUID(bytes=bytes(topic.topic_id))
                forgotten += [
                    SharedPartition(topic_id, partition) async for partition in time_slice.over(topic.partitions)
                ]
            session = self._session(key, message.share_session_epoch, context, acknowledgements)
            is_last = message.share_session_epoch == FINAL_EPOCH
            if not is_last:
                self._update(session, named, forgotten)
        except ApiError as e:
            return ShareFetchResponse(error_code=e.code, error_message=e.message)
        outcomes = await self._acknowledge(context, request, key, acknowledgements, time_slice)
        results: list[SharePartitionResult] = []
        response = ShareFetchResponse(acquisition_lock_timeout_ms=self._lock_ms(key.group_id))
        if not is_last and not message.is_renew_ack and message.max_records > 0:
            wait_ms = self._wait_ms(context)
            if wait_ms:
                response.throttle_time_ms = wait_ms
            else:
                results = await self._fetch(context, request, key, session, time_slice)
        outcomes_by_partition = await _all(outcomes, time_slice)
        if is_last:
            self._end(session)
        await self._answer(response, context, results, outcomes_by_partition, time_slice)
        return response

    @serves(SHARE_ACKNOWLEDGE, 1, 2)
    @task
    async def acknowledge(self, context: RequestContext, request: Request) -> ShareAcknowledgeResponse:
        message: ShareAcknowledgeRequest = request.message
        time_slice = context.time_slice(request)
        try:
            key = self._key(context, request)
            _, acknowledgements = await read_topics(message, time_slice, is_fetch=False)
            session = self._session(key, message.share_session_epoch, context, acknowledgements, begins=False)
        except ApiError as e:
            return ShareAcknowledgeResponse(error_code=e.code, error_message=e.message)
        pending = await self._acknowledge(context, request, key, acknowledgements, time_slice)
        outcomes = await _all(pending, time_slice)
        if message.share_session_epoch == FINAL_EPOCH:
            self._end(session)
        return await self._responses.acknowledged(self._lock_ms(key.group_id), outcomes, context.listener, time_slice)

    def _key(self, context: RequestContext, request: Request) -> SessionKey:
        """
        Whose session a request is of.

        :raise ApiError: INVALID_REQUEST, GROUP_AUTHORIZATION_FAILED.
        """
        message = request.message
        if not message.group_id or not message.member_id:
            raise ApiError(ErrorCode.INVALID_REQUEST, "a request of a share group's member names the group and itself")
        if len(message.member_id) > MAX_MEMBER_ID:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"a member id has at most {MAX_MEMBER_ID} characters")
        access = self._access(context, request)
        if access is not None:
            access.require(AclOperation.READ, ResourceType.GROUP, message.group_id)
        return SessionKey(message.group_id, message.member_id)

    def _access(self, context: RequestContext, request: Request) -> Access | None:
        return None if self._authorization is None else self._authorization.access(context, request.api_key)

    def _lock_ms(self, group_id: str) -> int:
        return self.partitions.settings(group_id).record_lock_duration_ms

    # Sessions.

    def _session(
        self,
        key: SessionKey,
        epoch: int,
        context: RequestContext,
        acknowledgements: Acknowledgements,
        *,
        begins: bool = True,
    ) -> ShareSession:
        """
        The session of a request.

        :raise ApiError: as :meth:`.ShareSessionCache.begin` and :meth:`.ShareSessionCache.resume`; INVALID_REQUEST.
        """
        if epoch != INITIAL_EPOCH:
            session = self.sessions.resume(key, epoch, context.connection_id)
            # It may be another connection than before.
            self._lost.watch(context.connection_id, self._connection_lost)
            return session
        if not begins:
            raise ApiError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "a share session begins with a ShareFetch")
        if acknowledgements:
            raise ApiError(ErrorCode.INVALID_REQUEST, "a share session cannot begin with acknowledgements")
        before = self.sessions.find(key)
        if before is not None:
            self._end(before)
        session = self.sessions.begin(key, context.connection_id)
        self._lost.watch(context.connection_id, self._connection_lost)
        return session

    def _update(
        self, session: ShareSession, added: Sequence[SharedPartition], forgotten: Sequence[SharedPartition]
    ) -> None:
        """
        Add and remove partitions of a session.

        :raise ApiError: as :meth:`.ShareSessionCache.update`; then it has ended, and its member begins another one.
        """
        try:
            self.sessions.update(session, added, forgotten)
        except ApiError:
            self._end(session)
            raise
        if forgotten:
            self._ended.leave({session.key: forgotten})

    def _connection_lost(self, connection_id: int) -> None:
        """What the members at the other end have acquired is released: others get it at once."""
        self._end(*self.sessions.of_connection(connection_id))

    def _end(self, *sessions: ShareSession) -> None:
        # Of others that have ended already, the member may have another one.
        ended = [session for session in sessions if self.sessions.find(session.key) is session]
        for session in ended:
            self.sessions.end(session.key)
        self._ended.leave({session.key: session.partitions for session in ended})

    # Acknowledging.

    async def _acknowledge(
        self,
        context: RequestContext,
        request: Request,
        key: SessionKey,
        acknowledgements: Acknowledgements,
        time_slice: TimeSlice,
    ) -> Pending:
        """Take what a member says; its Deferreds fire with None or an error when that is kept, or refused."""
        access = self._access(context, request)
        if acknowledgements:
            self.totals.acknowledgements += 1
        return {
            partition: Deferred.fromCoroutine(self._acknowledge_one(access, key, partition, batches))
            async for partition, batches in time_slice.over(acknowledgements.items(), UNITS_TO_ACKNOWLEDGE)
        }

    async def _acknowledge_one(
        self,
        access: Access | None,
        key: SessionKey,
        partition: SharedPartition,
        batches: Sequence[AcknowledgementBatch],
    ) -> ApiError | None:
        try:
            self._check_topic(access, partition)
            opened = self.partitions.open(key.group_id, *partition)
            led = await opened if isinstance(opened, Deferred) else opened
            await led.acknowledge(key.member_id, batches)
        except ApiError as error:
            return error.without_frames()
        return None

    def _check_topic(self, access: Access | None, partition: SharedPartition) -> None:
        """
        Check that a topic may be read.

        :raise ApiError: UNKNOWN_TOPIC_ID, NOT_LEADER_OR_FOLLOWER, TOPIC_AUTHORIZATION_FAILED.
        """
        topic = self._metadata.topic_by_id(partition.topic_id)
        if topic is None:
            raise self._metadata.unknown_id(partition.topic_id)
        if access is not None:
            access.require(AclOperation.READ, ResourceType.TOPIC, topic.name)

    # Fetching.

    async def _fetch(
        self,
        context: RequestContext,
        request: Request,
        key: SessionKey,
        session: ShareSession,
        time_slice: TimeSlice,
    ) -> list[SharePartitionResult]:
        message: ShareFetchRequest = request.message
        await self._ended.finish(key, time_slice)
        access = self._access(context, request)
        readable, results = [], []
        async for partition in time_slice.over(list(session.partitions), UNITS_TO_CHECK):
            try:
                self._check_topic(access, partition)
                readable.append(partition)
            except ApiError as error:
                results.append(SharePartitionResult(partition, error.without_frames()))
        session.rotate()
        params = ShareFetchParams(
            key.group_id,
            key.member_id,
            0 if results else message.max_wait_ms,
            message.min_bytes,
            min(message.max_bytes, self._max_bytes),
            message.max_records,
            strict=message.share_acquire_mode == RECORD_LIMIT,
            is_wanted=lambda: self.sessions.find(key) is session,
            waiting=session.waiting,
        )
        return results + await self._fetcher.fetch(readable, params, time_slice)

    def _wait_ms(self, context: RequestContext) -> int:
        """For how long a client must wait before it gets anything."""
        if not self._quotas.fetch.is_active:
            return 0
        return ceil(1000 * self._quotas.fetch.wait(quota_user(context.principal), context.client_id))

    async def _answer(
        self,
        response: ShareFetchResponse,
        context: RequestContext,
        results: Sequence[SharePartitionResult],
        outcomes: Outcomes,
        time_slice: TimeSlice,
    ) -> None:
        """Put into a response what there is to say, and count it."""
        await self._responses.fill(response, results, outcomes, context.listener, time_slice)
        size = 0
        for result in results:
            if result.records is not None:
                size += result.records.length
                self.totals.acquired += sum(one.last - one.first + 1 for one in result.acquired)
        self.totals.bytes_sent += size
        if size and self._quotas.fetch.is_active:
            user = quota_user(context.principal)
            response.throttle_time_ms = ceil(1000 * self._quotas.fetch.record(user, context.client_id, size))


async def _all(pending: Pending, time_slice: TimeSlice) -> Outcomes:
    """Wait for all."""
    return {partition: await outcome async for partition, outcome in time_slice.over(pending.items())}
