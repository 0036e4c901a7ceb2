"""
Fetch: for consumers and followers, with and without sessions, by topic name (up to version 12) or topic id (from 13).

A request counts as a follower's only if the connection has proved to be from the broker with its replica id
(CVE-2018-1288).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Self

from attrs import define, field, frozen
from twisted.internet.defer import Deferred

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.replication.partition_fetch import FetchContext, FetchParams, PartitionFetchResult
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.cluster.replication.replica_reader import PARTITIONS_AT_A_TIME, ReplicaReader
from logbus.config import keys
from logbus.errors import ApiError
from logbus.handlers.authorization.access import Access
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.current_leaders import CurrentLeaders
from logbus.handlers.fetch_contexts import MANY_PARTITIONS, FetchContexts
from logbus.handlers.fetch_response import FetchResponseBuilder
from logbus.handlers.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    CachedPartition,
    FetchSession,
    FetchSessionCache,
)
from logbus.handlers.repeated_fetch import FOLLOWS_VERSION, READ_COMMITTED, FetchTotals, RepeatedFetches
from logbus.handlers.request_router import Answer, prepares_fetches, serves, serves_repeated
from logbus.metrics import Registry
from logbus.net.prepared_fetches import PreparedFetches
from logbus.net.request_context import RequestContext, quota_user
from logbus.net.request_errors import RequestErrors
from logbus.net.time_slices import TimeSlice
from logbus.quotas.quota_managers import QuotaManagers
from logbus.records.file_slice import Parts
from logbus.wire.connection import Request
from logbus.wire.fetch_template import FETCH, RepeatedFetch
from logbus.wire.messages.records import FetchRequest, FetchResponse

REPLICA_STATE_VERSION = 15


@frozen
class _Fetch:
    """
    A fetch in progress.

    :ivar context: the client's.
    :ivar partitions: to read, of the request or of its session.
    """

    context: RequestContext
    message: FetchRequest
    fetch_params: FetchParams
    partitions: FetchContext
    response: FetchResponseBuilder


@define(eq=False)
class FetchHandlers:
    """
    Serves Fetch.

    :param max_bytes: size limit of a response to a consumer (``fetch.max.bytes``).
    """

    _reader: ReplicaReader
    _replicas: ReplicaManager
    _metadata: ClusterMetadata
    _leaders: CurrentLeaders
    _contexts: FetchContexts
    max_bytes: int
    _quotas: QuotaManagers = field(factory=QuotaManagers)
    _errors: RequestErrors = field(factory=RequestErrors)
    totals: FetchTotals = field(factory=FetchTotals, init=False)
    _repeated: RepeatedFetches = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._repeated = RepeatedFetches(
            self._reader,
            self._contexts,
            self._leaders,
            self.max_bytes,
            self._quotas,
            self.totals,
            self._replicas.topic_stats,
            self._errors,
        )

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
        return cls(
            broker.reader,
            broker.replicas,
            broker.metadata,
            CurrentLeaders(broker.metadata),
            FetchContexts(broker.replicas, broker.metadata, sessions, broker.authorization),
            config.get(keys.FETCH_MAX_BYTES),
            broker.client_quotas,
            broker.request_errors,
        )

    @property
    def sessions(self) -> FetchSessionCache:
        """The incremental fetch sessions."""
        return self._contexts.sessions

    def register_metrics(self, registry: Registry) -> None:
        """Declare the metrics of fetching."""
        registry.add_fields(self.totals)
        registry.gauge("logbus_fetch_sessions", "Incremental fetch sessions.", read=lambda: len(self.sessions))

    @serves_repeated(FETCH)
    def fetch_repeated(self, context: RequestContext, request: RepeatedFetch) -> Parts | Deferred[Parts] | None:
        return self._repeated.fetch(context, request)

    @prepares_fetches(FETCH)
    def prepare_fetches(self, context: RequestContext, request: RepeatedFetch) -> PreparedFetches | None:
        return self._repeated.prepare(context, request)

    @serves(FETCH, 4, 18)
    def fetch(self, context: RequestContext, request: Request) -> Answer:
        if request.sliced:
            return Deferred.fromCoroutine(self._fetch_in_slices(context, request))
        message: FetchRequest = request.message
        requested: list[CachedPartition] = []
        try:
            fetch_params = self._fetch_params(context, message, request.api_version)
            access = self._contexts.access(context, fetch_params)
            for topic in message.topics:
                requested += self._contexts.requested(topic, topic.partitions, request.api_version, access)
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
            access = self._contexts.access(context, fetch_params)
            for topic in message.topics:
                async for some in time_slice.over_parts(topic.partitions, PARTITIONS_AT_A_TIME):
                    requested += self._contexts.requested(topic, some, request.api_version, access)
            if self._quotas.fetch.is_active and (ms := self._wait_ms(context)):
                return self._refuse(request, fetch_params, requested, ms)
            fetch = self._begin(context, request, fetch_params, requested, access)
        except ApiError as e:
            return FetchResponse(error_code=e.code, responses=[])
        response = await self._read_in_slices(fetch, time_slice)
        await time_slice.free(requested)
        return response

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
        selected = list(fetch.response.select(results))
        await time_slice.free(results)
        async for some in time_slice.taken_from(selected, PARTITIONS_AT_A_TIME):
            fetch.response.add(some)
        return self._finish(fetch)

    def _respond(self, results: Sequence[PartitionFetchResult], fetch: _Fetch) -> FetchResponse:
        fetch.response.add(fetch.response.select(results))
        return self._finish(fetch)

    def _respond_later(self, results: Sequence[PartitionFetchResult], fetch: _Fetch) -> FetchResponse:
        """Respond to a fetch that has waited; others with its quota may have got all there was to get."""
        if self._quotas.fetch.is_active and (ms := self._wait_ms(fetch.context)):
            return self._nothing(fetch, ms)
        return self._respond(results, fetch)

    def _finish(self, fetch: _Fetch) -> FetchResponse:
        """Count the bytes, and return the response."""
        if fetch.fetch_params.is_replica:
            self.totals.bytes_replicated += fetch.response.size
        else:
            self.totals.bytes_sent += fetch.response.size
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
                self._contexts.sessions.close(message.session_id, fetch_params.broker_id)
            return FetchResponse(throttle_time_ms=ms, responses=[])
        session = self._contexts.session(message, fetch_params, request.api_version, requested)
        return FetchResponse(
            throttle_time_ms=ms, session_id=session.session_id if session else NO_SESSION, responses=[]
        )

    def _nothing(self, fetch: _Fetch, ms: int) -> FetchResponse:
        """The response to a client that must wait since others with the same quota got what it waited for."""
        session_id = NO_SESSION
        if isinstance(fetch.partitions, FetchSession):
            if fetch.message.session_epoch == INITIAL_EPOCH:
                self._contexts.sessions.close(fetch.partitions.session_id, fetch.fetch_params.broker_id)
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
        session = self._contexts.session(message, fetch_params, request.api_version, requested)
        if session is not None and access is not None:
            self._contexts.authorize_again(session, access)
        full = message.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH)
        return _Fetch(
            context,
            message,
            fetch_params,
            session or self._contexts.sessionless(requested, fetch_params),
            FetchResponseBuilder(
                request.api_version,
                context.listener,
                self._leaders,
                session,
                full,
                None if fetch_params.is_replica else self._replicas.topic_stats,
            ),
        )

    def _fetch_params(self, context: RequestContext, message: FetchRequest, version: int) -> FetchParams:
        """
        The sender of a request: a consumer or a follower.

        :raise ApiError: as :meth:`.FetchContexts.follower`.
        """
        broker_id, epoch = message.replica_id, -1
        if version >= REPLICA_STATE_VERSION:
            state = message.replica_state
            broker_id, epoch = (-1, -1) if state is None else (state.replica_id, state.replica_epoch)
        if broker_id < 0:
            committed = message.isolation_level == READ_COMMITTED
            return FetchParams(committed, follows=version >= FOLLOWS_VERSION, rack=message.rack_id)
        return self._contexts.follower(context, broker_id, epoch)
