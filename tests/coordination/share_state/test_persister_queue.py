"""Tests of :mod:`logbus.coordination.share_state.persister_queue`."""

from __future__ import annotations

from typing import Any
from unittest import mock
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.share_state.persister_queue import MOST_CALLS, PersisterQueue
from logbus.coordination.share_state.recorded_state import StateChange
from logbus.coordination.share_state.share_state import SharePartitionKey
from logbus.coordination.share_state.share_state_calls import Write, calls_of, response_of
from logbus.errors import ApiError, ErrorCode


def write(partition: int, epoch: int = 0) -> Write:
    return Write(SharePartitionKey("g", UUID(int=1), partition), StateChange(epoch, 0, -1, 0, ()))


class QueueTests(SynchronousTestCase):
    """One other broker."""

    def setUp(self) -> None:
        self.requests: list[Any] = []
        self.answers: list[Deferred[Any]] = []
        self.idle = mock.Mock()
        peers: Any = mock.Mock()
        peers.request = self.request
        self.queue = PersisterQueue(1, peers, self.idle)

    def request(self, broker: Any, message: Any, purpose: str, timeout: float) -> Deferred[Any]:
        self.requests.append(message)
        self.answers.append(Deferred())
        return self.answers[-1]

    def sent(self) -> list[list[tuple[int, int]]]:
        """The partitions and state epochs in each request."""
        return [
            [(call.key.partition, call.change.state_epoch) for call in calls_of(each) if isinstance(call, Write)]
            for each in self.requests
        ]

    def answer(self) -> None:
        """All calls of the last request are done."""
        request = self.requests[-1]
        self.answers[-1].callback(response_of(request, [(call.key, None) for call in calls_of(request)]))

    def test_sent_together(self) -> None:
        """The first call is sent at once, and those that come meanwhile together; idle is told at the end."""
        waiting = [self.queue.send(write(number)) for number in range(4)]
        self.answer()
        self.successResultOf(waiting[0])
        self.assertNoResult(waiting[1])
        self.idle.assert_not_called()
        self.answer()
        for one in waiting[1:]:
            self.successResultOf(one)
        self.assertEqual(self.sent(), [[(0, 0)], [(1, 0), (2, 0), (3, 0)]])
        self.idle.assert_called_once_with()

    def test_one_for_a_share_partition(self) -> None:
        """A response has one result for each, so that the second call is in the next request."""
        waiting = [self.queue.send(write(*of)) for of in ((0, 0), (1, 1), (1, 2), (2, 3))]
        for _ in range(3):
            self.answer()
        for one in waiting:
            self.successResultOf(one)
        self.assertEqual(self.sent(), [[(0, 0)], [(1, 1), (2, 3)], [(1, 2)]])

    def test_limit(self) -> None:
        """Very many calls are sent in several requests."""
        waiting = [self.queue.send(write(number)) for number in range(MOST_CALLS + 2)]
        for _ in range(3):
            self.answer()
        for one in waiting:
            self.successResultOf(one)
        self.assertEqual([len(each) for each in self.sent()], [1, MOST_CALLS, 1])

    def test_no_answer(self) -> None:
        """All calls of the request fail with its error; those that came meanwhile are sent."""
        waiting = [self.queue.send(write(number)) for number in range(2)]
        self.answers[0].errback(ApiError(ErrorCode.NETWORK_EXCEPTION, "lost"))
        self.assertIs(self.failureResultOf(waiting[0], ApiError).value.code, ErrorCode.NETWORK_EXCEPTION)
        self.answer()
        self.successResultOf(waiting[1])

    def test_mistake(self) -> None:
        """An error that is nobody's fault but ours is logged, and ends the call."""
        waiting = self.queue.send(write(0))
        self.answers[0].errback(ZeroDivisionError())
        self.assertIs(self.failureResultOf(waiting, ApiError).value.code, ErrorCode.UNKNOWN_SERVER_ERROR)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_cancelled(self) -> None:
        """A call that was cancelled before it was sent is not; one that was sent is carried out."""
        waiting = [self.queue.send(write(number)) for number in range(3)]
        for one in waiting[:2]:
            one.addErrback(lambda _: None)
            one.cancel()
        self.answer()
        self.answer()
        self.successResultOf(waiting[2])
        self.assertEqual(self.sent(), [[(0, 0)], [(2, 0)]])
