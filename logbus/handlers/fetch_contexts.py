"""
The partitions that a fetch reads: those of its request, or of its session (Kafka: FetchManager).
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from attrs import define

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.replication.partition_fetch import FetchParams, SessionlessFetchContext
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.authorization.access import Access, Authorization
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
from logbus.model import known_uuid
from logbus.net.request_context import RequestContext
from logbus.security.acl.acls import AclOperation, ResourceType
from logbus.wire.fetch_template import FETCH
from logbus.wire.messages.records import FetchPartition, FetchRequest, FetchTopic

FORBIDDEN = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
"""The error of partitions that a consumer may not read; one object, so that a session can tell it from others."""
TOPIC_ID_VERSION = 13
#: Number of partitions above which a fetch is served in time slices.
MANY_PARTITIONS = 2000
#: The first version whose clients support zstd (KIP-110).
ZSTD_VERSION = 10


@define(eq=False)
class FetchContexts:
    """Finds what fetches read, and who may read it."""

    _replicas: ReplicaManager
    _metadata: ClusterMetadata
    sessions: FetchSessionCache
    _authorization: Authorization | None = None

    def follower(self, context: RequestContext, broker_id: int, epoch: int) -> FetchParams:
        """
        The parameters of a follower's fetch; the follower counts as heard of.

        :param epoch: of its registration; −1 if the request does not tell.
        :raise ApiError: CLUSTER_AUTHORIZATION_FAILED: it is not the broker that it claims to be; STALE_BROKER_EPOCH:
            it is a former incarnation of that broker.
        """
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

    def sessionless(self, requested: Sequence[CachedPartition], fetch_params: FetchParams) -> SessionlessFetchContext:
        """The context of a request without a session."""
        return SessionlessFetchContext(self._replicas, requested, fetch_params.is_replica)

    def session(
        self, message: FetchRequest, fetch_params: FetchParams, version: int, requested: list[CachedPartition]
    ) -> FetchSession | None:
        """
        The session of a request, new or resumed; None if it has none.

        :raise ApiError: as :meth:`.FetchSessionCache.resume` and :meth:`.FetchSessionCache.update`.
        """
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
        self.update(session, requested, self._forgotten(message, by_id))
        return session

    def update(
        self, session: FetchSession, requested: Sequence[CachedPartition], forgotten: Sequence[Key] = ()
    ) -> None:
        """
        Apply a request's changes to a session.

        :raise ApiError: as :meth:`.FetchSessionCache.update`.
        """
        self.sessions.update(session, requested, forgotten)
        self.resolve_again(session)

    def access(self, context: RequestContext, fetch_params: FetchParams) -> Access | None:
        """The topics that a consumer may read; None: all, as for brokers that have proved to be such."""
        if self._authorization is None or fetch_params.is_replica:
            return None
        return self._authorization.access(context, FETCH)

    def authorize_again(self, session: FetchSession, access: Access) -> None:
        """Look again which partitions of a session may be read, if rights have changed, or who asks."""
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

    def topic_name(self, topic_id: UUID) -> str:
        """The name of a topic; empty if there is none with this id."""
        topic = self._metadata.topic_by_id(topic_id)
        return "" if topic is None else topic.name

    def requested(
        self, topic: FetchTopic, partitions: Sequence[FetchPartition], version: int, access: Access | None
    ) -> list[CachedPartition]:
        """The requested partitions of a topic."""
        name, key, topic_id, refused = self._resolve(topic.topic, topic.topic_id, version >= TOPIC_ID_VERSION)
        if access is not None and refused is None:
            refused = _refusal(access, name)
        if version < ZSTD_VERSION and refused is None and partitions:
            refused = self.unreadable(name, partitions[0].partition)
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
        wanted = known_uuid(topic_id)
        topic = self._metadata.topic_by_id(wanted)
        if topic is not None:
            return topic.name, topic_id, wanted, None
        return "", topic_id, wanted, self._metadata.unknown_id(wanted)

    def resolve_again(self, session: FetchSession) -> None:
        """
        Resolve topic ids of a session that were unknown when the client sent them, if there is anything new. Call
        :meth:`authorize_again` then.
        """
        known = self._metadata.version, self._metadata.is_whole
        if session.resolved_by == known:
            return
        session.resolved_by = known
        for partition in session.nameless():
            assert partition.topic_id is not None
            topic = self._metadata.topic_by_id(partition.topic_id)
            if topic is not None:
                partition.topic, partition.refused = topic.name, None
                # Nobody has asked yet who may read it.
                session.rights = None
                session.update([partition], [])
            else:
                # A starting broker may know by now that there is none.
                partition.refused = self._metadata.unknown_id(partition.topic_id)

    def unreadable(self, topic: str, partition: int) -> ApiError | None:
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
