"""Members leave the partitions of sessions that have ended."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.net.time_slices import SliceScheduler
from logbus.share.ended_sessions import EndedSessions
from logbus.share.share_sessions import SessionKey, SharedPartition, ShareSession

TOPIC = UUID(int=1)


class Partitions:
    """Notes who has left which partitions."""

    def __init__(self) -> None:
        self.left: list[tuple[str, int]] = []

    def leave(self, group_id: str, topic_id: UUID, partition: int, member_id: str) -> None:
        self.left.append((member_id, partition))


def a_session(member_id: str, count: int) -> ShareSession:
    session = ShareSession(SessionKey("g", member_id), 1, 1)
    session.update([SharedPartition(TOPIC, number) for number in range(count)], [])
    return session


class EndedSessionsTests(SynchronousTestCase):
    """Two members' sessions of one connection, which has been lost."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.partitions: Any = Partitions()
        self.slices = SliceScheduler(self.clock, units=100)
        self.ended = EndedSessions(self.partitions, self.slices)
        self.sessions = [a_session(name, 200) for name in "ab"]
        self.all = [(name, number) for name in "ab" for number in range(200)]
        self.ended.leave(self.sessions)

    def finish(self) -> None:
        while self.clock.getDelayedCalls():
            self.clock.advance(0)

    def test_many_partitions(self) -> None:
        """They are left some at a time, so that others have their turns."""
        self.assertLess(len(self.partitions.left), 100)
        # A fetch that is not over yet.
        self.sessions[0].rotate()
        self.finish()
        self.assertEqual(self.partitions.left, self.all)
        self.assertGreater(self.slices.slices, 3)

    def test_the_next_session(self) -> None:
        """Before it begins its member has left all, and it leaves nothing later; another one's partitions follow."""
        self.ended.finish(SessionKey("g", "b"))
        some = len(self.partitions.left)
        self.assertEqual({each for each in self.all if each[0] == "b"} - set(self.partitions.left), set())
        self.finish()
        self.assertEqual({member_id for member_id, _ in self.partitions.left[some:]}, {"a"})
        self.assertEqual(sorted(self.partitions.left), self.all)
        self.ended.finish(SessionKey("g", "a"))
        self.assertEqual(len(self.partitions.left), len(self.all))
