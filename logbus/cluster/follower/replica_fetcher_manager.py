"""
Runs the fetchers of this broker's followers, one for each leading broker (Kafka: ReplicaFetcherManager).

Roles come from the controller, through :class:`.ReplicaManager`: a partition is fetched from the moment its follower
role is taken until it gets the next role.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import define, field
from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, gatherResults, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.follower.fetch_settings import ReplicaFetchCounters, ReplicaFetchSettings
from logbus.cluster.follower.followed_partitions import FollowedPartitions
from logbus.cluster.follower.partition_fetch_state import PartitionFetchState
from logbus.cluster.follower.replica_fetcher import ChannelFor, ReplicaFetcher
from logbus.cluster.follower.tier_state_machine import RemoteState, TierStateMachine, no_remote_storage
from logbus.cluster.replication.replica import Replica
from logbus.cluster.replication.replication_throttle import FollowerThrottle
from logbus.metrics import Registry
from logbus.model import TopicPartition
from logbus.storage.log_manager import LogManager
from logbus.timers import Timers


@define(eq=False)
class _RunningFetcher:
    """A fetcher, and the Deferred of its loop."""

    fetch: ReplicaFetcher
    done: Deferred[None]


@define(eq=False, repr=False, slots=False)
class ReplicaFetcherManager(Service):
    """
    The service that fetches all partitions that this broker follows.

    :param broker_epoch: of this broker now; goes into every fetch (KIP-903).
    :param channel_for: connections to other brokers.
    :param settings: read before each fetch.
    :param throttle: of fetches for replicas that are behind.
    :param leader_incomplete: called with a partition, its leader, the leader epoch and the reason, when the leader
        lacks committed records that this broker has.
    :ivar remote_state: see :data:`.RemoteState`; set once this broker has remote storage.
    :ivar counters: of all leaders together.
    """

    broker_id: int
    _broker_epoch: Callable[[], int]
    _logs: LogManager
    _channel_for: ChannelFor
    _timers: Timers
    _settings: Callable[[], ReplicaFetchSettings] = ReplicaFetchSettings
    _throttle: FollowerThrottle = field(factory=FollowerThrottle)
    _leader_incomplete: Callable[[TopicPartition, int, int, str], object] = lambda *_: None
    remote_state: RemoteState = field(default=no_remote_storage, init=False)
    counters: ReplicaFetchCounters = field(factory=ReplicaFetchCounters, init=False)
    _loops: dict[int, _RunningFetcher] = field(factory=dict, init=False)
    _followed: dict[TopicPartition, tuple[int, PartitionFetchState]] = field(factory=dict, init=False)
    _log = Logger()

    def register_metrics(self, registry: Registry) -> None:
        """Declare the metrics of fetching from leaders."""
        registry.add_fields(self.counters)
        registry.gauge(
            "logbus_replica_fetcher_partitions", "Partitions that this broker follows.", read=lambda: len(self)
        )
        registry.gauge(
            "logbus_replica_fetcher_failing_leaders",
            "Leaders from which fetches currently fail.",
            read=lambda: len(self.failing()),
        )
        registry.gauge(
            "logbus_replica_fetcher_max_lag",
            "Largest number of committed records that a followed partition lacks.",
            read=lambda: self.max_lag,
        )

    def __len__(self) -> int:
        """The number of followed partitions."""
        return len(self._followed)

    def __iter__(self) -> Iterator[tuple[int, PartitionFetchState]]:
        """The leader and the fetch state of each followed partition."""
        return iter(list(self._followed.values()))

    def find(self, name: TopicPartition) -> PartitionFetchState | None:
        """The fetch state of a partition, if it is followed."""
        found = self._followed.get(name)
        return None if found is None else found[1]

    def failing(self) -> dict[int, str]:
        """The leaders that cannot be fetched from, and why."""
        return {leader: running.fetch.problem for leader, running in self._loops.items() if running.fetch.problem}

    @property
    def max_lag(self) -> int:
        """The largest lag of a followed partition, in committed records."""
        return max((followed.lag for _, followed in self._followed.values()), default=0)

    def follow(self, replica: Replica, leader: int) -> None:
        """
        Fetch a partition from a broker, in the leader epoch that the replica was given.

        Call :meth:`unfollow` first if it is followed in another epoch. Does nothing once the service has stopped.
        """
        partition = replica.partition
        name = replica.topic_partition
        assert name not in self._followed, f"{name} is followed already"
        if not self.running:
            return
        followed = PartitionFetchState(replica, partition.leader_epoch, partition.leader_and_isr.unclean_epoch)
        running = self._loops.get(leader)
        if running is None:
            running = self._loops[leader] = self._start(leader)
        self._followed[name] = (leader, followed)
        running.fetch.partitions.add(followed)

    def unfollow(self, name: TopicPartition) -> Deferred[None]:
        """Stop fetching a partition; fires once nothing changes its log any more. Unknown ones are ignored."""
        found = self._followed.pop(name, None)
        if found is None:
            return succeed(None)
        leader, followed = found
        running = self._loops[leader]
        ended = running.fetch.partitions.remove(followed)
        if not running.fetch.partitions.followed:
            del self._loops[leader]
            running.done.cancel()
        return ended

    def _start(self, leader: int) -> _RunningFetcher:
        partitions = FollowedPartitions(
            leader,
            self._logs,
            self._timers,
            self._settings,
            self.counters,
            self._throttle,
            TierStateMachine(leader, self.broker_id, self._channel_for, self.remote_state),
            lambda followed, reason: self._leader_incomplete(followed.name, leader, followed.leader_epoch, reason),
        )
        fetch = ReplicaFetcher(
            leader,
            self.broker_id,
            self._broker_epoch,
            self._channel_for,
            self._timers,
            self._settings,
            self.counters,
            partitions,
        )
        done = Deferred.fromCoroutine(fetch.run())
        done.addErrback(self._ended, leader)
        return _RunningFetcher(fetch, done)

    def _ended(self, failure: Failure, leader: int) -> None:
        if not failure.check(CancelledError):
            self._log.failure("fetching from broker {leader} stopped", failure, leader=leader)

    def stopService(self) -> Deferred[None]:
        """Stop all fetchers; fires when no log is being changed."""
        super().stopService()
        return gatherResults([self.unfollow(name) for name in list(self._followed)]).addCallback(lambda _: None)
