"""
The base of all coordinators: shards, their leadership, and looking them up (Kafka: CoordinatorRuntime).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar, Generic, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.icluster import ILeadershipListener
from logbus.cluster.replication.replica_manager import Replica, ReplicaManager
from logbus.config import ConfigView
from logbus.config.config_key import ConfigKey
from logbus.coordination.coordinator_partition import partition_for
from logbus.coordination.state_log import StateLog
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.net.time_slices import SliceScheduler


@define(eq=False, repr=False)
class CoordinatorShard:
    """
    One partition of the internal topic led by this broker.

    :ivar number: of the partition.
    :ivar epoch: the leader epoch in which this broker took it over: the coordinator epoch of its markers.
    :ivar loading: the records are still being read; clients must retry.
    :ivar closed: this broker no longer leads the partition.
    """

    number: int
    epoch: int
    log: StateLog
    loading: bool = field(default=True, init=False)
    closed: bool = field(default=False, init=False)


S = TypeVar("S", bound=CoordinatorShard)


@implementer(ILeadershipListener)
@define(eq=False, repr=False)
class CoordinatorRuntime(ABC, Generic[S]):
    """
    A coordinator's shards, one for each partition of its internal topic that this broker leads.

    :param wall_ms: ms since 1970.
    :cvar topic: the internal topic.
    :cvar partitions_key: the number of its partitions, if it does not exist yet.
    :ivar shards: by partition of the internal topic.
    :ivar slices: gives turns to the loads of shards, one in each iteration of the reactor.
    :ivar loaded: called after a load with the number of groups, offsets or ids that it made.
    """

    topic: ClassVar[str]
    partitions_key: ClassVar[ConfigKey[int]]
    _replicas: ReplicaManager
    _metadata: ClusterMetadata
    config: ConfigView
    clock: IReactorTime
    wall_ms: Callable[[], int]
    shards: dict[int, S] = field(factory=dict, init=False)
    slices: SliceScheduler = field(init=False)
    loaded: Callable[[int], object] = field(default=lambda count: None, init=False)
    _stopped: bool = field(default=False, init=False)
    _log = Logger()

    @slices.default
    def _own_slices(self) -> SliceScheduler:
        return SliceScheduler(self.clock)

    # Looking up.

    def partition_of(self, key: str) -> int:
        """The partition of an id; if the topic does not exist yet, the configured number of partitions counts."""
        topic = self._metadata.topic(self.topic)
        return partition_for(key, self.config.get(self.partitions_key) if topic is None else len(topic.partitions))

    def shard_of(self, key: str) -> S:
        """
        The shard that an id is in, or would be.

        :raise ApiError: COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
        """
        if self._stopped:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker is stopping")
        number = self.partition_of(key)
        shard = self.shards.get(number)
        if shard is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR, f"{self.topic}-{number} is not led by this broker")
        if shard.loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self.topic}-{number} is being read")
        if not self._metadata.brokers:
            # A broker that starts takes its roles before its metadata show topics, which look like deleted until then.
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "this broker does not know the cluster's topics yet")
        return shard

    @property
    def loading(self) -> bool:
        """Whether some shards are still being loaded."""
        return any(shard.loading for shard in self.shards.values())

    def active_shards(self) -> Iterator[S]:
        """The loaded shards."""
        return (shard for shard in list(self.shards.values()) if not shard.loading)

    # Leadership.

    def leads(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        """See :meth:`.ILeadershipListener.leads`."""
        if topic_partition.topic != self.topic or self._stopped:
            return
        number = topic_partition.partition
        shard = self.shards[number] = self._open(number, leader_epoch, self._replicas.get(*topic_partition))
        Deferred.fromCoroutine(self._load(shard)).addErrback(
            lambda failure: self._log.failure("{partition} cannot be loaded", failure, partition=topic_partition)
        )

    def leads_no_more(self, topic_partition: TopicPartition) -> None:
        """See :meth:`.ILeadershipListener.leads_no_more`."""
        if topic_partition.topic == self.topic:
            self._resign(topic_partition.partition)

    def stop(self) -> None:
        """Answer all waiting requests, and refuse new ones: the broker is stopping."""
        self._stopped = True
        for number in list(self.shards):
            self._resign(number)

    def _resign(self, number: int) -> None:
        shard = self.shards.pop(number, None)
        if shard is not None:
            shard.closed = True
            self._give_up(shard)

    def _has(self, shard: S) -> bool:
        return self.shards.get(shard.number) is shard

    @abstractmethod
    def _open(self, number: int, leader_epoch: int, replica: Replica) -> S:
        """A shard that is not loaded yet."""

    @abstractmethod
    async def _load(self, shard: S) -> None:
        """Load a shard, and go on from there."""

    @abstractmethod
    def _give_up(self, shard: S) -> None:
        """End what a closed shard was doing."""
