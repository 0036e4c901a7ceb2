"""Time slices: amount of work, turns, and cancellation."""

from __future__ import annotations

from collections.abc import Generator

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.net.request_context import RequestContext
from logbus.net.time_slices import (
    FIRST_UNITS,
    MANY_REPLICAS,
    UNITS,
    UNITS_PER_LOOK,
    GarbageCollection,
    SliceScheduler,
    TimeSlice,
)
from logbus.wire.messages.metadata import MetadataRequest
from tests.handlers.kit import a_request
from tests.net.fakes import iterate


class BusyClock(Clock):
    """A clock that goes on while work is done."""

    def work(self, seconds: float) -> None:
        self.rightNow += seconds

    def iterate(self) -> None:
        """One iteration of a reactor."""
        iterate(self)


class Collector:
    """Python's garbage collector, as far as it matters here."""

    def __init__(self) -> None:
        self.enabled = True
        self.objects = 0
        self.frozen: list[bool] = []
        self.collected: list[int] = []

    def isenabled(self) -> bool:
        return self.enabled

    def enable(self) -> None:
        self.enabled = True

    def disable(self) -> None:
        self.enabled = False

    def freeze(self) -> None:
        self.frozen.append(True)

    def unfreeze(self) -> None:
        self.frozen.append(False)

    def get_count(self) -> tuple[int, int, int]:
        return self.objects, 0, 0

    def collect(self, generation: int = 2) -> None:
        self.collected.append(generation)


class TimeSliceTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = BusyClock()
        self.scheduler = SliceScheduler(self.clock)
        self.done: list[int] = []

    def start(self, count: int, number: int = 0, seconds: float = 0.0) -> Deferred[int]:
        """Begin work of ``count`` units, each of which takes so long; it notes its number for each."""
        return Deferred.fromCoroutine(self._work(TimeSlice(self.scheduler), count, number, seconds))

    async def _work(self, time_slice: TimeSlice, count: int, number: int, seconds: float) -> int:
        for _ in range(count):
            self.done.append(number)
            self.clock.work(seconds)
            if time_slice.used():
                await time_slice.next()
        return number

    def turn(self) -> int:
        """One iteration of the reactor; how many units were done in it."""
        before = len(self.done)
        self.clock.iterate()
        return len(self.done) - before

    def test_little_work_never_waits(self) -> None:
        """
        What fits into the first slice is done at once, however long it takes.
        """
        self.assertEqual(self.successResultOf(self.start(FIRST_UNITS - 1, 7, seconds=1.0)), 7)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_slice_ends_by_the_clock(self) -> None:
        """
        A later slice lasts for so long, give or take a few units.
        """
        work = self.start(1000, seconds=0.001)
        self.assertEqual(len(self.done), FIRST_UNITS)
        while not work.called:
            self.assertLessEqual(self.turn(), 10 + UNITS_PER_LOOK)
        self.assertGreaterEqual(self.scheduler.slices, (1000 - FIRST_UNITS) // (10 + UNITS_PER_LOOK))
        self.successResultOf(work)

    def test_a_slice_is_bounded_where_time_stands_still(self) -> None:
        """
        A slice ends after so many units, even if the clock does not move (as in a simulation).
        """
        work = self.start(3 * UNITS)
        turns = [self.turn() for _ in range(3)]
        self.assertEqual(turns, [UNITS, UNITS, UNITS - FIRST_UNITS])
        self.successResultOf(work)

    def test_heavy_units_count_for_more(self) -> None:
        """
        Work that is counted in lumps is stopped after the lump that was too much.
        """

        async def lumps() -> None:
            time_slice = TimeSlice(self.scheduler)
            for _ in range(5):
                self.done.append(0)
                if time_slice.used(UNITS):
                    await time_slice.next()

        work = Deferred.fromCoroutine(lumps())
        self.assertEqual([len(self.done), *(self.turn() for _ in range(4))], [1, 1, 1, 1, 1])
        self.turn()
        self.successResultOf(work)

    def test_all_take_turns(self) -> None:
        """
        Requests share the reactor: one slice in each of its iterations, in the order in which they began to wait.
        """
        works = [self.start(1000, number, seconds=0.001) for number in range(3)]
        self.done.clear()
        order = []
        for _ in range(6):
            before = len(self.done)
            self.turn()
            self.assertEqual(len(set(self.done[before:])), 1, "two had a slice in one turn")
            order.append(self.done[-1])
        self.assertEqual(order, [0, 1, 2, 0, 1, 2])
        for work in works:
            work.cancel()
            self.failureResultOf(work, CancelledError)

    def test_work_that_is_not_wanted_stops(self) -> None:
        """
        Cancelled work has no further slice, and leaves no call behind.
        """
        work = self.start(3 * UNITS)
        work.cancel()
        self.failureResultOf(work, CancelledError)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.turn(), 0)

    def test_steps_of_a_generator(self) -> None:
        """
        Work that yields is done in slices, too, and gives what it returns.
        """

        def steps() -> Generator[None, None, str]:
            for _ in range(UNITS):
                self.done.append(0)
                yield
            return "all"

        work = Deferred.fromCoroutine(TimeSlice(self.scheduler).finish(steps(), units=10))
        self.assertEqual(len(self.done), FIRST_UNITS // 10)
        while not work.called:
            self.assertLessEqual(self.turn(), UNITS // 10)
        self.assertEqual(self.successResultOf(work), "all")

    def test_garbage_is_collected_when_there_is_time(self) -> None:
        """
        The collector is off while there is work, and on again once there has been none for a while, also if the work
        was called off.
        """
        collector = Collector()
        self.scheduler.garbage = GarbageCollection(collector, self.clock)
        first, second = self.start(3 * UNITS), self.start(2 * UNITS)
        states = []
        while not (first.called and second.called):
            self.turn()
            states.append(collector.enabled)
        self.assertEqual(set(states), {False})
        self.clock.advance(0.4)
        self.assertFalse(collector.enabled)
        work = self.start(3 * UNITS)
        self.turn()
        self.clock.work(0.4)
        self.turn()
        self.assertFalse(collector.enabled)
        work.cancel()
        self.failureResultOf(work, CancelledError)
        self.clock.advance(0.4)
        self.assertFalse(collector.enabled)
        self.clock.advance(0.1)
        self.assertTrue(collector.enabled)
        self.assertEqual(collector.collected, [])

    def test_garbage_does_not_wait_forever(self) -> None:
        """
        Where there is always work, young garbage is collected now and then, while there are few young objects, and at
        last all garbage; a collector that was off stays off.
        """
        collector = Collector()
        self.scheduler.garbage = GarbageCollection(collector, self.clock, patience=1.0, limit=10.0)
        work = self.start(1000, seconds=0.005)
        while not work.called:
            self.turn()
        self.assertEqual(collector.collected, [1] * 4)
        self.clock.advance(1.0)
        collector.objects = 1_000_000
        work = self.start(3000, seconds=0.005)
        while not work.called:
            self.turn()
        self.assertEqual(collector.collected, [1] * 4 + [2])
        self.clock.advance(1.0)
        collector.enabled = False
        work = self.start(3 * UNITS)
        while not work.called:
            self.turn()
        self.clock.advance(1.0)
        self.assertFalse(collector.enabled)

    def test_many_replicas(self) -> None:
        """
        Garbage is not collected while many replicas are added. Then they are frozen; where some were removed before,
        all is thawed.
        """
        collector = Collector()
        garbage = GarbageCollection(collector, self.clock)

        def add(count: int) -> None:
            for _ in range(count):
                garbage.replica_added()
                self.clock.advance(0.01)
                self.assertFalse(collector.enabled)
            self.clock.advance(1.0)
            self.assertTrue(collector.enabled)

        add(MANY_REPLICAS - 1)
        self.assertEqual(collector.frozen, [])
        add(1)
        self.assertEqual(collector.frozen, [True])
        garbage.replica_removed()
        add(10)
        self.assertEqual(collector.frozen, [True])
        add(MANY_REPLICAS)
        self.assertEqual(collector.frozen, [True, False])
        add(MANY_REPLICAS)
        self.assertEqual(collector.frozen, [True, False, True])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_without_a_scheduler(self) -> None:
        """
        Without a scheduler, all is done at once.
        """
        request = a_request(MetadataRequest(topics=None), 9)
        time_slice = RequestContext(1, "kafka", "10.0.0.1", 4000).time_slice(request)
        self.assertFalse(any(time_slice.used() for _ in range(3 * UNITS)))

    def test_a_request_knows(self) -> None:
        """
        A request that needs a second slice is marked, so that its response is encoded in slices as well.
        """
        request = a_request(MetadataRequest(topics=None), 9)
        context = RequestContext(1, "kafka", "10.0.0.1", 4000, scheduler=self.scheduler)
        work = Deferred.fromCoroutine(self._work(context.time_slice(request), FIRST_UNITS - 1, 0, 0.0))
        self.successResultOf(work)
        self.assertFalse(request.sliced)
        work = Deferred.fromCoroutine(self._work(context.time_slice(request), FIRST_UNITS + 1, 0, 0.0))
        self.assertTrue(request.sliced)
        self.turn()
        self.successResultOf(work)
