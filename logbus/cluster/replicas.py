"""
This broker's replicas: each a log on disk together with the role it plays.

:class:`Replicas` is the registry, and the host that the controller's announcements reach; :class:`Replica` is where
requests for one partition end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from logbus.cluster.icluster import ILeadershipListener, IReplicaHost, PartitionErrors, PartitionState
from logbus.cluster.partition import Partition
from logbus.config import TopicConfig
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.model import NO_EPOCH, LeaderAndIsr, TopicPartition
from logbus.records.checksum import Buffer
from logbus.storage.log import Appended, Log, ReadResult
from logbus.storage.manager import LogManager

# More bytes than anybody can wait for.
_ENOUGH = 1 << 62


class Watcher(Protocol):
    """Someone who wants to know when records become readable."""

    def moved(self, replica: Replica, size: int) -> None:
        """About ``size`` more bytes of ``replica`` can be read now."""


@define(eq=False)
class Replica:
    """
    One partition on this broker.

    :ivar watchers: told whenever the high watermark moves, in the order they came.
    """

    partition: Partition
    topic_id: UUID
    log: Log
    watchers: dict[Watcher, None] = field(factory=dict, init=False)

    @property
    def topic_partition(self) -> TopicPartition:
        """Which partition this is."""
        return self.partition.topic_partition

    @property
    def high_watermark(self) -> int:
        """The first offset that readers do not see."""
        return self.partition.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The first offset that readers of committed records do not see."""
        return self.log.last_stable_offset(self.partition.high_watermark)

    def append(self, data: Buffer, now_ms: int, zstd_allowed: bool = True) -> Appended:
        """
        Write one batch from a client, as the leader.

        :param data: one record batch; neither kept nor changed.
        :param zstd_allowed: whether the producer's version of the protocol knows zstd.
        :raise ApiError: the batch is refused; nothing was written.
        """
        partition = self.partition
        if not partition.is_leader:
            partition.check_leader()
        log = self.log
        appended = log.append_as_leader(data, partition.leader_epoch, now_ms, zstd_allowed)
        if partition.grown(log.log_end_offset) and self.watchers:
            self._tell(appended.size)
        return appended

    def read(self, offset: int, max_bytes: int, *, committed: bool, min_one: bool) -> ReadResult:
        """
        Whole batches from ``offset`` on, as far as consumers may read.

        :param committed: stop at the last stable offset instead of the high watermark.
        :param min_one: give the first batch even when it is larger than ``max_bytes`` (KIP-74).
        :raise ApiError: OFFSET_OUT_OF_RANGE.
        """
        bound = self.last_stable_offset if committed else self.partition.high_watermark
        return self.log.read(offset, max_bytes, bound, min_one)

    def take(self, given: LeaderAndIsr) -> None:
        """Take the role the controller gives."""
        if not self.partition.take(given, self.log.log_end_offset):
            return
        if self.partition.is_leader:
            self.log.become_leader(given.leader_epoch)
        else:
            self._tell(_ENOUGH)

    def follow(self, data: Buffer, leaders_high_watermark: int) -> int:
        """
        Append what the leader answered, and take over what it says is committed.

        :param data: whole batches with their offsets and epochs, or nothing; neither kept nor changed.
        :return: how many offsets the log grew by.
        :raise ApiError: CORRUPT_MESSAGE; what lies before the damage was appended.
        :raise StorageError: the disk failed.
        """
        log, before = self.log, self.log.log_end_offset
        try:
            if data:
                log.append_as_follower(data, self.partition.leader_epoch)
        finally:
            if self.partition.heard(leaders_high_watermark, log.log_end_offset) and self.watchers:
                self._tell(_ENOUGH)
        return log.log_end_offset - before

    def durable(self) -> Deferred[None] | None:
        """
        When what was appended so far is durable on all in-sync replicas: now (None), or when the Deferred fires.

        With ``flush.before.ack`` the caller shares one sync with all that wait for it (group commit).
        """
        return self.log.flush() if self.log.config.flush_before_ack else None

    def start_for(self, before: int) -> int:
        """
        The log start offset that makes records before an offset unreadable (−1: before the high watermark).

        :raise ApiError: OFFSET_OUT_OF_RANGE above the high watermark.
        """
        high_watermark = self.partition.high_watermark
        offset = high_watermark if before == -1 else before
        if not 0 <= offset <= high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition} cannot delete before offset {before}: the high watermark is {high_watermark}",
            )
        return offset

    def _tell(self, size: int) -> None:
        for watcher in list(self.watchers):
            watcher.moved(self, size)

    def retire(self) -> None:
        """The partition is gone from here: whoever waits for it must look again."""
        self.partition.is_leader = False
        self._tell(_ENOUGH)


