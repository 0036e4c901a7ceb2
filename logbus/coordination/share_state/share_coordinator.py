"""
The share coordinator (Kafka: ShareCoordinatorService): the states of share partitions that this broker keeps.

There is one shard for each partition of ``__share_group_state`` that this broker leads.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from attrs import define, evolve, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logbus.cluster.replication.replica_manager import Replica
from logbus.config import keys
from logbus.coordination.coordinator_runtime import CoordinatorRuntime
from logbus.coordination.share_state import recorded_state
from logbus.coordination.share_state.recorded_state import Snapshot, StateChange, Update
from logbus.coordination.share_state.share_state import UNKNOWN_COUNT, LogEpochs, SharePartitionKey, ShareState
from logbus.coordination.share_state.share_state_calls import Call, Delete, Initialize, Read, Summarize, Write
from logbus.coordination.share_state.share_state_loader import ShareCoordinatorMetrics, load
from logbus.coordination.share_state.share_state_shard import ShareStateShard
from logbus.coordination.state_log import StateLog
from logbus.errors import ApiError, ErrorCode
from logbus.metrics import Registry
from logbus.model import NO_OFFSET, SHARE_GROUP_STATE_TOPIC
from logbus.records.compression import Codec

UNINITIALIZED = ShareState(0, 0)
"""The summary of a share partition without a state."""


@define(eq=False, repr=False)
class ShareCoordinator(CoordinatorRuntime[ShareStateShard]):
    """
    All share partitions that this broker coordinates.

    Every method may raise COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS, or its Deferred
    fail with them: all of these can be retried. INVALID_REQUEST: the key is not valid; UNKNOWN_TOPIC_OR_PARTITION:
    there is no such partition.
    """

    topic = SHARE_GROUP_STATE_TOPIC
    partitions_key = keys.SHARE_COORDINATOR_STATE_TOPIC_NUM_PARTITIONS
    metrics: ShareCoordinatorMetrics = field(factory=ShareCoordinatorMetrics, init=False)
    _log = Logger()

    # Requests.

    def carry_out(self, call: Call) -> Deferred[Any]:
        """
        Carry out a call.

        :return: fires with the state that was asked for, or None.
        :raise ApiError: see the methods below.
        """
        match call:
            case Initialize(key, state_epoch, start_offset):
                return self.initialize(key, state_epoch, start_offset)
            case Read(key, leader_epoch, log_end_offset, log_epochs):
                return self.read(key, leader_epoch, log_end_offset, log_epochs)
            case Write(key, change):
                return self.write(key, change)
            case Summarize(key):
                return self.summary(key)
            case Delete(key):
                return self.delete(key)

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> Deferred[None]:
        """
        Create a state, or set it anew with a higher state epoch.

        :raise ApiError: FENCED_STATE_EPOCH.
        """
        self._check_exists(key)
        shard = self._shard(key)
        return self._save(
            shard,
            key,
            recorded_state.initialize(shard.recorded(key), state_epoch, start_offset, self.wall_ms()),
        )

    def read(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        log_end_offset: int = NO_OFFSET,
        log_epochs: LogEpochs = (),
    ) -> Deferred[ShareState]:
        """
        Read a state for a leader, fence the leaders before it, and forget what its log does not have. The number of
        records that are done is left out, as ReadShareGroupState has none.

        :raise ApiError: INVALID_REQUEST: it is not initialized; FENCED_LEADER_EPOCH.
        """
        self._check_exists(key)
        shard = self._shard(key)
        now, most_updates = shard.recorded(key), self._most_updates()
        claim = recorded_state.claim(now, leader_epoch, log_end_offset, most_updates, self.wall_ms(), log_epochs)
        durable = self._save(shard, key, claim)
        state = shard.entries[key].recorded.state
        return durable.addCallback(lambda _: evolve(state, delivery_complete_count=UNKNOWN_COUNT))

    def write(self, key: SharePartitionKey, change: StateChange) -> Deferred[None]:
        """
        Change a state.

        :raise ApiError: INVALID_REQUEST: it is not initialized; FENCED_STATE_EPOCH, FENCED_LEADER_EPOCH.
        """
        self._check_exists(key)
        shard = self._shard(key)
        now = shard.recorded(key)
        return self._save(shard, key, recorded_state.write(now, change, self._most_updates(), self.wall_ms()))

    def summary(self, key: SharePartitionKey) -> Deferred[ShareState]:
        """Read a state without its batches; :data:`UNINITIALIZED` if there is none."""
        self._check_exists(key)
        shard = self._shard(key)
        found = shard.recorded(key)
        state = UNINITIALIZED if found is None else evolve(found.state, batches=())
        return shard.log.durable().addCallback(lambda _: state)

    def delete(self, key: SharePartitionKey) -> Deferred[None]:
        """Remove a state, if there is one. Its topic may be deleted already."""
        self._check_key(key)
        shard = self._shard(key)
        if key not in shard.entries:
            return shard.log.durable()
        (durable,) = shard.forget([key])
        return durable

    def _shard(self, key: SharePartitionKey) -> ShareStateShard:
        return self.shard_of(str(key))

    def _save(self, shard: ShareStateShard, key: SharePartitionKey, record: Snapshot | Update | None) -> Deferred[None]:
        """Write a record; None: wait until what was written before is durable."""
        if record is None:
            return shard.log.durable()
        durable = shard.save(key, record)
        self.metrics.writes += 1
        self.metrics.snapshots += isinstance(record, Snapshot)
        return durable

    def _check_key(self, key: SharePartitionKey) -> None:
        if not key.group_id or key.partition < 0:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{key} is not a share partition")

    def _check_exists(self, key: SharePartitionKey) -> None:
        self._check_key(key)
        topic = self._metadata.topic_by_id(key.topic_id)
        if topic is None or key.partition >= len(topic.partitions):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{key}: there is no such partition")

    def _most_updates(self) -> int:
        return self.config.get(keys.SHARE_COORDINATOR_SNAPSHOT_UPDATE_RECORDS_PER_SNAPSHOT)

    def register_metrics(self, registry: Registry) -> None:
        """Declare the metrics of all share partitions together."""
        registry.gauge(
            "logbus_share_partitions",
            "Share partitions whose states this broker coordinates.",
            read=lambda: sum(len(shard.entries) for shard in self.shards.values()),
        )
        registry.add_fields(self.metrics)

    # Leadership.

    def _open(self, number: int, leader_epoch: int, replica: Replica) -> ShareStateShard:
        get = self.config.get
        return ShareStateShard(
            number,
            leader_epoch,
            StateLog(
                replica,
                self.clock,
                self.wall_ms,
                lambda: Codec(get(keys.SHARE_COORDINATOR_STATE_TOPIC_COMPRESSION_CODEC)),
                partial(get, keys.SHARE_COORDINATOR_WRITE_TIMEOUT_MS),
                self.slices,
            ),
        )

    async def _load(self, shard: ShareStateShard) -> None:
        slice_bytes = self.config.get(keys.SHARE_COORDINATOR_LOAD_BUFFER_SIZE)
        if await load(shard, slice_bytes, self.metrics, lambda: self._has(shard)):
            shard.loading = False
            self.loaded(len(shard.entries))

    def _give_up(self, shard: ShareStateShard) -> None:
        """Nothing goes on in a closed shard; who waits for durability is answered by its log."""
