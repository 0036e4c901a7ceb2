"""Brokers that shut down, brokers that come back with fewer records, and the cost of such changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred

from logbus.cluster.controller import broker_changes
from logbus.cluster.controller.topic_plan import NewTopic
from logbus.errors import ApiError, ErrorCode
from logbus.metastore.memory_store import MemoryEnsemble
from logbus.metastore.operations import Op
from logbus.model import IsrChange, LeaderAndIsr, LogEnd, LogEndReport, ReplicaReport, TopicPartition
from tests.cluster.control_plane import Node
from tests.cluster.controller.test_controller import T0, ControllerCase


class ThreeBrokers(ControllerCase):
    """Three of them, the first of which is the controller."""

    def setUp(self) -> None:
        super().setUp()
        self.nodes = [self.cluster.started(number) for number in range(3)]

    def shut_down(self, broker: int) -> Deferred[Sequence[TopicPartition]]:
        """Ask the controller as a broker that is about to stop."""
        epoch = self.nodes[broker].membership.epoch
        return self.nodes[0].controller.submit(lambda active: broker_changes.shut_down(active, broker, epoch))

    def written(self) -> list[Sequence[Op]]:
        """Every transaction from now on."""
        transactions: list[Sequence[Op]] = []
        apply = MemoryEnsemble.apply

        def noted(ensemble: MemoryEnsemble, ops: Sequence[Op], session_id: int) -> Any:
            transactions.append(ops)
            return apply(ensemble, ops, session_id)

        self.patch(MemoryEnsemble, "apply", noted)
        return transactions


class ShutDownTests(ThreeBrokers):
    """Controlled shutdown."""

    def test_leaders_move(self) -> None:
        """Others take over, in a new epoch, before the broker is gone; it leaves the in-sync replicas everywhere."""
        self.create(self.nodes[0], [1, 2, 0], [2, 1, 0])
        self.assertEqual(self.successResultOf(self.shut_down(1)), [])
        self.assertEqual(self.seen(self.nodes[1]), LeaderAndIsr(2, 1, (2, 0), 1, 1))
        self.assertEqual(self.seen(self.nodes[1], TopicPartition("t", 1)), LeaderAndIsr(2, 0, (2, 0), 1, 1))
        self.assertEqual(sorted(self.nodes[0].metadata.brokers), [0, 1, 2])

    def test_partitions_without_another_leader(self) -> None:
        """Partitions that no other broker can lead stay, and are named; a second request gets the same answer."""
        self.create(self.nodes[0], [1])
        self.create(self.nodes[0], [1, 2], name="u")
        self.assertEqual(self.successResultOf(self.shut_down(1)), [T0])
        self.assertEqual(self.successResultOf(self.shut_down(1)), [T0])
        self.assertEqual(self.seen(self.nodes[1]), LeaderAndIsr(1, 0, (1,), 1, 0))

    def test_no_new_leaderships_during_shutdown(self) -> None:
        """A broker that shuts down becomes leader of no partition, new or moved, until it registers again."""
        self.successResultOf(self.shut_down(1))
        self.create(self.nodes[0], [1, 2], [2, 1])
        self.assertEqual(self.seen(self.nodes[0]), LeaderAndIsr(2, 0, (2,), 1, 0))
        self.nodes[2].crash()
        self.assertEqual(self.seen(self.nodes[0]).leader, -1)
        self.nodes[1].crash()
        again = self.cluster.started(1)
        self.create(self.nodes[0], [1], name="u")
        self.assertEqual(self.seen(again, TopicPartition("u", 0)).leader, 1)

    def test_a_former_life(self) -> None:
        """Only the broker that lives now can say that it stops."""
        answer = self.nodes[0].controller.submit(lambda active: broker_changes.shut_down(active, 1, 1))
        self.assertEqual(self.failureResultOf(answer, ApiError).value.code, ErrorCode.STALE_BROKER_EPOCH)
        self.create(self.nodes[0], [1])
        self.assertEqual(self.seen(self.nodes[0]).leader, 1)


class CostTests(ThreeBrokers):
    """Thousands of partitions in few transactions."""

    def make(self, partitions: int) -> None:
        """Topics of a hundred partitions each, all led by broker 1."""
        for number in range(partitions // 100):
            assignment = [[1, 2, 0]] * 100
            [outcome] = self.successResultOf(
                self.nodes[0].admin.create_topics([NewTopic(f"t{number}", assignment=assignment)])
            )
            self.assertNotIsInstance(outcome, ApiError)

    def led(self, node: Node, by: int) -> int:
        """How many partitions a broker leads, as another knows it."""
        return sum(image.leader == by for topic in node.metadata.topics.values() for image in topic.partitions)

    def test_a_thousand_leaders(self) -> None:
        """They move in one transaction, and everybody hears of them in one announcement."""
        self.make(1000)
        transactions = self.written()
        before = len(self.nodes[2].host.log)
        self.assertEqual(self.successResultOf(self.shut_down(1)), [])
        self.assertEqual([len(ops) for ops in transactions], [1001])
        self.assertEqual(self.led(self.nodes[1], 2), 1000)
        self.assertEqual(len(self.nodes[2].host.log), before + 1)

    def test_a_broker_dies(self) -> None:
        """So they do when it dies."""
        self.make(1000)
        transactions = self.written()
        self.nodes[1].crash()
        elections = [ops for ops in transactions if len(ops) > 10]
        self.assertEqual(len(elections), 1)
        self.assertEqual(self.led(self.nodes[2], 2), 1000)

    def test_the_controller_dies(self) -> None:
        """A new controller writes what changed, not what there is: nothing of partitions that nobody lost."""
        self.make(1000)
        self.create(self.nodes[0], [0, 1], name="u")
        transactions = self.written()
        self.nodes[0].crash()
        changed = sum(len(ops) - 1 for ops in transactions if len(ops) > 2)
        # Everybody's in-sync replicas shrink; leaders change for one partition.
        self.assertLessEqual(changed, 1010)
        self.assertEqual(self.seen(self.nodes[1], TopicPartition("u", 0)).leader, 1)
        self.assertLessEqual(len(transactions), 8)


class LossTests(ThreeBrokers):
    """Brokers that come back without some of what they had."""

    def back(self, broker: int, **said: bool) -> Node:
        """Another life of a broker, with what it says of its disks."""
        node = self.cluster.node(broker)
        registration = node.membership.registration
        for name, value in said.items():
            object.__setattr__(registration, name, value)
        self.successResultOf(Deferred.fromCoroutine(node.start()))
        return node

    def test_not_synced(self) -> None:
        """It does not lead where another may have what it lost; where records are synced first it lost nothing."""
        self.create(self.nodes[0], [1, 2], configs={"flush.before.ack": "false"})
        self.create(self.nodes[0], [1, 2], name="u")
        self.nodes[2].crash()
        self.nodes[1].crash()
        self.back(1, unsynced_lost=True)
        self.assertEqual(self.seen(self.nodes[0]).leader, 1, "it was the only one in sync")
        self.assertEqual(self.seen(self.nodes[0], TopicPartition("u", 0)).leader, 1)

    def test_another_replica_may_be_complete(self) -> None:
        """The partition waits for the other replica, which leads if it stopped cleanly."""
        self.create(self.nodes[0], [1, 2], configs={"flush.before.ack": "false", "min.insync.replicas": "2"})
        self.nodes[2].crash()
        self.nodes[1].crash()
        self.assertEqual(self.seen(self.nodes[0]), LeaderAndIsr(-1, 1, (1,), 1, 2, (2,)))
        self.back(1, unsynced_lost=True)
        self.assertEqual(self.seen(self.nodes[0]), LeaderAndIsr(-1, 1, (1,), 1, 3, (2,), unproven=(1,)))
        self.cluster.started(2)
        self.assertEqual(self.seen(self.nodes[0]), LeaderAndIsr(2, 2, (2,), 1, 4, unproven=(1,)))

    def test_all_stopped_uncleanly(self) -> None:
        """When all are back who may have every record, the one with the longest log leads."""
        self.create(self.nodes[0], [1, 2], configs={"min.insync.replicas": "2"})
        self.nodes[2].crash()
        self.nodes[1].crash()
        name = TopicPartition("t", 0)
        for broker, end in ((1, 7), (2, 9)):
            node = self.back(broker, unclean_shutdown=True)
            self.assertEqual(self.seen(self.nodes[0]).leader, -1)
            self.told(node, name, LogEndReport(0, LogEnd(1, 99)))
            self.assertEqual(self.seen(self.nodes[0]).leader, -1)
            self.told(node, name, LogEndReport(1, LogEnd(1, end)))
        self.assertEqual(self.seen(self.nodes[0]), LeaderAndIsr(2, 2, (2,), 1, 5))

    def told(self, node: Node, name: TopicPartition, end: LogEndReport) -> None:
        """A broker says how long its log is."""
        self.successResultOf(
            self.nodes[0].controller.submit(
                lambda active: broker_changes.report_log_ends(
                    active, node.broker_id, node.membership.epoch, {name: end}
                )
            )
        )

    def test_the_last_in_sync(self) -> None:
        """A last member leads at once after an unclean stop: there is nobody to wait for."""
        self.create(self.nodes[0], [1])
        self.nodes[1].crash()
        self.back(1, unclean_shutdown=True)
        self.assertEqual(self.seen(self.nodes[0]), LeaderAndIsr(1, 2, (1,), 1, 2))

    def test_restart_within_the_session(self) -> None:
        """A leader that stopped uncleanly does not stay leader, even if its registration was never missed."""
        self.create(self.nodes[0], [1, 2, 0])
        watching = self.nodes[0].store
        watching.suspend()
        self.nodes[1].crash()
        self.back(1, unclean_shutdown=True)
        watching.resume()
        self.assertEqual((self.stored().leader, self.stored().isr), (2, (2, 0)))

    def test_noticed_by_the_next_controller(self) -> None:
        """A broker that restarted while there was no controller is found out, once."""
        self.create(self.nodes[0], [1, 2], configs={"flush.before.ack": "false"})
        for node in self.nodes:
            node.store.suspend()
        self.nodes[0].store.expire()
        self.nodes[1].store.expire()
        self.cluster.ensemble.clients.remove(self.nodes[1].store)
        again = self.back(1, unsynced_lost=True)
        self.assertEqual(again.controller.active is not None, True)
        state = self.stored()
        self.assertEqual((state.leader, state.isr), (2, (2,)))
        for number in range(2):
            epoch = self.controller_epoch()
            again.store.expire()
            self.assertEqual(self.controller_epoch(), epoch + 1, number)
        self.assertEqual(self.stored().isr, (2,))


class ReportTests(ThreeBrokers):
    """Replicas that were reported as incomplete."""

    def setUp(self) -> None:
        super().setUp()
        self.name = TopicPartition("t", 0)
        self.create(self.nodes[0], [1, 2, 0])

    def report(self, broker: int, replica: int, epoch: int = 0, *, complete: bool = False) -> LeaderAndIsr | ApiError:
        """What a broker says of a replica, and the answer."""
        said = ReplicaReport(self.name, replica, epoch, "a batch is damaged", complete)
        node = self.nodes[broker]
        answers = self.successResultOf(
            self.nodes[0].controller.submit(
                lambda active: broker_changes.report_replicas(active, broker, node.membership.epoch, [said])
            )
        )
        return answers[self.name]

    def test_loss_on_the_controller(self) -> None:
        """The controller's own broker gives up its leaderships too, and rejoins the ISR when it has everything."""
        self.assertEqual(self.report(1, 1), LeaderAndIsr(2, 1, (2, 0), 1, 1))
        change = IsrChange(self.name, 1, 1, (2, 0, 1), (-1, -1, self.nodes[1].membership.epoch))
        self.assertEqual(self.altered(2, change), ErrorCode.INELIGIBLE_REPLICA)
        self.report(1, 1, complete=True)
        self.assertEqual(self.altered(2, change), (2, 0, 1))

    def altered(self, broker: int, change: IsrChange) -> object:
        """The outcome of a leader's request for other in-sync replicas."""
        node = self.nodes[broker]
        answers = self.successResultOf(
            self.nodes[0].controller.submit(
                lambda active: broker_changes.alter_partitions(active, broker, node.membership.epoch, [change])
            )
        )
        answer = answers[self.name]
        return answer.code if isinstance(answer, ApiError) else answer.isr

    def test_loss_without_another_replica(self) -> None:
        """It stays leader while no other replica is in sync."""
        self.nodes[2].crash()
        self.nodes[0].controller.submit(
            lambda active: broker_changes.shut_down(active, 0, self.nodes[0].membership.epoch)
        )
        self.assertEqual(self.stored().isr, (1,))
        answer = self.report(1, 1)
        self.assertEqual(answer, self.stored())
        self.assertEqual(self.stored().leader, 1)
        back = self.cluster.started(2)
        self.nodes[2] = back
        change = IsrChange(self.name, 0, self.stored().version, (1, 2), (-1, back.membership.epoch))
        self.altered(1, change)
        self.assertEqual((self.stored().leader, self.stored().isr), (2, (2,)))

    def test_a_leaders(self) -> None:
        """A follower in sync knows that its leader lacks records: another leads, and the leader may come back."""
        self.assertEqual(self.report(2, 1), LeaderAndIsr(2, 1, (2, 0), 1, 1))
        change = IsrChange(self.name, 1, 1, (2, 0, 1), (-1, -1, self.nodes[1].membership.epoch))
        self.assertEqual(self.altered(2, change), (2, 0, 1))

    def test_refused(self) -> None:
        """Not of a former leader, nor by one that may lack records itself."""
        for broker, replica, epoch, code in (
            (2, 1, 7, ErrorCode.FENCED_LEADER_EPOCH),
            (2, 0, 0, ErrorCode.FENCED_LEADER_EPOCH),
        ):
            answer = self.report(broker, replica, epoch)
            assert isinstance(answer, ApiError)
            self.assertEqual(answer.code, code)
        self.altered(1, IsrChange(self.name, 0, 0, (1, 0)))
        answer = self.report(2, 1)
        assert isinstance(answer, ApiError)
        self.assertEqual(answer.code, ErrorCode.INELIGIBLE_REPLICA)
        self.assertEqual(self.stored().leader, 1)
