"""Time slices: amount of work, turns, and cancellation."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Generator

from twisted.internet.defer import CancelledError, Deferred

from logbus.net.request_context import RequestContext
from logbus.net.time_slices import FEW_CONNECTIONS, FIRST_UNITS, UNITS, UNITS_PER_CLOCK_READ, TimeSlice
from logbus.wire.messages.metadata import MetadataRequest
from tests.handlers.kit import a_request
from tests.net.time_slice_case import TimeSliceCase


class TimeSliceTests(TimeSliceCase):
    def test_short_work_is_done_at_once(self) -> None:
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
            self.assertLessEqual(self.turn(), 10 + UNITS_PER_CLOCK_READ)
        self.assertGreaterEqual(self.scheduler.slices, (1000 - FIRST_UNITS) // (10 + UNITS_PER_CLOCK_READ))
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

    def test_duplicates(self) -> None:
        """
        What occurs more than once is found in slices, too.
        """
        keys = [*range(3 * UNITS), 7, 7, 8]
        work = Deferred.fromCoroutine(TimeSlice(self.scheduler).duplicates(keys))
        self.assertNoResult(work)
        while not work.called:
            self.turn()
        self.assertEqual(self.successResultOf(work), {7, 8})
        work = Deferred.fromCoroutine(TimeSlice(self.scheduler).distinct(keys))
        for _ in range(3):
            self.assertNoResult(work)
            self.turn()
        self.assertEqual(self.successResultOf(work), [*range(3 * UNITS)])

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

    def test_connections_have_equal_shares(self) -> None:
        """
        A connection with a hundred large requests gets as much of the processor as one with a single request.
        """
        many = [self.start(1000, 1, seconds=0.001, connection=1) for _ in range(100)]
        one = self.start(1000, 2, seconds=0.001, connection=2)
        self.done.clear()
        for _ in range(100):
            self.turn()
        used = Counter(self.done)
        self.assertApproximates(used[1] / used[2], 1.0, 0.1)
        for work in (*many, one):
            work.cancel()
            self.failureResultOf(work, CancelledError)

    def test_longer_units_have_no_larger_share(self) -> None:
        """
        What is shared is processor time: work that cannot be divided finely waits for longer afterwards.
        """
        works = [
            self.start(10_000, 1, seconds=0.030, connection=1),
            self.start(100_000, 2, seconds=0.001, connection=2),
        ]
        self.done.clear()
        for _ in range(300):
            self.turn()
        used = Counter(self.done)
        self.assertApproximates(used[1] * 0.030 / (used[2] * 0.001), 1.0, 0.2)
        for work in works:
            work.cancel()
            self.failureResultOf(work, CancelledError)

    def test_nobody_saves_up(self) -> None:
        """
        A connection that begins later has no more than its share, and one that used time before its slices less.
        """
        works = [self.start(100_000, 1, seconds=0.001, connection=1)]
        for _ in range(100):
            self.turn()
        works.append(self.start(100_000, 2, seconds=0.001, connection=2))
        self.done.clear()
        for _ in range(20):
            self.turn()
        self.assertApproximates(self.done.count(1) / self.done.count(2), 1.0, 0.2)
        self.scheduler.used(2, 10.0)
        self.done.clear()
        for _ in range(20):
            self.turn()
        self.assertEqual(set(self.done), {1})
        for work in works:
            work.cancel()
            self.failureResultOf(work, CancelledError)

    def test_past_connections_are_forgotten(self) -> None:
        """
        The virtual times of connections that are gone do not accumulate.
        """
        work = self.start(100_000, 1, seconds=0.001, connection=-1)
        for connection in range(10 * FEW_CONNECTIONS):
            self.scheduler.used(connection, 0.001)
            self.turn()
            self.assertLessEqual(len(self.scheduler._ahead), 2 + FEW_CONNECTIONS)
        work.cancel()
        self.failureResultOf(work, CancelledError)
        self.assertEqual(self.scheduler._ahead, {})

    def test_cancelled_work_stops(self) -> None:
        """
        Cancelled work has no further slice, and leaves no call behind.
        """
        work = self.start(3 * UNITS)
        work.cancel()
        self.failureResultOf(work, CancelledError)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.turn(), 0)

    def test_elements_are_removed_by_and_by(self) -> None:
        """
        A long list is emptied in slices, in its order, so that its objects are not freed all at once.
        """
        elements = list(range(2 * UNITS))
        seen: list[int] = []

        async def take() -> None:
            async for part in TimeSlice(self.scheduler).taken_from(elements, 7):
                seen.extend(part)

        work = Deferred.fromCoroutine(take())
        sizes = [2 * UNITS, len(elements)]
        while not work.called:
            self.turn()
            sizes.append(len(elements))
        self.successResultOf(work)
        self.assertEqual(seen, list(range(2 * UNITS)))
        self.assertLessEqual(max(before - after for before, after in itertools.pairwise(sizes)), UNITS + 7)
        elements.extend(range(UNITS))
        work = Deferred.fromCoroutine(TimeSlice(self.scheduler).free(elements))
        self.assertGreater(len(elements), UNITS // 2)
        while not work.called:
            self.turn()
        self.assertEqual(elements, [])

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

    def test_without_a_scheduler(self) -> None:
        """
        Without a scheduler, all is done at once.
        """
        request = a_request(MetadataRequest(topics=None), 9)
        time_slice = RequestContext(1, "kafka", "10.0.0.1", 4000).time_slice(request)
        self.assertFalse(any(time_slice.used() for _ in range(3 * UNITS)))

    def test_long_requests_are_marked(self) -> None:
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
