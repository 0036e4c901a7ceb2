"""
The upkeep of ``__share_group_state``: deletes records that are not needed any more, writes snapshots of states that do
not change, so that older records can be deleted, and removes the states of deleted topics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from uuid import UUID

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

TOMBSTONES_AT_A_TIME, UNITS_A_TOMBSTONE = 100, 5
"""States that are removed together, and the units of a time slice for each."""


@define(eq=False)
class ShareStateUpkeep:
    """Runs the scans in the configured intervals."""

    coordinator: ShareCoordinator
    _replicas: ReplicaManager
    _metadata: ClusterMetadata
    # By shard, how far its log went at the scan before: states whose snapshot is older have not changed much.
    _ends: dict[ShareStateShard, int] = field(factory=dict, init=False)
    # By topic that is not known here, the time since when.
    _unknown_since: dict[UUID, float] = field(factory=dict, init=False)
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
        await self._forget(self._is_gone)
        known = [each for each in self._unknown_since if self._metadata.topic_by_id(each) is not None]
        for topic_id in known:
            del self._unknown_since[topic_id]
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
        Begin to remove the states of deleted topics. For :meth:`.ClusterMetadata.when_removed`.

        :param topics: the names of those that were just deleted.
        """
        Deferred.fromCoroutine(self._forget(self._metadata.was_removed)).addErrback(
            lambda failure: self._log.failure("states of deleted topics cannot be removed", failure)
        )

    async def _forget(self, is_gone: Callable[[UUID], bool]) -> None:
        """Remove the states of some topics, a time slice at a time: there may be very many groups."""
        time_slice = TimeSlice(self.coordinator.slices)
        for shard in list(self.coordinator.active_shards()):
            async for part in time_slice.over_parts(list(shard.entries), TOMBSTONES_AT_A_TIME):
                gone = [key for key in part if key in shard.entries and is_gone(key.topic_id)]
                if shard.closed or (gone and not self._write_tombstones(shard, gone)):
                    break
                if gone:
                    time_slice.used(len(gone) * UNITS_A_TOMBSTONE)

    def _write_tombstones(self, shard: ShareStateShard, gone: Sequence[SharePartitionKey]) -> bool:
        try:
            self._watch(shard, shard.forget(gone))
        except ApiError as error:
            self._warn(shard, error)
            return False
        return True

    def _is_gone(self, topic_id: UUID) -> bool:
        """
        Whether a topic was deleted. It may have been while no coordinator was there, or be one that the metadata of an
        older backup lack: then its states are kept for as long as its logs (:mod:`logbus.storage.stray_logs`).
        """
        if self._metadata.topic_by_id(topic_id) is not None:
            return False
        if self._metadata.was_removed(topic_id):
            return True
        if not self._metadata.is_whole or self._replicas.unreadable:
            return False
        stray_ms = self.coordinator.config.get(keys.LOG_STRAY_RETENTION_MS)
        now = self.coordinator.clock.seconds()
        return 0 <= stray_ms <= (now - self._unknown_since.setdefault(topic_id, now)) * 1000

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
