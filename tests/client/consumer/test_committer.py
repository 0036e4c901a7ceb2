"""A consumer's commits, up to the request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.consumer.committer import Committer
from logbus.client.consumer.delivered_offsets import DeliveredOffsets
from logbus.client.group_metadata import CommittedOffset
from logbus.client.interceptors import ConsumerInterceptors
from logbus.client.membership import CommitFailed
from logbus.errors import ErrorCode
from logbus.model import TopicPartition

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))


def at(**offsets: int) -> dict[TopicPartition, CommittedOffset]:
    """Offsets by partition: ``p0=3``."""
    return {TopicPartition("t", int(name[1:])): CommittedOffset(offset) for name, offset in offsets.items()}


@define(eq=False)
class Group:
    """Where commits go: each waits until the test answers it."""

    group_id = "g"
    asked: list[dict[TopicPartition, CommittedOffset]] = field(factory=list)
    waiting: list[Deferred[None]] = field(factory=list)

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset], member: object = None) -> Deferred[None]:
        self.asked.append(dict(offsets))
        waiting: Deferred[None] = Deferred()
        self.waiting.append(waiting)
        return waiting

    def answer(self, error: Exception | None = None) -> None:
        waiting = self.waiting.pop(0)
        if error is None:
            waiting.callback(None)
        else:
            waiting.errback(error)


class CommitterTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.group = Group()
        self.places: dict[TopicPartition, CommittedOffset] = {}
        self.deliveries = DeliveredOffsets()
        self.committer = Committer(
            Clock(),
            self.group,
            ConsumerInterceptors(),
            lambda done: dict(self.places),
            self.deliveries,  # type: ignore[arg-type]
        )

    def test_concurrent_commits_are_combined(self) -> None:
        """Commits requested while one is in flight become one more commit, and all get its outcome."""
        first = self.committer.commit(at(p0=1))
        rest = [self.committer.commit(at(p0=number, p1=3)) for number in range(1000)]
        self.committer.commit_nowait(at(p2=5))
        self.assertEqual(self.group.asked, [at(p0=1)])
        self.group.answer()
        self.successResultOf(first)
        for each in rest:
            self.assertNoResult(each)
        self.assertEqual(self.group.asked[1:], [at(p0=999, p1=3, p2=5)])
        self.group.answer()
        for each in rest:
            self.successResultOf(each)
        self.assertEqual(self.group.waiting, [])

    def test_all_hear_of_a_failure(self) -> None:
        """
        And the next commit is sent all the same.
        """
        self.committer.commit(at(p0=1))
        refused = [self.committer.commit(at(p0=2)) for _ in range(3)]
        self.group.answer()
        self.group.answer(CommitFailed(ErrorCode.UNKNOWN_MEMBER_ID, "gone", {}))
        for each in refused:
            self.failureResultOf(each, CommitFailed)
        later = self.committer.commit(at(p0=2))
        self.group.answer()
        self.successResultOf(later)

    def test_commits_have_the_offsets_of_their_request(self) -> None:
        """Records delivered while a commit waits are not included in it."""
        self.committer.commit(at(p1=1))
        self.places = at(p0=3)
        self.committer.commit()
        self.places = at(p0=4)
        self.group.answer()
        self.assertEqual(self.group.asked[-1], at(p0=3))

    def test_revoked_partitions_are_not_committed(self) -> None:
        """A waiting position of a partition that was revoked meanwhile is not committed; explicit offsets are."""
        self.committer.commit(at(p2=1))
        self.places = at(p0=3, p1=3)
        self.committer.commit()
        self.committer.commit(at(p2=9))
        self.places = at(p1=3)
        self.group.answer()
        self.assertEqual(self.group.asked[-1], at(p1=3, p2=9))

    def test_cancelling(self) -> None:
        """A commit is cancelled when all of its callers have cancelled, waiting or in flight."""
        first = self.committer.commit(at(p0=1))
        second, third = self.committer.commit(at(p0=2)), self.committer.commit(at(p0=3))
        second.cancel()
        self.failureResultOf(second, CancelledError)
        third.cancel()
        self.failureResultOf(third, CancelledError)
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.assertEqual(self.group.asked, [at(p0=1)])
        last = self.committer.commit(at(p0=4))
        self.group.waiting.pop(0)
        self.group.answer()
        self.successResultOf(last)

    def test_cancellation_in_a_callback(self) -> None:
        """
        Each Deferred fires once.
        """
        self.committer.commit(at(p0=1))
        second, third = self.committer.commit(at(p0=2)), self.committer.commit(at(p0=3))
        second.addCallback(lambda _: third.cancel())
        self.group.answer()
        self.group.answer()
        self.successResultOf(second)
        self.failureResultOf(third, CancelledError)

    @given(st.lists(st.tuples(st.integers(0, 2), st.none() | st.integers(0, 9)), max_size=30))
    def test_last_commit_wins(self, commits: Any) -> None:
        """When all commits are done, each partition's committed offset is the one requested last."""
        self.setUp()
        wanted: dict[TopicPartition, CommittedOffset] = {}
        self.committer.commit(at(p0=99))
        for step, (number, offset) in enumerate(commits):
            if offset is None:
                self.places = at(**{f"p{number}": 10 + step}) | self.places
                wanted.update(self.places)
                self.committer.commit()
            else:
                wanted[TopicPartition("t", number)] = CommittedOffset(offset)
                self.committer.commit(at(**{f"p{number}": offset}))
        while self.group.waiting:
            self.group.answer()
        self.assertLessEqual(len(self.group.asked), 2)
        self.assertEqual({**at(p0=99), **wanted}, {**self.group.asked[0], **self.group.asked[-1]})
