"""
Metrics of replication: the partitions that this broker leads, and all partitions if it is the controller.

They have Kafka's meaning: leaders report on partitions and the controller on the whole cluster, so that sums over all
brokers are right. Iterations over many partitions pause in between: see :class:`~logbus.metrics.Family`.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field, frozen

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.replication.isr_manager import IsrManager
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.metrics import Family, Registry, Sample, computed_gauges, metric

PAUSE_PARTITIONS = 100
"""Partitions between pauses; they cost about as much as one sample."""


@define(eq=False)
class _LeaderTotals:
    """Totals of this broker's replicas."""

    leaders: int = metric("logbus_leaders", "Partitions that this broker leads.")
    under_replicated: int = metric(
        "logbus_under_replicated_partitions", "Partitions led here with replicas that are not in sync."
    )
    under_min_isr: int = metric(
        "logbus_under_min_isr_partitions",
        "Partitions led here with fewer replicas in sync than min.insync.replicas: acks=all is refused.",
    )
    at_min_isr: int = metric(
        "logbus_at_min_isr_partitions",
        "Partitions led here where the loss of one more replica would have acks=all refused.",
    )
    lags: dict[int, int] = field(factory=dict)


@define(eq=False)
class _ClusterTotals:
    """Totals of the cluster's partitions."""

    offline: int = metric(
        "logbus_offline_partitions",
        "Partitions of the cluster without a leader; 0 on brokers that are not the controller.",
    )
    imbalance: int = metric(
        "logbus_preferred_replica_imbalance",
        "Partitions of the cluster that another than the preferred replica leads; 0 on other brokers.",
    )


@frozen
class ReplicationMetrics:
    """The metrics of the partitions that this broker leads, and, as the controller, of all partitions."""

    broker_id: int
    metadata: ClusterMetadata
    replicas: ReplicaManager
    isr: IsrManager

    def register_metrics(self, registry: Registry) -> None:
        """Declare the metrics."""
        registry.gauge("logbus_topics", "Topics of the cluster.", read=lambda: len(self.metadata.topics))
        registry.gauge(
            "logbus_active_controller",
            "1 on the broker that is the controller.",
            read=lambda: int(self.metadata.controller_id == self.broker_id),
        )
        registry.gauge("logbus_partitions", "Partitions on this broker.", read=lambda: len(self.replicas))
        registry.add_source(self.families)

    def families(self) -> Iterator[Family]:
        """Yield the families computed from all partitions; the first one iterates, the others share its totals."""
        led, cluster = _LeaderTotals(), _ClusterTotals()
        yield from computed_gauges(led, self._look_at_led(led))
        name = "logbus_replica_max_lag"
        yield Family(
            name,
            "Records that a follower lacks of the partition led here where it is most.",
            "gauge",
            (Sample(name, (("follower", str(follower)),), lag) for follower, lag in sorted(led.lags.items())),
        )
        yield from computed_gauges(cluster, self._look_at_cluster(cluster))

    def partition_families(self) -> Iterator[Family]:
        """Yield the lag of each follower of the partitions led here; omits followers that have not fetched."""
        name = "logbus_partition_replica_lag"
        yield Family(name, "Records of a partition led here that a follower lacks.", "gauge", self._lags(name))

    def _look_at_led(self, led: _LeaderTotals) -> Iterator[None]:
        for number, replica in enumerate(self.replicas, 1):
            if number % PAUSE_PARTITIONS == 0:
                yield None
            partition = replica.partition
            if partition.is_leader:
                in_sync = len(partition.leader_and_isr.isr)
                led.leaders += 1
                led.under_replicated += in_sync < len(partition.replicas)
                led.under_min_isr += not partition.has_enough_replicas
                led.at_min_isr += in_sync == partition.enough_replicas
        for number, lag in enumerate(self.isr.lags(), 1):
            if number % PAUSE_PARTITIONS == 0:
                yield None
            if lag.offsets is not None:
                led.lags[lag.broker_id] = max(led.lags.get(lag.broker_id, 0), lag.offsets)

    def _look_at_cluster(self, found: _ClusterTotals) -> Iterator[None]:
        if self.metadata.controller_id == self.broker_id:
            number = 0
            for topic in list(self.metadata.topics.values()):
                for image in list(topic.partitions):
                    number += 1
                    if number % PAUSE_PARTITIONS == 0:
                        yield None
                    found.offline += image.leader < 0
                    found.imbalance += image.leader != image.replicas[0]

    def _lags(self, name: str) -> Iterator[Sample | None]:
        for lag in self.isr.lags():
            if lag.offsets is None:
                yield None
                continue
            topic, partition = lag.topic_partition
            labels = (("topic", topic), ("partition", str(partition)), ("follower", str(lag.broker_id)))
            yield Sample(name, labels, lag.offsets)
