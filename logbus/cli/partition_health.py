"""Finds partitions that lack in-sync replicas or a leader, from a client's metadata. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from logbus.client.cluster.cluster import PartitionMetadata, TopicMetadata


def is_under_replicated(partition: PartitionMetadata) -> bool:
    """Return whether some replicas are not in sync."""
    return len(partition.isr) < len(partition.replicas)


def is_unavailable(partition: PartitionMetadata, alive: Collection[int]) -> bool:
    """Return whether it has no leader, or one that is not alive."""
    return partition.leader < 0 or partition.leader not in alive


def is_under_min_isr(partition: PartitionMetadata, least: int) -> bool:
    """Return whether ``acks=all`` is refused."""
    return len(partition.isr) < min(least, len(partition.replicas))


@frozen
class HealthFilter:
    """
    Classifies partitions.

    :ivar alive: ids of live brokers.
    :ivar least: ``min.insync.replicas`` by topic; 1 where it is missing.
    """

    alive: Collection[int]
    least: Mapping[str, int]

    def kinds(self, topic: TopicMetadata) -> Mapping[str, Callable[[PartitionMetadata], bool]]:
        """Return the checks of a topic's partitions, by name."""
        return {
            "under_replicated": is_under_replicated,
            "under_min_isr": lambda partition: is_under_min_isr(partition, self.least.get(topic.name, 1)),
            "unavailable": lambda partition: is_unavailable(partition, self.alive),
        }

    def counts(self, topics: Collection[TopicMetadata]) -> dict[str, int]:
        """Count the partitions that fail each check."""
        counts = dict.fromkeys(("under_replicated", "under_min_isr", "unavailable"), 0)
        for topic in topics:
            for name, holds in self.kinds(topic).items():
                counts[name] += sum(map(holds, topic.partitions.values()))
        return counts


@frozen
class BrokerLoad:
    """
    Numbers of partitions on a broker.

    :ivar preferred: those whose preferred leader (first replica) it is.
    """

    replicas: int = 0
    leaders: int = 0
    preferred: int = 0
    out_of_sync: int = 0


def broker_loads(topics: Collection[TopicMetadata]) -> dict[int, BrokerLoad]:
    """Return the load of each broker that has a replica."""
    numbers: dict[int, list[int]] = {}
    for topic in topics:
        for partition in topic.partitions.values():
            for position, broker in enumerate(partition.replicas):
                count = numbers.setdefault(broker, [0, 0, 0, 0])
                count[0] += 1
                count[1] += partition.leader == broker
                count[2] += position == 0
                count[3] += broker not in partition.isr
    return {broker: BrokerLoad(*count) for broker, count in numbers.items()}
