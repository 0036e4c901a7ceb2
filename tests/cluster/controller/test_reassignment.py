"""Reassignments, elections on request, and the balance of leadership."""

from __future__ import annotations

import json
from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.controller import broker_changes, topic_changes
from logbus.cluster.controller.active_controller import ActiveController
from logbus.cluster.controller.controller_context import PartitionRecord
from logbus.cluster.controller.leader_election import NO_LEADER, Situation, next_leader
from logbus.cluster.controller.partition_admin import ElectionType, PartitionAdmin, Reassignment
from logbus.cluster.controller.partition_changes import reapply_topic_rules
from logbus.cluster.controller.preferred_leaders import not_led_by_preferred
from logbus.cluster.controller.reassignment import cancelled_move, finished, move_to, moved
from logbus.cluster.controller.topic_rules import TopicRules
from logbus.errors import ApiError, ErrorCode
from logbus.metastore.znodes import StateZnode
from logbus.model import IsrChange, LeaderAndIsr, TopicPartition
from tests.cluster.control_plane import Node
from tests.cluster.controller.test_broker_changes import ThreeBrokers
from tests.cluster.controller.test_controller import T0
from tests.cluster.controller.test_leader_election import among

brokers = st.integers(0, 4)
wishes = st.none() | st.lists(brokers, min_size=1, max_size=3, unique=True)


