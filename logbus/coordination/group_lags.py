"""
The lag of the groups that this broker coordinates, also as metrics.

The ends of partitions are those of this broker's replicas; those of others their leaders tell, if there are others
(:mod:`logbus.coordination.remote_end_offsets`). Iterations over many partitions pause in between: see
:class:`~logbus.metrics.Family`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from attrs import frozen

from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.coordination.committed_offset import CommittedOffset
from logbus.coordination.group import Group
from logbus.coordination.group_coordinator import GroupCoordinator
from logbus.coordination.remote_end_offsets import RemoteEndOffsets
from logbus.metrics import Family, Registry, Sample
from logbus.model import TopicPartition

PAUSE_PARTITIONS = 50
"""Partitions between pauses; they cost about as much as one sample."""


@frozen
class Lag:
    """
    The lag of a group.

    :ivar sum: records still to read, over all partitions whose end is known.
    :ivar max: the largest lag of a partition.
    :ivar known: the number of partitions whose lag is known.
    """

    sum: int = 0
    max: int = 0
    known: int = 0


@frozen
class GroupLags:
    """
    The groups that this broker coordinates, their committed offsets and lags.

    :ivar remote_ends: the ends of partitions without a replica on this broker.
    """

    coordinator: GroupCoordinator
    replicas: ReplicaManager
    remote_ends: RemoteEndOffsets | None = None

    def groups(self) -> Iterator[tuple[Group, Mapping[TopicPartition, CommittedOffset]]]:
        """Iterate over the groups with their offsets; groups may be created or deleted meanwhile."""
        for shard in self.coordinator.active_shards():
            for group_id, group in list(shard.groups.items()):
                offsets = shard.offsets.get(group_id)
                yield group, {} if offsets is None else offsets.committed

    def end(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of a partition, or what its leader has told; None: unknown."""
        replica = self.replicas.find(*partition)
        if replica is not None:
            return replica.high_watermark
        return None if self.remote_ends is None else self.remote_ends.get(partition)

    async def learn(self, partitions: Collection[TopicPartition]) -> None:
        """Ask other brokers for those ends of partitions that are unknown yet."""
        if self.remote_ends is not None:
            await self.remote_ends.learn([each for each in partitions if self.replicas.find(*each) is None])

    def lag(self, partition: TopicPartition, committed: CommittedOffset) -> int | None:
        """Return the number of records still to read; None: unknown."""
        end = self.end(partition)
        return None if end is None else max(end - committed.offset, 0)

    def of(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> Iterator[Lag | None]:
        """Yield the lag of a group, after a None for each pause."""
        total = most = known = 0
        for looked_at, (partition, committed) in enumerate(list(offsets.items()), 1):
            if looked_at % PAUSE_PARTITIONS == 0:
                yield None
            lag = self.lag(partition, committed)
            if lag is not None:
                total, most, known = total + lag, max(most, lag), known + 1
        yield Lag(total, most, known)

    # Metrics.

    def register_metrics(self, registry: Registry) -> None:
        """Declare the metrics of single groups."""
        registry.add_source(self.families)

    def families(self) -> Iterator[Family]:
        """The total lag and the number of members of each group."""
        name = "logbus_group_members"
        yield Family(name, "Members of a group.", "gauge", self._members(name))
        name = "logbus_group_sum_lag"
        yield Family(name, "Records that a group has still to read.", "gauge", self._lags(name, "sum"))
        name = "logbus_group_max_lag"
        yield Family(name, "Largest lag of a group in a partition.", "gauge", self._lags(name, "max"), max)

    def partition_families(self) -> Iterator[Family]:
        """The committed offset and the lag of each group in each partition."""
        name = "logbus_group_committed_offset"
        yield Family(name, "Committed offset of a group.", "gauge", self._offsets(name))
        name = "logbus_group_lag"
        yield Family(
            name, "Records of a partition that a group has still to read.", "gauge", self._partition_lags(name)
        )

    def _members(self, name: str) -> Iterator[Sample | None]:
        for group, _ in self.groups():
            yield Sample(name, (("group", group.group_id),), group.size)

    def _lags(self, name: str, which: str) -> Iterator[Sample | None]:
        for group, offsets in self.groups():
            for lag in self.of(offsets):
                if lag is None:
                    yield None
                elif lag.known:
                    yield Sample(name, (("group", group.group_id),), getattr(lag, which))

    def _offsets(self, name: str) -> Iterator[Sample | None]:
        for group, offsets in self.groups():
            for partition, committed in list(offsets.items()):
                yield Sample(name, _labels(group, partition), committed.offset)

    def _partition_lags(self, name: str) -> Iterator[Sample | None]:
        for group, offsets in self.groups():
            for partition, committed in list(offsets.items()):
                lag = self.lag(partition, committed)
                yield None if lag is None else Sample(name, _labels(group, partition), lag)


def _labels(group: Group, partition: TopicPartition) -> tuple[tuple[str, str], ...]:
    topic, number = partition
    return ("group", group.group_id), ("topic", topic), ("partition", str(number))
