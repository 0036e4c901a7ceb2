"""
The share partitions that this broker leads, read from their coordinators when a member first fetches from them (Kafka:
SharePartitionManager).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from uuid import UUID

from attrs import define, field
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.icluster import ILeadershipListener
from logbus.cluster.replication.replica import Replica
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.coordination.share.share_group_settings import ShareGroupSettings
from logbus.coordination.share_state.persister import SharePersister
from logbus.coordination.share_state.share_state import SharePartitionKey
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.net.time_slices import SliceScheduler, TimeSlice
from logbus.share.initial_offset import initial_offset
from logbus.share.led_share_partition import LedSharePartition, error_of_state
from logbus.share.share_partition import SharePartition
from logbus.timers import Timers

MOST_EPOCHS = 50
"""Leader epochs of a log that its coordinator is told of: a state whose leader is older than them is rare."""


@define(eq=False)
class _Opening:
    """
    A partition whose state is being read.

    :ivar members: those that are going to fetch from it.
    """

    waiting: list[Deferred[LedSharePartition]] = field(factory=list)
    members: set[str] = field(factory=set)


@implementer(ILeadershipListener)
@define(eq=False)
class SharePartitionManager:
    """
    The share partitions that this broker leads.

    :ivar settings: of a group.
    :param wall_ms: ms since 1970.
    :param slices: gives turns to searches by time.
    """

    _replicas: ReplicaManager
    _metadata: ClusterMetadata
    _persister: SharePersister
    settings: Callable[[str], ShareGroupSettings]
    _timers: Timers
    _wall_ms: Callable[[], int]
    _slices: SliceScheduler
    _led: dict[TopicPartition, dict[str, LedSharePartition]] = field(factory=dict, init=False)
    _opening: dict[tuple[TopicPartition, str], _Opening] = field(factory=dict, init=False)
    _stopped: bool = field(default=False, init=False)

    def __len__(self) -> int:
        return sum(map(len, self._led.values()))

    @property
    def acquired_count(self) -> int:
        """Records that members have acquired."""
        return sum(each.state.acquired_count for led in self._led.values() for each in led.values())

    def leave(self, group_id: str, topic_id: UUID, partition: int, member_id: str) -> None:
        """A member fetches from a partition no more."""
        topic = self._metadata.topic_by_id(topic_id)
        if topic is None:
            return
        place = TopicPartition(topic.name, partition)
        opening = self._opening.get((place, group_id))
        if opening is not None:
            opening.members.discard(member_id)
        led = self._led.get(place, {}).get(group_id)
        if led is not None and led.key.topic_id == topic_id:
            led.leave(member_id)

    def open(
        self, group_id: str, topic_id: UUID, partition: int, member_id: str | None = None
    ) -> LedSharePartition | Deferred[LedSharePartition]:
        """
        A partition of a group; a Deferred, if its state must be read first.

        :param member_id: of a member that fetches from it, until :meth:`leave`.
        :raise ApiError: UNKNOWN_TOPIC_ID, NOT_LEADER_OR_FOLLOWER and others of :meth:`.ReplicaManager.leader`;
            as failures COORDINATOR_NOT_AVAILABLE and others, if its state cannot be read.
        """
        topic = self._metadata.topic_by_id(topic_id)
        if topic is None:
            raise self._metadata.unknown_id(topic_id)
        place = TopicPartition(topic.name, partition)
        if self._stopped:
            raise _led_no_more(place)
        replica = self._replicas.leader(topic.name, partition)
        led = self._led.get(place, {}).get(group_id)
        if led is not None:
            if led.replica is not replica or led.leader_epoch != replica.partition.leader_epoch:
                led.give_up(_led_no_more(place))
                led = None
            elif member_id is None or member_id in led.members:
                return led
        opening = self._opening.get((place, group_id))
        is_new = opening is None
        if opening is None:
            opening = self._opening[place, group_id] = _Opening()
        if member_id is not None:
            opening.members.add(member_id)
        waiting: Deferred[LedSharePartition] = Deferred()
        opening.waiting.append(waiting)
        if is_new:
            key = SharePartitionKey(group_id, topic_id, partition)
            reading = Deferred.fromCoroutine(self._open(place, key, replica, led))
            reading.addBoth(lambda result: self._opened(place, group_id, result))
        return waiting

    def _opened(self, place: TopicPartition, group_id: str, result: object) -> None:
        opening = self._opening.pop((place, group_id))
        if isinstance(result, LedSharePartition):
            result.members |= opening.members
            # Those that do not fetch, but acknowledge, have done so by then.
            self._timers.call_later(0, result.opened)
        for each in opening.waiting:
            each.callback(result)  # type: ignore[arg-type]

    async def _open(
        self, place: TopicPartition, key: SharePartitionKey, replica: Replica, known: LedSharePartition | None
    ) -> LedSharePartition:
        if known is not None and await self._is_current(known):
            return known
        epoch = replica.partition.leader_epoch
        try:
            log = replica.log
            epochs = tuple(log.epochs)[-MOST_EPOCHS:]
            kept = await maybeDeferred(self._persister.read, key, epoch, log.log_end_offset, epochs)
        except Exception:
            raise error_of_state(Failure()) from None
        settings = partial(self.settings, key.group_id)
        if kept.start_offset < 0:
            reset = settings().auto_offset_reset
            start = await initial_offset(replica, reset, self._wall_ms(), TimeSlice(self._slices))
            state = SharePartition(start, kept.state_epoch, settings)
        else:
            state = SharePartition.restored(kept, settings)
        if self._replicas.leader(*place) is not replica or replica.partition.leader_epoch != epoch:
            raise _led_no_more(place)
        led = LedSharePartition(key, replica, epoch, state, self._persister, self._timers, self._forget)
        self._led.setdefault(place, {})[key.group_id] = led
        if kept.start_offset < 0:
            # Otherwise another leader would begin elsewhere.
            await led.keep()
        led.log_starts(replica.log.log_start_offset)
        return led

    async def _is_current(self, led: LedSharePartition) -> bool:
        """
        Whether a partition is as its coordinator knows it; it is given up if it is not. While a member that has left
        its group went on with its session, the group may have been deleted and made anew, or its offsets have been set.
        """
        try:
            kept = await self._persister.summary(led.key)
        except ApiError:
            return led.problem is None
        if (kept.state_epoch, kept.leader_epoch) != (led.state.state_epoch, led.leader_epoch):
            led.give_up(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{led.key} was set anew, or its group deleted"))
        return led.problem is None

    def _forget(self, led: LedSharePartition) -> None:
        place = led.replica.topic_partition
        groups = self._led.get(place, {})
        if groups.get(led.key.group_id) is led:
            del groups[led.key.group_id]
            if not groups:
                del self._led[place]

    # Leadership.

    def leads(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        """See :meth:`.ILeadershipListener.leads`."""
        self.leads_no_more(topic_partition)

    def leads_no_more(self, topic_partition: TopicPartition) -> None:
        """See :meth:`.ILeadershipListener.leads_no_more`."""
        for led in list(self._led.get(topic_partition, {}).values()):
            led.give_up(_led_no_more(topic_partition))

    def stop(self) -> None:
        """Answer those that wait, and refuse others: the broker is stopping."""
        self._stopped = True
        for place in list(self._led):
            self.leads_no_more(place)


def _led_no_more(place: TopicPartition) -> ApiError:
    return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {place} any more")
