"""Metrics of the controller's work (Kafka: ControllerStats)."""

from __future__ import annotations

from attrs import define

from logbus.cluster.controller.leader_election import ElectionResult
from logbus.metrics import metric
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
    :ivar election_seconds: processing time of the events in which leaders were elected.
    """

    elections: int = metric("logbus_leader_elections_total", "Leaders elected by this broker as the controller.")
    unclean_elections: int = metric(
        "logbus_unclean_leader_elections_total", "Elections that may have lost committed records."
    )
    incomplete_replicas: int = metric(
        "logbus_controller_incomplete_replicas_total",
        "Replicas that were reported to this controller as lacking committed records, or holding damaged ones.",
    )
    isr_changes: int = metric("logbus_controller_isr_changes_total", "Changes of in-sync replicas without an election.")
    activations: int = metric("logbus_controller_tenures_total", "How often this broker became the controller.")
    activation_seconds: float = metric(
        "logbus_controller_takeover_seconds", "Duration of this broker's last controller failover."
    )
    events: int = metric("logbus_controller_events_total", "Events processed by this broker as the controller.")
    waited_seconds: float = metric(
        "logbus_controller_queue_seconds_total", "Time that the controller's events were queued."
    )
    event_seconds: float = metric("logbus_controller_event_seconds_total", "Duration of the controller's events.")
    election_seconds: float = metric(
        "logbus_leader_election_seconds_total", "Duration of the controller events that elected leaders."
    )

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
            self.election_seconds += took

    def became_active(self, seconds: float) -> None:
        """Count that the broker became the controller."""
        self.activations += 1
        self.activation_seconds = seconds