@implementer(IReplicaHost)
@define(eq=False)
class Replicas:
    """
    The replicas on this broker, by topic and partition.

    :param topic_config: lays a topic's overrides over the broker's defaults.
    :ivar listeners: told of every start and end of a leadership.
    """

    broker_id: int
    logs: LogManager
    _topic_config: Callable[[Mapping[str, str]], TopicConfig]
    listeners: list[ILeadershipListener] = field(factory=list, init=False)
    _by_partition: dict[tuple[str, int], Replica] = field(factory=dict, init=False)
    _failed: dict[tuple[str, int], ApiError] = field(factory=dict, init=False)
    _log = Logger()

    def __len__(self) -> int:
        return len(self._by_partition)

    def __iter__(self) -> Iterator[Replica]:
        """Every replica that is up."""
        return iter(list(self._by_partition.values()))

    def find(self, topic: str, partition: int) -> Replica | None:
        """The replica, if it is up."""
        return self._by_partition.get((topic, partition))

    def get(self, topic: str, partition: int) -> Replica:
        """
        The replica.

        :raise ApiError: KAFKA_STORAGE_ERROR when its log directory failed, UNKNOWN_TOPIC_OR_PARTITION when it is
            not on this broker.
        """
        replica = self._by_partition.get((topic, partition))
        if replica is None:
            raise self._failed.get((topic, partition)) or ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{partition} on this broker"
            )
        return replica

    def leader(self, topic: str, partition: int, current_epoch: int = NO_EPOCH) -> Replica:
        """
        The replica, which leads in ``current_epoch`` (−1: in any).

        :raise ApiError: as :meth:`get` and :meth:`.Partition.check_leader`.
        """
        replica = self.get(topic, partition)
        replica.partition.check_leader(current_epoch)
        return replica

    def high_watermark_of(self, log: Log) -> int:
        """What is committed of a log; what nobody plays a role for yet is not known to be."""
        replica = self._by_partition.get(log.partition)
        return log.log_start_offset if replica is None else replica.high_watermark

    async def delete_records(self, topic: str, partition: int, before: int) -> int:
        """
        Give up a partition's records before an offset (−1: before the high watermark), for good.

        :return: the new log start offset, once that is on stable storage.
        :raise ApiError: as :meth:`leader`, and OFFSET_OUT_OF_RANGE above the high watermark.
        """
        replica = self.leader(topic, partition)
        return await self.logs.delete_records(replica.topic_partition, replica.start_for(before))

    # The controller's side.

    def become(self, states: Sequence[PartitionState]) -> Deferred[PartitionErrors]:
        return Deferred.fromCoroutine(self._become(states))

    async def _become(self, states: Sequence[PartitionState]) -> PartitionErrors:
        errors: dict[TopicPartition, ApiError] = {}
        configs: dict[int, TopicConfig] = {}  # one object per topic: overrides mappings are shared by its partitions
        for state in states:
            config = configs.get(id(state.overrides))
            if config is None:
                config = configs[id(state.overrides)] = self._topic_config(state.overrides)
            try:
                await self._play(state, config)
            except (StorageError, ApiError) as e:
                error = e if isinstance(e, ApiError) else ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(e))
                errors[state.topic_partition] = self._failed[state.topic_partition] = error
                self._log.error("{partition} cannot be brought up: {error}", partition=state.topic_partition, error=e)
        return errors

    async def _play(self, state: PartitionState, config: TopicConfig) -> None:
        name = state.topic_partition
        replica = self._by_partition.get(name)
        if replica is None or replica.topic_id != state.topic_id:
            log = self.logs.get(name)
            if log is not None and log.topic_id is None and not state.is_new:
                # Its partition.metadata is gone or damaged. It bears the partition's name: better to take it for the
                # partition's log than to throw records away (as Kafka does where the file is missing).
                self._log.warn(
                    "{partition}: the log on disk does not know its topic id; taking it for {id}",
                    partition=name,
                    id=state.topic_id,
                )
                log = await self.logs.create(name, state.topic_id, config)
            elif log is not None and log.topic_id != state.topic_id:
                self._log.warn(
                    "{partition}: the log on disk belongs to topic id {old}, which is gone; replacing it for {new}",
                    partition=name,
                    old=log.topic_id,
                    new=state.topic_id,
                )
                await self._drop(name)
                log = None
            if log is None:
                offline = self.logs.offline_directories
                if offline and not state.is_new:
                    # It may be in there: an empty log in another directory would pass for the partition (as with
                    # Kafka, only what is known to be new is created then).
                    raise ApiError(
                        ErrorCode.KAFKA_STORAGE_ERROR,
                        f"{name} is in none of the log directories that work; offline: {', '.join(offline)}",
                    )
                log = await self.logs.create(name, state.topic_id, config)
            replica = Replica(Partition(name, self.broker_id), state.topic_id, log)
        replica.log.configure(config)
        partition = replica.partition
        before = (partition.is_leader, partition.leader_epoch)
        replica.take(state.leader_and_isr)
        self._by_partition[name] = replica
        self._failed.pop(name, None)
        if before != (partition.is_leader, partition.leader_epoch):
            self._tell(replica, led=before[0])

    def _tell(self, replica: Replica, *, led: bool) -> None:
        """Let the listeners know who leads now."""
        partition = replica.partition
        for listener in self.listeners:
            if led:
                listener.leads_no_more(replica.topic_partition)
            if partition.is_leader:
                listener.leads(replica.topic_partition, partition.leader_epoch)

    def _retire(self, replica: Replica) -> None:
        led = replica.partition.is_leader
        replica.retire()
        self._tell(replica, led=led)

    def remove(self, topic_partitions: Sequence[TopicPartition]) -> Deferred[PartitionErrors]:
        return Deferred.fromCoroutine(self._remove(topic_partitions))

    async def _remove(self, topic_partitions: Sequence[TopicPartition]) -> PartitionErrors:
        errors: dict[TopicPartition, ApiError] = {}
        for name in topic_partitions:
            try:
                await self._drop(name)
            except (StorageError, ApiError) as e:
                error = e if isinstance(e, ApiError) else ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(e))
                errors[name] = error
        return errors

    async def _drop(self, name: TopicPartition) -> None:
        self._failed.pop(name, None)
        replica = self._by_partition.pop(name, None)
        if replica is not None:
            self._retire(replica)
        if self.logs.get(name) is not None:
            await self.logs.delete(name)

    def configure(self, topic: str, overrides: Mapping[str, str]) -> None:
        config = self._topic_config(overrides)
        for partition in itertools.count():
            name = (topic, partition)
            if name in self._by_partition:
                self._by_partition[name].log.configure(config)
            elif name not in self._failed:
                break

    def directory_failed(self, topic_partitions: Sequence[TopicPartition], reason: str) -> None:
        """A log directory went offline and these partitions with it; requests for them get KAFKA_STORAGE_ERROR."""
        for name in topic_partitions:
            self._failed[name] = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{name}: {reason}")
            replica = self._by_partition.pop(name, None)
            if replica is not None:
                self._retire(replica)
