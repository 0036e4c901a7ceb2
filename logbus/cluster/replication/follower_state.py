"""
The leader's state of a follower of its partition (Kafka: Replica, ReplicaState). Pure.

Times are seconds of a monotonic clock.
"""

from __future__ import annotations

from attrs import define

UNKNOWN_OFFSET = -1
NEVER = float("-inf")


@define(eq=False, slots=True)
class FollowerState:
    """
    A follower, by its fetches in this leader epoch.

    :ivar log_end_offset: the offset of its last fetch: it has everything before. −1: no fetch in this epoch yet.
    :ivar log_start_offset: of its log, by its last fetch.
    :ivar broker_epoch: of its broker, by its last fetch.
    :ivar caught_up_at: when it last had all records of the leader.
    :ivar in_controlled_shutdown: its broker is shutting down, and cannot join the ISR.
    :ivar is_ready: it is not in the ISR, and its last fetch showed that it may join.
    :ivar given_at: the offset at which it last got records; if it fetches there again, it could not use them.
    :ivar is_joining: it is not in the ISR and will join soon: it keeps up, and the high watermark waits for it.
    """

    broker_id: int
    caught_up_at: float
    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    broker_epoch: int = -1
    is_ready: bool = False
    is_joining: bool = False
    in_controlled_shutdown: bool = False
    given_at: int = UNKNOWN_OFFSET
    _fetched_at: float = 0.0
    _leader_end: int = 1 << 63

    def begin_incarnation(self, broker_epoch: int) -> None:
        """
        It fetches with a new registration, and may have lost records that it had before (KIP-903). If it counts for the
        high watermark, it still does, with an unknown end offset.
        """
        self.broker_epoch = broker_epoch
        self.log_end_offset = self.log_start_offset = UNKNOWN_OFFSET
        self.is_ready = False

    def fetched(self, offset: int, log_start_offset: int, leader_end: int, now: float) -> None:
        """
        It fetches from ``offset``, while the leader's log ends at ``leader_end``.

        Under load it hardly ever fetches at the very end. If it now fetches from at or beyond the leader's end at its
        previous fetch, it was caught up then.
        """
        if offset >= leader_end:
            self.caught_up_at = now
        elif offset >= self._leader_end:
            self.caught_up_at = max(self.caught_up_at, self._fetched_at)
        self._fetched_at = now
        self._leader_end = leader_end
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset

    def check_lag(self, leader_end: int, now: float) -> None:
        """Periodically: a follower that has everything is caught up, though it may not fetch."""
        if self.log_end_offset == leader_end:
            self.caught_up_at = now

    def lags(self, leader_end: int, now: float, max_lag: float) -> bool:
        """Whether it has been behind for more than ``max_lag`` seconds."""
        return self.log_end_offset != leader_end and now - self.caught_up_at > max_lag

    def leave(self) -> None:
        """It cannot join the ISR until it fetches again."""
        self.is_ready = self.is_joining = False
