"""
The upkeep of ``__share_group_state``: deletes records that are not needed any more, writes snapshots of states that do
not change, so that older records can be deleted, and removes the states of deleted topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.config import keys
from logbus.coordination.periodic_scan import PeriodicScan
from logbus.coordination.share_state.recorded_state import Snapshot, snapshot
from logbus.coordination.share_state.share_coordinator import ShareCoordinator
from logbus.coordination.share_state.share_state import SharePartitionKey
from logbus.coordination.share_state.share_state_shard import ShareStateShard
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.net.time_slices import TimeSlice

SPARE_RECORDS = 1000
"""Records that are not needed, above the number of states, which are left until there are more."""

SNAPSHOTS_A_TURN = 100
"""Snapshots that are written before the reactor gets a turn."""


@define(eq=False)
class ShareStateUpkeep:
    """Runs the scans in the configured intervals."""

    coordinator: ShareCoordinator
    _replicas: ReplicaManager
    _metadata: ClusterMetadata
    # By shard, how far its log went at the scan before: states whose snapshot is older have not changed much.
    _ends: dict[ShareStateShard, int] = field(factory=dict, init=False)
    _scans: tuple[PeriodicScan, PeriodicScan] = field(init=False)
    _log = Logger()

    @_scans.default
    def _two(self) -> tuple[PeriodicScan, PeriodicScan]:
        snapshots = keys.SHARE_COORDINATOR_COLD_PARTITION_SNAPSHOT_INTERVAL_MS
        return (
            PeriodicScan(self.coordinator, snapshots, self.snapshot_cold_states),
            PeriodicScan(self.coordinator, keys.SHARE_COORDINATOR_STATE_TOPIC_PRUNE_INTERVAL_MS, self.prune),
        )

    def start(self) -> None:
        """Start the scans."""
        for scan in self._scans:
            scan.start()

    def stop(self) -> None:
        """Stop the scans."""
        for scan in self._scans:
            scan.stop()

    async def snapshot_cold_states(self) -> None:
        """
        Write snapshots of the states whose last one is older than a scan, where the log has more records than it needs:
        at least as many as there are states.
        """
        before, self._ends = self._ends, {}
        for shard in list(self.coordinator.active_shards()):
            end = shard.log.end_offset
            self._ends[shard] = end
            if end - shard.log.replica.log.log_start_offset <= 2 * len(shard.entries) + SPARE_RECORDS:
                continue
            limit = before.get(shard)
            cold = [key for key, entry in shard.entries.items() if limit is not None and entry.since < limit]
            for start in range(0, len(cold), SNAPSHOTS_A_TURN):
                if shard.closed or not self._write_snapshots(shard, cold[start : start + SNAPSHOTS_A_TURN]):
                    break
                await TimeSlice(self.coordinator.slices).next()

    def _write_snapshots(self, shard: ShareStateShard, cold: Sequence[SharePartitionKey]) -> bool:
        now_ms = self.coordinator.wall_ms()
        snapshots: list[tuple[SharePartitionKey, Snapshot]] = []
        for key in cold:
            recorded = shard.recorded(key)
            if recorded is not None:
                snapshots.append((key, snapshot(recorded, recorded.state, now_ms)))
        try:
            self._watch(shard, shard.save_snapshots(snapshots))
        except ApiError as error:
            self._warn(shard, error)
            return False
        self.coordinator.metrics.writes += len(snapshots)
        self.coordinator.metrics.snapshots += len(snapshots)
        return True

    async def prune(self) -> None:
        """Delete the records that no state needs any more, and what :meth:`forget_topics` could not remove at once."""
        self.forget_topics()
        for shard in list(self.coordinator.active_shards()):
            before = shard.needed_from()
            if shard.closed or before <= shard.log.replica.log.log_start_offset:
                continue
            topic, number = shard.log.replica.topic_partition
            try:
                # A snapshot does not replace older records while it may be lost, here or with a fail-over.
                await shard.log.durable()
                await shard.log.replica.log.flush()
                await self._replicas.delete_records(topic, number, before)
            except (ApiError, StorageError) as error:
                self._warn(shard, error)
            else:
                self.coordinator.metrics.pruned += 1

    def forget_topics(self, topics: Sequence[str] = ()) -> None:
        """
        Remove the states of deleted topics, whose ids are known. For :meth:`.ClusterMetadata.when_removed`.

        :param topics: the names of those that were just deleted.
        """
        for shard in list(self.coordinator.active_shards()):
            gone = [key for key in shard.entries if self._metadata.was_removed(key.topic_id)]
            if not gone:
                continue
            try:
                self._watch(shard, shard.forget(gone))
            except ApiError as error:
                self._warn(shard, error)

    def _watch(self, shard: ShareStateShard, durable: Sequence[Deferred[None]]) -> None:
        for one in durable:
            one.addErrback(partial(self._not_durable, shard))

    def _not_durable(self, shard: ShareStateShard, failure: Failure) -> None:
        failure.trap(ApiError)
        assert isinstance(failure.value, ApiError)
        if not shard.closed:
            self._warn(shard, failure.value)

    def _warn(self, shard: ShareStateShard, error: ApiError | StorageError) -> None:
        if isinstance(error, ApiError) and error.code is ErrorCode.NOT_COORDINATOR:
            return
        self._log.warn(
            "{partition}: states of share partitions cannot be tidied up: {why}",
            partition=shard.log.replica.topic_partition,
            why=error,
        )
