"""Members leave the partitions of sessions that have ended."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.net.time_slices import SliceScheduler, TimeSlice
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
        self.ended.leave({session.key: session.partitions for session in self.sessions})

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

    def catch_up(self, member_id: str) -> Deferred[None]:
        """A member begins its next session."""
        return Deferred.fromCoroutine(self.ended.finish(SessionKey("g", member_id), TimeSlice(self.slices)))

    def left(self, member_id: str) -> set[int]:
        return {number for member, number in self.partitions.left if member == member_id}

    def test_the_next_session(self) -> None:
        """Before it fetches its member has left all, in several turns, and it leaves nothing later."""
        waiting = self.catch_up("b")
        self.assertLess(len(self.left("b")), 100)
        while not waiting.called:
            self.clock.advance(0)
        self.assertEqual(self.left("b"), set(range(200)))
        some = len(self.partitions.left)
        self.finish()
        self.assertEqual({member_id for member_id, _ in self.partitions.left[some:]} - {"a"}, set())
        self.assertEqual(sorted(self.partitions.left), self.all)
        self.assertTrue(self.catch_up("a").called)
        self.assertEqual(len(self.partitions.left), len(self.all))

    def test_the_next_session_ends_soon(self) -> None:
        """The one behind it waits until both have been left."""
        self.ended.leave({SessionKey("g", "b"): [SharedPartition(TOPIC, number) for number in range(300, 500)]})
        waiting = self.catch_up("b")
        while not waiting.called:
            self.clock.advance(0)
        self.assertEqual(self.left("b"), {*range(200), *range(300, 500)})
        some = len(self.left("b"))
        self.finish()
        self.assertEqual(len(self.left("b")), some)
