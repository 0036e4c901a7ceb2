"""
The group coordinator (Kafka: GroupCoordinatorService): the groups of this broker, their deadlines and leadership.

There is one shard for each partition of ``__consumer_offsets`` that this broker leads. A shard is loaded from the log
when the leadership begins and dropped when it ends. Its groups are objects in memory; their changes are written before
clients are answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.icluster import ILeadershipListener
from logbus.cluster.metadata_update import NO_OVERRIDES
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.config import ConfigView, keys
from logbus.coordination.classic.classic_group import ClassicGroup
from logbus.coordination.classic.classic_group_state import ClassicGroupState
from logbus.coordination.consumer.consumer_group import ConsumerGroup
from logbus.coordination.consumer.migration import downgrade
from logbus.coordination.coordinator_partition import partition_for
from logbus.coordination.generation_log import log_generation, loggable_id
from logbus.coordination.group import Change, Group
from logbus.coordination.group_limit import GroupLimit
from logbus.coordination.group_loader import GroupCoordinatorMetrics, load
from logbus.coordination.group_offsets import CommittedOffset, GroupOffsets
from logbus.coordination.group_settings import classic_settings, consumer_settings, migration_policy
from logbus.coordination.group_shard import GroupShard, GroupTimer
from logbus.coordination.member_ids import MemberIds
from logbus.coordination.member_memory import MemberMemory
from logbus.coordination.metadata_topics import MetadataTopics
from logbus.coordination.state_log import StateLog
from logbus.errors import ApiError, ErrorCode
from logbus.metrics import Family, Registry, Sample
from logbus.model import TopicPartition
from logbus.records.compression import Codec
from logbus.timers import Timers
from logbus.wire.messages.group_log import GroupMetadataValue

OFFSETS_TOPIC = "__consumer_offsets"


@implementer(ILeadershipListener)
@define(eq=False, repr=False)
class GroupCoordinator:
    """
    All groups that this broker coordinates.

    :param wall_ms: ms since 1970.
    :param member_ids: the broker's source of randomness, for member ids.
    :ivar shards: by partition of the internal topic.
    :ivar topics: the topics, for groups of the consumer protocol.
    :ivar group_limit: limits the number of groups.
    :ivar member_memory: limits the memory of all members.
    """

    _replicas: ReplicaManager
    _metadata: ClusterMetadata
    config: ConfigView
    clock: IReactorTime
    wall_ms: Callable[[], int]
    _member_ids: MemberIds = field(converter=MemberIds)
    shards: dict[int, GroupShard] = field(factory=dict, init=False)
    metrics: GroupCoordinatorMetrics = field(factory=GroupCoordinatorMetrics, init=False)
    topics: MetadataTopics = field(init=False)
    group_limit: GroupLimit = field(init=False)
    member_memory: MemberMemory = field(init=False)
    _timers: Timers = field(init=False)
    _stopped: bool = field(default=False, init=False)
    _log = Logger()

    @_timers.default
    def _one_timer(self) -> Timers:
        return Timers(self.clock)

    @topics.default
    def _cluster_topics(self) -> MetadataTopics:
        return MetadataTopics(self._metadata)

    @group_limit.default
    def _limited_groups(self) -> GroupLimit:
        return GroupLimit(self.config, self.clock, lambda: sum(len(shard.groups) for shard in self.shards.values()))

    @member_memory.default
    def _limited_memory(self) -> MemberMemory:
        return MemberMemory(self.config, self.clock, lambda: sum(group.memory for group in self.groups()))

    def register_metrics(self, registry: Registry) -> None:
        """Declare the metrics of all groups together."""
        metrics = self.metrics
        registry.add_source(self._families)
        registry.gauge("logbus_committed_offsets", "Offsets that groups have committed.", read=self.committed_count)
        registry.gauge(
            "logbus_group_partitions_loading",
            "Partitions of __consumer_offsets that are being loaded.",
            read=lambda: sum(shard.loading for shard in self.shards.values()),
        )
        registry.counter("logbus_offset_commits_total", "Offsets committed.", read=lambda: metrics.commits)
        registry.counter("logbus_offsets_expired_total", "Expired committed offsets.", read=lambda: metrics.expired)
        registry.counter(
            "logbus_group_loads_total", "Loaded partitions of __consumer_offsets.", read=lambda: metrics.loads
        )
        registry.counter(
            "logbus_group_load_seconds_total",
            "Time spent loading partitions of __consumer_offsets.",
            read=lambda: metrics.load_seconds,
        )
        registry.counter(
            "logbus_group_records_damaged_total",
            "Damaged records skipped while loading __consumer_offsets.",
            read=lambda: metrics.damaged,
        )

    def _families(self) -> Iterator[Family]:
        """Yield the number of groups by state, including common states without groups."""
        usual = {state.value: 0 for state in ClassicGroupState if state is not ClassicGroupState.DEAD}
        counted = {**usual, **self.states()}
        samples = (Sample("logbus_groups", (("state", state),), count) for state, count in counted.items())
        yield Family("logbus_groups", "Groups that this broker coordinates, by state.", "gauge", samples)

    # Looking up.

    def partition_of(self, group_id: str) -> int:
        """The partition of a group; if the topic does not exist yet, the configured number of partitions counts."""
        topic = self._metadata.topic(OFFSETS_TOPIC)
        count = len(topic.partitions) if topic is not None else self.config.get(keys.OFFSETS_TOPIC_NUM_PARTITIONS)
        return partition_for(group_id, count)

    def shard_of(self, group_id: str) -> GroupShard:
        """
        The shard that a group is in, or would be.

        :raise ApiError: COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
        """
        if self._stopped:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker is stopping")
        number = self.partition_of(group_id)
        shard = self.shards.get(number)
        if shard is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR, f"{OFFSETS_TOPIC}-{number} is not led by this broker")
        if shard.loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{OFFSETS_TOPIC}-{number} is being read")
        return shard

    @property
    def loading(self) -> bool:
        """Whether some shards are still being loaded."""
        return any(shard.loading for shard in self.shards.values())

    def active_shards(self) -> Iterator[GroupShard]:
        """The loaded shards."""
        return (shard for shard in list(self.shards.values()) if not shard.loading)

    def groups(self) -> list[Group]:
        """All groups of the loaded shards."""
        return [group for shard in self.active_shards() for group in shard.groups.values()]

    def group(self, group_id: str) -> Group | None:
        """
        The group with this id, if there is one.

        :raise ApiError: as :meth:`shard_of`.
        """
        return self.shard_of(group_id).groups.get(group_id)

    def offsets(self, group_id: str) -> GroupOffsets:
        """
        A group's committed and pending offsets; empty if there is no such group. Read only.

        :raise ApiError: as :meth:`shard_of`.
        """
        held = self.shard_of(group_id).offsets.get(group_id)
        return GroupOffsets(group_id) if held is None else held

    def committed(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        """
        A group's committed offsets, without pending ones.

        :raise ApiError: as :meth:`shard_of`.
        """
        return self.offsets(group_id).committed

    def committed_count(self) -> int:
        """How many offsets all groups have committed."""
        return sum(len(offsets) for shard in self.active_shards() for offsets in shard.offsets.values())

    def states(self) -> Counter[str]:
        """Number of groups by state."""
        return Counter(group.state_name for group in self.groups())

    # Creating and dropping groups.

    def classic(self, shard: GroupShard, group_id: str) -> ClassicGroup:
        """A new classic group; it is not in the shard yet."""
        return ClassicGroup(
            group_id,
            partial(classic_settings, self.config, self.member_memory.admit),
            partial(self._save, shard, group_id),
            self._member_ids.named,
            self.wall_ms,
            self.clock.seconds,
        )

    def restored(self, shard: GroupShard, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        """A classic group from its record; its members' sessions begin anew."""
        group = self.classic(shard, group_id)
        group.load(self.clock.seconds(), value)
        return group

    def consumer(self, shard: GroupShard, group_id: str) -> ConsumerGroup:
        """A new group of the consumer protocol (KIP-848); it is not in the shard yet."""
        return ConsumerGroup(
            group_id,
            lambda: consumer_settings(
                self.config, self._metadata.group_configs.get(group_id, NO_OVERRIDES), self.member_memory.admit
            ),
            self.topics,
            partial(self._append, shard, group_id),
            self._member_ids.unique,
        )

    def activate(self, group: ConsumerGroup) -> None:
        """See :class:`.GroupMaker`."""
        group.activate(self.clock.seconds())

    def classic_group(self, shard: GroupShard, group_id: str) -> Group:
        """
        The group with this id, created if there is none. Call :meth:`touched` after its input.

        An empty consumer group is replaced by a classic one.

        :raise ApiError: see :meth:`.StateLog.append` and :meth:`.GroupLimit.check`.
        """
        group = shard.groups.get(group_id)
        if isinstance(group, ConsumerGroup) and group.is_empty:
            self._append(shard, group_id, group.tombstones(), lambda error: None)
            self.forget(shard, group)
            self._log.info("group {group} speaks the classic protocol from now on", group=loggable_id(group_id))
            group = None
        if group is None:
            self.group_limit.check()
            group = shard.groups[group_id] = self.classic(shard, group_id)
        return group

    def touched(self, shard: GroupShard, group: Group) -> None:
        """After a group's input: update its timer, and drop it if nothing is left of it."""
        group_id = group.group_id
        if shard.closed or shard.groups.get(group_id) is not group:
            return
        if group.is_dead and group_id not in shard.offsets:
            self.forget(shard, group)
            return
        if isinstance(group, ConsumerGroup) and group.has_only_classic_members and self._downgrade(shard, group):
            return
        deadline = group.deadline
        alarm = shard.alarms.get(group_id)
        if alarm is not None:
            # A timer that is too early is corrected when it fires, so that a heartbeat does not move timers.
            if deadline is not None and alarm.at <= deadline:
                return
            alarm.timer.cancel()
            del shard.alarms[group_id]
        if deadline is not None:
            timer = self._timers.call_later(deadline - self.clock.seconds(), partial(self._due, shard, group))
            shard.alarms[group_id] = GroupTimer(deadline, timer)

    def _downgrade(self, shard: GroupShard, group: ConsumerGroup) -> bool:
        """Downgrade a group whose members all speak the classic protocol, if the migration policy allows it."""
        if not migration_policy(self.config).down or group.size > self.config.get(keys.GROUP_MAX_SIZE):
            return False
        group_id = group.group_id
        changes, value = downgrade(group, self.wall_ms())
        try:
            self._append(shard, group_id, changes, lambda error: None)
        except ApiError:
            return False  # The next input of the group tries again.
        self.forget(shard, group)
        classic = shard.groups[group_id] = self.restored(shard, group_id, value)
        self._log.info("group {group} speaks the classic protocol from now on", group=loggable_id(group_id))
        classic.rebalance(self.clock.seconds())
        self.touched(shard, classic)
        return True

    def forget(self, shard: GroupShard, group: Group) -> None:
        """Drop a group whose tombstones are written, or that has no records."""
        del shard.groups[group.group_id]
        alarm = shard.alarms.pop(group.group_id, None)
        if alarm is not None:
            alarm.timer.cancel()
        group.resign()

    def _due(self, shard: GroupShard, group: Group) -> None:
        del shard.alarms[group.group_id]
        group.expire(self.clock.seconds())
        self.touched(shard, group)

    def _save(self, shard: GroupShard, group_id: str, change: Change, done: Callable[[ApiError | None], None]) -> None:
        """Write a group's record for it."""
        try:
            self._append(shard, group_id, [change], done)
        except ApiError as error:
            done(error)

    def _append(
        self, shard: GroupShard, group_id: str, changes: Sequence[Change], done: Callable[[ApiError | None], None]
    ) -> None:
        """
        Write a group's records for it.

        :raise ApiError: they were not written, and ``done`` will not be called.
        """
        durable = shard.save(changes)
        log_generation(group_id, changes, shard.groups.get(group_id))
        if durable.called:
            # Still within the group's input: the caller calls touched().
            durable.addCallbacks(lambda _: done(None), lambda failure: done(_error_of(failure)))
            return

        def settled(error: ApiError | None) -> None:
            done(error)
            group = shard.groups.get(group_id)
            if group is not None:
                self.touched(shard, group)

        durable.addCallbacks(lambda _: settled(None), lambda failure: settled(_error_of(failure)))
        durable.addErrback(
            lambda failure: self._log.failure("group {group} failed", failure, group=loggable_id(group_id))
        )

    # Transactions.

    def transaction_completed(self, number: int, producer_id: int, committed: bool, marker_offset: int) -> None:
        """
        Apply or drop a producer's pending offsets: a marker in ``__consumer_offsets`` is durable. Does nothing if there
        are none, if it was called before, or if this broker does not lead the partition.

        :param number: of the partition.
        :param committed: False: the transaction was aborted.
        :param marker_offset: offset of the marker; later records belong to the producer's next transaction.
        """
        shard = self.shards.get(number)
        if shard is None:
            return
        if shard.loading:
            # The load may not reach the marker.
            shard.when_loaded.append(partial(self._complete, shard, producer_id, committed, marker_offset))
        else:
            self._complete(shard, producer_id, committed, marker_offset)

    def _complete(self, shard: GroupShard, producer_id: int, committed: bool, marker_offset: int) -> None:
        for group_id in shard.complete(producer_id, committed, marker_offset):
            group = shard.groups.get(group_id)
            if group is not None:
                self.touched(shard, group)

    # Leadership.

    def leads(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        """See :meth:`.ILeadershipListener.leads`."""
        if topic_partition.topic != OFFSETS_TOPIC or self._stopped:
            return
        get = self.config.get
        log = StateLog(
            self._replicas.get(*topic_partition),
            self.clock,
            self.wall_ms,
            lambda: Codec(get(keys.OFFSETS_TOPIC_COMPRESSION_CODEC)),
            lambda: get(keys.OFFSETS_COMMIT_TIMEOUT_MS),
        )
        shard = self.shards[topic_partition.partition] = GroupShard(topic_partition.partition, leader_epoch, log)
        loading = Deferred.fromCoroutine(self._load(shard))
        loading.addErrback(
            lambda failure: self._log.failure("{partition} cannot be loaded", failure, partition=topic_partition)
        )

    def leads_no_more(self, topic_partition: TopicPartition) -> None:
        """See :meth:`.ILeadershipListener.leads_no_more`."""
        if topic_partition.topic == OFFSETS_TOPIC:
            self._resign(topic_partition.partition)

    def stop(self) -> None:
        """Answer all waiting requests, and refuse new ones: the broker is stopping."""
        self._stopped = True
        for number in list(self.shards):
            self._resign(number)
        self._timers.close()

    def _resign(self, number: int) -> None:
        shard = self.shards.pop(number, None)
        if shard is None:
            return
        shard.closed = True
        for alarm in shard.alarms.values():
            alarm.timer.cancel()
        for group in list(shard.groups.values()):
            try:
                group.resign()
            except Exception:
                self._log.failure("group {group} could not be resigned", group=loggable_id(group.group_id))

    def _has(self, shard: GroupShard) -> bool:
        return self.shards.get(shard.number) is shard

    async def _load(self, shard: GroupShard) -> None:
        slice_bytes = self.config.get(keys.OFFSETS_LOAD_BUFFER_SIZE)
        if await load(shard, self, slice_bytes, self.clock, self.metrics, lambda: self._has(shard)):
            shard.loading = False
            self.member_memory.forget()
            waiting, shard.when_loaded = shard.when_loaded, []
            for call in waiting:
                try:
                    call()
                except Exception:
                    self._log.failure(
                        "{topic}-{number}: a callback failed after the load", topic=OFFSETS_TOPIC, number=shard.number
                    )
            for group in list(shard.groups.values()):
                self.touched(shard, group)


def _error_of(failure: Failure) -> ApiError:
    """The error of a failed write, for a group."""
    if isinstance(failure.value, ApiError):
        return failure.value
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, failure.getErrorMessage())
