"""Tests of :mod:`logbus.services`."""

from __future__ import annotations

from attrs import define, field
from twisted.application.service import IService, IServiceCollection, MultiService, Service
from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from logbus.services import OrderedService, PeriodicTask, Task, Tasks


class Child(Service):
    """A service whose start and stop end when the test says so."""

    def __init__(self, name: str, events: list[str], *, waits: bool = False) -> None:
        self.name = name
        self.events = events
        self.waits = waits
        self.start: Deferred[None] = Deferred()
        self.stop: Deferred[None] = Deferred()

    def startService(self) -> Deferred[None] | None:
        super().startService()
        self.events.append(f"start {self.name}")
        return self.start if self.waits else None

    def stopService(self) -> Deferred[None] | None:
        super().stopService()
        self.events.append(f"stop {self.name}")
        return self.stop if self.waits else None


class Broken(Service):
    """A service that cannot start."""

    def startService(self) -> None:
        raise OSError("port in use")


class OrderedServiceTests(SynchronousTestCase):
    """The tree starts in order and stops in reverse."""

    def tree(self, *children: Service) -> OrderedService:
        root = OrderedService("root")
        for child in children:
            child.setServiceParent(root)
        return root

    def test_it_is_a_twisted_service(self) -> None:
        """It provides what twistd expects, and goes under a MultiService."""
        root = self.tree()
        verifyObject(IService, root)
        verifyObject(IServiceCollection, root)
        application = MultiService()
        root.setServiceParent(application)
        self.assertIs(application.getServiceNamed("root"), root)

    def test_each_child_waits_for_the_one_before(self) -> None:
        """The second child starts only when the first has started."""
        events: list[str] = []
        first, second = Child("a", events, waits=True), Child("b", events)
        started = self.tree(first, second).startService()
        self.assertEqual(events, ["start a"])
        self.assertNoResult(started)
        first.start.callback(None)
        self.assertEqual(events, ["start a", "start b"])
        self.successResultOf(started)

    def test_stops_in_reverse_each_awaited(self) -> None:
        """The first child is told to stop only when the second has stopped."""
        events: list[str] = []
        first, second = Child("a", events), Child("b", events, waits=True)
        root = self.tree(first, second)
        second.start.callback(None)
        self.successResultOf(root.startService())
        events.clear()
        stopped = root.stopService()
        self.assertEqual(events, ["stop b"])
        self.assertNoResult(stopped)
        second.stop.callback(None)
        self.assertEqual(events, ["stop b", "stop a"])
        self.successResultOf(stopped)

    def test_a_failed_start_stops_those_before_and_passes_the_error_up(self) -> None:
        """Started children are stopped in reverse, later ones never start, and the caller gets the error."""
        events: list[str] = []
        root = self.tree(Child("a", events), Child("b", events), Broken(), Child("c", events))
        failure = self.failureResultOf(root.startService(), OSError)
        self.assertIn("port in use", str(failure.value))
        self.assertEqual(events, ["start a", "start b", "stop b", "stop a"])
        self.assertFalse(root.running)
        self.successResultOf(root.stopService())
        self.assertEqual(len(events), 4)

    def test_nested_trees_pass_errors_up(self) -> None:
        """A tree in a tree is a child like any other."""
        events: list[str] = []
        root = self.tree(Child("a", events), self.tree(Child("b", events), Broken()))
        self.failureResultOf(root.startService(), OSError)
        self.assertEqual(events, ["start a", "start b", "stop b", "stop a"])

    def test_system_exit_undoes_the_start_too(self) -> None:
        """A preflight that exits leaves nothing running."""

        class Exits(Service):
            def startService(self) -> None:
                raise SystemExit(1)

        events: list[str] = []
        failure = self.failureResultOf(self.tree(Child("a", events), Exits()).startService(), SystemExit)
        self.assertEqual(failure.value.code, 1)
        self.assertEqual(events, ["start a", "stop a"])

    def test_errors_at_stop_do_not_spare_the_others(self) -> None:
        """Every child is stopped; the first error is passed up, all are logged."""
        events: list[str] = []

        class Sticks(Child):
            def stopService(self) -> Deferred[None]:
                super().stopService()
                return fail(ValueError(self.name))

        root = self.tree(Child("a", events), Sticks("b", events), Sticks("c", events))
        self.successResultOf(root.startService())
        failure = self.failureResultOf(root.stopService(), ValueError)
        self.assertEqual(str(failure.value), "c")
        self.assertEqual(events[3:], ["stop c", "stop b", "stop a"])
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 2)

    def test_stop_during_start_cancels_the_child_that_starts(self) -> None:
        """A starting child is cancelled, started ones stop, and both callers are notified."""
        events: list[str] = []
        first, second = Child("a", events), Child("b", events, waits=True)
        root = self.tree(first, second, Child("c", events))
        started = root.startService()
        self.successResultOf(root.stopService())
        self.failureResultOf(started, CancelledError)
        self.assertEqual(events, ["start a", "start b", "stop a"])

    def test_stop_during_start_waits_for_a_child_that_cannot_be_cancelled(self) -> None:
        """A child that finishes starting in spite of the cancellation is stopped like the others."""
        events: list[str] = []
        shielded: Deferred[None] = Deferred()

        class Shielded(Child):
            def startService(self) -> Deferred[None]:
                super().startService()

                async def work() -> None:
                    try:
                        await Deferred[None]()
                    except CancelledError:
                        await shielded

                return Deferred.fromCoroutine(work())

        root = self.tree(Child("a", events), Shielded("b", events), Child("c", events))
        started = root.startService()
        stopped = root.stopService()
        again = root.stopService()
        self.assertNoResult(stopped)
        shielded.callback(None)
        self.assertEqual(events, ["start a", "start b", "stop b", "stop a"])
        self.successResultOf(stopped)
        self.successResultOf(again)
        self.failureResultOf(started, CancelledError)

    def test_stop_while_a_failed_start_is_undone_does_not_cut_that_short(self) -> None:
        """The stops of an undone start are not cancelled by a stop that comes in between."""
        events: list[str] = []
        first = Child("a", events, waits=True)
        first.start.callback(None)
        root = self.tree(first, Broken())
        started = root.startService()
        stopped = root.stopService()
        self.assertNoResult(started)
        self.assertNoResult(stopped)
        first.stop.callback(None)
        self.failureResultOf(started, OSError)
        self.successResultOf(stopped)

    def test_a_second_stop_waits_for_the_first(self) -> None:
        """Two calls of stopService end together, and each child stops once."""
        events: list[str] = []
        child = Child("a", events, waits=True)
        child.start.callback(None)
        root = self.tree(child)
        self.successResultOf(root.startService())
        stops = [root.stopService(), root.stopService()]
        child.stop.callback(None)
        for stop in stops:
            self.successResultOf(stop)
        self.assertEqual(events, ["start a", "stop a"])

    def test_starts_again_after_a_stop(self) -> None:
        """The tree may be started once more when it has stopped, not before."""
        events: list[str] = []
        root = self.tree(Child("a", events))
        self.successResultOf(root.startService())
        self.assertRaises(RuntimeError, root.startService)
        self.successResultOf(root.stopService())
        self.successResultOf(root.startService())
        self.assertEqual(events, ["start a", "stop a", "start a"])

    def test_does_not_grow_while_it_runs(self) -> None:
        """A child added after the start is refused, since its start would not be awaited."""
        root = self.tree()
        self.successResultOf(root.startService())
        self.assertRaises(RuntimeError, root.addService, Service())


