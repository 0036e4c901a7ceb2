"""Tests for :mod:`logbus.cluster.replication.purgatory`."""

from __future__ import annotations

from twisted.internet.defer import CancelledError
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.replication.purgatory import DelayedOperation, Purgatory


class Operation(DelayedOperation[str]):
    """One that is ready when the test says so."""

    def __init__(self, case: PurgatoryTests) -> None:
        super().__init__(case.purgatory)
        self.case = case

    def is_ready(self) -> bool:
        return self.case.enough

    def answer(self) -> str:
        self.case.answers += 1
        return f"answer {self.case.answers}"

    def leave(self) -> None:
        self.case.left += 1


class FailingOperation(Operation):
    def answer(self) -> str:
        raise ZeroDivisionError


class PurgatoryTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.purgatory = Purgatory(self.clock)
        self.enough = False
        self.answers = 0
        self.left = 0

    def wait(self, timeout_ms: int = 500) -> DelayedOperation[str]:
        made = Operation(self)
        self.purgatory.wait(made, timeout_ms)
        return made

    def assert_nothing_left(self) -> None:
        self.assertEqual(len(self.purgatory), 0)
        self.assertEqual(self.left, 1)
        self.clock.advance(1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_responses_of_many(self) -> None:
        """Those to requests that are woken together wait for each other; one alone is sent at once."""
        events: list[str] = []

        class Responses:
            def open(self) -> bool:
                events.append("open")
                return True

            def close(self) -> None:
                events.append("close")

        self.purgatory = Purgatory(self.clock, Responses())
        self.enough = True
        for count in (1, 2):
            for delayed in [self.wait() for _ in range(count)]:
                delayed.deferred.addCallback(events.append)
                self.purgatory.wake(delayed)
            self.clock.advance(0)
        self.assertEqual(events, ["answer 1", "open", "answer 2", "answer 3", "close"])

    def test_one_check_per_reactor_turn(self) -> None:
        """Any number of wake-ups in one turn of the reactor is one check, at its end."""
        delayed = self.wait()
        self.enough = True
        for _ in range(3):
            self.purgatory.wake(delayed)
        self.assertNoResult(delayed.deferred)
        self.clock.advance(0)
        self.assertEqual(self.successResultOf(delayed.deferred), "answer 1")
        self.assert_nothing_left()

    def test_woken_too_early(self) -> None:
        """A wake that brought too little leaves the request waiting, to be woken again."""
        delayed = self.wait()
        self.purgatory.wake(delayed)
        self.clock.advance(0)
        self.assertNoResult(delayed.deferred)
        self.enough = True
        self.purgatory.wake(delayed)
        self.clock.advance(0)
        self.successResultOf(delayed.deferred)
        self.assert_nothing_left()

    def test_time_runs_out(self) -> None:
        """When its time is over a request is answered with what there is."""
        delayed = self.wait(500)
        self.clock.advance(0.499)
        self.assertNoResult(delayed.deferred)
        self.clock.advance(0.001)
        self.assertEqual(self.successResultOf(delayed.deferred), "answer 1")
        self.assert_nothing_left()

    def test_cancelled_wait(self) -> None:
        """A cancelled wait leaves nothing behind, and builds no response."""
        delayed = self.wait()
        delayed.deferred.cancel()
        self.failureResultOf(delayed.deferred, CancelledError)
        self.assertEqual(self.answers, 0)
        self.assert_nothing_left()

    def test_failing_answer(self) -> None:
        """An error while answering reaches the one who waits."""
        delayed = FailingOperation(self)
        self.purgatory.wait(delayed, 10)
        self.clock.advance(0.01)
        self.failureResultOf(delayed.deferred, ZeroDivisionError)

    def test_failing_check(self) -> None:
        """An error while it is checked reaches the one who waits, and leaves others and nothing behind."""

        class Broken(Operation):
            def is_ready(self) -> bool:
                raise ZeroDivisionError

        broken, other = Broken(self), Operation(self)
        self.enough = True
        for each in (broken, other):
            self.purgatory.wait(each, 500)
            self.purgatory.wake(each)
        self.clock.advance(0)
        self.failureResultOf(broken.deferred, ZeroDivisionError)
        self.successResultOf(other.deferred)
        self.assertIsNone(self.purgatory.shared)
        self.assertEqual((len(self.purgatory), self.left), (0, 2))

    def test_wait_after_release(self) -> None:
        """What the end of one wait begins has its deadline."""
        again: list[DelayedOperation[str]] = []
        first = self.wait()
        first.deferred.addCallback(lambda _: again.append(self.wait(100)))
        self.purgatory.release()
        self.clock.advance(0.1)
        self.successResultOf(again[0].deferred)

    def test_release(self) -> None:
        """A broker that stops answers all that wait, and wakes that were under way do no harm."""
        delayed = self.wait()
        self.enough = True
        self.purgatory.wake(delayed)
        self.purgatory.release()
        self.successResultOf(delayed.deferred)
        self.clock.advance(0)
        self.assert_nothing_left()
