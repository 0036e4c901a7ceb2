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
    :ivar incomplete_replicas: how often a replica was reported to lack committed records, or to hold damaged ones.
    :ivar isr_changes: how often in-sync replicas changed without an election.
    :ivar events: served by the queue; ``waited_seconds``: until it was their turn, ``event_seconds``: that they took.
    :ivar tenures: how often this broker became the controller; ``taking_office_seconds``: that the last time took.
    :ivar election_events: those among them in which leaders were elected; ``election_seconds``: that these took.
    """

    elections: int = field(default=0, init=False)
    unclean_elections: int = field(default=0, init=False)
    incomplete_replicas: int = field(default=0, init=False)
    isr_changes: int = field(default=0, init=False)
    tenures: int = field(default=0, init=False)
    taking_office_seconds: float = field(default=0.0, init=False)
    events: int = field(default=0, init=False)
    waited_seconds: float = field(default=0.0, init=False)
    event_seconds: float = field(default=0.0, init=False)
    election_events: int = field(default=0, init=False)
    election_seconds: float = field(default=0.0, init=False)

    def note(self, before: LeaderAndIsr | None, outcome: Election) -> None:
        """An outcome was written."""
        if before is not None and before.leader_epoch == outcome.result.leader_epoch:
            self.isr_changes += 1
            return
        self.elections += 1
        self.unclean_elections += outcome.unclean

    def served(self, waited: float, took: float, elections_before: int) -> None:
        """An event of the queue was served; ``elections`` was ``elections_before`` when it began."""
        self.events += 1
        self.waited_seconds += waited
        self.event_seconds += took
        if self.elections > elections_before:
            self.election_events += 1
            self.election_seconds += took

    def took_office(self, seconds: float) -> None:
        """The broker is the controller."""
        self.tenures += 1
        self.taking_office_seconds = seconds
