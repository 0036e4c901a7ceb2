"""The metadata cache."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from twisted.internet.defer import CancelledError
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.cluster_metadata import MAX_REMOVED, BrokerImage, ClusterMetadata, PartitionImage
from logbus.model import LeaderAndIsr, TopicPartition

IMAGE = PartitionImage((1, 2), LeaderAndIsr(1, 4, (1, 2)))
OLD, NEW = UUID(int=1), UUID(int=2)


class MetadataTests(SynchronousTestCase):
    """Reading, changing, waiting."""

    def setUp(self) -> None:
        self.metadata = ClusterMetadata("c")

    def make(self, name: str, topic_id: UUID, partitions: int = 1) -> None:
        """A topic."""
        with self.metadata.changing() as metadata:
            metadata.set_partitions(name, topic_id, [(number, IMAGE) for number in range(partitions)])

    def test_look_ups(self) -> None:
        """Topics by name and id, partitions by name; what is not there is None."""
        self.make("t", OLD, 2)
        topic = self.metadata.topic("t")
        assert topic is not None
        self.assertIs(self.metadata.topic_by_id(OLD), topic)
        self.assertEqual(self.metadata.partition(TopicPartition("t", 1)), IMAGE)
        for name in (TopicPartition("t", 2), TopicPartition("t", -1), TopicPartition("u", 0)):
            self.assertIsNone(self.metadata.partition(name))
        self.assertIsNone(self.metadata.topic_by_id(NEW))
        self.assertEqual(self.metadata.partition_count, 2)
        self.assertEqual((IMAGE.leader, IMAGE.leader_epoch, IMAGE.isr), (1, 4, (1, 2)))

    def test_a_recreated_topic(self) -> None:
        """Its predecessor is forgotten, also by id."""
        self.make("t", OLD, 3)
        self.make("t", NEW, 1)
        topic = self.metadata.topic("t")
        assert topic is not None
        self.assertEqual((topic.topic_id, len(topic.partitions)), (NEW, 1))
        self.assertIsNone(self.metadata.topic_by_id(OLD))
        with self.metadata.changing() as metadata:
            self.assertIsNone(metadata.remove_topic("t", OLD))
            self.assertFalse(metadata.was_removed(NEW))
            self.assertIs(metadata.remove_topic("t", NEW), topic)
        self.assertEqual(self.metadata.topics, {})
        self.assertEqual([self.metadata.was_removed(UUID(int=n)) for n in (OLD.int, NEW.int, 99)], [True, True, False])

    def test_many_removed_topics(self) -> None:
        """Only the last ones are remembered."""
        for n in range(MAX_REMOVED + 1):
            self.make("t", UUID(int=n), 1)
        self.assertEqual([self.metadata.was_removed(UUID(int=n)) for n in range(3)], [True, True, True])
        self.make("t", UUID(int=MAX_REMOVED + 1), 1)
        self.assertEqual([self.metadata.was_removed(UUID(int=n)) for n in range(3)], [False, True, True])

    def test_deletion_listeners(self) -> None:
        """Deletion listeners get the names of deleted topics after the change, also if another topic takes the name."""
        told: list[tuple[Sequence[str], bool]] = []
        self.metadata.when_removed(lambda names: told.append((names, "t" in self.metadata.topics)))
        self.make("t", OLD, 3)
        self.assertEqual(told, [])
        self.make("t", NEW, 1)
        self.assertEqual(told, [(["t"], True)])
        with self.metadata.changing() as metadata:
            metadata.remove_topic("t")
            metadata.remove_topic("u")
        self.assertEqual(told[1:], [(["t"], False)])

    def test_gaps(self) -> None:
        """Partitions come in order."""
        with self.metadata.changing() as metadata:
            self.assertRaises(ValueError, metadata.set_partitions, "t", OLD, [(1, IMAGE)])

    def test_versions(self) -> None:
        """Several changes made together are one step, also when they fail half-way; an image stays the same object."""
        self.make("t", OLD)
        topic = self.metadata.topic("t")
        before = self.metadata.version
        with self.metadata.changing() as metadata:
            metadata.set_configs("t", {"a": "b"})
            metadata.set_configs("none", {"a": "b"})
            metadata.set_brokers({1: BrokerImage(1, {})})
            metadata.set_controller(1)
        self.assertEqual(self.metadata.version, before + 1)
        self.assertIs(self.metadata.topic("t"), topic)
        with self.assertRaises(ZeroDivisionError), self.metadata.changing():
            raise ZeroDivisionError
        self.assertEqual(self.metadata.version, before + 2)
        with self.metadata.changing(), self.assertRaises(RuntimeError), self.metadata.changing():
            self.fail("changes do not nest")

    def test_subscribers(self) -> None:
        """They hear once per change until they unsubscribe; one that fails harms nobody."""
        heard: list[int] = []

        def broken() -> None:
            raise ZeroDivisionError

        self.metadata.subscribe(broken)
        unsubscribe = self.metadata.subscribe(lambda: heard.append(self.metadata.version))
        self.make("t", OLD)
        unsubscribe()
        unsubscribe()
        self.make("u", NEW)
        self.assertEqual(heard, [1])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2)

    def test_waiting(self) -> None:
        """It ends now, later, with an error, or by cancelling; nothing is left of it."""
        self.successResultOf(self.metadata.wait_for(lambda metadata: True))
        later = self.metadata.wait_for(lambda metadata: metadata.topic("t") is not None)
        cancelled = self.metadata.wait_for(lambda metadata: False)
        broken = self.metadata.wait_for(lambda metadata: bool(metadata.version and 1 // 0))
        self.assertNoResult(later)
        cancelled.addErrback(lambda _: None)
        cancelled.cancel()
        self.make("t", OLD)
        self.successResultOf(later)
        self.failureResultOf(broken, ZeroDivisionError)
        self.assertEqual(self.metadata._subscribers, [])

    def test_cancellation_during_a_notification(self) -> None:
        """A listener that is notified first may cancel another wait for the same change."""

        def cancel() -> None:
            waiting.cancel()

        unsubscribe = self.metadata.subscribe(cancel)
        waiting = self.metadata.wait_for(lambda metadata: metadata.topic("t") is not None)
        self.make("t", OLD)
        unsubscribe()
        self.failureResultOf(waiting, CancelledError)
        self.assertEqual(self.flushLoggedErrors(), [])
