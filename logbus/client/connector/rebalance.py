"""
Rebalancing: which partitions to release and to claim, and when to look again. Pure.

The states of a member::

    AWAY ──connected──▶ DUE ──begin──▶ LOOKING ──ended, nothing missing──▶ SETTLED
     ▲                   ▲                │                                   │
     │                   │                └──ended, something missing──▶ WAITING
     └──away (from any)  └──changed (from SETTLED, from WAITING, from LOOKING once it ends), time is up (from WAITING)

A partition is *missing* if this member should read it and does not yet, because its last owner has not released it, or
its offset cannot be read. A round with missing partitions is followed by another after a pause, or after a change.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from attrs import define, field

from logbus.errors import LogbusError
from logbus.model import TopicPartition


class RebalanceFailed(LogbusError):
    """A consumer did not get its partitions in time; the message says which are missing, and why."""


def to_release(claimed: Mapping[TopicPartition, int], share: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """
    The partitions that are other members', or another of its streams', with the stream that has them now. A member
    releases them before it claims its share.

    :param claimed: the partitions that it owns or may own, by stream.
    :param share: the partitions that it should own, by stream.
    """
    return {each: stream for each, stream in claimed.items() if share.get(each) != stream}


class RebalancePhase(Enum):
    """The state of a member: see the module."""

    AWAY = "away"
    DUE = "due"
    LOOKING = "looking"
    WAITING = "waiting"
    SETTLED = "settled"


@define(eq=False)
class RebalanceRounds:
    """
    Decides when to start a round, and counts failures.

    :ivar max_retries: failed rounds after the first until that is reported.
    :ivar failures: consecutive failed rounds while nothing changed.
    """

    max_retries: int
    phase: RebalancePhase = field(default=RebalancePhase.AWAY, init=False)
    failures: int = field(default=0, init=False)
    _again: bool = field(default=False, init=False)

    def is_in(self, phase: RebalancePhase) -> bool:
        """Whether the member is in this phase."""
        return self.phase is phase

    def connected(self) -> None:
        """ZooKeeper is reachable."""
        if self.phase is RebalancePhase.AWAY:
            self.phase = RebalancePhase.DUE

    def away(self) -> None:
        """ZooKeeper is unreachable."""
        self.phase = RebalancePhase.AWAY
        self.failures = 0
        self._again = False

    def changed(self) -> None:
        """A watched node has changed."""
        if self.phase is RebalancePhase.LOOKING:
            self._again = True
        elif self.phase in (RebalancePhase.WAITING, RebalancePhase.SETTLED):
            self.phase = RebalancePhase.DUE
            self.failures = 0

    def time_is_up(self) -> None:
        """The pause after a failed round is over."""
        if self.phase is RebalancePhase.WAITING:
            self.phase = RebalancePhase.DUE

    def begin(self) -> None:
        """Start a round."""
        if self.phase is RebalancePhase.DUE:
            self.phase = RebalancePhase.LOOKING

    def ended(self, missing: bool) -> bool:
        """
        End a round.

        :return: whether to report a failure: once every ``max_retries`` rounds after the first.
        """
        if self.phase is not RebalancePhase.LOOKING:
            return False
        again, self._again = self._again, False
        self.failures = self.failures + 1 if missing and not again else 0
        failed = self.failures > 0 and self.failures % (self.max_retries + 1) == 0
        self.phase = RebalancePhase.DUE if again else RebalancePhase.WAITING if missing else RebalancePhase.SETTLED
        return failed
