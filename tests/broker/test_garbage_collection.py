"""The garbage collections of a process that runs one broker."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.broker.garbage_collection import delay_collections
from logbus.net.garbage_collection import MANY_LOADED
from logbus.net.time_slices import TimeSlice
from logbus.testing.memory.memory_broker import MemoryBroker
from tests.net.test_garbage_collection import Collector


class DelayTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.collector = Collector()
        self.broker = MemoryBroker().broker
        delay_collections(self.broker, self.collector)

    def test_no_collection_during_work(self) -> None:
        """None runs while a large request is served, or a coordinator loads groups or transactions."""
        coordinators, clock = self.broker.coordinators, self.broker.env.reactor
        of_requests = self.broker.env.slice_scheduler
        for scheduler in (of_requests, coordinators.groups.slices, coordinators.transactions.slices):
            scheduler.wait(TimeSlice(scheduler))
            self.assertTrue(self.collector.enabled)
            clock.advance(0)
            self.assertFalse(self.collector.enabled)
            clock.advance(1)

    def test_loaded_objects_stay(self) -> None:
        """Later collections pass over the objects of many groups or transactions."""
        for coordinator in (self.broker.coordinators.groups, self.broker.coordinators.transactions):
            coordinator.loaded(MANY_LOADED)
        self.assertEqual(self.collector.frozen, [True, True])

    def test_none_after_a_new_replica(self) -> None:
        """None runs until no replica was added for a while."""
        self.broker.replication.replicas.added()
        self.assertFalse(self.collector.enabled)
        self.broker.env.reactor.advance(1)
        self.assertTrue(self.collector.enabled)
