"""
Decides when a rolling restart (``logbus cluster rolling-restart``) goes on: the next brokers may stop when the last
ones have stopped, and all replicas are in sync. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import frozen

from logbus.cli.partition_health import is_unavailable, is_under_replicated
from logbus.model import TopicPartition

if TYPE_CHECKING:
    from logbus.client.cluster.cluster import PartitionMetadata, TopicMetadata


@frozen
class Machine:
    """Brokers that are restarted together: one, or all workers of one."""

    host: str
    brokers: tuple[int, ...]

    def __str__(self) -> str:
        numbers = ", ".join(map(str, self.brokers))
        return f"broker{'s' if len(self.brokers) > 1 else ''} {numbers} ({self.host})"


@frozen
class Sight:
    """
    The state of a cluster at one moment.

    :ivar alive: ids of live brokers.
    """

    alive: frozenset[int]
    topics: Sequence[TopicMetadata]

    def partitions(self) -> Iterator[tuple[TopicPartition, PartitionMetadata]]:
        """All partitions, with their names."""
        for topic in self.topics:
            for number, partition in topic.partitions.items():
                yield TopicPartition(topic.name, number), partition

    def problems(self) -> list[str]:
        """Why no broker should stop now, a clause each."""
        found = [
            f"broker {broker} has replicas, and is not running"
            for broker in sorted({broker for _, each in self.partitions() for broker in each.replicas} - self.alive)
        ]
        behind = [name for name, each in self.partitions() if is_under_replicated(each)]
        if behind:
            found.append(f"{len(behind)} partitions are under-replicated, such as {min(behind)}")
        headless = [name for name, each in self.partitions() if is_unavailable(each, self.alive)]
        if headless:
            found.append(f"{len(headless)} partitions have no leader, such as {min(headless)}")
        return found


def restart_order(hosts: Mapping[int, str], workers: Iterable[tuple[int, ...]], controller: int) -> list[Machine]:
    """
    What is restarted together, in order: by broker ids, but the controller last, so that it moves once.

    :param hosts: of all live brokers.
    :param workers: of each machine with several, as :func:`~logbus.cli.rebalance_plan.machines` finds them.
    """
    together = {broker: group for group in workers for broker in group}
    groups = sorted({together.get(broker, (broker,)) for broker in hosts})
    return [Machine(hosts[group[0]], group) for group in sorted(groups, key=lambda group: controller in group)]


def refusing_without(machine: Machine, sight: Sight, least: Mapping[str, int]) -> list[TopicPartition]:
    """
    The partitions that refuse ``acks=all``, or have no leader, while a machine is away.

    :param least: ``min.insync.replicas`` by topic.
    """
    found = []
    for name, partition in sight.partitions():
        left = len(set(partition.isr).difference(machine.brokers))
        needed = max(1, min(least.get(name.topic, 1), len(partition.replicas)))
        if left < min(needed, len(partition.isr)):
            found.append(name)
    return found


def was_away(machine: Machine, before: Sight, now: Sight) -> bool:
    """
    Whether brokers of a machine have stopped since they were told to: they are not there, are missing in an ISR, or
    have handed over what they led. What the preferred leader got back says nothing: the controller looks after that
    every ``leader.imbalance.check.interval.seconds``.

    :param before: when the machine was told to restart, and all was in sync.
    """
    own = set(machine.brokers)
    if not own <= now.alive:
        return True
    epochs = {name: each.leader_epoch for name, each in before.partitions() if each.leader in own}
    return any(
        not own.intersection(each.replicas) <= set(each.isr)
        or (
            each.leader_epoch != epochs.get(name, each.leader_epoch)
            and (each.leader in own or each.leader != each.replicas[0])
        )
        for name, each in now.partitions()
    )
