"""Sessions of members of share groups."""

from __future__ import annotations

from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ApiError, ErrorCode
from logbus.share.share_sessions import FINAL_EPOCH, SessionKey, SharedPartition, ShareSessionCache

A, B = SessionKey("g", "a"), SessionKey("g", "b")


class ShareSessionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.sessions = ShareSessionCache(2, 50)

    def refused(self, code: ErrorCode, key: SessionKey, epoch: int) -> None:
        error = self.assertRaises(ApiError, self.sessions.resume, key, epoch, 1)
        self.assertEqual(error.code, code)

    def test_epochs(self) -> None:
        """Each request counts one more; another number is refused, and changes nothing."""
        session = self.sessions.begin(A, 1)
        self.refused(ErrorCode.INVALID_SHARE_SESSION_EPOCH, A, 2)
        self.assertIs(self.sessions.resume(A, 1, 1), session)
        self.assertIs(self.sessions.resume(A, 2, 1), session)
        self.refused(ErrorCode.INVALID_SHARE_SESSION_EPOCH, A, 2)
        self.refused(ErrorCode.SHARE_SESSION_NOT_FOUND, B, 1)
        self.assertIs(self.sessions.resume(A, FINAL_EPOCH, 1), session)
        self.sessions.end(A)
        self.refused(ErrorCode.SHARE_SESSION_NOT_FOUND, A, 3)

    def test_the_last_epoch(self) -> None:
        """After the largest number comes 1, as 0 would begin a session."""
        session = self.sessions.begin(A, 1)
        session.epoch = 2**31 - 1
        self.sessions.resume(A, 2**31 - 1, 1)
        self.assertEqual(session.epoch, 1)

    def test_how_many(self) -> None:
        self.sessions.begin(A, 1)
        self.sessions.begin(B, 1)
        error = self.assertRaises(ApiError, self.sessions.begin, SessionKey("g", "c"), 1)
        self.assertEqual(error.code, ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        self.sessions.end(A)
        self.sessions.begin(SessionKey("g", "c"), 1)

    def test_how_many_partitions(self) -> None:
        """A session may have a tenth of those of all; who gives some back may have others."""
        numbers = [SharedPartition(UUID(int=1), number) for number in range(7)]
        one, other = self.sessions.begin(A, 1), self.sessions.begin(B, 1)
        self.sessions.update(one, numbers[:5], ())
        self.sessions.update(one, numbers[:5], ())
        self.sessions.update(one, numbers[5:6], numbers[:1])
        error = self.assertRaises(ApiError, self.sessions.update, one, numbers, ())
        self.assertEqual(error.code, ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        self.sessions.update(other, numbers[:1], ())
        self.sessions.end(A)
        self.sessions.end(A)
        self.assertEqual(self.sessions.partitions, 1)

    def test_how_many_partitions_in_all(self) -> None:
        sessions = ShareSessionCache(20, 50)
        for at in range(10):
            session = sessions.begin(SessionKey("g", str(at)), 1)
            sessions.update(session, [SharedPartition(UUID(int=1), number) for number in range(5)], ())
        last = sessions.begin(A, 1)
        error = self.assertRaises(ApiError, sessions.update, last, [SharedPartition(UUID(int=1), 0)], ())
        self.assertEqual(error.code, ErrorCode.SHARE_SESSION_LIMIT_REACHED)

    def test_connections(self) -> None:
        """A session belongs to the connection that its last request came by."""
        one, other = self.sessions.begin(A, 1), self.sessions.begin(B, 1)
        self.assertEqual(self.sessions.of_connection(1), [one, other])
        self.sessions.resume(A, 1, 2)
        self.assertEqual((self.sessions.of_connection(1), self.sessions.of_connection(2)), ([other], [one]))
        self.sessions.end(A)
        self.assertEqual(self.sessions.of_connection(2), [])

    def test_partitions(self) -> None:
        """Each has its turn to be the first."""
        session = self.sessions.begin(A, 1)
        one, two, three = (SharedPartition(UUID(int=1), number) for number in range(3))
        session.update([one, two, three, one], [])
        session.rotate()
        self.assertEqual(list(session.partitions), [two, three, one])
        session.update([], [three])
        session.rotate()
        self.assertEqual(list(session.partitions), [one, two])
