"""What is wrong with partitions, as clients see them: too few replicas in sync, or nobody to lead. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from logbus.client.cluster import Partition, Topic


def is_under_replicated(partition: Partition) -> bool:
    """Some of its replicas are not in sync."""
    return len(partition.isr) < len(partition.replicas)


def is_unavailable(partition: Partition, alive: Collection[int]) -> bool:
    """Nobody leads it, or a broker that is not there."""
    return partition.leader < 0 or partition.leader not in alive


def is_under_min_isr(partition: Partition, least: int) -> bool:
    """Producers that want all in-sync replicas are refused."""
    return len(partition.isr) < min(least, len(partition.replicas))


@frozen
class Health:
    """
    What to look for.

    :ivar alive: ids of the brokers that are there.
    :ivar least: ``min.insync.replicas`` by topic; 1 where it is not there.
    """

    alive: Collection[int]
    least: Mapping[str, int]

    def kinds(self, topic: Topic) -> Mapping[str, Callable[[Partition], bool]]:
        """What can be wrong with a partition of a topic, by name."""
        return {
            "under_replicated": is_under_replicated,
            "under_min_isr": lambda partition: is_under_min_isr(partition, self.least.get(topic.name, 1)),
            "unavailable": lambda partition: is_unavailable(partition, self.alive),
        }

    def counts(self, topics: Collection[Topic]) -> dict[str, int]:
        """How many partitions of ``topics`` have which fault."""
        counts = dict.fromkeys(("under_replicated", "under_min_isr", "unavailable"), 0)
        for topic in topics:
            for name, holds in self.kinds(topic).items():
                counts[name] += sum(map(holds, topic.partitions.values()))
        return counts


@frozen
class Load:
    """
    What a broker has of all partitions.

    :ivar preferred: how many it is the preferred leader of, the first of its replicas.
    """

    replicas: int = 0
    leaders: int = 0
    preferred: int = 0
    out_of_sync: int = 0


def loads(topics: Collection[Topic]) -> dict[int, Load]:
    """By broker, for all that have a replica."""
    numbers: dict[int, list[int]] = {}
    for topic in topics:
        for partition in topic.partitions.values():
            for position, broker in enumerate(partition.replicas):
                count = numbers.setdefault(broker, [0, 0, 0, 0])
                count[0] += 1
                count[1] += partition.leader == broker
                count[2] += position == 0
                count[3] += broker not in partition.isr
    return {broker: Load(*count) for broker, count in numbers.items()}
