"""
Fetch: with and without sessions, by topic name (up to version 12) and by topic id (from 13 on).
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.cluster.metadata import ClusterMetadata
from logbus.cluster.reads import Got, Once, Reader, Source, Want
from logbus.cluster.replicas import Replicas
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    FetchSessions,
    Key,
    Remembered,
    TopicKey,
)
from logbus.handlers.routing import Answer, serves
from logbus.net.context import RequestContext
from logbus.wire.connection import Request
from logbus.wire.messages.records import (
    EpochAndEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

READ_COMMITTED = 1
TOPIC_ID_VERSION = 13
#: The first version whose readers know zstd (KIP-110).
ZSTD_VERSION = 10


@define(eq=False)
class FetchHandlers:
    """
    Serves Fetch.

    :param max_bytes: of one answer, whatever the client asks for (``fetch.max.bytes``).
    :ivar bytes_sent: of batches, so far.
    """

    _reader: Reader
    _replicas: Replicas
    _metadata: ClusterMetadata
    sessions: FetchSessions
    max_bytes: int
    bytes_sent: int = field(default=0, init=False)

    @serves(1, 4, 17)
    def fetch(self, context: RequestContext, request: Request) -> Answer:
        message: FetchRequest = request.message
        by_id = request.api_version >= TOPIC_ID_VERSION
        if message.replica_id >= 0 or (message.replica_state is not None and message.replica_state.replica_id >= 0):
            # Followers fetch on the inter-broker listener, not here (CVE-2018-1288).
            return FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, responses=[])
        try:
            session, source, full = self._source(message, by_id, zstd=request.api_version >= ZSTD_VERSION)
        except ApiError as e:
            return FetchResponse(error_code=e.code, responses=[])
        got = self._reader.fetch(
            source,
            min_bytes=message.min_bytes,
            max_bytes=max(0, min(message.max_bytes, self.max_bytes)),
            max_wait_ms=message.max_wait_ms,
            committed=message.isolation_level == READ_COMMITTED,
        )
        if isinstance(got, Deferred):
            return got.addCallback(self._answer, session, full)
        return self._answer(got, session, full)

    def _source(self, message: FetchRequest, by_id: bool, *, zstd: bool) -> tuple[FetchSession | None, Source, bool]:
        """What to read from: the session, if there is one; the source; and whether all of it must be answered."""
        session_id, epoch = message.session_id, message.session_epoch
        if epoch == FINAL_EPOCH or (epoch == INITIAL_EPOCH and session_id != NO_SESSION):
            self.sessions.close(session_id)
        wants = self._wants(message, by_id, zstd=zstd)
        if epoch == FINAL_EPOCH:
            return None, Once(self._replicas, wants), True
        if epoch == INITIAL_EPOCH:
            session = self.sessions.create(by_id=by_id) if wants else None
            if session is None:
                return None, Once(self._replicas, wants), True
            session.update(wants, [])
            return session, session, True
        session = self.sessions.resume(session_id, epoch, by_id=by_id)
        session.update(wants, self._forgotten(message, by_id))
        self._resolve_again(session)
        return session, session, False

    def _wants(self, message: FetchRequest, by_id: bool, *, zstd: bool) -> list[Remembered]:
        wants: list[Remembered] = []
        for topic in message.topics:
            name, key, topic_id, refused = self._resolve(topic.topic, topic.topic_id, by_id)
            if not zstd and refused is None and topic.partitions:
                refused = self._unreadable(name, topic.partitions[0].partition)
            wants += [
                Remembered(
                    topic=name,
                    partition=asked.partition,
                    offset=asked.fetch_offset,
                    max_bytes=asked.partition_max_bytes,
                    current_leader_epoch=asked.current_leader_epoch,
                    last_fetched_epoch=asked.last_fetched_epoch,
                    topic_id=topic_id,
                    refused=refused,
                    topic_key=key,
                )
                for asked in topic.partitions
            ]
        return wants

    def _resolve(self, name: str, topic_id: bytes, by_id: bool) -> tuple[str, TopicKey, UUID | None, ApiError | None]:
        """The name of a topic, what the client calls it, its id if that is what counts, and why there is none."""
        if not by_id:
            return name, name, None, None
        wanted = UUID(bytes=topic_id)
        topic = self._metadata.topic_by_id(wanted)
        if topic is not None:
            return topic.name, topic_id, wanted, None
        return "", topic_id, wanted, ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {wanted}")

    def _resolve_again(self, session: FetchSession) -> None:
        """Topics may have become known since the client named their ids; it does not name them again."""
        for want in session.nameless():
            assert want.topic_id is not None
            topic = self._metadata.topic_by_id(want.topic_id)
            if topic is not None:
                want.topic, want.refused = topic.name, None
                session.update([want], [])

    def _unreadable(self, topic: str, partition: int) -> ApiError | None:
        """Why a client that knows no zstd gets nothing of a topic that compresses with it (as with Kafka)."""
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

    def _answer(self, got: Sequence[Got], session: FetchSession | None, full: bool) -> FetchResponse:
        if session is not None:
            got = session.worth_telling(got, everything=full)
        topics: list[FetchableTopicResponse] = []
        last: TopicKey | None = None
        for answer in got:
            want = answer.want
            assert isinstance(want, Remembered)
            if want.topic_key != last:
                last = want.topic_key
                if isinstance(last, str):
                    topics.append(FetchableTopicResponse(topic=last, partitions=[]))
                else:
                    topics.append(FetchableTopicResponse(topic_id=last, partitions=[]))
            topics[-1].partitions.append(partition_answer(answer, want))
            if answer.data is not None:
                self.bytes_sent += answer.data.length
        return FetchResponse(session_id=session.session_id if session else NO_SESSION, responses=topics)


def partition_answer(got: Got, want: Want) -> PartitionData:
    """One partition's part of the response; empty records are sent as empty, never as null."""
    error = got.error
    data = PartitionData(
        partition_index=want.partition,
        error_code=0 if error is None else error.code,
        high_watermark=got.high_watermark,
        last_stable_offset=got.last_stable_offset,
        log_start_offset=got.log_start_offset,
        aborted_transactions=None,
        records=got.data if got.data is not None else b"",
    )
    if got.diverging is not None:
        data.diverging_epoch = EpochAndEndOffset(epoch=got.diverging.epoch, end_offset=got.diverging.offset)
    return data
