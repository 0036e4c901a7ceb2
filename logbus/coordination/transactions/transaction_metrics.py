"""
Metrics of transactions: those this broker coordinates, and open transactions in the partitions it leads.

Iterations over many partitions or transactional ids pause in between: see :class:`~logbus.metrics.Family`.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, frozen

from logbus.cluster.replication.replica_manager import Replica, ReplicaManager
from logbus.coordination.transactions.hanging_transactions import late_before, late_producer
from logbus.coordination.transactions.transaction_coordinator import TransactionCoordinator
from logbus.coordination.transactions.transaction_state import TransactionState
from logbus.coordination.transactions.transaction_summary import TransactionSummary
from logbus.metrics import Family, Registry, Sample, computed_gauges, metric

PAUSE_PARTITIONS = 100
"""Partitions between pauses; they cost about as much as one sample."""
PAUSE_IDS = 50
"""Transactional ids between pauses."""


@define(eq=False)
class _OpenTransactionTotals:
    """Totals of the partitions that this broker leads."""

    open: int = metric(
        "logbus_open_transactions",
        "Transactions that are open in partitions led here; one in two partitions counts twice.",
    )
    unstable: int = metric(
        "logbus_unstable_partitions",
        "Partitions led here where an open transaction blocks readers of committed records.",
    )
    lag: int = metric(
        "logbus_stable_offset_max_lag",
        "Largest number of offsets that an open transaction blocks in a partition led here.",
    )
    late: int = metric(
        "logbus_late_transaction_partitions",
        "Partitions led here whose oldest open transaction has exceeded the maximum timeout.",
    )


@frozen
class TransactionMetrics:
    """The metrics of transactions."""

    coordinator: TransactionCoordinator
    replicas: ReplicaManager

    def register_metrics(self, registry: Registry) -> None:
        """Declare the metrics."""
        coordinator = self.coordinator
        registry.gauge(
            "logbus_transaction_markers_waiting",
            "Transaction markers that are not written yet.",
            read=lambda: coordinator.markers.partitions,
        )
        registry.gauge(
            "logbus_transaction_partitions_loading",
            "Partitions of __transaction_state that are being loaded.",
            read=lambda: sum(shard.loading for shard in coordinator.shards.values()),
        )
        registry.add_fields(coordinator.metrics)
        registry.add_source(self.families)

    def families(self) -> Iterator[Family]:
        """Yield the families computed from all ids or partitions; the first one iterates, others share its totals."""
        census = TransactionSummary()
        name = "logbus_transactional_ids"
        yield Family(
            name, "Transactional ids that this broker coordinates, by state.", "gauge", self._states(name, census)
        )
        name = "logbus_transaction_oldest_seconds"
        yield Family(
            name,
            "How long the transaction has been under way that began first, of those this broker coordinates; 0: none.",
            "gauge",
            self._oldest(name, census),
        )
        found = _OpenTransactionTotals()
        yield from computed_gauges(found, self._count_open(found))

    def _states(self, name: str, census: TransactionSummary) -> Iterator[Sample | None]:
        known, now_ms = self.coordinator.transactions(), self.coordinator.wall_ms()
        for first in range(0, len(known), PAUSE_IDS):
            census.add(known[first : first + PAUSE_IDS], now_ms)
            yield None
        for state in TransactionState:
            if state is not TransactionState.DEAD:
                yield Sample(name, (("state", state.value),), census.states[state.value])

    def _oldest(self, name: str, census: TransactionSummary) -> Iterator[Sample]:
        yield Sample(name, (), census.oldest_ms / 1000)

    def _count_open(self, found: _OpenTransactionTotals) -> Iterator[None]:
        late_before_ms = late_before(self.coordinator.config, self.coordinator.wall_ms())
        for number, replica in enumerate(self.replicas, 1):
            if number % PAUSE_PARTITIONS == 0:
                yield None
            if replica.partition.is_leader:
                _add_replica(replica, late_before_ms, found)


def _add_replica(replica: Replica, late_before_ms: int, found: _OpenTransactionTotals) -> None:
    producers = replica.log.producers_in_memory
    if producers is None:
        return  # The log was not used since it was opened, so its producer state is not in memory.
    transactions = producers.transactions
    found.open += len(transactions)
    lag = replica.high_watermark - replica.last_stable_offset
    found.unstable += lag > 0
    found.lag = max(found.lag, lag)
    found.late += late_producer(replica, late_before_ms) is not None
