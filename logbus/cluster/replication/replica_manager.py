"""
All replicas of this broker, and their roles by the controller's metadata updates (Kafka: ReplicaManager).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Protocol

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredLock, succeed
from twisted.logger import Logger
from zope.interface import implementer

from logbus.cluster.icluster import ILeadershipListener, IReplicaHost, PartitionErrors
from logbus.cluster.metadata_update import PartitionState
from logbus.cluster.replication.broker_topic_stats import BrokerTopicStats
from logbus.cluster.replication.partition import Partition
from logbus.cluster.replication.record_deletion import deletion_offset
from logbus.cluster.replication.replica import Repair, Replica, Watcher, no_repair
from logbus.cluster.replication.replica_context import ReplicaContext, StandaloneContext
from logbus.config import TopicConfig
from logbus.coroutines import returns_deferred
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.model import NO_EPOCH, TopicPartition
from logbus.net.time_slices import SliceScheduler, TimeSlice
from logbus.storage.filesystem.disk_errors import NoSpace
from logbus.storage.log import Log
from logbus.storage.log_manager import LogManager
from logbus.storage.log_mover import Swap
from logbus.wording import counted

__all__ = ["Replica", "ReplicaManager", "Watcher"]

NAMES_A_STEP, NAMES_A_UNIT = 200, 10
"""Partitions that are looked at in one step of a time slice, and for a unit of work."""

UNITS_A_TOPIC = 10
"""Units of work that it takes to compute the settings of a topic."""


class FetcherManager(Protocol):
    """Fetches followers' partitions from their leaders: the :class:`.ReplicaFetcherManager`."""

    def follow(self, replica: Replica, leader: int) -> None:
        """Fetch a partition from a broker, in the leader epoch that the replica was given."""

    def unfollow(self, name: TopicPartition) -> Deferred[None]:
        """Fetch a partition no more; fires once nothing changes its log any more. Unknown ones are ignored."""


class _NoFetcherManager:
    """Fetches nothing."""

    def follow(self, replica: Replica, leader: int) -> None:
        pass

    def unfollow(self, name: TopicPartition) -> Deferred[None]:
        return succeed(None)


