"""How late the reactor's timers are, and how long its turns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.logger import LogEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from logbus.metrics import HistogramValue, Registry
from logbus.net.reactor_ticks import ReactorTicks
from logbus.net.turn_times import TURN_BUCKETS, TurnTimes


class HeldClock(Clock):
    """A clock that can be advanced as if one long call had held the reactor."""

    def hold(self, seconds: float) -> None:
        self.rightNow += seconds
        self.advance(0)


class ReactorTicksTests(SynchronousTestCase):
    """The reactor's lateness is measured."""

    def setUp(self) -> None:
        self.clock = HeldClock()
        self.registry = Registry()
        self.ticks = ReactorTicks.in_registry(self.clock, self.registry)
        self.lines: list[LogEvent] = []
        globalLogPublisher.addObserver(self.observe)
        self.addCleanup(globalLogPublisher.removeObserver, self.observe)
        self.ticks.start()

    def observe(self, event: LogEvent) -> None:
        if event.get("log_source") is self.ticks:
            self.lines.append(event)

    def test_a_free_reactor(self) -> None:
        """Timers that come in time are late by nothing, and nothing is logged."""
        self.clock.pump([0.05] * 20)
        self.assertEqual(self.ticks.lateness.counts[0], 20)
        self.assertEqual(self.lines, [])

    def test_lateness_is_what_held_it(self) -> None:
        """A call that takes 0.35 s makes the next tick 0.3 s late."""
        self.clock.hold(0.35)
        self.assertAlmostEqual(self.ticks.lateness.sum, 0.3)
        self.assertEqual(len(self.lines), 1)
        self.assertEqual((self.lines[0]["worst_ms"], self.lines[0]["times"]), (300, 1))

    def test_one_line_a_second(self) -> None:
        """However often the reactor is held up, one line a second says so, with the worst and how many."""
        for _ in range(8):
            self.clock.hold(0.2)
        self.clock.hold(0.5)
        self.assertEqual(len(self.lines), 2)
        self.clock.pump([0.05] * 40)
        self.assertEqual(sum(line["times"] for line in self.lines), 9)
        self.assertEqual(max(line["worst_ms"] for line in self.lines), 450)
        self.assertEqual(self.ticks.lateness.count, 49)

    def test_what_was_not_said_is_said_later(self) -> None:
        """A hold-up within the quiet second is reported once that is over, though nothing happens then."""
        self.clock.hold(0.2)
        self.clock.hold(0.2)
        self.assertEqual(len(self.lines), 1)
        self.clock.pump([0.05] * 21)
        self.assertEqual(len(self.lines), 2)

    def test_stop_leaves_no_timer(self) -> None:
        """start() twice makes one timer; stop() leaves none, and may come twice."""
        self.ticks.start()
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)
        self.ticks.stop()
        self.ticks.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_another_reactor(self) -> None:
        """Where turns are not measured, the longest one is told by the timers; who reads it disturbs nobody."""
        self.clock.hold(0.35)
        self.clock.hold(0.15)
        for _ in range(2):
            [found] = [
                sample
                for family in self.registry.collect()
                for sample in family.samples
                if sample is not None and sample.name == "logbus_reactor_longest_turn_seconds"
            ]
            self.assertAlmostEqual(found.value, 0.3)
        self.assertAlmostEqual(self.ticks.take_longest(), 0.3)


class TurnTimesTests(SynchronousTestCase):
    """How long turns take."""

    @given(st.lists(st.tuples(st.floats(0, 5) | st.sampled_from(TURN_BUCKETS), st.floats(0, 40))))
    def test_like_a_histogram(self, given: list[tuple[float, float]]) -> None:
        """Turns are counted in buckets; the longest is one of the last 60 to 70 s."""
        clock, expected, ends = Clock(), HistogramValue(TURN_BUCKETS), []
        clock.advance(1)
        turns = TurnTimes(clock.seconds)
        for seconds, idle in given:
            turns.begun = clock.seconds()
            clock.advance(seconds)
            took = clock.seconds() - turns.begun
            turns.end(clock.seconds())
            expected.observe(took)
            ends.append((clock.seconds(), took))
            clock.advance(idle)
            longest, now = turns.longest(), clock.seconds()
            sure = [each for at, each in ends if at >= now - 60]
            possible = [each for at, each in ends if at >= now - 70]
            self.assertLessEqual(max([each for each in sure if each > TURN_BUCKETS[0]], default=0.0), longest)
            self.assertGreaterEqual(max(possible, default=0.0), longest)
            self.assertLessEqual(len(turns._longest), 8)
        self.assertEqual((turns.lengths.counts, turns.lengths.count), (expected.counts, len(given)))
        self.assertAlmostEqual(turns.lengths.sum, expected.sum)

    def test_idle(self) -> None:
        """What is between the turns is idle time; within one there is none."""
        clock = Clock()
        clock.advance(1)
        turns = TurnTimes(clock.seconds)
        turns.begun = clock.seconds()
        before = turns.idle
        clock.advance(0.25)
        self.assertEqual(turns.idle, before)
        turns.end(clock.seconds())
        clock.advance(2)
        turns.begun = clock.seconds()
        self.assertEqual(turns.idle - before, 2)

    def test_of(self) -> None:
        """A reactor that measures its turns is asked; any other has some that are told."""

        class Measures:
            turns = TurnTimes()

        self.assertIs(TurnTimes.of(Measures()), Measures.turns)
        self.assertIsNot(TurnTimes.of(object()), TurnTimes.of(object()))
