"""ISR changes sent to the controller, and producers that wait for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.icluster import IControllerChannel
from logbus.cluster.images import BrokerImage
from logbus.cluster.metadata_update import PartitionState
from logbus.cluster.replication.isr_manager import FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS, IsrManager, Lag
from logbus.cluster.replication.replica import Replica
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.config import TopicConfig
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import IsrChange, LeaderAndIsr, LogEndReport, ReplicaReport, TopicPartition
from logbus.storage.log_manager import LogManager
from logbus.testing.simulation.environment.memory_disk import MemoryDisk
from tests.handlers.kit import a_batch
from tests.storage.builders import NOW_MS, NOW_S

Answers = Mapping[TopicPartition, LeaderAndIsr | ApiError]


@implementer(IControllerChannel)
class FakeLink:
    """A controller that answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[Sequence[IsrChange], Deferred[Answers]]] = []

    def alter_partitions(self, changes: Sequence[IsrChange]) -> Deferred[Answers]:
        answer: Deferred[Answers] = Deferred()
        self.asked.append((list(changes), answer))
        return answer

    def report_failed(self, topic_partitions: Sequence[TopicPartition]) -> Deferred[None]:
        raise AssertionError

    def report_replicas(self, reports: Sequence[ReplicaReport]) -> Deferred[Answers]:
        raise AssertionError

    def report_log_ends(self, ends: Mapping[TopicPartition, LogEndReport]) -> Deferred[None]:
        raise AssertionError

    def shut_down(self) -> Deferred[Sequence[TopicPartition]]:
        raise AssertionError


class CallCounter:
    """Counts how often it is called."""

    def __init__(self) -> None:
        self.times = 0

    def moved(self, replica: Replica, size: int) -> None:
        self.times += 1


class IsrCase(SynchronousTestCase):
    """Broker 0, which leads partitions of ``t``; brokers 1 and 2 have replicas."""

    def setUp(self) -> None:
        self.clock, self.link = Clock(), FakeLink()
        self.metadata = ClusterMetadata("c")
        self.alive(0, 1, 2)
        manager = LogManager([MemoryDisk("/a")], self.clock, lambda: NOW_S)
        self.config = TopicConfig(flush_before_ack=False, min_insync_replicas=1)
        self.replicas = ReplicaManager(0, manager, lambda overrides: self.config)
        self.keeper = IsrManager(self.replicas, self.metadata, self.link, self.clock, lambda: 10_000)
        self.replicas.cluster = self.keeper
        self.successResultOf(manager.open())
        self.keeper.start()
        self.addCleanup(self.keeper.stop)

    def alive(self, *brokers: int) -> None:
        with self.metadata.changing() as metadata:
            metadata.set_brokers({n: BrokerImage(n, {}) for n in brokers})

    def lead(self, *isr: int, partition: int = 0, epoch: int = 0) -> Replica:
        state = LeaderAndIsr(0, epoch, isr, version=1)
        states = [PartitionState(TopicPartition("t", partition), UUID(int=1), (0, 1, 2), state)]
        self.assertEqual(dict(self.successResultOf(self.replicas.become(states))), {})
        return self.replicas.leader("t", partition)

    def fetch(self, replica: Replica, broker: int, offset: int) -> None:
        follower = replica.partition.follower(broker, replica.partition.leader_epoch, 1)
        replica.fetched(follower, offset, 0)

    def append(self, replica: Replica) -> Deferred[None]:
        replica.append(a_batch(), NOW_MS, all_in_sync=True)
        waiting = replica.durable()
        assert waiting is not None
        return waiting

    def asked(self) -> list[tuple[int, ...]]:
        """The in-sync replicas that are asked for in the request under way."""
        self.clock.advance(0)
        return [change.isr for change in self.link.asked[-1][0]] if self.link.asked else []

    def answer(self, *refusals: ErrorCode) -> None:
        changes, answer = self.link.asked.pop()
        answers: dict[TopicPartition, LeaderAndIsr | ApiError] = {}
        for change in changes:
            state = LeaderAndIsr(0, change.leader_epoch, change.isr, version=change.version + 1)
            answers[change.topic_partition] = ApiError(refusals[0]) if refusals else state
        answer.callback(answers)
        self.clock.advance(0)

    def code(self, waiting: Deferred[None]) -> ErrorCode:
        error: LogbusError = self.failureResultOf(waiting, ApiError).value
        assert isinstance(error, ApiError)
        return error.code


