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
from twisted.logger import Logger

from logbus.cluster.replication.replica_manager import Replica
from logbus.config import keys
from logbus.coordination.classic.classic_group_state import ClassicGroupState
from logbus.coordination.coordinator_runtime import CoordinatorRuntime
from logbus.coordination.generation_log import loggable_id
from logbus.coordination.group import Group
from logbus.coordination.group_loader import GROUPS_A_TURN, GroupCoordinatorMetrics, load
from logbus.coordination.group_metadata_manager import GroupMetadataManager
from logbus.coordination.group_offsets import CommittedOffset, GroupOffsets
from logbus.coordination.group_shard import GroupShard
from logbus.coordination.limit import Limit
from logbus.coordination.member_ids import MemberIds
from logbus.coordination.member_memory import MemberMemory
from logbus.coordination.state_log import StateLog
from logbus.errors import ApiError, ErrorCode
from logbus.metrics import Family, Registry, Sample
from logbus.model import OFFSETS_TOPIC, TopicPartition
from logbus.net.arrivals import Arrivals
from logbus.net.time_slices import TimeSlice
from logbus.records.compression import Codec


@define(eq=False, repr=False)
class GroupCoordinator(CoordinatorRuntime[GroupShard]):
    """
    All groups that this broker coordinates.

    :param member_ids: the broker's source of randomness, for member ids.
    :ivar resume: called for each group that was loaded, to go on with what its former coordinator has begun.
    :ivar arrivals: the groups that clients have created lately.
    :ivar manager: creates groups, writes their records, and keeps their timers.
    """

    topic = OFFSETS_TOPIC
    partitions_key = keys.OFFSETS_TOPIC_NUM_PARTITIONS
    _member_ids: MemberIds = field(converter=MemberIds)
    metrics: GroupCoordinatorMetrics = field(factory=GroupCoordinatorMetrics, init=False)
    resume: Callable[[GroupShard, Group], object] = field(default=lambda shard, group: None, init=False)
    arrivals: Arrivals = field(init=False)
    manager: GroupMetadataManager = field(init=False)
    _log = Logger()

    @arrivals.default
    def _no_arrivals(self) -> Arrivals:
        return Arrivals(self.clock.seconds)

    @manager.default
    def _one_manager(self) -> GroupMetadataManager:
        return GroupMetadataManager(
            self._metadata,
            self.config,
            self.clock,
            self.wall_ms,
            self._member_ids,
            Limit(self.config, self.clock, keys.GROUP_MAX_COUNT, "groups", self._group_count),
            self.arrivals,
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
        registry.counter(
            "logbus_groups_created_total",
            "Groups that clients created, by joining them or committing offsets.",
            read=lambda: self.arrivals.since_start,
        )
        registry.add_fields(self.metrics)

    def _families(self) -> Iterator[Family]:
        """Yield the number of groups by state, including common states without groups."""
        usual = {state.value: 0 for state in ClassicGroupState if state is not ClassicGroupState.DEAD}
        counted = {**usual, **self.states()}
        samples = (Sample("logbus_groups", (("state", state),), count) for state, count in counted.items())
        yield Family("logbus_groups", "Groups that this broker coordinates, by state.", "gauge", samples)

    # Looking up.

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
        A group's committed and pending offsets, as :meth:`.GroupShard.replicated_offsets`; empty if there is no such
        group. Read only.

        :raise ApiError: as :meth:`shard_of`; COORDINATOR_LOAD_IN_PROGRESS also while the in-sync replicas may not have
            all that was loaded. Neither answer would be right then: the last commits could still be lost at another
            fail-over, but the former coordinator may have acknowledged them.
        """
        shard = self.shard_of(group_id)
        try:
            shard.log.replica.partition.check_caught_up()
        except ApiError as e:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(e)) from e
        return shard.replicated_offsets(group_id)

    def committed(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        """
        A group's committed offsets, without pending ones, to be shown: at once, other than :meth:`offsets`.

        :raise ApiError: as :meth:`shard_of`.
        """
        return self.shard_of(group_id).replicated_offsets(group_id).committed

    def committed_count(self) -> int:
        """The number of offsets that all groups have committed."""
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

    def _open(self, number: int, leader_epoch: int, replica: Replica) -> GroupShard:
        get = self.config.get
        log = StateLog(
            replica,
            self.clock,
            self.wall_ms,
            lambda: Codec(get(keys.OFFSETS_TOPIC_COMPRESSION_CODEC)),
            lambda: get(keys.OFFSETS_COMMIT_TIMEOUT_MS),
            self.slices,
        )
        return GroupShard(number, leader_epoch, log)

    def stop(self) -> None:
        """See :meth:`.CoordinatorRuntime.stop`."""
        super().stop()
        self.manager.stop()

    def _give_up(self, shard: GroupShard) -> None:
        steps = self._resign_groups(shard)
        if self._stopped:
            for _ in steps:
                pass  # Connections are about to be closed, so there is no later turn.
        else:
            Deferred.fromCoroutine(self._in_turns(steps)).addErrback(
                lambda failure: self._log.failure("groups of {number} are not resigned", failure, number=shard.number)
            )

    def _resign_groups(self, shard: GroupShard) -> Iterator[None]:
        for group in list(shard.groups.values()):
            alarm = shard.alarms.pop(group.group_id, None)
            if alarm is not None:
                alarm.timer.cancel()
            try:
                group.resign()
            except Exception:
                self._log.failure("group {group} could not be resigned", group=loggable_id(group.group_id))
            yield

    def _touch_groups(self, shard: GroupShard) -> Iterator[None]:
        for group in list(shard.groups.values()):
            self.manager.touched(shard, group)
            self.resume(shard, group)
            yield

    async def _in_turns(self, steps: Iterator[None]) -> None:
        """Take steps, some in each turn of the reactor."""
        for done, _ in enumerate(steps, 1):
            if done % GROUPS_A_TURN == 0:
                await TimeSlice(self.slices).next()

    async def _load(self, shard: GroupShard) -> None:
        slice_bytes = self.config.get(keys.OFFSETS_LOAD_BUFFER_SIZE)
        if await load(shard, self.manager, slice_bytes, self.clock, self.metrics, lambda: self._has(shard)):
            shard.loading = False
            self.loaded(len(shard.groups) + sum(map(len, shard.offsets.values())))
            self.manager.member_memory.forget()
            waiting, shard.when_loaded = shard.when_loaded, []
            for call in waiting:
                try:
                    call()
                except Exception:
                    self._log.failure(
                        "{topic}-{number}: a callback failed after the load", topic=OFFSETS_TOPIC, number=shard.number
                    )
            await self._in_turns(self._touch_groups(shard))
