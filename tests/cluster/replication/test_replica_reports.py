"""Reports of replicas to the controller: retried, repeated to a new controller, one request at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import Mock

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.replication.replica_reports import MAX_REPORTS_PER_REQUEST, RETRY_SECONDS, ReplicaReports
from logbus.errors import ApiError, ErrorCode
from logbus.model import NO_EPOCH, LeaderAndIsr, LogEnd, LogEndReport, ReplicaReport, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ME, LEADER = 2, 1


@define(eq=False)
class Link:
    """A controller that answers when it is told to."""

    reports: list[tuple[Sequence[ReplicaReport], Deferred[Any]]] = field(factory=list)
    ends: list[tuple[Mapping[TopicPartition, LogEndReport], Deferred[None]]] = field(factory=list)
    failed: list[tuple[Sequence[TopicPartition], Deferred[None]]] = field(factory=list)

    def report_failed(self, names: Sequence[TopicPartition]) -> Deferred[None]:
        self.failed.append((names, Deferred()))
        return self.failed[-1][1]

    def report_replicas(self, reports: Sequence[ReplicaReport]) -> Deferred[Any]:
        self.reports.append((reports, Deferred()))
        return self.reports[-1][1]

    def report_log_ends(self, ends: Mapping[TopicPartition, LogEndReport]) -> Deferred[None]:
        self.ends.append((ends, Deferred()))
        return self.ends[-1][1]


class ReportsTests(SynchronousTestCase):
    """What a broker says, and when."""

    def setUp(self) -> None:
        self.clock, self.link, self.metadata = Clock(), Link(), ClusterMetadata("c")
        self.reports = ReplicaReports(ME, self.metadata, self.link, self.clock)  # type: ignore[arg-type]
        self.control(5)

    def control(self, broker_id: int) -> None:
        with self.metadata.changing() as metadata:
            metadata.set_controller(broker_id)

    def said(self) -> Sequence[ReplicaReport]:
        return self.link.reports[-1][0]

    def answer(self, answers: Mapping[TopicPartition, Any]) -> None:
        self.link.reports[-1][1].callback(answers)

    def test_one_request_at_a_time(self) -> None:
        """Reports that are added while a request is under way are sent in the next one."""
        self.reports.incomplete(T0, "damaged")
        self.assertEqual(self.said(), [ReplicaReport(T0, ME, NO_EPOCH, "damaged")])
        self.reports.incomplete(T0, "damaged")
        self.reports.leader_incomplete(T1, LEADER, 7, "short")
        self.assertEqual(len(self.link.reports), 1)
        self.answer({T0: LeaderAndIsr(LEADER, 8, (LEADER,))})
        self.assertEqual(self.said(), [ReplicaReport(T1, LEADER, 7, "short")])

    def test_a_leader_once_in_an_epoch(self) -> None:
        """A follower that is refused goes on fetching; its leader is reported again only in another epoch."""
        for epoch in (7, 8):
            self.reports.leader_incomplete(T1, LEADER, epoch, "short")
            self.answer({T1: ApiError(ErrorCode.FENCED_LEADER_EPOCH)})
            self.reports.leader_incomplete(T1, LEADER, epoch, "short")
        self.assertEqual([said[0].leader_epoch for said, _ in self.link.reports], [7, 8])

    def answer_late(self, error: ApiError) -> None:
        self.link.reports[-1][1].errback(error)

    def test_lost_reports_are_repeated(self) -> None:
        """A report that did not reach the controller is repeated; a newer one replaces it."""
        self.reports.incomplete(T0, "damaged")
        self.reports.complete(T0)
        self.answer_late(ApiError(ErrorCode.NOT_CONTROLLER))
        self.assertEqual(len(self.link.reports), 1)
        self.clock.advance(RETRY_SECONDS)
        self.assertEqual(self.said(), [ReplicaReport(T0, ME, NO_EPOCH, complete=True)])

    def test_another_controller(self) -> None:
        """It knows nothing of what its predecessor was told."""
        self.reports.incomplete(T0, "damaged")
        with capturedLogs() as events:
            self.answer({T0: LeaderAndIsr(ME, 8, (ME,))})
        self.assertIn("leads although its replica is incomplete", events[0]["log_format"])
        self.control(6)
        self.assertEqual(self.said(), [ReplicaReport(T0, ME, NO_EPOCH, "damaged")])
        self.answer({})
        self.reports.complete(T0)
        self.answer({})
        self.control(5)
        self.assertEqual(len(self.link.reports), 3)
        self.reports.complete(T0)
        self.assertEqual(len(self.link.reports), 3)

    def test_log_ends(self) -> None:
        """How far the logs of partitions without a leader go, as it is when it is said."""
        replica = Mock(topic_partition=T0)
        replica.log.epochs.latest, replica.log.log_end_offset, replica.partition.leader_epoch = 3, 9, 4
        self.reports.leaderless(replica)
        self.assertEqual([ends for ends, _ in self.link.ends], [{T0: LogEndReport(4, LogEnd(3, 9))}])
        self.link.ends[-1][1].errback(ApiError(ErrorCode.NETWORK_EXCEPTION))
        replica.log.log_end_offset = 10
        self.clock.advance(RETRY_SECONDS)
        self.assertEqual([ends for ends, _ in self.link.ends[1:]], [{T0: LogEndReport(4, LogEnd(3, 10))}])
        self.link.ends[-1][1].callback(None)
        self.assertEqual(len(self.link.ends), 2)

    def test_offline(self) -> None:
        """Replicas of a failed log directory are reported until the controller knows; later ones go with the next."""
        self.reports.offline([T1])
        self.reports.offline([T0])
        self.assertEqual([names for names, _ in self.link.failed], [[T1]])
        self.link.failed[-1][1].errback(ApiError(ErrorCode.NOT_CONTROLLER))
        self.clock.advance(RETRY_SECONDS)
        self.assertEqual([names for names, _ in self.link.failed[1:]], [[T0, T1]])
        self.link.failed[-1][1].callback(None)
        self.assertEqual((len(self.link.failed), self.clock.getDelayedCalls()), (2, []))

    def test_many(self) -> None:
        """A request names so many at most; the rest goes with the next."""
        self.reports.incomplete(T0, "damaged")
        for number in range(MAX_REPORTS_PER_REQUEST + 5):
            self.reports.incomplete(TopicPartition("u", number), "damaged")
        self.answer({})
        self.assertEqual(len(self.said()), MAX_REPORTS_PER_REQUEST)
        self.answer({})
        self.assertEqual(len(self.said()), 5)

    def test_closed(self) -> None:
        """A broker that stops says nothing more, and leaves no timer."""
        self.reports.incomplete(T0, "damaged")
        self.answer_late(ApiError(ErrorCode.NOT_CONTROLLER))
        self.reports.close()
        self.control(6)
        self.assertEqual((len(self.link.reports), self.clock.getDelayedCalls()), (1, []))
