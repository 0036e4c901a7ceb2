"""
Limits the rate of replication while replicas move (KIP-73; Kafka: ReplicationQuotaManager).

A topic lists the throttled replicas (``leader.`` and ``follower.replication.throttled.replicas``), and each broker has
a rate in bytes a second for sending to them, and one for fetching for them.  Replicas in sync are never throttled,
since producers wait for them.

A rate is a token bucket that holds one window's worth.  A fetch may overdraw it; then no more moves until it has
filled again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field

from logbus.cluster.replication.follower_state import FollowerState
from logbus.cluster.replication.replica import Replica
from logbus.config.kinds import LONG_MAX

MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.05, 1.0
"""Seconds after which a throttled partition is checked again: rates may rise, too."""


def is_listed(listed: Sequence[str], partition: int, broker_id: int) -> bool:
    """Whether ``PARTITION:BROKER`` is in a list of throttled replicas, or all are (``*``)."""
    return "*" in listed or f"{partition}:{broker_id}" in listed


@define(eq=False)
class TokenBucket:
    """
    A token bucket of bytes.

    :param rate: bytes a second; read every time.
    :param seconds: a monotonic clock.
    :param window: its size, in seconds of the rate.
    """

    rate: Callable[[], int] = lambda: LONG_MAX
    seconds: Callable[[], float] = lambda: 0.0
    window: float = 1.0
    _held: float | None = field(default=None, init=False)
    _filled_at: float = field(default=0.0, init=False)

    def take(self, size: int) -> None:
        """Take bytes out."""
        self._held = self._now() - size

    @property
    def pause(self) -> float:
        """Seconds to wait; 0: bytes may move now."""
        held = self._now()
        if held > 0:
            return 0.0
        rate = self.rate()
        return min(MAX_PAUSE_SECONDS, max(MIN_PAUSE_SECONDS, -held / rate)) if rate else MAX_PAUSE_SECONDS

    def _now(self) -> float:
        rate, now = self.rate(), self.seconds()
        most = rate * self.window
        held = most if self._held is None else min(most, self._held + rate * (now - self._filled_at))
        self._held, self._filled_at = held, now
        return held


class ReplicationThrottle:
    """Limits what followers get; this one does not (Kafka: ReplicaQuota)."""

    def is_throttled(self, replica: Replica, follower: FollowerState) -> bool:
        """Whether a follower gets no records of ``replica`` for now."""
        return False

    def sent(self, replica: Replica, follower: FollowerState, size: int) -> None:
        """Count bytes of ``replica`` that a follower gets."""


@define(eq=False)
class LeaderThrottle(ReplicationThrottle):
    """Limits what this broker sends to followers that are not in sync."""

    bucket: TokenBucket

    def is_throttled(self, replica: Replica, follower: FollowerState) -> bool:
        """Whether a follower gets no records of ``replica`` for now."""
        return self._counts(replica, follower) and self.bucket.pause > 0

    def sent(self, replica: Replica, follower: FollowerState, size: int) -> None:
        """Count bytes of ``replica`` that a follower gets."""
        if self._counts(replica, follower):
            self.bucket.take(size)

    def _counts(self, replica: Replica, follower: FollowerState) -> bool:
        listed, partition = replica.log.config.leader_replication_throttled_replicas, replica.partition
        return (
            bool(listed)
            and follower.broker_id not in partition.leader_and_isr.isr
            and is_listed(listed, replica.topic_partition.partition, partition.broker_id)
        )


@define(eq=False)
class FollowerThrottle:
    """
    Limits what this broker fetches for replicas of its own that are behind.

    ``lag`` is that of the leader's last answer: 0: no committed record is missing, −1: there was no answer yet.
    """

    bucket: TokenBucket = field(factory=TokenBucket)

    def pause(self, replica: Replica, lag: int) -> float:
        """Seconds until ``replica`` may be fetched; 0: now."""
        return self.bucket.pause if self._counts(replica, lag) else 0.0

    def fetched(self, replica: Replica, lag: int, size: int) -> None:
        """Count bytes fetched for ``replica``."""
        if size and self._counts(replica, lag):
            self.bucket.take(size)

    def _counts(self, replica: Replica, lag: int) -> bool:
        listed = replica.log.config.follower_replication_throttled_replicas
        return (
            bool(listed)
            and lag != 0
            and is_listed(listed, replica.topic_partition.partition, replica.partition.broker_id)
        )
