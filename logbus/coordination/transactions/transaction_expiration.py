"""
Aborts transactions that exceed their timeout, and removes transactional ids that have expired, by periodic scans.
"""

from __future__ import annotations

from attrs import define, field
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.config import keys
from logbus.coordination.generation_log import loggable_id
from logbus.coordination.periodic_scan import PeriodicScan
from logbus.coordination.transactions.init_producer_id import has_timed_out, is_expired
from logbus.coordination.transactions.transaction_coordinator import TransactionCoordinator
from logbus.coordination.transactions.transaction_shard import TransactionShard
from logbus.errors import ApiError

IDS_A_TURN = 1000
"""Number of ids whose timeouts are checked before the reactor gets a turn."""

IDS_TO_ABORT = 200
"""So many ids take as long to check as one transaction to abort."""

REMOVED_A_TURN = 100
"""Number of ids that are checked, and removed if they have expired, before the reactor gets a turn."""


@define(eq=False)
class TransactionExpiration:
    """Runs both scans in the configured intervals."""

    coordinator: TransactionCoordinator
    _rounds: tuple[PeriodicScan, PeriodicScan] = field(init=False)
    _log = Logger()

    @_rounds.default
    def _two(self) -> tuple[PeriodicScan, PeriodicScan]:
        timeouts = keys.TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS
        removals = keys.TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS
        return (
            PeriodicScan(self.coordinator, timeouts, self.abort_overdue),
            PeriodicScan(self.coordinator, removals, self.forget_unused),
        )

    def start(self) -> None:
        """Start both scans."""
        for rounds in self._rounds:
            rounds.start()

    def stop(self) -> None:
        """Stop both scans."""
        for rounds in self._rounds:
            rounds.stop()

    async def abort_overdue(self) -> None:
        """Abort the transactions that have exceeded their timeout."""
        now_ms = self.coordinator.wall_ms()
        left = IDS_A_TURN
        for shard in self.coordinator.active_shards():
            for transactional_id in list(shard.ongoing):
                entry = shard.entries.get(transactional_id)
                now = None if entry is None else entry.idle_state
                if now is not None and has_timed_out(now, now_ms):
                    self._abort(transactional_id, now.timeout_ms)
                    left -= IDS_TO_ABORT
                left -= 1
                if left <= 0:
                    await deferLater(self.coordinator.clock, 0)
                    left = IDS_A_TURN

    def _abort(self, transactional_id: str, timeout_ms: int) -> None:
        def aborted(_: object) -> None:
            self.coordinator.metrics.timed_out += 1
            self._log.info(
                "transactional id {id}: the transaction exceeded its timeout of {timeout} ms and is aborted",
                id=loggable_id(transactional_id),
                timeout=timeout_ms,
            )

        def refused(failure: Failure) -> None:
            failure.trap(ApiError)
            # The next scan tries again, unless the producer has ended the transaction.
            self._log.debug(
                "transactional id {id} cannot be aborted: {why}",
                id=loggable_id(transactional_id),
                why=failure.getErrorMessage(),
            )

        self.coordinator.time_out(transactional_id).addCallbacks(aborted, refused).addErrback(
            lambda failure: self._log.failure("an overdue transaction cannot be aborted", failure)
        )

    async def forget_unused(self) -> None:
        """Remove the ids that have expired."""
        now_ms = self.coordinator.wall_ms()
        expiration_ms = self.coordinator.config.get(keys.TRANSACTIONAL_ID_EXPIRATION_MS)
        for shard in self.coordinator.active_shards():
            ids = list(shard.entries)
            for start in range(0, len(ids), REMOVED_A_TURN):
                self._forget(shard, ids[start : start + REMOVED_A_TURN], now_ms, expiration_ms)
                await deferLater(self.coordinator.clock, 0)

    def _forget(self, shard: TransactionShard, ids: list[str], now_ms: int, expiration_ms: int) -> None:
        stale = []
        for transactional_id in ids:
            entry = shard.entries.get(transactional_id)
            now = None if entry is None else entry.idle_state
            if now is not None and is_expired(now, now_ms, expiration_ms):
                stale.append(transactional_id)
        if not stale or shard.closed:
            return
        shard.forget(stale)
        self.coordinator.metrics.expired += len(stale)
        self._log.info("{count} transactional ids have expired and are removed", count=len(stale))
