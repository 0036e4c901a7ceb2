"""
What a leader knows of the other replicas of its partition, one by one. Pure.

Times are seconds of a clock that only goes forward.
"""

from __future__ import annotations

from attrs import define

UNKNOWN_OFFSET = -1
NEVER = float("-inf")


@define(eq=False, slots=True)
class FollowerState:
    """
    Another replica, as its fetches in this leader epoch show it.

    :ivar log_end_offset: where its last fetch began: it has everything before. −1: it has not fetched in this epoch.
    :ivar log_start_offset: where its log begins, as it said last.
    :ivar broker_epoch: of its life, as it said last.
    :ivar caught_up_at: when it last had all that the leader had.
    :ivar in_controlled_shutdown: its broker is shutting down, and cannot come into sync.
    :ivar is_ready: it is not in sync, and its last fetch showed that it may be (rule 5).
    :ivar given_at: the offset at which it was given records last; one that asks there again could not use them.
    :ivar is_joining: it is not in sync and will soon be: it keeps up, and the high watermark does not run from it.
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
        It fetches in a new life: what it had in the one before it may have lost (KIP-903). If it counts, it goes on to
        count, with nothing.
        """
        self.broker_epoch = broker_epoch
        self.log_end_offset = self.log_start_offset = UNKNOWN_OFFSET
        self.is_ready = False

    def fetched(self, offset: int, log_start_offset: int, leader_end: int, now: float) -> None:
        """
        It asks for what is at ``offset``, while the leader's log ends at ``leader_end``.

        Under load it hardly ever asks at the very end. One that now asks for what did not exist when it asked before
        had everything then.
        """
        if offset >= leader_end:
            self.caught_up_at = now
        elif offset >= self._leader_end:
            self.caught_up_at = max(self.caught_up_at, self._fetched_at)
        self._fetched_at = now
        self._leader_end = leader_end
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset

    def look(self, leader_end: int, now: float) -> None:
        """Time went by: who has everything is caught up now, though it has no reason to say so."""
        if self.log_end_offset == leader_end:
            self.caught_up_at = now

    def lags(self, leader_end: int, now: float, max_lag: float) -> bool:
        """Whether it has been behind for more than ``max_lag`` seconds."""
        return self.log_end_offset != leader_end and now - self.caught_up_at > max_lag

    def leave(self) -> None:
        """It is no candidate any more, until it fetches again."""
        self.is_ready = self.is_joining = False