class AskingTests(IsrCase):
    """Requests to the controller."""

    def test_changes_are_sent_together(self) -> None:
        """Changes that come up while a request is under way are sent together in the next one."""
        verifyObject(IControllerChannel, self.link)
        replicas = [self.lead(0, partition=n) for n in range(3)]
        self.fetch(replicas[0], 1, 0)
        self.assertEqual(self.asked(), [(0, 1)])
        for replica in replicas:
            self.fetch(replica, 2, 0)
        self.clock.advance(1)
        self.assertEqual(len(self.link.asked), 1)
        self.answer()
        self.assertEqual(self.asked(), [(0, 2), (0, 2), (0, 1, 2)])
        self.answer()
        self.assertEqual((self.link.asked, self.keeper.expansions), ([], 4))

    def test_lagging_followers_are_removed(self) -> None:
        """
        A follower that lags for replica.lag.time.max.ms is removed; then producers that waited for it are answered.
        """
        replica = self.lead(0, 1)
        waiting = self.append(replica)
        for _ in range(2):
            self.clock.advance(5)
        self.assertEqual(self.asked(), [])
        self.clock.advance(5)
        self.assertEqual(self.asked(), [(0,)])
        self.assertNoResult(waiting)
        self.answer()
        self.successResultOf(waiting)
        self.assertEqual((self.keeper.shrinks, replica.partition.has_enough_replicas), (1, True))

    def test_frozen_leader(self) -> None:
        """A leader that was frozen for long does not remove followers before it has read their fetches."""
        replica = self.lead(0, 1)
        self.append(replica)
        self.clock.advance(60)
        self.assertEqual(self.asked(), [])
        self.fetch(replica, 1, 1)
        for _ in range(10):
            self.clock.advance(5)
        self.assertEqual((self.asked(), replica.high_watermark), ([], 1))

    def test_refused_changes_are_retried(self) -> None:
        """Refused changes are retried, with growing pauses."""
        self.fetch(self.lead(0), 1, 0)
        times = []
        for _ in range(5):
            start = self.clock.seconds()
            while not self.asked():
                self.clock.advance(FIRST_RETRY_SECONDS / 10)
            times.append(round(self.clock.seconds() - start, 1))
            self.answer(ErrorCode.INELIGIBLE_REPLICA)
        self.assertEqual(times, [0, 0.1, 0.2, 0.4, 0.8])

    def test_another_controller(self) -> None:
        """What was refused again and again is asked for at once when there is another controller, or broker."""
        replica = self.lead(0)
        self.fetch(replica, 1, 0)
        for _ in range(10):
            self.assertEqual(self.asked(), [(0, 1)])
            self.answer(ErrorCode.INELIGIBLE_REPLICA)
            self.clock.advance(self.keeper._retry_seconds)
        self.assertEqual(self.asked(), [(0, 1)])
        self.answer(ErrorCode.INELIGIBLE_REPLICA)
        self.assertEqual(self.asked(), [])
        with self.metadata.changing() as metadata:
            metadata.set_controller(2)
        self.assertEqual(self.asked(), [(0, 1)])
        self.answer(ErrorCode.INELIGIBLE_REPLICA)
        self.alive(0, 1)
        self.assertEqual(self.asked(), [(0, 1)])

    def test_brokers_shutting_down_are_not_added(self) -> None:
        """A broker that is shutting down is not proposed, even if it fetches, until it registers again."""
        replica = self.lead(0, 2)
        self.fetch(replica, 1, 0)
        self.fetch(replica, 2, 0)
        self.assertEqual(self.asked(), [(0, 2, 1)])
        self.answer(ErrorCode.INELIGIBLE_REPLICA)
        with self.metadata.changing() as metadata:
            metadata.set_brokers({n: BrokerImage(n, {}, in_controlled_shutdown=n == 1) for n in (0, 1, 2)})
        for _ in range(10):
            self.clock.advance(MAX_RETRY_SECONDS)
            self.fetch(replica, 1, 0)
            self.fetch(replica, 2, 0)
        self.assertEqual(self.asked(), [])
        self.lead(0, 2, epoch=1)
        self.fetch(replica, 1, 0)
        self.assertEqual(self.asked(), [])
        self.alive(0, 1, 2)
        replica.fetched(replica.partition.follower(1, 1, 2), 0, 0)
        self.assertEqual(self.asked(), [(0, 2, 1)])

    def test_fetches_beyond_a_new_leaders_end(self) -> None:
        """
        What lies behind its end is not out of range until those in sync have fetched from it: they may have more that
        is committed, and it be replaced.
        """
        replica = self.lead(0, 1)
        self.append(replica)
        replica = self.lead(0, 1, epoch=1)
        self.fetch(replica, 1, 0)
        for code in (ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.OFFSET_OUT_OF_RANGE):
            error = self.assertRaises(ApiError, replica.read, 2, 100, committed=False, min_one=True)
            self.assertEqual(error.code, code)
            self.fetch(replica, 1, 1)

    def test_idle_followers_are_checked(self) -> None:
        """After it left the ISR or lost its registration, a follower reports its offset again, even without writes."""
        replica, told = self.lead(0, 1, 2), CallCounter()
        replica.log_watchers[told] = None
        self.lead(0, 1, 2)
        self.assertEqual(told.times, 0)
        replica.take_role(LeaderAndIsr(0, 0, (0, 2), version=2), (0, 1, 2))
        self.assertEqual(told.times, 1)
        self.alive(0, 2)
        self.assertEqual(told.times, 2)

    def test_no_answer(self) -> None:
        """Who was wished into sync counts until it is known what became of that, and is asked for again."""
        replica = self.lead(0)
        self.fetch(replica, 1, 0)
        self.asked()
        self.link.asked.pop()[1].errback(ApiError(ErrorCode.NETWORK_EXCEPTION))
        waiting = self.append(replica)
        self.alive(0, 2)
        self.clock.advance(1)
        self.assertNoResult(waiting)
        self.assertEqual(self.asked(), [(0,)], "what was asked for is to be made void")
        self.answer()
        self.successResultOf(waiting)

    def test_silent_controller(self) -> None:
        """A request without a response is given up after a while."""
        self.fetch(self.lead(0), 1, 0)
        self.assertEqual(self.asked(), [(0, 1)])
        self.clock.advance(31)
        self.clock.advance(1)
        self.assertEqual(len(self.link.asked), 2)
        self.answer()

    def test_lags(self) -> None:
        """How far each follower is behind."""
        replica = self.lead(0, 1)
        self.append(replica)
        self.fetch(replica, 1, 0)
        name = TopicPartition("t", 0)
        self.assertEqual(list(self.keeper.lags()), [Lag(name, 1, 1), Lag(name, 2, None)])