class MoveTests(SynchronousTestCase):
    """The decisions."""

    @given(
        st.lists(brokers, min_size=1, max_size=3, unique=True),
        st.lists(st.tuples(wishes, st.lists(brokers), st.frozensets(brokers)), max_size=10),
        st.integers(1, 3),
    )
    def test_whatever_is_wanted(
        self, first: list[int], history: list[tuple[Any, list[int], frozenset[int]]], min_insync: int
    ) -> None:
        """
        Through any history of wishes, cancellations, joining and dying brokers: somebody is always in sync, and only
        replicas are; nobody leads who is not in sync; who was in sync leaves only when others are that stay; at rest
        the replicas are the ones that were wanted last, or those before.
        """
        name = TopicPartition("t", 0)
        record = PartitionRecord(tuple(first), LeaderAndIsr(first[0], 0, tuple(first)))
        rules = TopicRules(min_insync=min_insync)
        at_rest = record.replicas
        for wanted, joining, alive in history:
            assert record.state is not None
            now = Situation(record.replicas, record.state, among(alive), rules)
            change = next_leader(now)
            if change is not None:
                record = evolve(record, state=change.result)
                now = evolve(now, current=change.result)
            try:
                if wanted is None:
                    move = cancelled_move(name, record, now)
                    self.assertEqual(set(move.replicas), set(at_rest))
                else:
                    move = move_to(name, record, now, wanted, alive)
                    self.assertEqual(move.replicas[: len(wanted)], tuple(wanted))
            except ApiError:
                pass
            else:
                record = moved(record, move)
            assert record.state is not None
            if record.state.leader != NO_LEADER:
                more = tuple(one for one in dict.fromkeys(joining) if one in record.replicas and one in alive)
                isr = tuple(dict.fromkeys((*record.state.isr, *more)))
                record = evolve(record, state=evolve(record.state, isr=isr, eligible=()))
            assert record.state is not None
            end = finished(record, Situation(record.replicas, record.state, among(alive), rules))
            if end is not None:
                self.assertLessEqual(set(record.adding), set(record.state.isr))
                record = moved(record, end)
            if not record.reassigning:
                at_rest = record.replicas
            self.assertEqual(set(record.origin), set(at_rest))
            assert record.state is not None
            self.assertTrue(record.state.isr)
            self.assertLessEqual({*record.state.isr, *record.state.eligible}, set(record.replicas))
            if record.state.leader != NO_LEADER:
                self.assertIn(record.state.leader, record.state.isr)

    def test_refused(self) -> None:
        """What cannot be: nobody, somebody twice, brokers that do not live, data that nobody would have."""
        name = TopicPartition("t", 0)
        record = PartitionRecord((1, 2), LeaderAndIsr(1, 0, (1,)))
        now = Situation(record.replicas, record.state or LeaderAndIsr(1, 0, (1,)), among({1, 3}))
        bad, factor = ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.INVALID_REPLICATION_FACTOR
        for wanted, code in (
            ([], bad),
            ([1, 1], bad),
            ([1, 9], bad),
            ([1, 3, 9], bad),
            ([-1], bad),
            ([1, 2, 3], factor),
        ):
            with self.assertRaises(ApiError) as caught:
                move_to(name, record, now, wanted, {1, 3}, factor_may_change=False)
            self.assertEqual(caught.exception.code, code, wanted)
        with self.assertRaises(ApiError) as caught:
            cancelled_move(name, record, now)
        self.assertEqual(caught.exception.code, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        # Of those before nobody is in sync any more.
        away = PartitionRecord((3, 2), LeaderAndIsr(3, 1, (3,)), (3,), (2,))
        now = Situation(away.replicas, LeaderAndIsr(3, 1, (3,)), among({3}))
        self.assertEqual(self.assertRaises(ApiError, cancelled_move, name, away, now).code, bad)


class AdminCase(ThreeBrokers):
    """Three brokers and their administration."""

    def admin(self, node: Node | None = None) -> PartitionAdmin:
        """As a handler has it."""
        return PartitionAdmin((node or self.nodes[0]).controller, self.cluster.clock)

    def reassign(self, wanted: list[int] | None, name: TopicPartition = T0, node: Node | None = None) -> Any:
        """The outcome of a wish for one partition."""
        return self.successResultOf(self.admin(node).alter_reassignments({name: wanted}, timeout_ms=1000))[name]

    def join(self, isr: list[int], node: Node | None = None, name: TopicPartition = T0) -> None:
        """The leader says who is in sync."""
        state = self.stored(name)
        epoch = self.cluster.nodes[state.leader].membership.epoch
        epochs = tuple(self.cluster.nodes[one].membership.epoch for one in isr)
        wish = IsrChange(name, state.leader_epoch, state.version, tuple(isr), epochs)
        answer = (node or self.nodes[0]).controller.submit(
            lambda active: broker_changes.alter_partitions(active, state.leader, epoch, [wish])
        )
        self.assertIsInstance(self.successResultOf(answer)[name], LeaderAndIsr)

    def topic_node(self) -> Any:
        """The topic's node, as tools read it."""
        return json.loads(self.cluster.ensemble.tree.get("/brokers/topics/t")[0])

    def listed(self, node: Node | None = None) -> Any:
        """What is under way."""
        return self.successResultOf(self.admin(node).reassignments())


class ReassignmentTests(AdminCase):
    """Their effects."""

    def test_a_move(self) -> None:
        """
        New replicas are told to follow while the old ones serve; when they are in sync the old ones go, and delete
        their logs; a leader among them hands over.
        """
        self.create(self.nodes[0], [1])
        self.assertIsNone(self.reassign([2]))
        node = self.topic_node()
        self.assertEqual(
            (node["partitions"], node["adding_replicas"], node["removing_replicas"]),
            ({"0": [2, 1]}, {"0": [2]}, {"0": [1]}),
        )
        self.assertEqual(self.listed(), {T0: Reassignment((2, 1), (2,), (1,))})
        self.assertIn(T0, self.nodes[2].host.states)
        self.assertEqual(self.seen(self.nodes[2]), LeaderAndIsr(1, 0, (1,), 1, 0))
        self.join([1, 2])
        self.assertEqual(self.seen(self.nodes[0]), LeaderAndIsr(2, 1, (2,), 1, 2))
        self.assertEqual(self.listed(), {})
        node = self.topic_node()
        self.assertEqual((node["partitions"], node["adding_replicas"], node["removing_replicas"]), ({"0": [2]}, {}, {}))
        self.assertEqual(self.nodes[1].host.log[-1], ("remove", [T0]))
        image = self.nodes[0].metadata.partition(T0)
        assert image is not None
        self.assertEqual(image.replicas, (2,))

    def test_cancelled(self) -> None:
        """It is where it was; the new replicas delete what they have."""
        self.create(self.nodes[0], [1])
        self.reassign([2, 0])
        self.join([1, 2])
        self.assertIsNone(self.reassign(None))
        self.assertEqual(self.seen(self.nodes[0]), LeaderAndIsr(1, 0, (1,), 1, 2))
        self.assertEqual(self.nodes[2].host.log[-1], ("remove", [T0]))
        self.assertEqual(self.topic_node()["partitions"], {"0": [1]})
        refused = self.reassign(None)
        self.assertEqual(refused.code, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)

    def test_refused(self) -> None:
        """What cannot be is refused, and changes nothing."""
        self.create(self.nodes[0], [1])
        for wanted, code in (([9], ErrorCode.INVALID_REPLICA_ASSIGNMENT), ([0, 1, 2, 3], None), ([1, 1], None)):
            self.assertEqual(self.reassign(wanted).code, code or ErrorCode.INVALID_REPLICA_ASSIGNMENT)
        self.assertEqual(self.reassign([0], TopicPartition("t", 7)).code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.assertEqual(self.topic_node()["partitions"], {"0": [1]})

    def test_fewer(self) -> None:
        """Replicas that are only taken away go at once; another order needs nobody to fetch."""
        self.create(self.nodes[0], [1, 2, 0])
        self.assertIsNone(self.reassign([2, 1]))
        self.assertEqual(self.topic_node()["partitions"], {"0": [2, 1]})
        self.assertEqual(self.seen(self.nodes[0]), LeaderAndIsr(1, 0, (1, 2), 1, 1))
        self.assertEqual(self.listed(), {})

    def test_fewer_need_be_in_sync(self) -> None:
        """A move that waits only for ``min.insync.replicas`` ends when that is lowered, for the topic or for all."""

        def lower(active: ActiveController) -> Any:
            return topic_changes.configure_topics(active, {"t": {}})

        def default(active: ActiveController) -> Any:
            active.rules_for = lambda overrides: TopicRules(min_insync=1)
            return reapply_topic_rules(active)

        for name, change in (("t", lower), ("u", default)):
            partition = TopicPartition(name, 0)
            self.create(self.nodes[0], [1, 2], name=name, configs={"min.insync.replicas": "2"})
            self.assertIsNone(self.reassign([0, 2], partition))
            self.join([1, 0], name=partition)
            self.assertEqual(self.listed(), {partition: Reassignment((0, 2, 1), (0,), (1,))})
            self.successResultOf(self.nodes[0].controller.submit(change))
            self.assertEqual(self.listed(), {})
            image = self.nodes[2].metadata.partition(partition)
            assert image is not None
            self.assertEqual((image.replicas, image.leader), ((0, 2), 0))

    def test_the_controller_dies(self) -> None:
        """The next one knows what is under way, and ends it."""
        self.create(self.nodes[0], [1])
        self.reassign([2])
        self.nodes[0].crash()
        controller = self.cluster.nodes[self.nodes[1].metadata.controller_id]
        self.assertEqual(self.listed(controller), {T0: Reassignment((2, 1), (2,), (1,))})
        self.join([1, 2], controller)
        self.assertEqual(self.seen(controller).isr, (2,))
        self.assertEqual(self.listed(controller), {})

    def test_controller_dies_during_a_reassignment(self) -> None:
        """The next controller completes a reassignment that was interrupted after the states were written."""
        self.create(self.nodes[0], [1])
        self.reassign([2])
        active = self.nodes[0].controller.active
        assert active is not None
        state = self.stored()
        joined = LeaderAndIsr(1, state.leader_epoch, (1, 2), 1, state.version + 1)
        self.successResultOf(self.nodes[0].store.set("/brokers/topics/t/partitions/0/state", StateZnode.encode(joined)))
        self.nodes[0].crash()
        controller = self.cluster.nodes[self.nodes[1].metadata.controller_id]
        self.assertEqual(self.listed(controller), {})
        self.assertEqual((self.seen(controller).leader, self.seen(controller).isr), (2, (2,)))

    def test_orders(self) -> None:
        """What a tool leaves in ZooKeeper is carried out, now and at the next controller's begin; what is not
        readable stays."""
        self.create(self.nodes[0], [1, 2], [1, 2])
        wanted = {
            "version": 1,
            "partitions": [
                {"topic": "t", "partition": 0, "replicas": [2]},
                {"topic": "x", "partition": 0, "replicas": [2]},
            ],
        }
        path = "/admin/reassign_partitions"
        store = self.nodes[1].store
        for _ in range(2):
            self.successResultOf(store.create(path, json.dumps(wanted).encode()))
            self.assertIsNone(self.cluster.ensemble.tree.exists(path))
        self.assertEqual(self.topic_node()["partitions"], {"0": [2], "1": [1, 2]})
        self.successResultOf(store.create(path, b"?"))
        self.assertIsNotNone(self.cluster.ensemble.tree.exists(path))
        self.create(self.nodes[0], [1], name="u")

    def test_another_broker(self) -> None:
        """Who is not the controller says so."""
        failure = self.failureResultOf(self.admin(self.nodes[1]).reassignments(), ApiError)
        self.assertEqual(failure.value.code, ErrorCode.NOT_CONTROLLER)


class ElectTests(AdminCase):
    """Elections that somebody asks for."""

    def elect(self, kind: ElectionType, *names: TopicPartition) -> Any:
        """The outcomes."""
        return self.successResultOf(self.admin().elect_leaders(kind, names or None, timeout_ms=1000))

    def test_preferred(self) -> None:
        """Leadership goes back to the first replica; asked for all, those that need nothing are not mentioned."""
        self.create(self.nodes[0], [1, 2], [2, 1])
        self.successResultOf(self.shut_down(1))
        self.nodes[1].crash()
        self.cluster.started(1)
        self.join([2, 1])
        self.assertEqual(self.seen(self.nodes[0]).leader, 2)
        self.assertEqual(self.elect(ElectionType.PREFERRED), {T0: None})
        self.assertEqual(self.seen(self.nodes[0]).leader, 1)
        self.assertEqual(self.elect(ElectionType.PREFERRED), {})
        self.assertEqual(self.elect(ElectionType.PREFERRED, T0)[T0].code, ErrorCode.ELECTION_NOT_NEEDED)

    def test_unclean(self) -> None:
        """Somebody leads where nobody could; that is counted."""
        self.create(self.nodes[0], [1, 2])
        self.nodes[2].crash()
        self.nodes[1].crash()
        self.cluster.started(2)
        self.assertEqual(self.seen(self.nodes[0]).leader, -1)
        self.assertEqual(self.elect(ElectionType.UNCLEAN, T0), {T0: None})
        self.assertEqual(self.seen(self.nodes[0]).leader, 2)
        self.assertEqual(self.nodes[0].controller.metrics.unclean_elections, 1)

    def test_balance(self) -> None:
        """Only where too much is led elsewhere it is handed back, and only to those that can take it."""
        self.create(self.nodes[0], [1, 2], [1, 2], [2, 1], [2, 1])
        self.successResultOf(self.shut_down(1))
        self.nodes[1].crash()
        self.cluster.started(1)
        active = self.nodes[0].controller.active
        assert active is not None
        self.assertEqual(not_led_by_preferred(active.state, 10), [])
        self.join([2, 1])
        self.assertEqual(not_led_by_preferred(active.state, 100), [])
        self.assertEqual(self.successResultOf(self.admin().balance(10)), 1)
        self.assertEqual(self.seen(self.nodes[0]).leader, 1)
