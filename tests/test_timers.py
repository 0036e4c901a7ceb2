"""Tests of :mod:`logbus.timers`."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.timers import Timers


class TimersTests(SynchronousTestCase):
    """Many deadlines share one timer."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.timers = Timers(self.clock)
        self.fired: list[str] = []

    def test_one_delayed_call_for_all(self) -> None:
        """However many deadlines there are, the reactor sees one call."""
        for seconds in (3, 1, 2):
            self.timers.call_later(seconds, lambda seconds=seconds: self.fired.append(str(seconds)))
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)
        self.assertEqual(len(self.timers), 3)
        self.clock.advance(1)
        self.assertEqual(self.fired, ["1"])
        self.clock.advance(5)
        self.assertEqual(self.fired, ["1", "2", "3"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_long_calls_have_turns_of_their_own(self) -> None:
        """After some milliseconds of calls, those that are due, too, wait for the next turn of the reactor."""
        call_later, turns = self.clock.callLater, []

        def counted(*args: Any) -> Any:
            turns.append(args)
            return call_later(*args)

        def work(seconds: float) -> None:
            self.fired.append(str(len(turns)))
            self.clock.rightNow += seconds

        for seconds in (0.0, 0.01, 0.0, 0.01, 0.0):
            self.timers.call_later(1, lambda seconds=seconds: work(seconds))
        self.patch(self.clock, "callLater", counted)
        self.clock.advance(1)
        self.assertEqual(self.fired, ["0", "0", "1", "1", "2"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_cancelled_ones_do_not_fire(self) -> None:
        """A cancelled deadline is not called; with none left, the reactor's call goes too."""
        timer = self.timers.call_later(1, lambda: self.fired.append("x"))
        timer.cancel()
        timer.cancel()
        self.assertFalse(timer.active)
        self.assertEqual(len(self.timers), 0)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_an_error_does_not_stop_the_others(self) -> None:
        """An error of one call is logged; others due with it are called."""
        self.timers.call_later(1, lambda: 1 / 0)
        self.timers.call_later(1, lambda: self.fired.append("x"))
        self.clock.advance(1)
        self.assertEqual(self.fired, ["x"])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_a_turn_is_bounded(self) -> None:
        """No more than A_TURN calls are made before the reactor gets its turn; none is lost."""
        count = Timers.A_TURN + 10
        for _ in range(count):
            self.timers.call_later(1, lambda: self.fired.append("x"))
        clock_calls = self.clock.getDelayedCalls()
        self.assertEqual(len(clock_calls), 1)
        self.timers.clock = self.clock
        self.clock.rightNow = 1
        clock_calls[0].cancel()
        self.timers._fire()
        self.assertEqual(len(self.fired), Timers.A_TURN)
        self.clock.advance(0)
        self.assertEqual(len(self.fired), count)

    def test_a_call_may_ask_for_another_at_once(self) -> None:
        """A deadline asked for by one that fires is served, and leaves no call of the reactor behind."""
        self.timers.call_later(1, lambda: self.timers.call_later(0, lambda: self.fired.append("inner")))
        self.clock.advance(1)
        self.clock.advance(0)
        self.assertEqual(self.fired, ["inner"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_close(self) -> None:
        """close() forgets everything."""
        timer = self.timers.call_later(1, lambda: self.fired.append("x"))
        self.timers.close()
        timer.cancel()
        self.assertEqual(len(self.timers), 0)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    @given(
        st.lists(
            st.one_of(
                st.tuples(st.just("add"), st.integers(0, 20)),
                st.tuples(st.just("cancel"), st.integers(0, 40)),
                st.tuples(st.just("advance"), st.integers(0, 10)),
            ),
            max_size=60,
        )
    )
    def test_fires_what_a_plain_list_would(self, steps: list[tuple[str, int]]) -> None:
        """Over any history, the same deadlines fire at the same times as in the simplest model."""
        clock, fired = Clock(), []
        timers = Timers(clock)
        handles = []
        due: dict[int, float] = {}
        expected: list[int] = []
        for action, number in steps:
            if action == "add":
                index = len(handles)
                handles.append(timers.call_later(number, lambda index=index: fired.append(index)))
                due[index] = clock.seconds() + number
            elif action == "cancel" and handles:
                handles[number % len(handles)].cancel()
                due.pop(number % len(handles), None)
            elif action == "advance":
                clock.advance(number)
                now = sorted((at, index) for index, at in due.items() if at <= clock.seconds())
                expected += [index for _, index in now]
                for _, index in now:
                    del due[index]
                self.assertEqual(fired, expected)
            self.assertEqual(len(timers), len(due))
            self.assertEqual(len(clock.getDelayedCalls()), 1 if timers._heap else 0)
