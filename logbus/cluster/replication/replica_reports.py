"""
Reports incomplete and offline replicas to the controller, and log end offsets of partitions without a leader.

A replica that lacks committed records, or holds damaged ones, must not lead while a complete one can.  A broker reports
its own (:meth:`ReplicaReports.incomplete`), and its leader's, when the leader's log diverges from its own below the
high watermark (:meth:`ReplicaReports.leader_incomplete`).  After unclean stops of all brokers the controller elects the
replica with the longest log (KIP-966); each reports its own (:meth:`ReplicaReports.leaderless`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from logbus.cluster.cluster_metadata import NO_CONTROLLER, ClusterMetadata
from logbus.cluster.icluster import IControllerChannel
from logbus.cluster.replication.replica import Replica
from logbus.errors import ApiError, ErrorCode
from logbus.model import NO_EPOCH, LeaderAndIsr, LogEnd, LogEndReport, ReplicaReport, TopicPartition

RETRY_SECONDS = 1.0

MAX_REPORTS_PER_REQUEST = 1000
"""Replicas in one request."""

T = TypeVar("T")

Answers = Mapping[TopicPartition, "LeaderAndIsr | ApiError"]


@define(eq=False, repr=False)
class ReplicaReports:
    """
    Sends reports until the controller has them, one request at a time.

    A broker's own incomplete replicas are reported again to every new controller.
    """

    broker_id: int
    metadata: ClusterMetadata
    controller_channel: IControllerChannel
    clock: IReactorTime
    _offline: dict[TopicPartition, None] = field(factory=dict, init=False)
    _incomplete: dict[TopicPartition, str] = field(factory=dict, init=False)
    _leaders_told: dict[TopicPartition, int] = field(factory=dict, init=False)
    _reports: dict[TopicPartition, ReplicaReport] = field(factory=dict, init=False)
    _leaderless: dict[TopicPartition, Replica] = field(factory=dict, init=False)
    _sending: bool = field(default=False, init=False)
    _retry: IDelayedCall | None = field(default=None, init=False)
    _closed: bool = field(default=False, init=False)
    _controller: int = field(default=NO_CONTROLLER, init=False)
    _unsubscribe: Callable[[], None] = field(init=False)
    _log = Logger()

    @_unsubscribe.default
    def _subscribed(self) -> Callable[[], None]:
        return self.metadata.subscribe(self._controller_changed)

    def offline(self, names: Iterable[TopicPartition]) -> None:
        """These replicas went offline with their log directory."""
        self._offline.update(dict.fromkeys(names))
        self._send_next()

    def incomplete(self, name: TopicPartition, reason: str) -> None:
        """This broker's replica lacks committed records, or holds damaged ones: have another lead, if one can."""
        if self._incomplete.get(name) != reason:
            self._incomplete[name] = reason
            self._add(ReplicaReport(name, self.broker_id, NO_EPOCH, reason))

    def complete(self, name: TopicPartition) -> None:
        """This broker's replica has all records again. Does nothing if it was not reported."""
        if self._incomplete.pop(name, None) is not None:
            self._add(ReplicaReport(name, self.broker_id, NO_EPOCH, complete=True))

    def leader_incomplete(self, name: TopicPartition, leader: int, leader_epoch: int, reason: str) -> None:
        """The leader lacks committed records that this broker's replica has. Reported once for each leader epoch."""
        if self._leaders_told.get(name, NO_EPOCH) < leader_epoch:
            self._leaders_told[name] = leader_epoch
            self._add(ReplicaReport(name, leader, leader_epoch, reason))

    def leaderless(self, replica: Replica) -> None:
        """A partition has no leader, and this replica may have every committed record."""
        self._leaderless[replica.topic_partition] = replica
        self._send_next()

    def close(self) -> None:
        """Report nothing more: the broker stops."""
        self._closed = True
        self._unsubscribe()
        self._offline.clear()
        self._reports.clear()
        self._leaderless.clear()
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def _controller_changed(self) -> None:
        controller, before = self.metadata.controller_id, self._controller
        if controller == before:
            return
        self._controller = controller
        for name, reason in self._incomplete.items():
            self._reports.setdefault(name, ReplicaReport(name, self.broker_id, NO_EPOCH, reason))
        self._send_next()

    def _add(self, report: ReplicaReport) -> None:
        self._reports[report.topic_partition] = report
        self._send_next()

    def _send_next(self) -> None:
        waiting = self._offline or self._reports or self._leaderless
        if waiting and not (self._sending or self._closed or self._retry is not None):
            self._sending = True
            Deferred.fromCoroutine(self._send()).addErrback(
                lambda failure: self._log.failure("a report of replicas broke", failure)
            )

    async def _send(self) -> None:
        offline, reports = _take_batch(self._offline), _take_batch(self._reports)
        leaderless = _take_batch(self._leaderless)
        try:
            if offline:
                await self.controller_channel.report_failed(sorted(offline))
                offline = {}
            if reports:
                self._log_answers(reports, await self.controller_channel.report_replicas(list(reports.values())))
                reports = {}
            if leaderless:
                await self.controller_channel.report_log_ends(
                    {name: _end_of(replica) for name, replica in leaderless.items()}
                )
        except ApiError as error:
            self._log.info("the controller has not heard of {count} replicas yet: {error}",
                           count=len(offline) + len(reports) + len(leaderless), error=error.message)  # fmt: skip
            # Reports of the same partition made meanwhile are newer.
            self._offline |= offline
            self._reports = reports | self._reports
            self._leaderless = leaderless | self._leaderless
            if not self._closed:
                self._retry = self.clock.callLater(RETRY_SECONDS, self._try_again)
        finally:
            self._sending = False
        self._send_next()

    def _log_answers(self, reports: Mapping[TopicPartition, ReplicaReport], answers: Answers) -> None:
        for name, report in reports.items():
            answer = answers.get(name)
            if isinstance(answer, ApiError) and answer.code is not ErrorCode.FENCED_LEADER_EPOCH:
                self._log.error("{partition}: {why}", partition=name, why=answer.message)
            elif isinstance(answer, LeaderAndIsr) and answer.leader == report.replica and not report.complete:
                self._log.warn(
                    "{partition}: broker {leader} leads although its replica is incomplete: no other can",
                    partition=name, leader=answer.leader,
                )  # fmt: skip

    def _try_again(self) -> None:
        self._retry = None
        self._send_next()


def _take_batch(waiting: dict[TopicPartition, T]) -> dict[TopicPartition, T]:
    """Remove and return as many as fit into one request."""
    return {name: waiting.pop(name) for name in list(islice(waiting, MAX_REPORTS_PER_REQUEST))}


def _end_of(replica: Replica) -> LogEndReport:
    log = replica.log
    return LogEndReport(replica.partition.leader_epoch, LogEnd(log.epochs.latest, log.log_end_offset))
