"""
Changes the ISR of the partitions that this broker leads, through the controller (Kafka: AlterPartitionManager).

One request is in flight at a time, for all partitions that are due by then.  The reason why a partition is due is not
kept: the change is computed when the request is built, and again after each answer.  A lost answer loses nothing, and a
partition whose change is always refused costs one request now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.icluster import IControllerChannel
from logbus.cluster.replication.replica import Replica
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.errors import ApiError
from logbus.metrics import metric
from logbus.model import IsrChange, LeaderAndIsr, TopicPartition
from logbus.net.time_slices import TimeSlice

MAX_CHANGES_PER_REQUEST = 1000
"""Changes in one request."""

FIRST_RETRY_SECONDS = 0.1
MAX_RETRY_SECONDS = 5.0

RESPONSE_TIMEOUT_SECONDS = 30.0
"""Timeout of a request; after that its outcome is unknown."""

Answers = Mapping[TopicPartition, "LeaderAndIsr | ApiError"]


class Lag(NamedTuple):
    """The number of offsets that a follower is behind its leader here; None if it has not fetched yet."""

    topic_partition: TopicPartition
    broker_id: int
    offsets: int | None


class SentChange(NamedTuple):
    """A change that was sent to the controller, and the ISR before it."""

    replica: Replica
    change: IsrChange
    before: tuple[int, ...]


@define(eq=False, repr=False)
class IsrManager:
    """
    Sends ISR changes to the controller, and checks for lagging followers; a
    :class:`~logbus.cluster.replication.replica_context.ReplicaContext`.

    :param max_lag_ms: reads ``replica.lag.time.max.ms``; called every time.
    :ivar followers_serve: whether consumers are sent to followers.
    :ivar expansions: how often an ISR grew; ``shrinks``: how often one shrank.
    """

    _replicas: ReplicaManager
    _metadata: ClusterMetadata
    _controller_channel: IControllerChannel
    _clock: IReactorTime
    _max_lag_ms: Callable[[], int]
    followers_serve: bool = False
    expansions: int = metric("logbus_isr_expands_total", "Replicas of partitions led here that joined the ISR.")
    shrinks: int = metric("logbus_isr_shrinks_total", "Replicas of partitions led here that left the ISR.")
    _due: dict[Replica, None] = field(factory=dict, init=False)
    _asking: bool = field(default=False, init=False)
    _next: IDelayedCall | None = field(default=None, init=False)
    _retry_seconds: float = field(default=FIRST_RETRY_SECONDS, init=False)
    _check: IDelayedCall | None = field(default=None, init=False)
    _check_due: float = field(default=0.0, init=False)
    _is_checking: bool = field(default=False, init=False)
    _living: frozenset[int] = field(default=frozenset(), init=False)
    _shutting_down: frozenset[int] = field(default=frozenset(), init=False)
    # What replicas are yet to be told.
    _lost: frozenset[int] = field(default=frozenset(), init=False)
    _leaving: frozenset[int] | None = field(default=None, init=False)
    _telling: bool = field(default=False, init=False)
    _world: object = field(default=None, init=False)
    _unsubscribe: Callable[[], None] = field(default=lambda: None, init=False)
    _running: bool = field(default=False, init=False)
    _log = Logger()

    def start(self) -> None:
        """Begin to check for lagging followers, and to send changes."""
        self._running = True
        self._living = frozenset(self._metadata.brokers)
        self._unsubscribe = self._metadata.subscribe(self._brokers_changed)
        self._schedule_check()
        self._ask_soon(0)

    def stop(self) -> None:
        """Send nothing more."""
        self._running = False
        self._unsubscribe()
        for call in (self._next, self._check):
            if call is not None and call.active():
                call.cancel()
        self._next = self._check = None

    # The context of replicas.

    @property
    def max_lag(self) -> float:
        return self._max_lag_ms() / 1000

    def seconds(self) -> float:
        now: float = self._clock.seconds()
        return now

    def is_alive(self, broker_id: int) -> bool:
        return broker_id in self._metadata.brokers

    def epoch_of(self, broker_id: int) -> int:
        broker = self._metadata.brokers.get(broker_id)
        return 0 if broker is None else broker.epoch

    def shutting_down(self) -> Collection[int]:
        return self._shutting_down

    def request_isr_change(self, replica: Replica) -> None:
        self._due[replica] = None
        self._ask_soon(0)

    # Asking.

    def _ask_soon(self, seconds: float) -> None:
        if self._running and not self._asking and self._next is None and self._due:
            self._next = self._clock.callLater(seconds, self._ask)

    def _ask(self) -> None:
        self._next = None
        now, max_lag = self.seconds(), self.max_lag
        asked: list[SentChange] = []
        while self._due and len(asked) < MAX_CHANGES_PER_REQUEST:
            replica = next(iter(self._due))
            del self._due[replica]
            change = replica.partition.prepare_isr_change(now, max_lag)
            if change is not None:
                asked.append(SentChange(replica, change, replica.partition.leader_and_isr.isr))
        if not asked:
            return
        self._asking = True
        answer: Deferred[Answers] = self._controller_channel.alter_partitions([one.change for one in asked])
        answer.addTimeout(RESPONSE_TIMEOUT_SECONDS, self._clock)
        answer.addCallbacks(self._answered, self._failed, callbackArgs=(asked,), errbackArgs=(asked,))
        answer.addErrback(lambda failure: self._log.failure("taking in the controller's answer failed", failure))

    def _answered(self, answers: Answers, asked: Sequence[SentChange]) -> None:
        self._asking = False
        failed = False
        for replica, change, before in asked:
            name = change.topic_partition
            answer = answers.get(name)
            if isinstance(answer, LeaderAndIsr):
                self._count(before, answer.isr)
            else:
                failed = True
                self._log.debug("{partition}: {change} was refused: {why}", partition=name, change=change, why=answer)
            replica.isr_answered(change, answer)
            self._due[replica] = None
        self._ask_again(failed=failed)

    def _failed(self, failure: Failure, asked: Sequence[SentChange]) -> None:
        self._asking = False
        self._log.info(
            "asking the controller for {count} changes of in-sync replicas failed: {why}",
            count=len(asked),
            why=failure.getErrorMessage(),
        )
        for replica, change, _ in asked:
            replica.isr_answered(change, None)
            self._due[replica] = None
        self._ask_again(failed=True)

    def _ask_again(self, *, failed: bool) -> None:
        """Send the next changes; after a pause if these failed."""
        if not failed:
            self._retry_seconds = FIRST_RETRY_SECONDS
            self._ask_soon(0)
            return
        self._ask_soon(self._retry_seconds)
        self._retry_seconds = min(2 * self._retry_seconds, MAX_RETRY_SECONDS)

    def _ask_at_once(self) -> None:
        self._retry_seconds = FIRST_RETRY_SECONDS
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self._ask_soon(0)

    def _count(self, before: Collection[int], after: Collection[int]) -> None:
        self.expansions += bool(set(after) - set(before))
        self.shrinks += bool(set(before) - set(after))

    # Followers that lag.

    def _schedule_check(self) -> None:
        interval = self.max_lag / 2
        self._check_due = self.seconds() + interval
        self._check = self._clock.callLater(interval, self._check_unless_paused)

    def _check_unless_paused(self) -> None:
        late = self.seconds() - self._check_due
        self._schedule_check()
        # If this process was paused, requests of followers are still unread: they are not lagging.
        if late <= self.max_lag / 4 and not self._is_checking:
            self._is_checking = True
            Deferred.fromCoroutine(self.check_lags()).addErrback(
                lambda failure: self._log.failure("looking for lagging followers failed", failure)
            )

    async def check_lags(self) -> None:
        """Check how far all followers lag, some in a turn; ends early if this process was paused between two turns."""
        replicas = self._replicas
        time_slice = TimeSlice(replicas.slices)
        try:
            for replica in replicas:
                if replica.partition.followers:
                    replica.check_lag()
                if time_slice.used():
                    before = self.seconds()
                    await time_slice.next()
                    if not self._running or self.seconds() - before > self.max_lag / 4:
                        break
        finally:
            self._is_checking = False

    def _brokers_changed(self) -> None:
        living = frozenset(self._metadata.brokers)
        lost, self._living = self._living - living, living
        leaving = frozenset(one.broker_id for one in self._metadata.brokers.values() if one.in_controlled_shutdown)
        if lost or leaving != self._shutting_down:
            self._lost |= lost
            self._leaving, self._shutting_down = leaving, leaving
            if not self._telling:
                self._telling = True
                Deferred.fromCoroutine(self._tell_replicas()).addErrback(
                    lambda failure: self._log.failure("telling replicas of brokers that are gone failed", failure)
                )
        world = self._metadata.controller_id, {one.broker_id: one.epoch for one in self._metadata.brokers.values()}
        if world != self._world:
            # Refused changes may succeed with another controller, or for a broker that is back.
            self._world = world
            self._ask_at_once()

    async def _tell_replicas(self) -> None:
        """
        Tell all leaders of followers that are gone or leave, some in a turn. One that is back meanwhile joins again
        when it fetches.
        """
        try:
            while self._lost or self._leaving is not None:
                lost, self._lost = self._lost, frozenset()
                leaving, self._leaving = self._leaving, None
                async for replica in TimeSlice(self._replicas.slices).over(self._replicas):
                    if replica.partition.followers:
                        if lost:
                            replica.brokers_lost(lost)
                        if leaving is not None:
                            replica.set_shutting_down(leaving)
        finally:
            self._telling = False

    # Metrics.

    def lags(self) -> Iterator[Lag]:
        """Every other replica of the partitions led here."""
        for replica in self._replicas:
            partition = replica.partition
            for broker_id, follower in partition.followers.items():
                known = follower.log_end_offset >= 0
                behind = max(0, partition.log_end_offset - follower.log_end_offset) if known else None
                yield Lag(partition.topic_partition, broker_id, behind)