class WaitingTests(IsrCase):
    """Producers with acks=all."""

    def test_in_the_order_of_offsets(self) -> None:
        """Each is answered when the followers have what it wrote."""
        replica = self.lead(0, 1)
        first, second = self.append(replica), self.append(replica)
        self.fetch(replica, 1, 1)
        self.successResultOf(first)
        self.assertNoResult(second)
        self.fetch(replica, 1, 2)
        self.successResultOf(second)

    def test_leadership_lost(self) -> None:
        """The records may or may not last: the producer tries again where the leader is."""
        replica = self.lead(0, 1)
        waiting = self.append(replica)
        replica.take_role(LeaderAndIsr(1, 1, (0, 1), version=2), (0, 1, 2))
        self.assertEqual(self.code(waiting), ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def test_reelected_leader(self) -> None:
        """Records of the leader's former epoch are committed in the new one."""
        replica = self.lead(0, 1)
        waiting = self.append(replica)
        self.lead(0, 1, epoch=1)
        self.assertNoResult(waiting)
        self.fetch(replica, 1, 1)
        self.successResultOf(waiting)

    def test_deleted(self) -> None:
        """A topic that is deleted leaves nobody waiting."""
        replica = self.lead(0, 1)
        waiting = self.append(replica)
        self.successResultOf(self.replicas.remove([replica.topic_partition]))
        self.assertEqual(self.code(waiting), ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def test_the_disk_fails(self) -> None:
        """A log directory that goes offline answers with that."""
        replica = self.lead(0, 1)
        waiting = self.append(replica)
        self.replicas.directory_failed([replica.topic_partition], "gone")
        self.assertEqual(self.code(waiting), ErrorCode.KAFKA_STORAGE_ERROR)

    def test_too_few_left(self) -> None:
        """With fewer in sync than demanded, whoever waits is told at once."""
        self.config = evolve(self.config, min_insync_replicas=2)
        replica = self.lead(0, 1)
        waiting = self.append(replica)
        replica.take_role(LeaderAndIsr(0, 0, (0,), version=2), (0, 1, 2))
        self.assertEqual(self.code(waiting), ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        error = self.assertRaises(ApiError, replica.append, a_batch(), NOW_MS, all_in_sync=True)
        self.assertEqual(error.code, ErrorCode.NOT_ENOUGH_REPLICAS)

    def test_cancelled_waits_are_forgotten(self) -> None:
        """Cancelled waits are forgotten, however long the high watermark stays where it is."""
        replica = self.lead(0, 1)
        for _ in range(100):
            waiting = self.append(replica)
            waiting.addErrback(lambda _: None)
            waiting.cancel()
        self.assertEqual(len(replica._acks), 0)
