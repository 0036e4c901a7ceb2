"""
Metrics of replication: the partitions that this broker leads and follows, and its work as the controller.

They have Kafka's meaning: leaders report on partitions and the controller on the whole cluster, so that sums over all
brokers are right. Iterations over many partitions pause in between: see :class:`~logbus.metrics.Family`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from logbus.metrics import Family, Sample

if TYPE_CHECKING:
    from logbus.cluster.cluster_metadata import ClusterMetadata
    from logbus.cluster.controller.controller import Controller
    from logbus.cluster.follower.replica_fetcher_manager import ReplicaFetcherManager
    from logbus.cluster.replication.isr_manager import IsrManager
    from logbus.cluster.replication.replica_manager import ReplicaManager
    from logbus.metrics import Registry

PAUSE_PARTITIONS = 100
"""Partitions between pauses; they cost about as much as one sample."""


@define(eq=False)
class _LeaderTotals:
    """Totals of this broker's replicas."""

    leaders: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    lags: dict[int, int] = field(factory=dict)


@define(eq=False)
class _ClusterTotals:
    """Totals of the cluster's partitions."""

    offline: int = 0
    imbalance: int = 0


LED: tuple[tuple[str, str, Callable[[_LeaderTotals], int]], ...] = (
    ("logbus_leaders", "Partitions that this broker leads.", lambda led: led.leaders),
    (
        "logbus_under_replicated_partitions",
        "Partitions led here with replicas that are not in sync.",
        lambda led: led.under_replicated,
    ),
    (
        "logbus_under_min_isr_partitions",
        "Partitions led here with fewer replicas in sync than min.insync.replicas: acks=all is refused.",
        lambda led: led.under_min_isr,
    ),
    (
        "logbus_at_min_isr_partitions",
        "Partitions led here where the loss of one more replica would have acks=all refused.",
        lambda led: led.at_min_isr,
    ),
)
CLUSTER: tuple[tuple[str, str, Callable[[_ClusterTotals], int]], ...] = (
    (
        "logbus_offline_partitions",
        "Partitions of the cluster without a leader; 0 on brokers that are not the controller.",
        lambda found: found.offline,
    ),
    (
        "logbus_preferred_replica_imbalance",
        "Partitions of the cluster that another than the preferred replica leads; 0 on other brokers.",
        lambda found: found.imbalance,
    ),
)


