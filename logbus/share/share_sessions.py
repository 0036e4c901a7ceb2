"""
The sessions in which members of share groups fetch from this broker (KIP-932; Kafka: ShareSessionCache). Pure.

A session has the partitions that its member fetches here. Each request says its place in the sequence of requests, so
that one that was lost, or is repeated, is noticed. A member has one session with a broker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple
from uuid import UUID

from attrs import define, field

from logbus.errors import ApiError, ErrorCode

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_MOST_EPOCH = 2**31 - 1

ONE_OF = 10
"""One session may have so much of the partitions that all may have."""


class SharedPartition(NamedTuple):
    """A partition in a session."""

    topic_id: UUID
    partition: int


class SessionKey(NamedTuple):
    """Whose a session is."""

    group_id: str
    member_id: str


@define(eq=False)
class ShareSession:
    """
    One member's session.

    :ivar epoch: of the request that comes next.
    :ivar connection_id: of the connection that the last request came by.
    :ivar partitions: in the order in which they are fetched next.
    :ivar waiting: what tells its fetches that wait that it has ended.
    """

    key: SessionKey
    epoch: int
    connection_id: int
    partitions: dict[SharedPartition, None] = field(factory=dict, init=False)
    waiting: dict[Callable[[], object], None] = field(factory=dict, init=False)

    def update(self, added: Iterable[SharedPartition], forgotten: Iterable[SharedPartition]) -> None:
        """Add and remove partitions."""
        for each in added:
            self.partitions.setdefault(each)
        for each in forgotten:
            self.partitions.pop(each, None)

    def rotate(self) -> None:
        """Have another partition be the first of the next fetch, so that each has its turn."""
        if len(self.partitions) > 1:
            first = next(iter(self.partitions))
            del self.partitions[first]
            self.partitions[first] = None


@define(eq=False)
class ShareSessionCache:
    """
    The sessions of this broker, with limits.

    :param most: how many there may be.
    :param most_partitions: limit of the partitions of all sessions; one may have a tenth of that, as fetch sessions.
    :ivar partitions: number of partitions of all sessions.
    """

    _most: int
    _most_partitions: int
    partitions: int = field(default=0, init=False)
    _sessions: dict[SessionKey, ShareSession] = field(factory=dict, init=False)
    _of_connections: dict[int, dict[SessionKey, None]] = field(factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, key: SessionKey) -> ShareSession | None:
        """A member's session, if it has one."""
        return self._sessions.get(key)

    def begin(self, key: SessionKey, connection_id: int) -> ShareSession:
        """
        A new session of a member that has none.

        :raise ApiError: SHARE_SESSION_LIMIT_REACHED.
        """
        if len(self._sessions) >= self._most:
            raise ApiError(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                f"this broker has {len(self._sessions)} share sessions, as many as it may "
                "(group.share.max.share.sessions)",
            )
        session = self._sessions[key] = ShareSession(key, INITIAL_EPOCH + 1, connection_id)
        self._of_connections.setdefault(connection_id, {})[key] = None
        return session

    def update(
        self, session: ShareSession, added: Collection[SharedPartition], forgotten: Iterable[SharedPartition]
    ) -> None:
        """
        Add and remove partitions of a session.

        :raise ApiError: SHARE_SESSION_LIMIT_REACHED: it has too many now: end it.
        """
        before, most = len(session.partitions), max(1, self._most_partitions // ONE_OF)
        if len(added) > most:
            # More than one session may have: what it would have is not worth many milliseconds.
            raise self._too_many(len(added), self.partitions)
        session.update(added, forgotten)
        count = len(session.partitions)
        self.partitions += count - before
        if count > before and (count > most or self.partitions > self._most_partitions):
            raise self._too_many(count, self.partitions)

    def _too_many(self, count: int, in_all: int) -> ApiError:
        return ApiError(
            ErrorCode.SHARE_SESSION_LIMIT_REACHED,
            f"the share session would have {count} partitions, and all of this broker {in_all}: one may have "
            f"{max(1, self._most_partitions // ONE_OF)}, and all {self._most_partitions} "
            "(max.incremental.fetch.session.cache.partitions)",
        )

    def resume(self, key: SessionKey, epoch: int, connection_id: int) -> ShareSession:
        """
        The session that a request belongs to.

        :raise ApiError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        session = self._sessions.get(key)
        if session is None:
            raise ApiError(ErrorCode.SHARE_SESSION_NOT_FOUND, f"the member {key.member_id} has no share session here")
        if epoch not in (session.epoch, FINAL_EPOCH):
            raise ApiError(
                ErrorCode.INVALID_SHARE_SESSION_EPOCH,
                f"the share session of the member {key.member_id} is at epoch {session.epoch}, not at {epoch}",
            )
        if epoch != FINAL_EPOCH:
            session.epoch = 1 if session.epoch == _MOST_EPOCH else session.epoch + 1
        if session.connection_id != connection_id:
            self._leave_connection(session)
            session.connection_id = connection_id
            self._of_connections.setdefault(connection_id, {})[key] = None
        return session

    def end(self, key: SessionKey) -> None:
        """End a session, if there is one."""
        session = self._sessions.pop(key, None)
        if session is not None:
            self.partitions -= len(session.partitions)
            self._leave_connection(session)
            for tell in list(session.waiting):
                tell()

    def of_connection(self, connection_id: int) -> list[ShareSession]:
        """The sessions whose last request came by a connection."""
        return [self._sessions[key] for key in self._of_connections.get(connection_id, ())]

    def _leave_connection(self, session: ShareSession) -> None:
        keys = self._of_connections.get(session.connection_id, {})
        keys.pop(session.key, None)
        if not keys:
            self._of_connections.pop(session.connection_id, None)
