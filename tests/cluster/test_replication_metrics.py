"""Tests of the metrics of replication, with Prometheus's own parser."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from prometheus_client.parser import text_string_to_metric_families as parse_text
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.controller.controller import Controller
from logbus.cluster.controller.controller_metrics import ControllerMetrics
from logbus.cluster.controller.leader_election import ElectionResult
from logbus.cluster.follower.fetch_settings import ReplicaFetchCounters
from logbus.cluster.follower.replica_fetcher_manager import ReplicaFetcherManager
from logbus.cluster.replication.isr_manager import IsrManager, Lag
from logbus.cluster.replication_metrics import PAUSE_PARTITIONS, ReplicationMetrics
from logbus.exposition import render
from logbus.metrics import Family, Registry
from logbus.model import LeaderAndIsr, TopicPartition
from tests.admin.harness import ORDERS, add_topic


def led(isr: tuple[int, ...], replicas: tuple[int, ...] = (0, 1, 2), least: int = 2, leader: bool = True) -> Any:
    """A fake replica with what the metrics use."""
    partition = SimpleNamespace(
        is_leader=leader,
        leader_and_isr=LeaderAndIsr(0, 1, isr),
        replicas=replicas,
        has_enough_replicas=len(isr) >= least,
        enough_replicas=least,
    )
    return SimpleNamespace(partition=partition)


class ReplicationMetricsTests(SynchronousTestCase):
    """One broker's part, with numbers that are known."""

    def setUp(self) -> None:
        self.replicas: list[Any] = []
        self.lags: list[Lag] = []
        self.counters = ReplicaFetchCounters()
        self.metrics = ControllerMetrics()
        self.metadata = ClusterMetadata("c" * 22, controller_id=0)
        fetcher: Any = cast(Any, type("Fetcher", (), {"__len__": lambda _: 4}))()
        fetcher.counters, fetcher.max_lag = self.counters, 17
        fetcher.failing = lambda: {2: "refused"}
        isr: Any = SimpleNamespace(lags=lambda: iter(self.lags))
        controller: Any = SimpleNamespace(metrics=self.metrics, queued=6)
        self.replication = ReplicationMetrics(0, self.metadata, cast(Any, self.replicas), isr)
        self.registry = Registry()
        self.replication.register_metrics(self.registry)
        changes = object.__new__(IsrManager)
        changes.expansions, changes.shrinks = 3, 5
        self.registry.add_fields(changes)
        ReplicaFetcherManager.register_metrics(fetcher, self.registry)
        Controller.register_metrics(controller, self.registry)

    def read(self, families: Any = None) -> dict[str, float]:
        """Values by name, with the labels' values behind it."""
        text = b"".join(render(families or self.registry.collect(), openmetrics=False)).decode()
        return {
            sample.name + "".join(f"{{{value}}}" for value in sample.labels.values()): sample.value
            for family in parse_text(text)
            for sample in family.samples
        }

    def test_partitions(self) -> None:
        """Leaders speak of their partitions; followers do not."""
        self.replicas += [led((0, 1, 2)), led((0, 1)), led((0,)), led((0,), leader=False), led((0,), (0,), 1)]
        values = self.read()
        self.assertEqual(values["logbus_leaders"], 4)
        self.assertEqual(values["logbus_under_replicated_partitions"], 2)
        self.assertEqual(values["logbus_under_min_isr_partitions"], 1)
        self.assertEqual(values["logbus_at_min_isr_partitions"], 2)

    def test_lags(self) -> None:
        """One series for each follower; for each partition only where that is asked for."""
        one, other = TopicPartition("a", 0), TopicPartition("a", 1)
        self.lags += [Lag(one, 1, 5), Lag(other, 1, 9), Lag(one, 2, 0), Lag(other, 2, None)]
        values = self.read()
        self.assertEqual(values["logbus_replica_max_lag{1}"], 9)
        self.assertEqual(values["logbus_replica_max_lag{2}"], 0)
        each = self.read(self.replication.partition_families())
        self.assertEqual(
            each,
            {
                "logbus_partition_replica_lag{1}{0}{a}": 5,
                "logbus_partition_replica_lag{1}{1}{a}": 9,
                "logbus_partition_replica_lag{2}{0}{a}": 0,
            },
        )

    def test_the_cluster(self) -> None:
        """The controller speaks of the whole cluster; the others say 0."""
        add_topic(self.metadata, "orders", ORDERS, 3)
        with self.metadata.changing() as metadata:
            topic = metadata.topics["orders"]
            images = [type(topic.partitions[0])((1, 0), LeaderAndIsr(leader, 1, (0,))) for leader in (-1, 0, 1)]
            metadata.set_partitions("orders", ORDERS, list(enumerate(images)))
        values = self.read()
        self.assertEqual(values["logbus_offline_partitions"], 1)
        self.assertEqual(values["logbus_preferred_replica_imbalance"], 2)
        with self.metadata.changing() as metadata:
            metadata.set_controller(1)
        self.assertEqual(self.read()["logbus_offline_partitions"], 0)

    def test_counters(self) -> None:
        """Numbers counted elsewhere are shown."""
        self.metrics.note(None, ElectionResult(LeaderAndIsr(0, 0, (0,)), unclean=True))
        self.metrics.served(0.5, 0.25, 0)
        self.metrics.served(0.0, 1.0, 1)
        self.counters.bytes, self.counters.failed_fetches = 1000, 2
        values = self.read()
        for name, value in {
            "isr_expands_total": 3,
            "isr_shrinks_total": 5,
            "leader_elections_total": 1,
            "unclean_leader_elections_total": 1,
            "leader_election_seconds_total": 0.25,
            "controller_events_total": 2,
            "controller_event_seconds_total": 1.25,
            "controller_queue_seconds_total": 0.5,
            "controller_queue": 6,
            "replica_fetched_bytes_total": 1000,
            "replica_fetch_failures_total": 2,
            "replica_fetcher_partitions": 4,
            "replica_fetcher_failing_leaders": 1,
            "replica_fetcher_max_lag": 17,
        }.items():
            self.assertEqual(values[f"logbus_{name}"], value, name)

    def test_many(self) -> None:
        """A look at many partitions pauses in between."""
        self.replicas += [led((0, 1, 2))] * (PAUSE_PARTITIONS * 3)
        families: list[Family] = list(self.replication.families())
        self.assertEqual(list(families[0].samples).count(None), 3)
        self.assertEqual(list(families[1].samples).count(None), 0)
