"""Checks brokers' logs and leaderships from inside: promises that clients cannot check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field
from zope.interface import implementer

from logbus.cluster.icluster import ILeadershipListener
from logbus.errors import ApiError, DecodeError, StorageError
from logbus.model import TopicPartition
from logbus.records.header import iter_batches
from logbus.testing.simulation.checks.history import Anomaly
from logbus.testing.simulation.environment.broker_node import BrokerNode


@implementer(ILeadershipListener)
@define(eq=False)
class _Leaderships:
    """Listens to one broker's leaderships."""

    node: BrokerNode
    inspector: ReplicaInspector

    def leads(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        """It leads."""
        self.inspector.leads(self.node.broker_id, topic_partition, leader_epoch)

    def leads_no_more(self, topic_partition: TopicPartition) -> None:
        """It does not."""


@define(eq=False)
class ReplicaInspector:
    """
    Inspects all brokers.

    :ivar found: the violations.
    :ivar leaders: the leader of each epoch.
    """

    found: list[Anomaly] = field(factory=list)
    leaders: dict[tuple[TopicPartition, int], int] = field(factory=dict)
    # By broker and partition: the replica (it may go, and another come), its epoch, high watermark and log start, and
    # the epoch of the last committed record.
    _seen: dict[tuple[int, TopicPartition], tuple[Any, tuple[int, int, int, int]]] = field(factory=dict)

    def watch(self, node: BrokerNode) -> None:
        """Listen to the leaderships of a broker that is about to start."""
        node.broker.replication.replicas.listeners.append(_Leaderships(node, self))

    def leads(self, broker_id: int, partition: TopicPartition, epoch: int) -> None:
        """A broker became the leader of a partition."""
        other = self.leaders.setdefault((partition, epoch), broker_id)
        if other != broker_id:
            self.found.append(
                Anomaly("two-leaders", f"{partition} is led by {other} and by {broker_id} in leader epoch {epoch}")
            )

    def check(self, nodes: Sequence[BrokerNode]) -> None:
        """Check that nothing went back that must only grow."""
        for node in nodes:
            if not node.up or node.reactor.frozen:
                continue
            for replica in node.broker.replication.replicas:
                partition = replica.partition
                log, end = replica.log, partition.high_watermark
                now = (partition.leader_epoch, end, log.log_start_offset, log.epoch_at(end - 1))
                key = (node.broker_id, partition.topic_partition)
                last, before = self._seen.get(key, (replica, now))
                self._seen[key] = (replica, now)
                if last is not replica:
                    continue
                for name, old, new in zip(
                    ("leader epoch", "high watermark", "log start offset"), before[:3], now[:3], strict=True
                ):
                    if new < old:
                        # After an unclean election replicas may truncate records that they know as committed, at any
                        # time in its epoch.
                        unclean = name == "high watermark" and partition.leader_and_isr.unclean_epoch > before[3]
                        self.found.append(
                            Anomaly(
                                "committed-cut" if unclean else "went-back",
                                f"the {name} of {partition.topic_partition} on broker {node.broker_id} went from {old} "
                                f"to {new}",
                                partition.topic_partition.partition,
                                node.world.clock.now,
                            )
                        )
                if end > log.log_end_offset:
                    self.found.append(
                        Anomaly(
                            "beyond-the-end",
                            f"the high watermark of {partition.topic_partition} on broker {node.broker_id} is "
                            f"{end}, and its log ends at {log.log_end_offset}",
                        )
                    )

    def compare(self, nodes: Sequence[BrokerNode]) -> None:
        """Check that all replicas have the same bytes up to their high watermarks."""
        logs: dict[TopicPartition, list[tuple[int, dict[int, bytes]]]] = {}
        cleaned: dict[TopicPartition, int] = {}
        for node in nodes:
            if not node.up:
                continue
            for replica in node.broker.replication.replicas:
                name, end = replica.topic_partition, replica.log.cleaned_end_offset
                cleaned[name] = max(cleaned.get(name, 0), end)
                batches = self._batches(node, replica)
                if batches is not None:
                    logs.setdefault(replica.topic_partition, []).append((node.broker_id, batches))
        for partition, held in logs.items():
            first, reference = held[0]
            for other, batches in held[1:]:
                for offset, batch in batches.items():
                    # Each replica compacts on its own.
                    if offset >= cleaned[partition] and reference.get(offset, batch) != batch:
                        self.found.append(
                            Anomaly("different-logs", f"{partition} differs at {offset} on brokers {first} and {other}")
                        )
                        break

    def _batches(self, node: BrokerNode, replica: Any) -> dict[int, bytes] | None:
        """Committed batches by base offset."""
        log = replica.log
        found: dict[int, bytes] = {}
        # The remote part is the same for all.
        offset = max(log.log_start_offset, log.local_start_offset)
        try:
            while offset < replica.high_watermark:
                data = log.read(offset, 1 << 22, replica.high_watermark).data
                if data is None:
                    break
                content = data.read()
                for position, header in iter_batches(content):
                    found[header.base_offset] = content[position : position + header.size]
                    offset = header.next_offset
        except (ApiError, DecodeError, StorageError, EOFError) as error:
            if node.disk.failure is None:
                self.found.append(
                    Anomaly("unreadable", f"{replica.topic_partition} on broker {node.broker_id} at {offset}: {error}")
                )
            return None
        return found
