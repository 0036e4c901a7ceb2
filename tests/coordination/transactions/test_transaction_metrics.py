"""Tests of the metrics of transactions."""

from __future__ import annotations

from typing import Any, cast

from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.transactions.hanging_transactions import GRACE_MS
from logbus.coordination.transactions.transaction_metrics import (
    PAUSE_IDS,
    PAUSE_PARTITIONS,
    TransactionMetrics,
)
from logbus.coordination.transactions.transaction_state import TransactionState
from logbus.metrics import Registry, Sample
from logbus.storage.producers.producer_state_manager import ProducerStateEntry, ProducerStateManager
from tests.admin.harness import MadeUpReplicas, MadeUpTransactions, World, replica
from tests.admin.test_transactions import NOW_MS, transaction

LONGEST_MS = 900_000
"""The default of transaction.max.timeout.ms."""


class TransactionMetricsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.coordinator = MadeUpTransactions()
        self.replicas = MadeUpReplicas()
        self.series = TransactionMetrics(cast(Any, self.coordinator), cast(Any, self.replicas))

    def values(self) -> dict[tuple[str, ...], float]:
        """By name and label."""
        found = {}
        for family in self.series.families():
            for sample in family.samples:
                if isinstance(sample, Sample):
                    found[family.name, *(value for _, value in sample.labels)] = sample.value
        return found

    def partition(self, number: int, *open_since: int, wrote_ms: int = NOW_MS, leads: bool = True) -> Any:
        """One whose high watermark is 9, with transactions open since some offsets."""
        producers = ProducerStateManager(
            10,
            [
                ProducerStateEntry(producer_id, 0, last_timestamp=wrote_ms, open_since=first)
                for producer_id, first in enumerate(open_since)
            ],
        )
        one = replica("t", number, producers_in_memory=producers, has_producers=True)
        one.last_stable_offset = producers.transactions.last_stable_offset(9)
        one.partition.is_leader = leads
        self.replicas.add(one)
        return one

    def test_states(self) -> None:
        """
        Every state is there, also with nobody in it, but for that of ids that are about to be forgotten.
        """
        self.coordinator.add(transaction("a", TransactionState.ONGOING, started_ms=NOW_MS - 2500))
        self.coordinator.add(transaction("b", TransactionState.PREPARE_ABORT, started_ms=NOW_MS - 500))
        self.coordinator.add(transaction("c", TransactionState.COMPLETE_COMMIT, started_ms=NOW_MS - 9000))
        values = self.values()
        states = {state: count for (name, *labels), count in values.items() if labels for state in labels}
        self.assertEqual((states["Ongoing"], states["PrepareAbort"], states["Empty"]), (1, 1, 0))
        self.assertNotIn("Dead", states)
        self.assertEqual(values["logbus_transaction_oldest_seconds",], 2.5)

    def test_no_transactions(self) -> None:
        """
        Without transactions all are 0.
        """
        self.partition(0)
        self.assertEqual(set(self.values().values()), {0})

    def test_blocked_partitions(self) -> None:
        """
        Leaders report open transactions, the partitions where they block readers, and by how many offsets.
        """
        self.partition(0, 4, 2)
        self.partition(1, 7)
        self.partition(2)
        self.partition(3, 0, leads=False)
        # Open, and nobody could read it yet anyway.
        self.partition(4, 9)
        values = self.values()
        self.assertEqual(values["logbus_open_transactions",], 4)
        self.assertEqual(values["logbus_unstable_partitions",], 2)
        self.assertEqual(values["logbus_stable_offset_max_lag",], 7)
        self.assertEqual(values["logbus_late_transaction_partitions",], 0)

    def test_late_transactions(self) -> None:
        """A transaction is late some minutes after the longest timeout: it may hang."""
        late_ms = NOW_MS - LONGEST_MS - GRACE_MS
        self.partition(0, 4, wrote_ms=late_ms)
        self.partition(1, 4, wrote_ms=late_ms - 1)
        # Batches without a time are not from long ago.
        self.partition(2, 4, wrote_ms=-1)
        self.assertEqual(self.values()["logbus_late_transaction_partitions",], 1)

    def test_producers_on_the_disk(self) -> None:
        """
        No file is read for a metric: neither here nor for a series by partition.
        """
        self.partition(0, 4).log.producers_in_memory = None
        self.assertEqual(self.values()["logbus_open_transactions",], 0)
        world = World(settings={"admin.metrics.per.partition": "true"})
        world.replicas.add(self.partition(1))
        unread = self.partition(2)
        unread.log.producers_in_memory = None
        world.replicas.add(unread)
        lines = world.ask("GET", "/metrics").body.decode().splitlines()
        shown = [line for line in lines if line.startswith("logbus_partition_last_stable_offset{")]
        self.assertEqual(len(shown), 2)
        self.assertFalse([line for line in shown if 'partition="2"' in line])

    def test_pauses(self) -> None:
        """
        Many partitions and many transactional ids are looked at in slices.
        """
        for number in range(10 * PAUSE_PARTITIONS):
            self.partition(number)
        for number in range(10 * PAUSE_IDS):
            self.coordinator.add(transaction(str(number)))
        pauses = [sample for family in self.series.families() for sample in family.samples if sample is None]
        self.assertEqual(len(pauses), 20)

    def test_counters(self) -> None:
        """Counters of the coordinator, and the markers under way."""
        registry = Registry()
        self.series.register_metrics(registry)
        self.coordinator.metrics.committed = 3
        self.coordinator.markers.partitions = 5
        values = {
            sample.name: sample.value
            for family in registry.collect()
            for sample in family.samples
            if sample is not None
        }
        self.assertEqual(values["logbus_transactions_committed_total"], 3)
        self.assertEqual(values["logbus_transaction_markers_waiting"], 5)
