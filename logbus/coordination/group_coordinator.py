"""
The group coordinator (Kafka: GroupCoordinatorService): the groups of this broker, and its leadership of them.

There is one shard for each partition of ``__consumer_offsets`` that this broker leads. A shard is loaded from the log
when the leadership begins and dropped when it ends. Its groups are objects in memory; their changes are written before
clients are answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.icluster import ILeadershipListener
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.config import ConfigView, keys
from logbus.coordination.classic.classic_group_state import ClassicGroupState
from logbus.coordination.coordinator_partition import partition_for
from logbus.coordination.generation_log import loggable_id
from logbus.coordination.group import Group
from logbus.coordination.group_loader import GroupCoordinatorMetrics, load
from logbus.coordination.group_metadata_manager import GroupMetadataManager
from logbus.coordination.group_offsets import CommittedOffset, GroupOffsets
from logbus.coordination.group_shard import GroupShard
from logbus.coordination.limit import Limit
from logbus.coordination.member_ids import MemberIds
from logbus.coordination.member_memory import MemberMemory
from logbus.coordination.state_log import StateLog
from logbus.errors import ApiError, ErrorCode
from logbus.metrics import Family, Registry, Sample
from logbus.model import TopicPartition
from logbus.records.compression import Codec

OFFSETS_TOPIC = "__consumer_offsets"


@implementer(ILeadershipListener)
@define(eq=False, repr=False)
class GroupCoordinator:
    """
    All groups that this broker coordinates.

    :param wall_ms: ms since 1970.
    :param member_ids: the broker's source of randomness, for member ids.
    :ivar shards: by partition of the internal topic.
    :ivar manager: creates groups, writes their records, and keeps their timers.
    """

    _replicas: ReplicaManager
    _metadata: ClusterMetadata
    config: ConfigView
    clock: IReactorTime
    wall_ms: Callable[[], int]
    _member_ids: MemberIds = field(converter=MemberIds)
    shards: dict[int, GroupShard] = field(factory=dict, init=False)
    metrics: GroupCoordinatorMetrics = field(factory=GroupCoordinatorMetrics, init=False)
    manager: GroupMetadataManager = field(init=False)
    _stopped: bool = field(default=False, init=False)
    _log = Logger()

    @manager.default
    def _one_manager(self) -> GroupMetadataManager:
        return GroupMetadataManager(
            self._metadata,
            self.config,
            self.clock,
            self.wall_ms,
            self._member_ids,
            Limit(self.config, self.clock, keys.GROUP_MAX_COUNT, "groups", self._group_count),
            MemberMemory(self.config, self.clock, lambda: sum(group.memory for group in self.groups())),
        )

    def _group_count(self) -> int:
        return sum(len(shard.groups) for shard in self.shards.values())

    def register_metrics(self, registry: Registry) -> None:
        """Declare the metrics of all groups together."""
        registry.add_source(self._families)
        registry.gauge("logbus_committed_offsets", "Offsets that groups have committed.", read=self.committed_count)
        registry.gauge(
            "logbus_group_partitions_loading",
            "Partitions of __consumer_offsets that are being loaded.",
            read=lambda: sum(shard.loading for shard in self.shards.values()),
        )
        registry.add_fields(self.metrics)

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
                self.manager.touched(shard, group)

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
        self.manager.stop()

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
        if await load(shard, self.manager, slice_bytes, self.clock, self.metrics, lambda: self._has(shard)):
            shard.loading = False
            self.manager.member_memory.forget()
            waiting, shard.when_loaded = shard.when_loaded, []
            for call in waiting:
                try:
                    call()
                except Exception:
                    self._log.failure(
                        "{topic}-{number}: a callback failed after the load", topic=OFFSETS_TOPIC, number=shard.number
                    )
            for group in list(shard.groups.values()):
                self.manager.touched(shard, group)
