"""What is counted of the controller's work: pure."""

from __future__ import annotations

from attrs import define, field

from logbus.cluster.controller.election import Election
from logbus.model import LeaderAndIsr


@define(eq=False)
class Tally:
    """
    Counts over all tenures of one broker.

    :ivar elections: how often a partition was given a leader, the first time included.
    :ivar unclean_elections: those among them that may have cost committed records.
    :ivar isr_changes: how often in-sync replicas changed without an election.
    """

    elections: int = field(default=0, init=False)
    unclean_elections: int = field(default=0, init=False)
    isr_changes: int = field(default=0, init=False)

    def note(self, before: LeaderAndIsr | None, outcome: Election) -> None:
        """An outcome was written."""
        if before is not None and before.leader_epoch == outcome.result.leader_epoch:
            self.isr_changes += 1
            return
        self.elections += 1
        self.unclean_elections += outcome.unclean
