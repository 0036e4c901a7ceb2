"""Garbage collection while large requests are served, and while replicas are added."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import CancelledError
from twisted.trial.unittest import SynchronousTestCase

from logbus.net.garbage_collection import (
    FEW_OBJECTS,
    MANY_FROZEN,
    MANY_LOADED,
    MANY_REPLICAS,
    YOUNGEST,
    GarbageCollection,
    StartupCollection,
)
from logbus.net.time_slices import UNITS
from tests.net.time_slice_case import TimeSliceCase


class Collector:
    """Python's garbage collector, as far as it matters here."""

    def __init__(self) -> None:
        self.enabled = True
        self.objects = 0
        self.frozen: list[bool] = []
        self.collected: list[int] = []
        self.thresholds = (700, 10, 10)
        self.callbacks: list[Callable[[str, dict[str, int]], None]] = []

    def get_threshold(self) -> tuple[int, int, int]:
        return self.thresholds

    def set_threshold(self, *thresholds: int) -> None:
        self.thresholds = thresholds  # type: ignore[assignment]

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

    def get_objects(self, generation: int) -> range:
        return range(self.objects if generation == YOUNGEST else 0)

    def collect(self, generation: int = 2) -> None:
        self.collected.append(generation)


class StartupCollectionTests(SynchronousTestCase):
    def test_start(self) -> None:
        """While a process starts, only new objects are visited; then all are frozen, and all is as before."""
        collector = Collector()
        collection = StartupCollection(collector)
        for _ in range(2):
            collection.begin()
            self.assertGreater(min(collector.thresholds[1:]), 10**6)
        self.assertTrue(collector.enabled)
        collection.freeze()
        self.assertEqual(collector.thresholds, (700, 10, 10))
        self.assertEqual((collector.collected, collector.frozen), ([YOUNGEST], [True]))


class GarbageCollectionTests(TimeSliceCase):
    def test_collection_when_idle(self) -> None:
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
        """Garbage is not collected while many replicas are added; they are frozen at once."""
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
        garbage.replica_added()
        self.assertEqual(collector.frozen, [True])
        add(1)
        self.assertEqual(collector.frozen, [True])
        add(MANY_REPLICAS)
        self.assertEqual(collector.frozen, [True, True])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_much_that_stays(self) -> None:
        """
        Many objects that are still there after the work are frozen, so that no collection visits them at once; when
        very many were, all are thawed.
        """
        collector = Collector()
        garbage = GarbageCollection(collector, self.clock)

        def work(objects: int) -> None:
            garbage.work_began()
            collector.objects = objects
            garbage.work_ended()
            self.clock.advance(0.5)
            self.assertTrue(collector.enabled)

        work(FEW_OBJECTS)
        self.assertEqual(collector.frozen, [])
        work(FEW_OBJECTS + 1)
        self.assertEqual(collector.frozen, [True])
        work(MANY_FROZEN)
        self.assertEqual(collector.frozen, [True, False])
        work(MANY_FROZEN)
        self.assertEqual(collector.frozen, [True, False, True])

    def test_after_a_long_collection(self) -> None:
        """What a full collection that took long has left is frozen, so that the next ones visit only what is new."""
        collector, now = Collector(), [0.0]
        GarbageCollection(collector, self.clock, processor_seconds=lambda: now[0])
        (told,) = collector.callbacks
        for generation, seconds, frozen in ((2, 0.001, 0), (1, 1.0, 0), (2, 0.02, 1), (2, 0.002, 1)):
            told("start", {"generation": generation})
            now[0] += seconds
            told("stop", {"generation": generation})
            self.assertEqual(len(collector.frozen), frozen)

    def test_many_groups(self) -> None:
        """What very many loaded groups consist of is frozen; a few more wait for others."""
        collector = Collector()
        garbage = GarbageCollection(collector, self.clock)
        for count, frozen in ((MANY_LOADED - 1, 0), (1, 1), (MANY_LOADED - 1, 1), (2 * MANY_LOADED, 2)):
            garbage.loaded(count)
            self.assertEqual(len(collector.frozen), frozen)