@define
class Failures:
    """Remembers what it is told."""

    seen: list[str] = field(factory=list)

    def __call__(self, task: Task, failure: object) -> None:
        self.seen.append(task.what)


class TasksTests(SynchronousTestCase):
    """Background work is supervised."""

    def test_runs_at_once_and_is_forgotten_when_done(self) -> None:
        """A coroutine runs up to its first wait in start(), and is not kept when it ends."""
        tasks, gate = Tasks(), Deferred[int]()
        got: list[int] = []

        async def work() -> None:
            got.append(await gate)

        task = tasks.start(work(), "working")
        self.assertEqual(tasks.running, ["working"])
        gate.callback(3)
        self.assertEqual(got, [3])
        self.assertTrue(task.done)
        self.assertEqual(tasks.running, [])

    def test_failure_is_logged_and_told(self) -> None:
        """A failed task is logged with its name, and reported to the owner."""
        failures = Failures()
        tasks = Tasks(failures)

        async def work() -> None:
            raise ValueError("no")

        tasks.start(work(), "working")
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        self.assertEqual(failures.seen, ["working"])

    def test_stop_cancels_and_awaits(self) -> None:
        """stop() fires when the last task has ended its cleaning up; cancellation is not an error."""
        failures = Failures()
        tasks, cleaning = Tasks(failures), Deferred[None]()

        async def tidy() -> None:
            try:
                await Deferred[None]()
            finally:
                await cleaning

        async def plain() -> None:
            await Deferred[None]()

        tasks.start(tidy(), "tidy")
        tasks.start(plain(), "plain")
        stopped = tasks.stop()
        self.assertEqual(tasks.running, ["tidy"])
        self.assertNoResult(stopped)
        cleaning.callback(None)
        self.successResultOf(stopped)
        self.assertEqual(failures.seen, [])

    def test_a_failure_while_cancelled_is_logged(self) -> None:
        """An error in a task's cleaning up is not lost with the cancellation."""
        tasks = Tasks()

        async def work() -> None:
            try:
                await Deferred[None]()
            except CancelledError:
                raise ValueError("cleaning up") from None

        tasks.start(work(), "working")
        self.successResultOf(tasks.stop())
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_a_cancellation_that_nobody_asked_for_is_logged(self) -> None:
        """A task that ends because something it awaited was cancelled has failed."""
        tasks, awaited = Tasks(), Deferred[None]()

        async def work() -> None:
            await awaited

        tasks.start(work(), "working")
        awaited.cancel()
        self.assertEqual(len(self.flushLoggedErrors(CancelledError)), 1)

    def test_one_task_can_be_cancelled(self) -> None:
        """cancel() of one leaves the others alone; a second cancel does nothing."""
        tasks = Tasks()

        async def work() -> None:
            await Deferred[None]()

        first = tasks.start(work(), "first")
        tasks.start(work(), "second")
        first.cancel()
        first.cancel()
        self.assertEqual(tasks.running, ["second"])

    def test_nothing_starts_after_stop(self) -> None:
        """A coroutine started after stop() never takes a step."""
        tasks = Tasks()
        self.successResultOf(tasks.stop())
        steps: list[int] = []

        async def work() -> None:
            steps.append(1)

        self.assertTrue(tasks.start(work(), "late").done)
        self.assertEqual(steps, [])

    def test_a_task_may_stop_its_owner(self) -> None:
        """A task that calls stop() in its first step is cancelled at its first wait."""
        tasks = Tasks()
        stops: list[Deferred[None]] = []

        async def work() -> None:
            stops.append(tasks.stop())
            await Deferred[None]()

        tasks.start(work(), "working")
        self.successResultOf(stops[0])
        self.assertEqual(tasks.running, [])


