"""
Finds what is wrong with a broker, by kind of condition. A source yields findings, and None where others may have a
turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from logbus.broker.security import BrokerSecurity
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.conditions import Finding
from logbus.metastore.imetastore import IMetadataStore
from logbus.metastore.operations import SessionState
from logbus.net.arrivals import Arrivals
from logbus.net.metrics import NetMetrics
from logbus.storage.disk_space import SpaceLevel
from logbus.storage.log_manager import LogManager
from logbus.wording import counted

if TYPE_CHECKING:
    from logbus.cluster.remote_log.store_trouble import StoreTrouble
    from logbus.mirror.running_mirror import RunningMirror

Source = Callable[[], Iterator[Finding | None]]

A_TURN = 500
"""Partitions looked at in one turn of the reactor; they cost about a microsecond each."""

SHOWN = 10
"""Partitions that a message names."""

CERTIFICATE_DAYS = 30
JUMP_SECONDS = 5.0
LATE_SECONDS = 1.0
SLOW_SECONDS = 5.0
"""Of a sync. A disk that is only busy takes a second at times."""
KEPT_SECONDS = 300.0
"""For how long a condition holds of something that happens in a moment."""


@frozen
class LogSources:
    """Finds what is wrong with log directories and logs."""

    logs: LogManager

    def offline(self) -> Iterator[Finding | None]:
        for directory in self.logs.directories:
            if not directory.is_online:
                yield Finding(directory.disk.root, str(directory.disk.failure))

    def full(self) -> Iterator[Finding | None]:
        yield from self._at(SpaceLevel.FULL, "writes are refused")

    def nearly_full(self) -> Iterator[Finding | None]:
        yield from self._at(SpaceLevel.LOW, "writes are refused when it is full")

    def _at(self, level: SpaceLevel, message: str) -> Iterator[Finding | None]:
        strays = {each.disk.root: len(each.strays) for each in self.logs.directories}
        for root, state in self.logs.space.states.items():
            if state.level is level:
                said = message if state.space is None else f"{state.space}; {message}"
                if strays[root]:
                    said += f"; it keeps {counted(strays[root], 'log')} that the cluster does not know (*-stray)"
                yield Finding(root, said)

    def uncleanable(self) -> Iterator[Finding | None]:
        for log, why in list(self.logs.cleaner.uncleanable.items()):
            yield Finding(str(log.partition), why)

    def damaged(self) -> Iterator[Finding | None]:
        for directory in self.logs.directories:
            for number, log in enumerate(list(directory.logs.values()), 1):
                if number % A_TURN == 0:
                    yield None
                damages = self.logs.damage.of(log) if self.logs.damage.count else ()
                if damages:
                    first = damages[0]
                    yield Finding(str(first.partition), f"{first.path} at byte {first.position}: {first.problem}")


@frozen
class PartitionSources:
    """Finds what is wrong with partitions: those led here, and, on the controller, those without a leader."""

    broker_id: int
    metadata: ClusterMetadata
    replicas: ReplicaManager

    def offline(self) -> Iterator[Finding | None]:
        if self.metadata.controller_id != self.broker_id:
            return
        looked_at = 0
        for topic in list(self.metadata.topics.values()):
            without = []
            for number, image in enumerate(topic.partitions):
                looked_at += 1
                if looked_at % A_TURN == 0:
                    yield None
                if image.leader < 0:
                    without.append(number)
            if without:
                yield Finding(topic.name, f"without a leader: {_numbers(without)}")

    def under_min_isr(self) -> Iterator[Finding | None]:
        found: dict[str, list[int]] = {}
        for looked_at, replica in enumerate(self.replicas, 1):
            if looked_at % A_TURN == 0:
                yield None
            partition = replica.partition
            if partition.is_leader and not partition.has_enough_replicas:
                found.setdefault(replica.topic_partition.topic, []).append(replica.topic_partition.partition)
        for topic, numbers in sorted(found.items()):
            yield Finding(topic, f"fewer in sync than min.insync.replicas: {_numbers(sorted(numbers))}")


def _numbers(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:SHOWN]))
    more = f" and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else ""
    return f"partition{'s' if len(numbers) > 1 else ''} {shown}{more}"


_OF_ZOOKEEPER = "Look at the ZooKeeper servers and the network to them; the broker connects again by itself."
_OF_SUPERVISOR = (
    "Look at the log of the supervisor of the workers, which has the store, and whether it hangs; "
    "the worker connects again by itself."
)


@frozen
class StoreSource:
    """
    Whether the metadata store answers.

    :ivar is_zookeeper: whether it is ZooKeeper; else it is that of the workers' supervisor.
    """

    store: IMetadataStore
    is_zookeeper: bool

    def away(self) -> Iterator[Finding | None]:
        state = self.store.state
        if state is not SessionState.CONNECTED:
            yield Finding("session", f"it is {state.value}", _OF_ZOOKEEPER if self.is_zookeeper else _OF_SUPERVISOR)


@frozen
class RemoteStorageSource:
    """
    Whether the object store works.

    :ivar trouble: None: there is none.
    """

    trouble: StoreTrouble | None

    def away(self) -> Iterator[Finding | None]:
        if self.trouble is not None and self.trouble.failures:
            yield Finding(self.trouble.where, self.trouble.error)


@frozen
class MirrorSource:
    """
    Finds what the mirrors of this broker do not copy.

    :ivar mirrors: returns these.
    """

    mirrors: Callable[[], Sequence[RunningMirror]]

    def stopped(self) -> Iterator[Finding | None]:
        for each in self.mirrors():
            status = each.status
            if status.has_failed and status.last_error is not None:
                yield Finding(status.flow, status.last_error.message)
            for subject, reason in sorted(status.problems.items()):
                yield Finding(f"{status.flow}: {subject}", reason)


@frozen
class CertificateSource:
    """
    Certificates of listeners that end soon.

    :ivar wall_clock: seconds since 1970.
    """

    security: BrokerSecurity
    wall_clock: Callable[[], float]

    def ending(self) -> Iterator[Finding | None]:
        now = datetime.fromtimestamp(self.wall_clock(), UTC)
        for listener, pair in self.security.key_pairs():
            first = min((pair.certificate, *pair.chain), key=lambda one: one.not_valid_after_utc)
            days = (first.not_valid_after_utc - now).total_seconds() / 86400
            if days < CERTIFICATE_DAYS:
                when = f"{first.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
                name = first.subject.rfc4514_string()
                left = f"in {days:.0f} days" if days >= 2 else "in less than two days"
                ends = f"ended on {when}" if days < 0 else f"ends on {when}, {left}"
                yield Finding(listener, f"the certificate of {name} {ends}")


@define(eq=False)
class ClockSource:
    """
    Whether the wall clock jumped: it and the monotonic clock went on by different times.

    :ivar seconds: the monotonic clock; ``wall_clock``: seconds since 1970.
    """

    seconds: Callable[[], float]
    wall_clock: Callable[[], float]
    _difference: float | None = field(default=None, init=False)
    _said: str = field(default="", init=False)
    _until: float = field(default=float("-inf"), init=False)

    def jumped(self) -> Iterator[Finding | None]:
        now = self.seconds()
        difference = self.wall_clock() - now
        if self._difference is not None and abs(by := difference - self._difference) >= JUMP_SECONDS:
            self._said = f"it was set {'forward' if by > 0 else 'back'} by {abs(by):.0f} s"
            self._until = now + KEPT_SECONDS
        self._difference = difference
        if now < self._until:
            yield Finding("wall clock", self._said)


@define(eq=False)
class LatenessSource:
    """
    Whether the reactor was blocked lately.

    :ivar longest: returns the longest time since the last call, in seconds.
    """

    seconds: Callable[[], float]
    longest: Callable[[], float]
    _worst: float = field(default=0.0, init=False)
    _until: float = field(default=float("-inf"), init=False)

    def late(self) -> Iterator[Finding | None]:
        now, late = self.seconds(), self.longest()
        if now >= self._until:
            self._worst = 0.0
        if late >= LATE_SECONDS:
            self._worst, self._until = max(self._worst, late), now + KEPT_SECONDS
        if now < self._until:
            yield Finding("reactor", f"it was blocked for {self._worst:.1f} s")


@define(eq=False)
class SlownessSource:
    """
    Whether syncs of a log directory took long lately, or do not end.

    :ivar _worst: seconds of the longest sync, and until when it is told, by directory.
    """

    seconds: Callable[[], float]
    logs: LogManager
    _worst: dict[str, tuple[float, float]] = field(factory=dict, init=False)

    def slow(self) -> Iterator[Finding | None]:
        now = self.seconds()
        for directory in self.logs.directories:
            root, took = directory.disk.root, directory.disk.flush_times.take_longest()
            worst, until = self._worst.get(root, (0.0, now))
            if now >= until:
                worst = 0.0
            if took >= SLOW_SECONDS:
                worst, until = self._worst[root] = max(worst, took), now + KEPT_SECONDS
            if now < until and directory.is_online:
                yield Finding(root, f"a sync took {worst:.0f} s")


@define(eq=False)
class RefusalSource:
    """Whether connections were refused lately."""

    seconds: Callable[[], float]
    metrics: NetMetrics
    _before: int = field(default=0, init=False)
    _since: int = field(default=0, init=False)
    _until: float = field(default=float("-inf"), init=False)

    def refused(self) -> Iterator[Finding | None]:
        now, count = self.seconds(), self.metrics.connections_refused
        if now >= self._until:
            self._since = self._before
        if count > self._before:
            self._before, self._until = count, now + KEPT_SECONDS
        if now < self._until:
            yield Finding("connections", f"{count - self._since} were closed at once, as there were too many")


@define(eq=False)
class FloodSource:
    """
    Whether clients bring more into being than they should.

    :ivar what: comes, in the plural.
    :ivar enough: returns how much it takes within :data:`.SPAN_SECONDS`; 0: it is never told.
    """

    seconds: Callable[[], float]
    what: str
    arrivals: Arrivals
    enough: Callable[[], int]
    _until: float = field(default=float("-inf"), init=False)

    def flooded(self) -> Iterator[Finding | None]:
        now, enough = self.seconds(), self.enough()
        if not enough:
            return
        if self.arrivals.lately >= enough:
            # What is near the number now and then is told once.
            self._until = now + KEPT_SECONDS
        if now < self._until:
            yield Finding("clients", self.arrivals.describe(self.what))
