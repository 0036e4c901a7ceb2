"""Tests of :mod:`logbus.coordination.transactions.transaction_expiration`."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.transactions.transaction_expiration import (
    IDS_A_TURN,
    IDS_TO_ABORT,
    REMOVED_A_TURN,
    TransactionExpiration,
)
from logbus.coordination.transactions.transaction_loader import TransactionCoordinatorMetrics
from logbus.coordination.transactions.transaction_metadata import TransactionMetadata
from logbus.coordination.transactions.transaction_shard import TransactionEntry
from logbus.coordination.transactions.transaction_state import TransactionState

TIMEOUT_MS, EXPIRATION_MS = 1000, 5000


@define(eq=False)
class Coordinator:
    """A coordinator with one shard, and the ids that it was told to abort or to remove."""

    entries: dict[str, TransactionEntry]
    closed: bool = False
    clock: Clock = field(factory=Clock)
    metrics: TransactionCoordinatorMetrics = field(factory=TransactionCoordinatorMetrics)
    aborted: list[str] = field(factory=list)
    removed: list[str] = field(factory=list)

    @property
    def ongoing(self) -> list[str]:
        return list(self.entries)

    @property
    def config(self) -> Any:
        return self

    def get(self, key: object) -> int:
        return EXPIRATION_MS

    def wall_ms(self) -> int:
        return EXPIRATION_MS + 1

    def active_shards(self) -> list[Any]:
        return [self]

    def time_out(self, transactional_id: str) -> Deferred[None]:
        self.aborted.append(transactional_id)
        return succeed(None)

    def forget(self, transactional_ids: list[str]) -> None:
        self.removed += transactional_ids


class ExpirationTests(SynchronousTestCase):
    """Scans of many ids."""

    def coordinator(self, state: TransactionState, count: int) -> Any:
        each = TransactionMetadata("x", 7, 0, TIMEOUT_MS, state, started_ms=0, updated_ms=0)
        return Coordinator({f"x{n}": TransactionEntry(each) for n in range(count)})

    def test_many_overdue_transactions(self) -> None:
        """A few are aborted in one turn of the reactor: each abort is written, and logged."""
        coordinator = self.coordinator(TransactionState.ONGOING, 100)
        scan = Deferred.fromCoroutine(TransactionExpiration(coordinator).abort_overdue())
        self.assertEqual(len(coordinator.aborted), -(-IDS_A_TURN // (IDS_TO_ABORT + 1)))
        coordinator.clock.advance(0)
        self.successResultOf(scan)
        self.assertEqual(coordinator.aborted, list(coordinator.entries))

    def test_many_expired_ids(self) -> None:
        """Some are removed in one turn."""
        coordinator = self.coordinator(TransactionState.COMPLETE_COMMIT, 2 * REMOVED_A_TURN + 1)
        scan = Deferred.fromCoroutine(TransactionExpiration(coordinator).forget_unused())
        self.assertEqual(len(coordinator.removed), REMOVED_A_TURN)
        coordinator.clock.advance(0)
        self.successResultOf(scan)
        self.assertEqual(coordinator.removed, list(coordinator.entries))