@implementer(IReplicaHost)
@define(eq=False, repr=False)
class ReplicaManager:
    """
    The replicas on this broker, by topic and partition.

    :param topic_config: applies a topic's overrides to the broker's defaults.
    :ivar fetcher: fetches for the followers among them.
    :ivar exists: whether a partition exists on any broker, as far as this one knows.
    :ivar leaderless: called with every replica whose partition has no leader.
    :ivar offline: called with the partitions that went offline with their log directory.
    :ivar listeners: called when a leadership begins or ends.
    :ivar cluster: the context of the leaders among them.
    :ivar repair: see :data:`.Repair`.
    :ivar heard: called with every broker that fetches from here.
    :ivar lacked_space: whether a partition could not be brought up, for lack of space; reset when there is space again.
    :ivar unreadable: topics that the controller cannot read: they may exist, though the metadata do not show them.
    :ivar topic_stats: the counts of the topics they belong to.
    :ivar slices: gives time slices to changes of many replicas; None: all of it runs at once.
    :ivar added: called when a replica was added.
    """

    broker_id: int
    logs: LogManager
    _topic_config: Callable[[Mapping[str, str]], TopicConfig]
    fetcher: FetcherManager = field(factory=_NoFetcherManager, kw_only=True)
    exists: Callable[[str, int], bool] = field(default=lambda topic, partition: False, kw_only=True)
    leaderless: Callable[[Replica], object] = field(default=lambda replica: None, kw_only=True)
    offline: Callable[[Sequence[TopicPartition]], object] = field(default=lambda names: None, kw_only=True)
    slices: SliceScheduler | None = field(default=None, kw_only=True)
    listeners: list[ILeadershipListener] = field(factory=list, init=False)
    cluster: ReplicaContext[Replica] = field(factory=StandaloneContext, init=False)
    repair: Repair = field(default=no_repair, init=False)
    heard: Callable[[int], object] = field(default=lambda broker_id: None, init=False)
    added: Callable[[], object] = field(default=lambda: None, init=False)
    lacked_space: bool = field(default=False, init=False)
    unreadable: frozenset[str] = field(default=frozenset(), init=False)
    topic_stats: BrokerTopicStats = field(factory=BrokerTopicStats, init=False)
    _by_partition: dict[tuple[str, int], Replica] = field(factory=dict, init=False)
    # By topic: the numbers of its partitions here, which are some of all where there are other brokers.
    _numbers: dict[str, set[int]] = field(factory=dict, init=False)
    _overrides: dict[str, Mapping[str, str]] = field(factory=dict, init=False)
    # While roles are given, by the overrides' identity: all partitions of a topic share one mapping, and so one object.
    _configs: dict[int, TopicConfig] = field(factory=dict, init=False)
    _failed: dict[tuple[str, int], ApiError] = field(factory=dict, init=False)
    _changing: DeferredLock = field(factory=DeferredLock, init=False)
    _log = Logger()

    def __len__(self) -> int:
        return len(self._by_partition)

    def __iter__(self) -> Iterator[Replica]:
        """Every open replica."""
        return iter(list(self._by_partition.values()))

    def find(self, topic: str, partition: int) -> Replica | None:
        """The replica, if it is open."""
        return self._by_partition.get((topic, partition))

    def get(self, topic: str, partition: int) -> Replica:
        """
        The replica.

        :raise ApiError: KAFKA_STORAGE_ERROR when its log directory failed, NOT_LEADER_OR_FOLLOWER when only other
            brokers have it, UNKNOWN_TOPIC_OR_PARTITION when there is none.
        """
        replica = self._by_partition.get((topic, partition))
        if replica is None:
            if (topic, partition) not in self._failed and self.exists(topic, partition):
                raise ApiError(
                    ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic}-{partition} is on other brokers, not on this one"
                )
            raise self._failed.get((topic, partition)) or ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{partition} on this broker"
            )
        return replica

    def leader(self, topic: str, partition: int, current_epoch: int = NO_EPOCH) -> Replica:
        """
        The replica, which leads in ``current_epoch`` (−1: in any).

        :raise ApiError: as :meth:`get` and :meth:`.Partition.check_leader`.
        """
        replica = self.get(topic, partition)
        replica.partition.check_leader(current_epoch)
        return replica

    def high_watermark_of(self, log: Log) -> int:
        """The high watermark of a log; its start offset while it has no role."""
        replica = self._by_partition.get(log.partition)
        return log.log_start_offset if replica is None else replica.high_watermark

    async def delete_records(self, topic: str, partition: int, before: int) -> int:
        """
        Delete a partition's records before an offset (−1: before the high watermark).

        :return: the new log start offset, once that is on stable storage.
        :raise ApiError: as :meth:`leader` and :func:`.deletion_offset`.
        """
        replica = self.leader(topic, partition)
        offset = deletion_offset(replica.partition, before, replica.log.config)
        return await self.logs.delete_records(replica.topic_partition, offset)

    # The replica host, for metadata updates.

    def become(self, states: Sequence[PartitionState]) -> Deferred[PartitionErrors]:
        return self._changing.run(self._become, states)

    @returns_deferred
    async def _become(self, states: Sequence[PartitionState]) -> PartitionErrors:
        errors: dict[TopicPartition, ApiError] = {}
        older: list[str] = []
        self._configs.clear()
        async for state in TimeSlice(self.slices).over(states):
            is_new = state.topic_partition not in self._by_partition
            try:
                await self._take_role(state)
                given, latest = state.leader_and_isr.leader_epoch, self._latest_epoch(state.topic_partition)
                if is_new and latest > given:
                    older.append(f"{state.topic_partition} (epoch {latest}, not {given})")
            except (StorageError, ApiError) as e:
                error = e if isinstance(e, ApiError) else ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(e))
                errors[state.topic_partition] = self._failed[state.topic_partition] = error
                self.lacked_space |= isinstance(e, NoSpace)
                self._log.error("{partition} cannot be brought up: {error}", partition=state.topic_partition, error=e)
        self._configs.clear()
        if older:
            self._log.error(
                "{logs} with newer leader epochs than the metadata store, such as {example}: it was set back to an "
                "older state, which may name other replicas in sync, and lacks topics created since",
                logs=counted(len(older), "log"),
                example=older[0],
            )
        return errors

    def _latest_epoch(self, name: TopicPartition) -> int:
        """The leader epoch of the last records of a partition; −1 without one."""
        replica = self._by_partition.get(name)
        return -1 if replica is None else replica.log.epochs.latest

    def _config_of(self, state: PartitionState) -> TopicConfig:
        """The present configuration of a topic, of which a role is given."""
        config = self._configs.get(id(state.overrides))
        if config is None:
            config = self._configs[id(state.overrides)] = self._topic_config(state.overrides)
        return config

    async def _take_role(self, state: PartitionState) -> None:
        name = state.topic_partition
        replica = self._by_partition.get(name)
        if replica is None or replica.topic_id != state.topic_id:
            log = self.logs.get(name)
            if log is not None and log.topic_id is None and not state.is_new:
                # Its partition.metadata is missing or damaged. Its directory has the partition's name: use it as the
                # partition's log rather than delete records (as Kafka does where the file is missing).
                self._log.warn(
                    "{partition}: the log on disk does not know its topic id; taking it for {id}",
                    partition=name,
                    id=state.topic_id,
                )
                log = await self.logs.create(name, state.topic_id, self._config_of(state))
            elif log is not None and log.topic_id != state.topic_id:
                self._log.warn(
                    "{partition}: the log on disk belongs to topic id {old}, not to {new}; a new one replaces it",
                    partition=name,
                    old=log.topic_id,
                    new=state.topic_id,
                )
                await self._drop(name, self.logs.set_aside)
                log = None
            if log is None:
                offline = self.logs.offline_directories
                if offline and not state.is_new:
                    # It may be there: an empty log in another directory would be taken for the partition (as in Kafka,
                    # only partitions known to be new are created then).
                    raise ApiError(
                        ErrorCode.KAFKA_STORAGE_ERROR,
                        f"{name} is in none of the log directories that work; offline: {', '.join(offline)}",
                    )
                log = await self.logs.create(name, state.topic_id, self._config_of(state))
            # Records committed when the broker stopped still are.
            partition = Partition(name, self.broker_id, high_watermark=min(log.high_watermark, log.log_end_offset))
            replica = Replica(partition, state.topic_id, log, cluster=self.cluster, repair=self.repair)
            self._pop(name)
        # The defaults may have changed while the log was made.
        replica.configure(self._config_of(state))
        partition = replica.partition
        before = (partition.is_leader, partition.leader_epoch)
        given = state.leader_and_isr
        is_new_role = name not in self._by_partition or given.leader_epoch > partition.leader_epoch
        if is_new_role:
            # No records of the old leader may be appended after the new role.
            await self.fetcher.unfollow(name)
            if (failure := replica.log.disk.failure) is not None:
                # Meanwhile, so that the replica was given up: it must not come back.
                raise StorageError(f"{name}: {failure}")
        replica.take_role(given, state.replicas)
        if name not in self._by_partition:
            replica.stats = self.topic_stats.opened(name.topic)
            self.added()
        self._by_partition[name] = replica
        self._numbers.setdefault(name.topic, set()).add(name.partition)
        self._overrides[name.topic] = state.overrides
        self._failed.pop(name, None)
        if is_new_role and not partition.is_leader and given.leader >= 0:
            self.fetcher.follow(replica, given.leader)
        if before != (partition.is_leader, partition.leader_epoch):
            self._notify_listeners(replica, led=before[0])
        if given.leader < 0:
            self.leaderless(replica)

    def swap_log(self, name: TopicPartition, swap: Swap) -> Deferred[None]:
        """
        Give a replica another log with the same records; its role does not change meanwhile. Until then appends fail
        with a retriable error.

        :param swap: ends the appends to the old log, and returns the new one.
        """

        @returns_deferred
        async def run() -> None:
            replica = self._by_partition.get(name)
            if replica is None:
                await swap()
                return
            partition = replica.partition
            leader = -1 if partition.is_leader else partition.leader_and_isr.leader
            if leader >= 0:
                await self.fetcher.unfollow(name)
            try:
                replica.replace_log(await swap())
            finally:
                if leader >= 0 and self._by_partition.get(name) is replica:
                    self.fetcher.follow(replica, leader)

        return self._changing.run(run)

    def _notify_listeners(self, replica: Replica, *, led: bool) -> None:
        """Call the listeners after a change of the role."""
        partition = replica.partition
        for listener in self.listeners:
            if led:
                listener.leads_no_more(replica.topic_partition)
            if partition.is_leader:
                listener.leads(replica.topic_partition, partition.leader_epoch)

    def doubt_leadership(self, replica: Replica) -> None:
        """Another broker may lead by now: refuse requests for the leader until :meth:`trust_leadership`."""
        replica.doubt_leadership()
        for listener in self.listeners:
            listener.leads_no_more(replica.topic_partition)

    def trust_leadership(self, replica: Replica) -> None:
        """This broker is known to lead again."""
        replica.partition.in_doubt = False
        self._notify_listeners(replica, led=False)

    def _retire(self, replica: Replica, error: ApiError | None = None) -> None:
        led = replica.partition.is_leader
        replica.retire(error)
        self._notify_listeners(replica, led=led)

    def remove(self, topic_partitions: Sequence[TopicPartition]) -> Deferred[PartitionErrors]:
        return self._changing.run(self._remove, topic_partitions, self.logs.delete)

    @returns_deferred
    async def _remove(
        self, topic_partitions: Sequence[TopicPartition], dispose: Callable[[TopicPartition], Awaitable[None]]
    ) -> PartitionErrors:
        errors: dict[TopicPartition, ApiError] = {}
        async for name in TimeSlice(self.slices).over(topic_partitions):
            try:
                await self._drop(name, dispose)
            except (StorageError, ApiError) as e:
                error = e if isinstance(e, ApiError) else ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(e))
                errors[name] = error
        return errors

    def retain(
        self, topic_partitions: Collection[TopicPartition], unreadable: Collection[str] = ()
    ) -> Deferred[PartitionErrors]:
        self.unreadable = frozenset(unreadable)
        return Deferred.fromCoroutine(self._retain(topic_partitions, unreadable))

    async def _retain(
        self, topic_partitions: Collection[TopicPartition], unreadable: Collection[str]
    ) -> PartitionErrors:
        time_slice = TimeSlice(self.slices)
        stray: dict[TopicPartition, None] = {}
        # As they are now: others may come while this waits.
        names = [*(log.partition for log in self.logs), *(each.topic_partition for each in self)]
        for count, name in enumerate(names, 1):
            if name not in topic_partitions and name.topic not in unreadable:
                stray[name] = None
            if not count % NAMES_A_STEP and time_slice.used(NAMES_A_STEP // NAMES_A_UNIT):
                await time_slice.next()
        if not stray:
            return {}
        errors = await self._changing.run(self._remove, list(stray), self.logs.set_aside)
        if count := len(stray) - len(errors):
            self.logs.strays.explain(count)
        return errors

    async def _drop(self, name: TopicPartition, dispose: Callable[[TopicPartition], Awaitable[None]]) -> None:
        """Remove a replica, and have ``dispose`` do away with its log."""
        self._failed.pop(name, None)
        await self.fetcher.unfollow(name)
        replica = self._pop(name)
        if replica is not None:
            self._retire(replica)
        if self.logs.get(name) is not None:
            await dispose(name)

    def _pop(self, name: TopicPartition) -> Replica | None:
        replica = self._by_partition.pop(name, None)
        if replica is not None:
            self.topic_stats.closed(name.topic)
            self._numbers[name.topic].discard(name.partition)
            if not self._numbers[name.topic]:
                del self._numbers[name.topic], self._overrides[name.topic]
        return replica

    @returns_deferred
    async def configure(self, topic: str, overrides: Mapping[str, str]) -> None:
        if topic in self._numbers:
            self._overrides[topic] = overrides
            await self._configure(topic, TimeSlice(self.slices))

    async def _configure(self, topic: str, time_slice: TimeSlice) -> None:
        config = self._topic_config(self._overrides[topic])
        for number in sorted(self._numbers[topic]):
            replica = self._by_partition.get((topic, number))
            if replica is not None:
                replica.configure(config)
            if time_slice.used():
                await time_slice.next()
                if topic not in self._overrides:
                    return
                # Overrides or defaults may have changed meanwhile: nothing older may follow what that has set.
                config = self._topic_config(self._overrides[topic])

    def defaults_changed(self) -> None:
        """The defaults of topics changed: also those of replicas whose topics the metadata do not show yet."""
        self._configs.clear()

        async def configure_all() -> None:
            time_slice = TimeSlice(self.slices)
            async for topic in time_slice.over(list(self._overrides), UNITS_A_TOPIC):
                if topic in self._overrides:
                    await self._configure(topic, time_slice)

        Deferred.fromCoroutine(configure_all()).addErrback(
            lambda failure: self._log.failure("topics keep their former settings", failure)
        )

    def directory_failed(self, topic_partitions: Sequence[TopicPartition], reason: str) -> None:
        """A log directory went offline and these partitions with it; requests for them get KAFKA_STORAGE_ERROR."""
        for name in topic_partitions:
            self._failed[name] = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{name}: {reason}")
            self.fetcher.unfollow(name)
            replica = self._pop(name)
            if replica is not None:
                self._retire(replica, self._failed[name])
        self.offline(topic_partitions)
