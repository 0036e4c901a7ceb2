"""Application of metadata updates on a broker."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from attrs import evolve
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from logbus.cluster.cluster_metadata import BrokerImage, ClusterMetadata
from logbus.cluster.icluster import IMetadataUpdateReceiver, IReplicaHost
from logbus.cluster.metadata_update import DeletedTopic, MetadataUpdate, PartitionState
from logbus.cluster.metadata_update_receiver import MetadataUpdateReceiver
from logbus.errors import ApiError, ErrorCode
from logbus.model import LeaderAndIsr, TopicPartition
from logbus.net.time_slices import SliceScheduler
from tests.cluster.control_plane import RecordingHost
from tests.cluster.encoded_updates import update_request

OLD, NEW = UUID(int=1), UUID(int=2)


def state(name: str, number: int = 0, topic_id: UUID = OLD, replicas: tuple[int, ...] = (0,), epoch: int = 0) -> Any:
    """A partition led by its first replica."""
    leads = LeaderAndIsr(replicas[0], epoch, replicas)
    return PartitionState(TopicPartition(name, number), topic_id, replicas, leads, overrides={"a": "b"})


class ReceiverTests(SynchronousTestCase):
    """Broker 0, of epoch 5."""

    def setUp(self) -> None:
        self.metadata = ClusterMetadata("c")
        self.host = RecordingHost()
        self.configs: dict[str, Any] = {}
        self.receiver = MetadataUpdateReceiver(0, self.metadata, self.host, lambda: 5, self.configs.update)
        self.first = MetadataUpdate(1, 3, 5)

    def apply(self, **changes: Any) -> Any:
        """Apply an announcement to the end."""
        return self.successResultOf(self.receiver.apply(evolve(self.first, **changes)))

    def test_interfaces(self) -> None:
        """They are provided."""
        verifyObject(IMetadataUpdateReceiver, self.receiver)
        verifyObject(IReplicaHost, self.host)

    def test_roles_and_metadata(self) -> None:
        """Roles are taken for this broker's replicas only; metadata of all partitions are kept."""
        brokers = {0: BrokerImage(0, {}), 1: BrokerImage(1, {})}
        self.apply(brokers=brokers, partitions=(state("t"), state("t", 1, replicas=(1,))))
        self.assertEqual(self.host.log, [("become", [("t", 0)])])
        topic = self.metadata.topic("t")
        assert topic is not None
        self.assertEqual([one.leader for one in topic.partitions], [0, 1])
        self.assertEqual((dict(topic.configs), self.metadata.brokers), ({"a": "b"}, brokers))
        self.assertEqual(self.metadata.controller_id, 1)

    def test_fencing(self) -> None:
        """An older controller and a former life of ours are refused, and change nothing."""
        self.apply()
        for changes, code in (
            ({"controller_epoch": 2}, ErrorCode.STALE_CONTROLLER_EPOCH),
            ({"broker_epoch": 4}, ErrorCode.STALE_BROKER_EPOCH),
        ):
            refused = self.receiver.apply(evolve(self.first, partitions=(state("t"),), **changes))
            self.assertEqual(self.failureResultOf(refused, ApiError).value.code, code)
        self.assertEqual((self.host.log, self.metadata.topics), ([], {}))
        self.apply(broker_epoch=6, controller_epoch=4)

    def test_late_updates(self) -> None:
        """
        One that arrives after a later one, on an old connection, is refused: its replicas may be those before a move.
        """
        self.apply(partitions=(state("t", replicas=(1,)),), number=7)
        self.apply(partitions=(state("t", epoch=1),), number=9)
        for late in (7, 8, 9):
            refused = self.receiver.apply(
                evolve(self.first, partitions=(state("t", replicas=(1,)), state("u", 1)), number=late)
            )
            self.assertEqual(self.failureResultOf(refused, ApiError).value.code, ErrorCode.INVALID_UPDATE_VERSION)
        self.assertEqual(self.host.log, [("become", [("t", 0)])])
        self.assertEqual([one.leader for one in self.metadata.topics["t"].partitions], [0])
        # This broker's own controller, and one of an earlier release, do not count theirs.
        self.apply(number=0)
        self.apply(broker_epoch=6, number=1)
        self.apply(broker_epoch=6, number=2)
        self.apply(controller_epoch=4, number=1)

    def test_updates_are_applied_in_order(self) -> None:
        """An update is applied, and shown to clients, only after the one before it has been applied."""
        self.host.hold()
        first = self.receiver.apply(evolve(self.first, partitions=(state("t"),)))
        second = self.receiver.apply(evolve(self.first, deleted=(DeletedTopic("t", OLD, 1),)))
        self.assertEqual(self.host.log, [("become", [("t", 0)])])
        self.assertEqual(self.metadata.topics, {})
        self.host.release()
        self.successResultOf(first)
        self.successResultOf(second)
        self.assertEqual(self.host.log[-1], ("remove", [("t", 0)]))
        self.assertEqual(self.metadata.topics, {})

    def test_very_many_partitions(self) -> None:
        """
        They are applied in time slices, in which readers see each topic whole; what comes meanwhile has its turn
        afterwards.
        """
        clock = Clock()
        scheduler = self.receiver.scheduler = SliceScheduler(clock, units=200)
        seen: set[int] = set()
        whole: set[int] = set()

        def look() -> None:
            for topic in self.metadata.topics.values():
                self.assertIn(len(topic.partitions), (1, 3000))
            seen.add(len(self.metadata.topics))
            if not self.metadata.is_partial:
                whole.add(len(self.metadata.topics))

        self.metadata.subscribe(look)
        many = (*(state("large", number) for number in range(3000)), *(state(f"t{n:04}") for n in range(3000)))
        first = self.receiver.apply(evolve(self.first, partitions=many, full=True))
        second = self.receiver.apply(evolve(self.first, deleted=(DeletedTopic("t0007", OLD, 1),)))
        self.assertNoResult(first)
        clock.advance(0)
        self.successResultOf(first)
        self.successResultOf(second)
        self.assertGreater(scheduler.slices, 20)
        self.assertEqual(seen, {1, 1001, 2001, 3001, 3000})
        self.assertEqual(whole, {3001, 3000})
        self.assertNotIn("t0007", self.metadata.topics)
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_an_encoded_update(self) -> None:
        """What another broker sends is applied as well."""
        update = evolve(self.first, partitions=(state("t"), state("u")))
        self.assertEqual(self.successResultOf(self.receiver.apply_encoded(update_request(update))), {})
        self.assertEqual(list(self.metadata.topics), ["t", "u"])

    def test_deletion_before_creation(self) -> None:
        """A topic that is deleted and created again in one update has only its new data."""
        self.apply(partitions=(state("t"), state("t", 1)))
        self.apply(deleted=(DeletedTopic("t", OLD, 2),), partitions=(state("t", topic_id=NEW),))
        self.assertEqual(self.host.log[1:], [("remove", [("t", 0), ("t", 1)]), ("become", [("t", 0)])])
        topic = self.metadata.topic("t")
        assert topic is not None
        self.assertEqual((topic.topic_id, len(topic.partitions)), (NEW, 1))
        self.assertIsNone(self.metadata.topic_by_id(OLD))

    def test_a_full_announcement(self) -> None:
        """What is not in it is gone; its log is set aside, as the metadata may be older ones."""
        self.apply(partitions=(state("gone"), state("stays")))
        self.apply(partitions=(state("stays", epoch=1),), full=True)
        self.assertEqual(self.host.log[1:], [("set aside", [("gone", 0)]), ("become", [("stays", 0)])])
        self.assertEqual(list(self.metadata.topics), ["stays"])

    def test_removed_replica(self) -> None:
        """The log of a replica that moved to another broker is deleted here."""
        self.apply(partitions=(state("t", replicas=(0, 1)),))
        self.apply(partitions=(state("t", replicas=(1, 2)),))
        self.assertEqual(self.host.log[1:], [("remove", [("t", 0)])])

    def test_configuration(self) -> None:
        """Topics' overrides reach the host and the metadata, brokers' their callback, before roles are taken."""
        self.apply(partitions=(state("t"),))
        self.apply(configs={"t": {"c": "d"}}, broker_configs={"0": {"e": "f"}})
        self.assertEqual(self.host.log[-1], ("configure", ("t", {"c": "d"})))
        topic = self.metadata.topic("t")
        assert topic is not None
        self.assertEqual((dict(topic.configs), self.configs), ({"c": "d"}, {"0": {"e": "f"}}))

    def test_failing_partitions(self) -> None:
        """Partitions that cannot be opened are in the response; the others are served."""
        self.host.broken.add(TopicPartition("t", 1))
        errors = self.apply(partitions=(state("t"), state("t", 1)))
        self.assertEqual(list(errors), [("t", 1)])
        self.assertIn(TopicPartition("t", 0), self.host.states)
