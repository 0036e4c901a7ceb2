"""Metrics of the controller's work (Kafka: ControllerStats): pure."""

from __future__ import annotations

from attrs import define, field

from logbus.cluster.controller.leader_election import ElectionResult
from logbus.model import LeaderAndIsr


@define(eq=False)
class ControllerMetrics:
    """
    Counts over all controller epochs of one broker.

    :ivar elections: how often a partition got a leader, the first time included.
    :ivar unclean_elections: those among them that may have cost committed records.
    :ivar incomplete_replicas: how often a replica was reported to lack committed records, or to hold damaged ones.
    :ivar isr_changes: how often in-sync replicas changed without an election.
    :ivar events: processed by the queue; ``waited_seconds``: time on it, ``event_seconds``: processing time.
    :ivar activations: how often this broker became the controller; ``activation_seconds``: duration of the last time.
    :ivar election_events: the events in which leaders were elected; ``election_seconds``: their processing time.
    """

    elections: int = field(default=0, init=False)
    unclean_elections: int = field(default=0, init=False)
    incomplete_replicas: int = field(default=0, init=False)
    isr_changes: int = field(default=0, init=False)
    activations: int = field(default=0, init=False)
    activation_seconds: float = field(default=0.0, init=False)
    events: int = field(default=0, init=False)
    waited_seconds: float = field(default=0.0, init=False)
    event_seconds: float = field(default=0.0, init=False)
    election_events: int = field(default=0, init=False)
    election_seconds: float = field(default=0.0, init=False)

    def note(self, before: LeaderAndIsr | None, outcome: ElectionResult) -> None:
        """Count an election that was written."""
        if before is not None and before.leader_epoch == outcome.result.leader_epoch:
            self.isr_changes += 1
            return
        self.elections += 1
        self.unclean_elections += outcome.unclean

    def served(self, waited: float, took: float, elections_before: int) -> None:
        """Count a processed event of the queue; ``elections`` was ``elections_before`` when it began."""
        self.events += 1
        self.waited_seconds += waited
        self.event_seconds += took
        if self.elections > elections_before:
            self.election_events += 1
            self.election_seconds += took

    def became_active(self, seconds: float) -> None:
        """Count that the broker became the controller."""
        self.activations += 1
        self.activation_seconds = seconds