@frozen
class ReplicationMetrics:
    """Registers the metrics of replication."""

    broker_id: int
    metadata: ClusterMetadata
    replicas: ReplicaManager
    isr: IsrManager
    fetcher: ReplicaFetcherManager
    controller: Controller

    def register(self, registry: Registry) -> None:
        """Register the metrics."""
        isr, fetched, metrics = self.isr, self.fetcher.counters, self.controller.metrics
        for name, help, read in (
            ("isr_expands", "Replicas of partitions led here that joined the ISR.", lambda: isr.expansions),
            ("isr_shrinks", "Replicas of partitions led here that left the ISR.", lambda: isr.shrinks),
            ("leader_elections", "Leaders elected by this broker as the controller.", lambda: metrics.elections),
            (
                "unclean_leader_elections",
                "Elections that may have lost committed records.",
                lambda: metrics.unclean_elections,
            ),
            (
                "leader_election_seconds",
                "Duration of the controller events that elected leaders.",
                lambda: metrics.election_seconds,
            ),
            ("controller_events", "Events processed by this broker as the controller.", lambda: metrics.events),
            ("controller_event_seconds", "Duration of the controller's events.", lambda: metrics.event_seconds),
            (
                "controller_queue_seconds",
                "Time that the controller's events were queued.",
                lambda: metrics.waited_seconds,
            ),
            ("controller_tenures", "How often this broker became the controller.", lambda: metrics.activations),
            (
                "controller_incomplete_replicas",
                "Replicas that were reported to this controller as lacking committed records, or holding damaged ones.",
                lambda: metrics.incomplete_replicas,
            ),
            ("controller_isr_changes", "Changes of in-sync replicas without an election.", lambda: metrics.isr_changes),
            ("replica_fetches", "Fetches from leaders.", lambda: fetched.fetches),
            ("replica_fetched_bytes", "Bytes fetched from leaders and appended.", lambda: fetched.bytes),
            ("replica_fetched_records", "Records fetched from leaders and appended.", lambda: fetched.records),
            ("replica_fetch_failures", "Fetches from leaders that failed as a whole.", lambda: fetched.failed_fetches),
            (
                "replica_partition_failures",
                "Errors and unusable responses of leaders for a partition.",
                lambda: fetched.failed_partitions,
            ),
            (
                "replica_corrupt_batches",
                "Damaged batches received from a leader, which were not appended.",
                lambda: fetched.corrupt_batches,
            ),
            (
                "replica_truncations",
                "Truncations of logs to match a leader's.",
                lambda: fetched.truncations,
            ),
            (
                "replica_committed_truncations",
                "Truncations that removed committed records, after unclean elections.",
                lambda: fetched.committed_cut,
            ),
            (
                "replica_refused_truncations",
                "Truncations refused since they would have removed committed records without an unclean election.",
                lambda: fetched.refused_truncations,
            ),
        ):
            registry.counter(f"logbus_{name}_total", help).labels().function = read
        for name, help, read in (
            ("controller_queue", "Queued events of this broker as the controller.", lambda: self.controller.queued),
            (
                "controller_takeover_seconds",
                "Duration of this broker's last controller failover.",
                lambda: metrics.activation_seconds,
            ),
            ("replica_fetcher_partitions", "Partitions that this broker follows.", lambda: len(self.fetcher)),
            (
                "replica_fetcher_failing_leaders",
                "Leaders from which fetches currently fail.",
                lambda: len(self.fetcher.failing()),
            ),
            (
                "replica_fetcher_max_lag",
                "Largest number of committed records that a followed partition lacks.",
                lambda: self.fetcher.max_lag,
            ),
        ):
            registry.gauge(f"logbus_{name}", help).labels().function = read
        registry.add_source(self.families)

    def families(self) -> Iterator[Family]:
        """Yield the families computed from all partitions; the first one iterates, the others share its totals."""
        led, cluster = _LeaderTotals(), _ClusterTotals()
        for name, help, read in LED:
            yield Family(name, help, "gauge", self._led(name, read, led, look=read is LED[0][2]))
        name = "logbus_replica_max_lag"
        yield Family(
            name,
            "Records that a follower lacks of the partition led here where it is most.",
            "gauge",
            (Sample(name, (("follower", str(follower)),), lag) for follower, lag in sorted(led.lags.items())),
        )
        for name, help, of_cluster in CLUSTER:
            look = of_cluster is CLUSTER[0][2]
            yield Family(name, help, "gauge", self._of_cluster(name, of_cluster, cluster, look=look))

    def partition_families(self) -> Iterator[Family]:
        """Yield the lag of each follower of the partitions led here; omits followers that have not fetched."""
        name = "logbus_partition_replica_lag"
        yield Family(name, "Records of a partition led here that a follower lacks.", "gauge", self._lags(name))

    def _led(
        self, name: str, read: Callable[[_LeaderTotals], int], led: _LeaderTotals, *, look: bool
    ) -> Iterator[Sample | None]:
        if look:
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
        yield Sample(name, (), read(led))

    def _of_cluster(
        self, name: str, read: Callable[[_ClusterTotals], int], found: _ClusterTotals, *, look: bool
    ) -> Iterator[Sample | None]:
        if look and self.metadata.controller_id == self.broker_id:
            number = 0
            for topic in list(self.metadata.topics.values()):
                for image in list(topic.partitions):
                    number += 1
                    if number % PAUSE_PARTITIONS == 0:
                        yield None
                    found.offline += image.leader < 0
                    found.imbalance += image.leader != image.replicas[0]
        yield Sample(name, (), read(found))

    def _lags(self, name: str) -> Iterator[Sample | None]:
        for lag in self.isr.lags():
            if lag.offsets is None:
                yield None
                continue
            topic, partition = lag.topic_partition
            labels = (("topic", topic), ("partition", str(partition)), ("follower", str(lag.broker_id)))
            yield Sample(name, labels, lag.offsets)