class PeriodicTaskTests(SynchronousTestCase):
    """Something is done every so often."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.runs: list[float] = []

    def task(self, **more: bool) -> PeriodicTask:
        return PeriodicTask(self.clock, 10, lambda: self.runs.append(self.clock.seconds()), "counting", **more)

    def test_runs_every_interval_until_stopped(self) -> None:
        """Runs come at the interval, none after the stop, and no timer is left."""
        task = self.task()
        task.startService()
        self.clock.pump([10, 10])
        self.successResultOf(task.stopService())
        self.clock.pump([10, 10])
        self.assertEqual(self.runs, [10, 20])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_first_run_may_come_at_once(self) -> None:
        """With now, the first run comes with the start."""
        self.task(now=True).startService()
        self.assertEqual(self.runs, [0])

    def test_an_error_does_not_end_it(self) -> None:
        """Whatever a run raises is logged, and the next one comes."""

        def fails() -> None:
            self.runs.append(self.clock.seconds())
            raise ValueError("no")

        task = PeriodicTask(self.clock, 10, fails, "failing")
        task.startService()
        self.clock.pump([10, 10])
        self.assertEqual(self.runs, [10, 20])
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 2)

    def test_a_long_run_delays_the_next_and_stop_cancels_it(self) -> None:
        """Runs do not overlap; stop() cancels the one under way and waits for its end."""
        ends: list[str] = []
        tidied: Deferred[None] = Deferred()

        async def run() -> None:
            self.runs.append(self.clock.seconds())
            try:
                await Deferred[None]()
            finally:
                await tidied
                ends.append("tidied")

        task = PeriodicTask(self.clock, 10, run, "waiting")
        task.startService()
        self.clock.pump([10, 10, 10])
        self.assertEqual(self.runs, [10])
        stopped = task.stopService()
        self.assertNoResult(stopped)
        tidied.callback(None)
        self.successResultOf(stopped)
        self.assertEqual(ends, ["tidied"])

    def test_stop_before_start(self) -> None:
        """Stopping what never started does nothing."""
        self.successResultOf(self.task().stopService())
