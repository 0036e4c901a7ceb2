"""
A rebalance as values: what to let go and what to take, and when to look again. Pure.

A member's way::

    AWAY ──connected──▶ DUE ──begin──▶ LOOKING ──ended, nothing missing──▶ SETTLED
     ▲                   ▲                │                                   │
     │                   │                └──ended, something missing──▶ WAITING
     └──away (from any)  └──changed (from SETTLED, from WAITING, from LOOKING once it ends), time is up (from WAITING)

*Missing* is what this member should read and does not yet: its owner before has not let go of it, or its offset cannot
be read. A round that finds something missing is followed by another one after a pause, or as soon as something changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from attrs import define, field, frozen

from logbus.errors import LogbusError
from logbus.model import TopicPartition


class RebalanceFailed(LogbusError):
    """A consumer did not get its share of the partitions in time; the message says what is missing, and why."""


@frozen
class RebalancePlan:
    """
    :ivar release: what others are to read, or another stream of ours, by the stream that has it now.
    :ivar take: what is ours now, by stream; also what we have already: that is looked after.
    """

    release: Mapping[TopicPartition, int]
    take: Mapping[TopicPartition, int]


def plan(claimed: Mapping[TopicPartition, int], share: Mapping[TopicPartition, int]) -> RebalancePlan:
    """
    What to do, in this order, to have one's share and nothing else.

    :param claimed: what we own or may own, by stream.
    :param share: what we should own, by stream.
    """
    released = {each: stream for each, stream in claimed.items() if share.get(each) != stream}
    return RebalancePlan(released, dict(share))


class RebalancePhase(Enum):
    """See the module."""

    AWAY = "away"
    DUE = "due"
    LOOKING = "looking"
    WAITING = "waiting"
    SETTLED = "settled"


@define(eq=False)
class RebalanceRounds:
    """
    When to look, and how often it was in vain.

    :ivar max_retries: rounds in vain after the first, until it is called a failure.
    :ivar failures: rounds in vain, one after the other, while nothing changed.
    """

    max_retries: int
    phase: RebalancePhase = field(default=RebalancePhase.AWAY, init=False)
    failures: int = field(default=0, init=False)
    _again: bool = field(default=False, init=False)

    def is_in(self, phase: RebalancePhase) -> bool:
        """Whether this is the phase."""
        return self.phase is phase

    def connected(self) -> None:
        """The store can be asked."""
        if self.phase is RebalancePhase.AWAY:
            self.phase = RebalancePhase.DUE

    def away(self) -> None:
        """The store cannot be asked."""
        self.phase = RebalancePhase.AWAY
        self.failures = 0
        self._again = False

    def changed(self) -> None:
        """Something is not as it was when we looked."""
        if self.phase is RebalancePhase.LOOKING:
            self._again = True
        elif self.phase in (RebalancePhase.WAITING, RebalancePhase.SETTLED):
            self.phase = RebalancePhase.DUE
            self.failures = 0

    def time_is_up(self) -> None:
        """The pause after a round in vain is over."""
        if self.phase is RebalancePhase.WAITING:
            self.phase = RebalancePhase.DUE

    def begin(self) -> None:
        """A round begins."""
        if self.phase is RebalancePhase.DUE:
            self.phase = RebalancePhase.LOOKING

    def ended(self, missing: bool) -> bool:
        """
        A round is over.

        :return: whether it is time to call it a failure: once for every ``max_retries`` rounds after the first.
        """
        if self.phase is not RebalancePhase.LOOKING:
            return False
        again, self._again = self._again, False
        self.failures = self.failures + 1 if missing and not again else 0
        failed = self.failures > 0 and self.failures % (self.max_retries + 1) == 0
        self.phase = RebalancePhase.DUE if again else RebalancePhase.WAITING if missing else RebalancePhase.SETTLED
        return failed
