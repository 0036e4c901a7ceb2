"""
Fetch: for consumers and followers, with and without sessions, by topic name (up to version 12) or topic id (from 13).

A request counts as a follower's only if the connection has proved to be from the broker with its replica id
(CVE-2018-1288).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any, Self
from uuid import UUID

from attrs import define, field, frozen
from twisted.internet.defer import Deferred

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.cluster.replication.replica_reader import (
    PARTITIONS_AT_A_TIME,
    FetchContext,
    FetchParams,
    PartitionFetchResult,
    ReplicaReader,
    SessionlessFetchContext,
)
from logbus.config import keys
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.authorization.access import Access, Authorization
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.current_leaders import CurrentLeaders
from logbus.handlers.fetch_response import FetchResponseBuilder
from logbus.handlers.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    CachedPartition,
    FetchSession,
    FetchSessionCache,
    Key,
    TopicKey,
)
from logbus.handlers.request_router import Answer, serves
from logbus.metrics import Registry, metric
from logbus.net.request_context import RequestContext, quota_user
from logbus.net.time_slices import TimeSlice
from logbus.quotas.quota_managers import QuotaManagers
from logbus.records.file_slice import joined
from logbus.security.acl.acls import AclOperation, ResourceType
from logbus.wire.connection import Request
from logbus.wire.messages.records import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)

#: The most bytes of records that are read into memory, to be sent to several clients.
MOST_SHARED = 16 * 1024
#: Number of partitions above which a fetch is served in time slices.
MANY_PARTITIONS = 2000

FETCH = 1
FORBIDDEN = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
"""The error of partitions that a consumer may not read; one object, so that a session can tell it from others."""
READ_COMMITTED = 1
#: The first version whose consumers may fetch from a follower (KIP-392).
FOLLOWS_VERSION = 11
TOPIC_ID_VERSION = 13
REPLICA_STATE_VERSION = 15
#: The first version whose clients support zstd (KIP-110).
ZSTD_VERSION = 10


@frozen
class _Fetch:
    """
    A fetch in progress.

    :ivar context: the client's.
    :ivar partitions: to read, of the request or of its session.
    """

    context: RequestContext
    request: Request
    message: FetchRequest
    fetch_params: FetchParams
    partitions: FetchContext
    response: FetchResponseBuilder


@define(eq=False)
class FetchHandlers:
    """
    Serves Fetch.

    :param max_bytes: size limit of a response to a consumer (``fetch.max.bytes``).
    :ivar bytes_sent: bytes of batches sent to consumers so far; ``bytes_replicated``: to followers.
    """

    _reader: ReplicaReader
    _replicas: ReplicaManager
    _metadata: ClusterMetadata
    _leaders: CurrentLeaders
    sessions: FetchSessionCache
    max_bytes: int
    _authorization: Authorization | None = None
    _quotas: QuotaManagers = field(factory=QuotaManagers)
    bytes_sent: int = metric("logbus_fetched_bytes_total", "Bytes of batches sent to consumers.")
    bytes_replicated: int = field(default=0, init=False)

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        config = broker.config
        sessions = FetchSessionCache(
            broker.replicas,
            broker.reactor.seconds,
            broker.random,
            config.get(keys.MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS),
            config.get(keys.MAX_INCREMENTAL_FETCH_SESSION_CACHE_PARTITIONS),
        )
        leaders, max_bytes = CurrentLeaders(broker.metadata), config.get(keys.FETCH_MAX_BYTES)
        return cls(
            broker.reader,
            broker.replicas,
            broker.metadata,
            leaders,
            sessions,
            max_bytes,
            broker.authorization,
            broker.client_quotas,
        )

    def register_metrics(self, registry: Registry) -> None:
        """Declare the metrics of fetching."""
        registry.add_fields(self)
        registry.gauge("logbus_fetch_sessions", "Incremental fetch sessions.", read=lambda: len(self.sessions))

    @serves(1, 4, 18)
    def fetch(self, context: RequestContext, request: Request) -> Answer:
        if request.sliced:
            return Deferred.fromCoroutine(self._fetch_in_slices(context, request))
        message: FetchRequest = request.message
        requested: list[CachedPartition] = []
        try:
            fetch_params = self._fetch_params(context, message, request.api_version)
            access = self._access(context, fetch_params)
            for topic in message.topics:
                requested += self._requested(topic, topic.partitions, request.api_version, access)
            if self._quotas.fetch.is_active and (ms := self._wait_ms(context)):
                return self._refuse(request, fetch_params, requested, ms)
            fetch = self._begin(context, request, fetch_params, requested, access)
        except ApiError as e:
            return FetchResponse(error_code=e.code, responses=[])
        if isinstance(fetch.partitions, FetchSession) and fetch.partitions.dirty_count > MANY_PARTITIONS:
            return Deferred.fromCoroutine(self._read_in_slices(fetch, context.time_slice(request)))
        results = self._reader.fetch(
            fetch.partitions,
            min_bytes=min(message.min_bytes, max(max_bytes := self._max_bytes(fetch), 1)),
            max_bytes=max_bytes,
            max_wait_ms=message.max_wait_ms,
            fetch_params=fetch_params,
        )
        if isinstance(results, Deferred):
            return results.addCallback(self._respond_later, fetch)
        return self._respond(results, fetch)

    async def _fetch_in_slices(self, context: RequestContext, request: Request) -> FetchResponse:
        """Serve a request of many partitions."""
        message: FetchRequest = request.message
        time_slice = context.time_slice(request)
        requested: list[CachedPartition] = []
        try:
            fetch_params = self._fetch_params(context, message, request.api_version)
            access = self._access(context, fetch_params)
            for topic in message.topics:
                async for some in time_slice.over_parts(topic.partitions, PARTITIONS_AT_A_TIME):
                    requested += self._requested(topic, some, request.api_version, access)
            if self._quotas.fetch.is_active and (ms := self._wait_ms(context)):
                return self._refuse(request, fetch_params, requested, ms)
            fetch = self._begin(context, request, fetch_params, requested, access)
        except ApiError as e:
            return FetchResponse(error_code=e.code, responses=[])
        return await self._read_in_slices(fetch, time_slice)

    async def _read_in_slices(self, fetch: _Fetch, time_slice: TimeSlice) -> FetchResponse:
        """Read many partitions, and build the response."""
        results = await self._reader.fetch_in_slices(
            fetch.partitions,
            min_bytes=min(fetch.message.min_bytes, max(max_bytes := self._max_bytes(fetch), 1)),
            max_bytes=max_bytes,
            max_wait_ms=fetch.message.max_wait_ms,
            fetch_params=fetch.fetch_params,
            time_slice=time_slice,
        )
        if self._quotas.fetch.is_active and (ms := self._wait_ms(fetch.context)):
            return self._nothing(fetch, ms)
        async for some in time_slice.over_parts(fetch.response.select(results), PARTITIONS_AT_A_TIME):
            fetch.response.add(some)
        return self._finish(fetch)

    def _respond(self, results: Sequence[PartitionFetchResult], fetch: _Fetch) -> FetchResponse:
        fetch.response.add(fetch.response.select(results))
        return self._finish(fetch)

    def _respond_later(self, results: Sequence[PartitionFetchResult], fetch: _Fetch) -> FetchResponse | bytes:
        """Respond to a fetch that has waited; others with its quota may have got all there was to get."""
        if self._quotas.fetch.is_active:
            if ms := self._wait_ms(fetch.context):
                return self._nothing(fetch, ms)
        elif (shared := self._reader.shared) is not None and not isinstance(fetch.partitions, FetchSession):
            return self._respond_alike(results, fetch, shared)
        return self._respond(results, fetch)

    def _respond_alike(
        self, results: Sequence[PartitionFetchResult], fetch: _Fetch, shared: dict[Any, Any]
    ) -> FetchResponse | bytes:
        """Respond to one of those that were woken together: those with the same results get the same bytes."""
        if len(results) != 1 or (data := results[0].data) is None or data.length > MOST_SHARED:
            return self._respond(results, fetch)
        # Versions up to 12 name the topic, later ones its id.
        key = (id(results), fetch.request.api_version)
        if key in shared:
            self.bytes_sent += data.length
        else:
            body = joined(fetch.request.encode(self._respond(results, fetch)))
            # The results are kept, so that no others get their id.
            shared[key] = body, results
        encoded: bytes = shared[key][0]
        return encoded

    def _finish(self, fetch: _Fetch) -> FetchResponse:
        """Count the bytes, and return the response."""
        if fetch.fetch_params.is_replica:
            self.bytes_replicated += fetch.response.size
        else:
            self.bytes_sent += fetch.response.size
        response = fetch.response.build()
        if self._quotas.fetch.is_active and fetch.context.broker is None:
            user, client_id = quota_user(fetch.context.principal), fetch.context.client_id
            response.throttle_time_ms = ceil(1000 * self._quotas.fetch.record(user, client_id, fetch.response.size))
        return response

    def _max_bytes(self, fetch: _Fetch) -> int:
        asked = fetch.message.max_bytes
        if fetch.fetch_params.is_replica:
            return max(0, asked)
        most = min(asked, self.max_bytes)
        if self._quotas.fetch.is_active:
            context = fetch.context
            quota = self._quotas.fetch.most(quota_user(context.principal), context.client_id)
            if quota is not None and quota < most:
                most = max(1, int(quota))
        return max(0, most)

    def _wait_ms(self, context: RequestContext) -> int:
        """For how long a client must wait before it gets anything."""
        if context.broker is not None:
            return 0
        return ceil(1000 * self._quotas.fetch.wait(quota_user(context.principal), context.client_id))

    def _refuse(
        self, request: Request, fetch_params: FetchParams, requested: list[CachedPartition], ms: int
    ) -> FetchResponse:
        """
        The response to a client that must wait: it has no records, and no session is made for it (KIP-219).

        :raise ApiError: as :meth:`.FetchSessionCache.resume`.
        """
        message: FetchRequest = request.message
        if message.session_epoch == INITIAL_EPOCH:
            if message.session_id != NO_SESSION:
                self.sessions.close(message.session_id, fetch_params.broker_id)
            return FetchResponse(throttle_time_ms=ms, responses=[])
        session = self._session(message, fetch_params, request.api_version, requested)
        return FetchResponse(
            throttle_time_ms=ms, session_id=session.session_id if session else NO_SESSION, responses=[]
        )

    def _nothing(self, fetch: _Fetch, ms: int) -> FetchResponse:
        """The response to a client that must wait since others with the same quota got what it waited for."""
        session_id = NO_SESSION
        if isinstance(fetch.partitions, FetchSession):
            if fetch.message.session_epoch == INITIAL_EPOCH:
                self.sessions.close(fetch.partitions.session_id, fetch.fetch_params.broker_id)
            else:
                session_id = fetch.partitions.session_id
        return FetchResponse(throttle_time_ms=ms, session_id=session_id, responses=[])

    def _begin(
        self,
        context: RequestContext,
        request: Request,
        fetch_params: FetchParams,
        requested: list[CachedPartition],
        access: Access | None,
    ) -> _Fetch:
        """
        Find the partitions to read: those of the request, or of its session.

        :param access: what may be read; None: everything.
        :raise ApiError: as :meth:`.FetchSessionCache.resume`.
        """
        message: FetchRequest = request.message
        session = self._session(message, fetch_params, request.api_version, requested)
        if session is not None and access is not None:
            self._authorize_again(session, access)
        full = message.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH)
        return _Fetch(
            context,
            request,
            message,
            fetch_params,
            session or SessionlessFetchContext(self._replicas, requested, fetch_params.is_replica),
            FetchResponseBuilder(request.api_version, context.listener, self._leaders, session, full),
        )

    def _fetch_params(self, context: RequestContext, message: FetchRequest, version: int) -> FetchParams:
        """
        The sender of a request: a consumer or a follower.

        :raise ApiError: CLUSTER_AUTHORIZATION_FAILED: it is not the broker that it claims to be; STALE_BROKER_EPOCH:
            it is a former incarnation of that broker.
        """
        broker_id, epoch = message.replica_id, -1
        if version >= REPLICA_STATE_VERSION:
            state = message.replica_state
            broker_id, epoch = (-1, -1) if state is None else (state.replica_id, state.replica_epoch)
        if broker_id < 0:
            committed = message.isolation_level == READ_COMMITTED
            return FetchParams(committed, follows=version >= FOLLOWS_VERSION, rack=message.rack_id)
        if context.broker != broker_id:
            raise ApiError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"who fetches as broker {broker_id} did not prove to be it"
            )
        known = self._metadata.brokers.get(broker_id)
        if known is not None and epoch < known.epoch:
            raise ApiError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"broker {broker_id} fetches with the broker epoch {epoch}; now it is {known.epoch}",
            )
        self._replicas.heard(broker_id)
        return FetchParams(broker_id=broker_id, broker_epoch=epoch)

    def _session(
        self, message: FetchRequest, fetch_params: FetchParams, version: int, requested: list[CachedPartition]
    ) -> FetchSession | None:
        """The session of a request, new or resumed; None if it has none."""
        session_id, epoch, follower = message.session_id, message.session_epoch, fetch_params.broker_id
        by_id = version >= TOPIC_ID_VERSION
        if epoch == FINAL_EPOCH or (epoch == INITIAL_EPOCH and session_id != NO_SESSION):
            self.sessions.close(session_id, follower)
        if epoch == FINAL_EPOCH or (epoch == INITIAL_EPOCH and not requested):
            return None
        if epoch == INITIAL_EPOCH:
            session = self.sessions.create(by_id=by_id, follower=follower, partitions=len(requested))
            if session is not None:
                self.sessions.update(session, requested, [])
            return session
        session = self.sessions.resume(session_id, epoch, by_id=by_id, follower=follower)
        self.sessions.update(session, requested, self._forgotten(message, by_id))
        self._resolve_again(session)
        return session

    def _access(self, context: RequestContext, fetch_params: FetchParams) -> Access | None:
        """What a consumer may read; None: everything, as brokers may that have proved to be such."""
        if self._authorization is None or fetch_params.is_replica:
            return None
        return self._authorization.access(context, FETCH)

    def _authorize_again(self, session: FetchSession, access: Access) -> None:
        """Look again which partitions of a session may be read, if rights have changed, or the principal."""
        rights = access.rights
        if session.rights == rights:
            return
        session.rights = rights
        for partition in session.partitions.values():
            if partition.topic and partition.refused in (None, FORBIDDEN):
                refused = _refusal(access, partition.topic)
                if refused is not partition.refused:
                    partition.refused = refused
                    session.mark_dirty(partition)

    def _requested(
        self, topic: FetchTopic, partitions: Sequence[FetchPartition], version: int, access: Access | None
    ) -> list[CachedPartition]:
        """The requested partitions of a topic."""
        name, key, topic_id, refused = self._resolve(topic.topic, topic.topic_id, version >= TOPIC_ID_VERSION)
        if access is not None and refused is None:
            refused = _refusal(access, name)
        if version < ZSTD_VERSION and refused is None and partitions:
            refused = self._unreadable(name, partitions[0].partition)
        return [
            CachedPartition(
                topic=name,
                partition=asked.partition,
                offset=asked.fetch_offset,
                max_bytes=asked.partition_max_bytes,
                current_leader_epoch=asked.current_leader_epoch,
                last_fetched_epoch=asked.last_fetched_epoch,
                log_start_offset=asked.log_start_offset,
                topic_id=topic_id,
                refused=refused,
                topic_key=key,
            )
            for asked in partitions
        ]

    def _resolve(self, name: str, topic_id: bytes, by_id: bool) -> tuple[str, TopicKey, UUID | None, ApiError | None]:
        """A topic's name, the client's key for it, its id if the request is by id, and the error if it is unknown."""
        if not by_id:
            return name, name, None, None
        wanted = UUID(bytes=topic_id)
        topic = self._metadata.topic_by_id(wanted)
        if topic is not None:
            return topic.name, topic_id, wanted, None
        return "", topic_id, wanted, ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {wanted}")

    def _resolve_again(self, session: FetchSession) -> None:
        """Resolve topic ids of a session that were unknown when the client sent them."""
        for partition in session.nameless():
            assert partition.topic_id is not None
            topic = self._metadata.topic_by_id(partition.topic_id)
            if topic is not None:
                partition.topic, partition.refused = topic.name, None
                session.update([partition], [])

    def _unreadable(self, topic: str, partition: int) -> ApiError | None:
        """The error for a client without zstd support on a topic that is compressed with it, as in Kafka."""
        replica = self._replicas.find(topic, partition)
        if replica is None or replica.log.config.compression_type != "zstd":
            return None
        return ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"{topic} has compression.type = zstd, which takes Fetch version {ZSTD_VERSION} or later to read",
        )

    def _forgotten(self, message: FetchRequest, by_id: bool) -> list[Key]:
        return [
            (topic.topic_id if by_id else topic.topic, partition)
            for topic in message.forgotten_topics_data
            for partition in topic.partitions
        ]


def _refusal(access: Access, topic: str) -> ApiError | None:
    """The error if a consumer may not read a topic."""
    return None if access.allows(AclOperation.READ, ResourceType.TOPIC, topic) else FORBIDDEN
