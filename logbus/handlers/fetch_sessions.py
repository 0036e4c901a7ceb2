"""
Incremental fetch sessions (KIP-227; Kafka: FetchSessionCache): the broker keeps a client's partitions, and responds
with those that have changed.

A session has a *dirty set*: the partitions that may have changed. It is notified by the replicas, so an idle session
costs nothing, and the cost of a fetch depends on the number of changed partitions only.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Union

from attrs import define, field

from logbus.cluster.replication.partition_fetch import PartitionFetch, PartitionFetchResult
from logbus.cluster.replication.replica_manager import Replica, ReplicaManager, Watcher
from logbus.errors import ApiError, ErrorCode
from logbus.model import NO_EPOCH

NO_SESSION = 0
FINAL_EPOCH = -1
INITIAL_EPOCH = 0
MAX_EPOCH = 2**31 - 1

#: A session that was not used for so long may be evicted for a new one (Kafka's value).
EVICTION_SECONDS = 120.0

#: A consumer's session may have at most this fraction (1/n) of the partitions allowed for all sessions.
CONSUMERS_SHARE = 10

TopicKey = Union[str, bytes]  # noqa: UP007 - evaluated at run time
Key = tuple[TopicKey, int]


@define(eq=False, slots=True)
class CachedPartition(PartitionFetch):
    """A partition of a session, with its state in the last response (Kafka: CachedPartition)."""

    topic_key: TopicKey = ""


@define(eq=False)
class FetchSession:
    """
    The partitions of one consumer or follower; a :class:`~logbus.cluster.replication.partition_fetch.FetchContext` of
    fetches.

    :ivar epoch: the epoch that the next request must carry.
    :ivar follower: the id of the follower; −1 in a consumer's session.
    :ivar rights: by which it was looked which partitions may be read; None: it has to be looked.
    :ivar resolved_by: the version of the metadata by which topic ids were looked up again, and whether it was whole.
    :ivar by_id: whether the client names topics by id; a session never mixes ids and names.
    """

    session_id: int
    by_id: bool
    last_used: float
    _replicas: ReplicaManager
    follower: int = -1
    epoch: int = 1
    rights: tuple[str, str, int] | None = field(default=None, init=False)
    resolved_by: tuple[int, bool] | None = field(default=None, init=False)
    partitions: dict[Key, CachedPartition] = field(factory=dict, init=False)
    _dirty: dict[Key, None] = field(factory=dict, init=False)
    _watched: dict[tuple[str, int], Replica] = field(factory=dict, init=False)
    _keys: dict[tuple[str, int], Key] = field(factory=dict, init=False)
    _nameless: dict[Key, None] = field(factory=dict, init=False)
    _arrivals: Watcher | None = field(default=None, init=False)
    # The last request's only partition, and what it was made from; see repeat().
    _last: CachedPartition | None = field(default=None, init=False)
    _origin: object = field(default=None, init=False)

    @property
    def empty(self) -> bool:
        return not self.partitions

    @property
    def dirty_count(self) -> int:
        """Number of partitions that may have changed."""
        return len(self._dirty)

    def fetches(self) -> Sequence[PartitionFetch]:
        found = []
        for key in self._dirty:
            want = self.partitions[key]
            self._watch_replica(want)
            found.append(want)
        return found

    def watch(self, watcher: Watcher) -> None:
        self._arrivals = watcher

    def unwatch(self, watcher: Watcher) -> None:
        if self._arrivals is watcher:
            self._arrivals = None

    def moved(self, replica: Replica, size: int) -> None:
        """A replica has more to read (called by the replica)."""
        key = self._keys.get(replica.partition.topic_partition)
        if key is not None:
            self._dirty[key] = None
        if self._arrivals is not None:
            self._arrivals.moved(replica, size)

    def update(self, wants: Sequence[CachedPartition], forgotten: Sequence[Key]) -> None:
        """Add, update and remove partitions as a request says."""
        self._last = self._origin = None
        for want in wants:
            key = (want.topic_key, want.partition)
            before = self.partitions.get(key)
            if before is not None:
                want.told = before.told
            self.partitions[key] = want
            self._dirty[key] = None
            if want.topic:
                self._keys[(want.topic, want.partition)] = key
                self._nameless.pop(key, None)
            else:
                self._nameless[key] = None
        for key in forgotten:
            gone = self.partitions.pop(key, None)
            self._dirty.pop(key, None)
            self._nameless.pop(key, None)
            # A recreated topic is in the session twice for a while, by its old and new id with the same name.
            if gone is not None and self._keys.get(name := (gone.topic, gone.partition)) == key:
                del self._keys[name]
                replica = self._watched.pop(name, None)
                if replica is not None:
                    self._watchers(replica).pop(self, None)

    def repeat(self, origin: object, offset: int) -> bool:
        """
        Apply a request that differs from the last one in the offset only; False: it does not, see :meth:`update`.

        :param origin: what the request was made from, as :meth:`repeats` was told.
        """
        last = self._last
        if last is None or origin is not self._origin:
            return False
        last.offset = offset
        self._dirty[last.topic_key, last.partition] = None
        return True

    def repeats(self, origin: object, partition: CachedPartition) -> None:
        """The last request named this partition only, and may be repeated with another offset."""
        self._origin, self._last = origin, partition

    def answered(self, count: int, offset: int) -> None:
        """
        So many requests like the last one were answered elsewhere.

        :param offset: at which the last of them read.
        """
        self.epoch = (self.epoch + count - 1) % MAX_EPOCH + 1
        if self._last is not None:
            self._last.offset = offset

    def mark_dirty(self, partition: CachedPartition) -> None:
        """Read a partition at the next fetch, as something about it has changed."""
        self._dirty[(partition.topic_key, partition.partition)] = None

    def nameless(self) -> list[CachedPartition]:
        """The partitions of topics whose ids were unknown."""
        return [self.partitions[key] for key in self._nameless]

    def changed_results(self, got: Sequence[PartitionFetchResult], *, everything: bool) -> list[PartitionFetchResult]:
        """
        Select the results that the client does not have yet, and update the dirty set.

        Partitions with records go to the end of the dirty set, so that no partition starves the others.
        """
        told = []
        for answer in got:
            read = answer.fetch
            assert isinstance(read, CachedPartition)
            key = (read.topic_key, read.partition)
            # Not necessarily the one that was read: clients that wait for the same share the results.
            want = self.partitions.get(key)
            if want is None:
                continue
            state = (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset)
            has_news = (
                answer.data is not None
                or answer.error is not None
                or answer.diverging is not None
                or answer.preferred != -1
            )
            if has_news:
                self._dirty.pop(key, None)
                self._dirty[key] = None
            elif want.offset >= answer.end:
                self._dirty.pop(key, None)
            if everything or has_news or want.told != state:
                told.append(answer)
                want.told = None if answer.error is not None else state
        return told

    def close(self) -> None:
        """Stop watching replicas."""
        for replica in self._watched.values():
            self._watchers(replica).pop(self, None)
        self._watched.clear()

    def _watchers(self, replica: Replica) -> dict[Watcher, None]:
        return replica.watchers_for(self.follower >= 0)

    def _watch_replica(self, want: PartitionFetch) -> None:
        """Watch the replica of a partition, which may have been replaced (a recreated topic)."""
        name = (want.topic, want.partition)
        replica = self._replicas.find(*name)
        before = self._watched.get(name)
        if replica is before:
            return
        if before is not None:
            self._watchers(before).pop(self, None)
            del self._watched[name]
        if replica is not None:
            self._watchers(replica)[self] = None
            self._watched[name] = replica


@define(eq=False)
class FetchSessionCache:
    """
    The fetch sessions of this broker, with limits.

    :param slots: limit of sessions; without a free slot a client fetches without a session, as before KIP-227.
    :param most_partitions: limit of the partitions of all sessions; a consumer's session may have a tenth of that. A
        client with more partitions fetches without a session.
    :ivar cached: number of partitions of all sessions.
    """

    _replicas: ReplicaManager
    _seconds: Callable[[], float]
    _random: random.Random
    slots: int
    most_partitions: int = 2**31 - 1
    cached: int = field(default=0, init=False)
    _sessions: OrderedDict[int, FetchSession] = field(factory=OrderedDict, init=False)

    def __len__(self) -> int:
        return len(self._sessions)

    def dirty_count(self, session_id: int) -> int:
        """Number of partitions of a session that may have changed; 0 if it does not exist."""
        session = self._sessions.get(session_id)
        return 0 if session is None else len(session._dirty)

    def partitions_of(self, session_id: int) -> list[CachedPartition]:
        """The partitions of a session; none if it does not exist."""
        session = self._sessions.get(session_id)
        return [] if session is None else list(session.partitions.values())

    def followed(self, session_id: int, epoch: int, origin: object) -> FetchSession | None:
        """
        The session whose last request, with this epoch, was made from ``origin`` and named its only partition; None:
        there is no such one.
        """
        session = self._sessions.get(session_id)
        if session is None or session.epoch != epoch + 1 or session._last is None or session._origin is not origin:
            return None
        if len(session.partitions) != 1:
            return None
        return session

    def create(self, *, by_id: bool, follower: int = -1, partitions: int = 0) -> FetchSession | None:
        """
        A new session, or None if the limits do not allow it.

        :param follower: the follower's broker id, if any; followers take precedence over consumers (KIP-227).
        :param partitions: the number of its partitions; see :meth:`update`.
        """
        now = self._seconds()
        if not self._may_have(partitions, follower):
            return None
        while len(self._sessions) >= self.slots or self.cached + partitions > self.most_partitions:
            if not self._evict(now, follower):
                return None
        while (session_id := self._random.randint(1, 2**31 - 1)) in self._sessions:
            pass
        session = self._sessions[session_id] = FetchSession(session_id, by_id, now, self._replicas, follower)
        return session

    def _may_have(self, partitions: int, follower: int) -> bool:
        """Whether one session may have so many partitions, within the limit of all sessions."""
        most = self.most_partitions if follower >= 0 else max(1, self.most_partitions // CONSUMERS_SHARE)
        return partitions <= most

    def _evict(self, now: float, follower: int, keep: FetchSession | None = None) -> bool:
        """
        Close the least recently used session, if it is old enough, or if a follower needs its slot.

        :param keep: a session that must not be closed.
        """
        candidates = (session for session in self._sessions.values() if session is not keep)
        oldest = next(candidates, None)
        if follower >= 0:
            consumers = (each for each in self._sessions.values() if each.follower < 0 and each is not keep)
            oldest = next(consumers, oldest)
        if oldest is None or (follower < 0 and now - oldest.last_used < EVICTION_SECONDS):
            return False
        self.close(oldest.session_id, oldest.follower)
        return True

    def update(self, session: FetchSession, wants: Sequence[CachedPartition], forgotten: Sequence[Key]) -> None:
        """
        Apply a request's changes to a session.

        :raise ApiError: FETCH_SESSION_ID_NOT_FOUND: it would have too many partitions, and is closed. The client
            starts a new one.
        """
        known, before = session.partitions, len(session.partitions)
        new = len({(want.topic_key, want.partition) for want in wants} - known.keys())
        fits = self._may_have(before + new, session.follower)
        while fits and self.cached + new > self.most_partitions:
            fits = self._evict(self._seconds(), session.follower, keep=session)
        if new and not fits:
            self.close(session.session_id, session.follower)
            raise ApiError(
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                f"fetch session {session.session_id} would have {before + new} partitions, which is too many",
            )
        session.update(wants, forgotten)
        self.cached += len(known) - before

    def resume(self, session_id: int, epoch: int, *, by_id: bool, follower: int = -1) -> FetchSession:
        """
        The session of an incremental fetch, with its epoch advanced.

        :raise ApiError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR: the
            client starts a new session.
        """
        session = self._sessions.get(session_id)
        if session is None or session.follower != follower:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"there is no fetch session {session_id}")
        if epoch != session.epoch:
            raise ApiError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {session_id} is at epoch {session.epoch}, the request at {epoch}",
            )
        if by_id != session.by_id:
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if session.epoch == MAX_EPOCH else session.epoch + 1
        session.last_used = self._seconds()
        self._sessions.move_to_end(session_id)
        return session

    def close(self, session_id: int, follower: int = -1) -> None:
        """Close a session; unknown ids, and sessions of other brokers, are ignored."""
        session = self._sessions.get(session_id)
        if session is not None and session.follower == follower:
            del self._sessions[session_id]
            self.cached -= len(session.partitions)
            session.close()


__all__ = [
    "FINAL_EPOCH",
    "INITIAL_EPOCH",
    "NO_EPOCH",
    "NO_SESSION",
    "FetchSession",
    "FetchSessionCache",
    "Key",
    "CachedPartition",
    "TopicKey",
]
