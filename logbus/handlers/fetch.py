"""
Fetch: for consumers and followers, with and without sessions, by topic name (up to version 12) or topic id (from 13).

A request counts as a follower's only if the connection has proved to be from the broker with its replica id
(CVE-2018-1288).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self
from uuid import UUID

from attrs import define, field, frozen
from twisted.internet.defer import Deferred

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.cluster.replication.replica_reader import (
    PARTITIONS_AT_A_TIME,
    FetchContext,
    FetchParams,
    PartitionFetch,
    PartitionFetchResult,
    ReplicaReader,
    SessionlessFetchContext,
)
from logbus.config import keys
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.current_leaders import CurrentLeaders
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
from logbus.metrics import Registry
from logbus.net.request_context import RequestContext
from logbus.net.time_slices import TimeSlice
from logbus.wire.connection import Request
from logbus.wire.messages.records import (
    AbortedTransaction,
    EpochAndEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    PartitionData,
)

#: Number of partitions above which a fetch is served in time slices.
MANY_PARTITIONS = 2000

READ_COMMITTED = 1
#: The first version whose consumers may fetch from a follower (KIP-392).
FOLLOWS_VERSION = 11
#: The first version with the current leader, and ENDPOINTS_VERSION the first with its address (KIP-951).
LEADER_VERSION = 12
TOPIC_ID_VERSION = 13
REPLICA_STATE_VERSION = 15
ENDPOINTS_VERSION = 16
#: The first version whose clients support zstd (KIP-110).
ZSTD_VERSION = 10


@frozen
class _Request:
    """The properties of a fetch that its response depends on."""

    fetch_params: FetchParams
    version: int
    listener: str
    session: FetchSession | None
    full: bool


class _Answer:
    """
    A response under construction.

    :ivar last: name or id of the last topic in it.
    :ivar hints: the current leaders in it.
    """

    __slots__ = ("hints", "last", "topics")

    def __init__(self) -> None:
        self.topics: list[FetchableTopicResponse] = []
        self.last: TopicKey | None = None
        self.hints: list[LeaderIdAndEpoch] = []


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
    sessions: FetchSessionCache
    max_bytes: int
    bytes_sent: int = field(default=0, init=False)
    bytes_replicated: int = field(default=0, init=False)
    _hints: CurrentLeaders = field(init=False)

    @_hints.default
    def _hints_of_metadata(self) -> CurrentLeaders:
        return CurrentLeaders(self._metadata)

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
        return cls(broker.reader, broker.replicas, broker.metadata, sessions, config.get(keys.FETCH_MAX_BYTES))

    def register_metrics(self, registry: Registry) -> None:
        """Declare the metrics of fetching."""
        registry.counter(
            "logbus_fetched_bytes_total", "Bytes of batches sent to consumers.", read=lambda: self.bytes_sent
        )
        registry.gauge("logbus_fetch_sessions", "Incremental fetch sessions.", read=lambda: len(self.sessions))

    @serves(1, 4, 18)
    def fetch(self, context: RequestContext, request: Request) -> Answer:
        if request.sliced:
            return Deferred.fromCoroutine(self._fetch_many(context, request))
        message: FetchRequest = request.message
        version = request.api_version
        try:
            fetch_params = self._asker(context, message, version)
            wants = self._wants(message, version)
            session, source, full = self._source(message, fetch_params, version, wants)
        except ApiError as e:
            return FetchResponse(error_code=e.code, responses=[])
        asked = _Request(fetch_params, version, context.listener, session, full)
        if session is not None and session.dirty_count > MANY_PARTITIONS:
            return Deferred.fromCoroutine(self._read_many(source, message, asked, context.time_slice(request)))
        got = self._reader.fetch(
            source,
            min_bytes=message.min_bytes,
            max_bytes=self._most_bytes(message, fetch_params),
            max_wait_ms=message.max_wait_ms,
            fetch_params=fetch_params,
        )
        if isinstance(got, Deferred):
            return got.addCallback(self._answer, asked)
        return self._answer(got, asked)

    async def _fetch_many(self, context: RequestContext, request: Request) -> FetchResponse:
        """Serve a request of many partitions in time slices."""
        message: FetchRequest = request.message
        version = request.api_version
        time_slice = context.time_slice(request)
        try:
            fetch_params = self._asker(context, message, version)
            wants: list[CachedPartition] = []
            for topic in message.topics:
                for start in range(0, len(topic.partitions), PARTITIONS_AT_A_TIME):
                    wants += self._remembered(topic, topic.partitions[start : start + PARTITIONS_AT_A_TIME], version)
                    if time_slice.used(PARTITIONS_AT_A_TIME):
                        await time_slice.next()
            session, source, full = self._source(message, fetch_params, version, wants)
        except ApiError as e:
            return FetchResponse(error_code=e.code, responses=[])
        asked = _Request(fetch_params, version, context.listener, session, full)
        return await self._read_many(source, message, asked, time_slice)

    async def _read_many(
        self, source: FetchContext, message: FetchRequest, asked: _Request, time_slice: TimeSlice
    ) -> FetchResponse:
        got: Sequence[PartitionFetchResult] = await self._reader.fetch_in_slices(
            source,
            min_bytes=message.min_bytes,
            max_bytes=self._most_bytes(message, asked.fetch_params),
            max_wait_ms=message.max_wait_ms,
            fetch_params=asked.fetch_params,
            time_slice=time_slice,
        )
        if asked.session is not None:
            got = asked.session.changed_results(got, everything=asked.full)
        answer = _Answer()
        for start in range(0, len(got), PARTITIONS_AT_A_TIME):
            self._tell(got[start : start + PARTITIONS_AT_A_TIME], asked, answer)
            if time_slice.used(PARTITIONS_AT_A_TIME):
                await time_slice.next()
        return self._response(asked, answer)

    def _most_bytes(self, message: FetchRequest, fetch_params: FetchParams) -> int:
        return max(0, message.max_bytes if fetch_params.is_replica else min(message.max_bytes, self.max_bytes))

    def _asker(self, context: RequestContext, message: FetchRequest, version: int) -> FetchParams:
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

    def _source(
        self, message: FetchRequest, fetch_params: FetchParams, version: int, wants: list[CachedPartition]
    ) -> tuple[FetchSession | None, FetchContext, bool]:
        """The session, if there is one; the source to read from; and whether the response must be full."""
        session_id, epoch, follower = message.session_id, message.session_epoch, fetch_params.broker_id
        by_id = version >= TOPIC_ID_VERSION
        if epoch == FINAL_EPOCH or (epoch == INITIAL_EPOCH and session_id != NO_SESSION):
            self.sessions.close(session_id, follower)
        if epoch == FINAL_EPOCH:
            return None, SessionlessFetchContext(self._replicas, wants, fetch_params.is_replica), True
        if epoch == INITIAL_EPOCH:
            session = None
            if wants:
                session = self.sessions.create(by_id=by_id, follower=follower, partitions=len(wants))
            if session is None:
                return None, SessionlessFetchContext(self._replicas, wants, fetch_params.is_replica), True
            self.sessions.update(session, wants, [])
            return session, session, True
        session = self.sessions.resume(session_id, epoch, by_id=by_id, follower=follower)
        self.sessions.update(session, wants, self._forgotten(message, by_id))
        self._resolve_again(session)
        return session, session, False

    def _wants(self, message: FetchRequest, version: int) -> list[CachedPartition]:
        wants: list[CachedPartition] = []
        for topic in message.topics:
            wants += self._remembered(topic, topic.partitions, version)
        return wants

    def _remembered(
        self, topic: FetchTopic, partitions: Sequence[FetchPartition], version: int
    ) -> list[CachedPartition]:
        """The fetched partitions of a topic."""
        name, key, topic_id, refused = self._resolve(topic.topic, topic.topic_id, version >= TOPIC_ID_VERSION)
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
        for want in session.nameless():
            assert want.topic_id is not None
            topic = self._metadata.topic_by_id(want.topic_id)
            if topic is not None:
                want.topic, want.refused = topic.name, None
                session.update([want], [])

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

    def _answer(self, got: Sequence[PartitionFetchResult], asked: _Request) -> FetchResponse:
        session = asked.session
        if session is not None:
            got = session.changed_results(got, everything=asked.full)
        answer = _Answer()
        self._tell(got, asked, answer)
        return self._response(asked, answer)

    def _tell(self, some: Sequence[PartitionFetchResult], asked: _Request, answer: _Answer) -> None:
        """Add the results of partitions to the response."""
        topics, last = answer.topics, answer.last
        size = 0
        for got in some:
            want = got.want
            assert isinstance(want, CachedPartition)
            if want.topic_key != last:
                last = want.topic_key
                if isinstance(last, str):
                    topics.append(FetchableTopicResponse(topic=last, partitions=[]))
                else:
                    topics.append(FetchableTopicResponse(topic_id=last, partitions=[]))
            data = partition_answer(got, want)
            topics[-1].partitions.append(data)
            if got.data is not None:
                size += got.data.length
            elif got.error is not None and asked.version >= LEADER_VERSION:
                data.current_leader = hint = self._hints.hint(want.topic, want.partition, got.error)
                if hint is not None:
                    answer.hints.append(hint)
        answer.last = last
        if asked.fetch_params.is_replica:
            self.bytes_replicated += size
        else:
            self.bytes_sent += size

    def _response(self, asked: _Request, answer: _Answer) -> FetchResponse:
        session, hints = asked.session, answer.hints
        response = FetchResponse(session_id=session.session_id if session else NO_SESSION, responses=answer.topics)
        if hints and asked.version >= ENDPOINTS_VERSION:
            response.node_endpoints = self._hints.endpoints(asked.listener, hints)
        return response


def partition_answer(got: PartitionFetchResult, want: PartitionFetch) -> PartitionData:
    """
    One partition's part of the response; empty records are sent as empty, never as null.

    A follower's high watermark (Fetch 18) is ignored, since each response carries the leader's (KIP-1166 is about the
    log of Kafka's controllers).
    """
    error, aborted = got.error, got.aborted
    data = PartitionData(
        partition_index=want.partition,
        error_code=0 if error is None else error.code,
        high_watermark=got.high_watermark,
        last_stable_offset=got.last_stable_offset,
        log_start_offset=got.log_start_offset,
        aborted_transactions=None
        if aborted is None or error is not None
        else [AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset) for one in aborted],
        preferred_read_replica=got.preferred,
        records=got.data if got.data is not None else b"",
    )
    if got.diverging is not None:
        data.diverging_epoch = EpochAndEndOffset(epoch=got.diverging.epoch, end_offset=got.diverging.offset)
    return data
