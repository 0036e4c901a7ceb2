"""Commits of a member whose group rebalances."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.group_metadata import CommittedOffset, GroupMetadata
from logbus.client.membership.interface import CommitFailed
from logbus.client.membership.member_commits import MemberCommits
from logbus.client.membership.offset_requests import commit_failure
from logbus.client.retry import Backoff
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
OFFSETS = {P0: CommittedOffset(3), P1: CommittedOffset(4)}


class Offsets:
    """Answers commits with the errors of ``failures``, one after another."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[TopicPartition], int]] = []
        self.failures: list[dict[TopicPartition, ErrorCode]] = []

    def commit(self, offsets: dict[TopicPartition, CommittedOffset], member: GroupMetadata) -> Deferred[None]:
        self.asked.append((sorted(offsets), member.generation))
        answer: Deferred[None] = Deferred()
        errors = self.failures.pop(0) if self.failures else {}
        failure = commit_failure(member, {each: ApiError(code) for each, code in errors.items()})
        if failure is None:
            answer.callback(None)
        else:
            answer.errback(failure)
        return answer


class MemberCommitsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.offsets = Offsets()
        identity = GroupMetadata("g", 7, "m")
        self.member = SimpleNamespace(
            metadata=identity, last_metadata=identity, assignment=frozenset({P0, P1}), is_settled=True
        )
        cluster: Any = SimpleNamespace(reactor=self.clock, backoff=Backoff())
        self.commits = MemberCommits(cluster, self.member, self.offsets, 30.0)  # type: ignore[arg-type]

    def commit(self) -> Deferred[None]:
        return Deferred.fromCoroutine(self.commits.commit(dict(OFFSETS)))

    def test_after_a_rebalance(self) -> None:
        """
        A commit that the coordinator refuses because of a rebalance is sent again by the new generation.
        """
        self.offsets.failures = [{P1: ErrorCode.REBALANCE_IN_PROGRESS}]
        self.member.is_settled = False
        committing = self.commit()
        self.clock.advance(1)
        self.assertNoResult(committing)
        self.member.metadata, self.member.is_settled = GroupMetadata("g", 8, "m"), True
        self.commits.settle()
        self.successResultOf(committing)
        self.assertEqual(self.offsets.asked, [([P0, P1], 7), ([P1], 8)])

    def test_partitions_of_other_members(self) -> None:
        """
        They are left out and reported; the others are committed.
        """
        self.member.assignment = frozenset({P0})
        failure = self.failureResultOf(self.commit(), CommitFailed).value
        self.assertEqual(
            {each: error.code for each, error in failure.errors.items()}, {P1: ErrorCode.ILLEGAL_GENERATION}
        )
        self.assertEqual(self.offsets.asked, [([P0], 7)])

    def test_a_rebalance_that_does_not_end(self) -> None:
        """
        The commit fails when its time is up, and leaves no timer.
        """
        self.member.metadata, self.member.is_settled = GroupMetadata("g"), False
        committing = self.commit()
        self.clock.advance(30)
        failure = self.failureResultOf(committing, CommitFailed).value
        self.assertIs(failure.code, ErrorCode.REBALANCE_IN_PROGRESS)
        self.assertEqual((self.offsets.asked, self.clock.getDelayedCalls()), ([], []))
