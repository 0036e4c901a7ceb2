"""Tests of :mod:`logbus.storage.group_commit`."""

from __future__ import annotations

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ApiError, StorageError
from logbus.storage.group_commit import GroupCommit


class GroupCommitTests(SynchronousTestCase):
    """One commit for all who wait for it."""

    def setUp(self) -> None:
        self.commits: list[Deferred[None]] = []
        self.group = GroupCommit(self.commit)

    def commit(self) -> Deferred[None]:
        self.commits.append(Deferred())
        return self.commits[-1]

    def test_those_who_come_meanwhile(self) -> None:
        """They share the next one."""
        waits = [self.group.wait() for _ in range(3)]
        self.assertEqual(len(self.commits), 1)
        self.commits[0].callback(None)
        self.successResultOf(waits[0])
        self.assertNoResult(waits[1])
        self.commits[1].callback(None)
        for each in waits[1:]:
            self.successResultOf(each)
        self.assertFalse(self.group.is_running)

    def test_one_that_cannot_begin(self) -> None:
        """Whoever waits for it is told, and the next one begins as if nothing had been."""
        failing = True

        def commit() -> Deferred[None]:
            if failing:
                raise StorageError("no")
            return succeed(None)

        group = GroupCommit(commit)
        self.failureResultOf(group.wait(), StorageError)
        failing = False
        self.successResultOf(group.wait())
        self.successResultOf(group.close())

    def test_close(self) -> None:
        """It waits for the commit that runs; whoever waits for another is told."""
        first, second = self.group.wait(), self.group.wait()
        closed = self.group.close()
        self.assertNoResult(closed)
        self.commits[0].callback(None)
        self.successResultOf(first)
        self.successResultOf(closed)
        self.failureResultOf(second, ApiError)
        self.failureResultOf(self.group.wait(), ApiError)
        self.assertEqual(len(self.commits), 1)
