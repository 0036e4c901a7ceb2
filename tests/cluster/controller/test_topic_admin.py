"""Topic administration over a real controller on a store in memory."""

from __future__ import annotations

import itertools
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.controller.controller_context import PartitionRecord, TopicRecord
from logbus.cluster.controller.topic_admin import CreatedTopic
from logbus.cluster.controller.topic_changes import UNITS_TO_DELETE_TOPIC
from logbus.cluster.controller.topic_plan import MAX_NEW_PARTITIONS, NewPartitions, NewTopic, TopicDefaults, TopicQuota
from logbus.errors import ApiError, ErrorCode
from logbus.metastore.znodes import ConfigZnode, StateZnode, TopicZnode
from logbus.model import TopicPartition
from logbus.net.time_slices import SliceScheduler
from tests.cluster.control_plane import Cluster, Node
from tests.net.fakes import iterate

Code = ErrorCode


class TopicCase(SynchronousTestCase):
    """One broker, started."""

    brokers = 1

    def setUp(self) -> None:
        self.cluster = Cluster()
        for number in range(self.brokers):
            self.cluster.started(number)
        self.node: Node = self.cluster.nodes[0]
        self.admin = self.node.admin

    def done(self, deferred: Deferred[Any]) -> Any:
        """What fired."""
        return self.successResultOf(deferred)

    def create(self, *topics: NewTopic, **options: Any) -> list[Any]:
        """Outcomes of a creation."""
        return list(self.done(self.admin.create_topics(topics, **options)))

    def refused(self, code: ErrorCode, outcome: object) -> str:
        """The words of a refusal."""
        self.assertIsInstance(outcome, ApiError)
        assert isinstance(outcome, ApiError)
        self.assertEqual(outcome.code, code)
        return outcome.message


class CreationTests(TopicCase):
    """CreateTopics."""

    def test_topic_is_ready_when_answered(self) -> None:
        """The response comes after the broker has taken its roles, and the metadata show leaders."""
        self.node.host.hold()
        answer = self.admin.create_topics([NewTopic("orders", 3, 1, configs={"retention.ms": "5"})])
        self.assertNoResult(answer)
        self.assertIsNone(self.node.metadata.topic("orders"))
        self.node.host.release()
        [created] = self.successResultOf(answer)
        image = self.node.metadata.topic("orders")
        assert image is not None
        self.assertEqual((created.name, created.topic_id), ("orders", image.topic_id))
        self.assertEqual((created.num_partitions, created.replication_factor), (3, 1))
        self.assertEqual([one.leader for one in image.partitions], [0, 0, 0])
        self.assertEqual(dict(image.configs), {"retention.ms": "5"})
        self.assertNotEqual(image.topic_id, UUID(int=0))
        self.assertIs(self.node.metadata.topic_by_id(image.topic_id), image)
        state = self.node.host.states[TopicPartition("orders", 2)]
        self.assertTrue(state.is_new)
        self.assertEqual(state.overrides, {"retention.ms": "5"})

    def test_stored_znodes(self) -> None:
        """The assignment, the states and the configuration are in Kafka's znodes."""
        [created] = self.create(NewTopic("t", 2, 1, configs={"a": "b"}))
        tree = self.cluster.ensemble.tree
        assignment = TopicZnode.decode("t", tree.get(TopicZnode.path("t"))[0])
        self.assertEqual((assignment.topic_id, assignment.partitions), (created.topic_id, ((0,), (0,))))
        state = StateZnode.decode("t", 1, *_versioned(tree.get(StateZnode.path("t", 1))))
        self.assertEqual((state.leader, state.leader_epoch, state.isr, state.controller_epoch), (0, 0, (0,), 1))
        path = ConfigZnode.topic_path("t")
        self.assertEqual(ConfigZnode.decode(path, tree.get(path)[0]), {"a": "b"})

    def test_defaults(self) -> None:
        """-1 means the broker's defaults."""
        [created] = self.create(NewTopic("t"))
        self.assertEqual((created.num_partitions, created.replication_factor), (2, 1))

    def test_refusals_are_per_topic(self) -> None:
        """Each topic has its own outcome, in the order asked; the good ones are made."""
        self.create(NewTopic("there"))
        outcomes = self.create(
            NewTopic("good"),
            NewTopic("b/d"),
            NewTopic("there"),
            NewTopic("zero", 0, 1),
            NewTopic("minus", -2, 1),
            NewTopic("copies", 1, 2),
            NewTopic("none", 1, 0),
            NewTopic("config", configs={"bad.key": "1"}),
            NewTopic("null", configs={"a": None}),
            NewTopic("both", 2, 1, [[0]]),
            NewTopic("empty", assignment=[]),
            NewTopic("ghost", assignment=[[5]]),
            NewTopic("same", assignment=[[0, 0]]),
            NewTopic("twice"),
            NewTopic("twice"),
            NewTopic("huge", MAX_NEW_PARTITIONS + 1, 1),
        )
        self.assertIsInstance(outcomes[0], CreatedTopic)
        expected = [
            Code.INVALID_TOPIC_EXCEPTION,
            Code.TOPIC_ALREADY_EXISTS,
            Code.INVALID_PARTITIONS,
            Code.INVALID_PARTITIONS,
            Code.INVALID_REPLICATION_FACTOR,
            Code.INVALID_REPLICATION_FACTOR,
            Code.INVALID_CONFIG,
            Code.INVALID_CONFIG,
            Code.INVALID_REQUEST,
            Code.INVALID_REPLICA_ASSIGNMENT,
            Code.INVALID_REPLICA_ASSIGNMENT,
            Code.INVALID_REPLICA_ASSIGNMENT,
            Code.INVALID_REQUEST,
            Code.INVALID_REQUEST,
            Code.POLICY_VIOLATION,
        ]
        self.assertEqual([one.code for one in outcomes[1:]], expected)
        self.assertEqual(sorted(self.node.metadata.topics), ["good", "there"])

    def test_validate_only(self) -> None:
        """Everything is checked, nothing is made."""
        outcomes = self.create(NewTopic("t", 3, 1), NewTopic(""), validate_only=True)
        self.assertEqual((outcomes[0].num_partitions, outcomes[0].topic_id), (3, UUID(int=0)))
        self.refused(Code.INVALID_TOPIC_EXCEPTION, outcomes[1])
        self.assertIsNone(self.node.metadata.topic("t"))
        self.assertIsNone(self.cluster.ensemble.tree.exists("/brokers/topics/t"))

    def test_manual_assignment(self) -> None:
        """Replicas chosen by the client are taken as they are."""
        [created] = self.create(NewTopic("t", assignment=[[0], [0]]))
        self.assertEqual((created.num_partitions, created.replication_factor), (2, 1))

    def test_two_creations_at_once(self) -> None:
        """Of two requests for one name one is told that it exists, though it is not served yet."""
        self.node.host.hold()
        first, second = self.admin.create_topics([NewTopic("t")]), self.admin.create_topics([NewTopic("t")])
        self.refused(Code.TOPIC_ALREADY_EXISTS, self.successResultOf(second)[0])
        self.assertNoResult(first)
        self.node.host.release()
        self.assertIsInstance(self.successResultOf(first)[0], CreatedTopic)

    def test_timeout(self) -> None:
        """Who does not want to wait is told so; the topic comes all the same."""
        self.node.host.hold()
        answer = self.admin.create_topics([NewTopic("t"), NewTopic("")], timeout_ms=100)
        self.cluster.clock.advance(0.2)
        slow, bad = self.successResultOf(answer)
        self.refused(Code.REQUEST_TIMED_OUT, slow)
        self.refused(Code.INVALID_TOPIC_EXCEPTION, bad)
        self.node.host.release()
        self.assertIsNotNone(self.node.metadata.topic("t"))
        self.assertEqual(self.cluster.clock.getDelayedCalls(), [])

    def test_a_failed_log_directory(self) -> None:
        """The client hears of it, and the partition has no leader."""
        self.node.host.broken.add(TopicPartition("t", 1))
        [outcome] = self.create(NewTopic("t", 2, 1))
        self.refused(Code.KAFKA_STORAGE_ERROR, outcome)
        image = self.node.metadata.topic("t")
        assert image is not None
        self.assertEqual([one.leader for one in image.partitions], [0, -1])
        self.assertEqual(image.partitions[1].isr, (0,))

    def test_alike_names_are_refused(self) -> None:
        """a_b beside a.b: metric names would not tell them apart."""
        self.create(NewTopic("a.b"))
        (refused,) = self.create(NewTopic("a_b"))
        assert isinstance(refused, ApiError)
        self.assertEqual(refused.code, ErrorCode.INVALID_TOPIC_EXCEPTION)


class QuotaTests(SynchronousTestCase):
    """How many topics and partitions there may be."""

    def quota(self, **limits: int) -> TopicQuota:
        """That of a cluster of two brokers with one topic of three partitions, two replicas each."""
        quota = TopicQuota(2, TopicDefaults(1, 1, **limits))
        for name in ("t", "__consumer_offsets"):
            quota.count([TopicRecord(name, UUID(int=1), [PartitionRecord((1, 2))] * 3, {})])
        return quota

    def refused(self, quota: TopicQuota, *given: Any, **named: Any) -> str:
        """What a refusal says."""
        with self.assertRaises(ApiError) as caught:
            quota.take(*given, **named)
        self.assertIs(caught.exception.code, ErrorCode.POLICY_VIOLATION)
        return caught.exception.message

    def test_topics(self) -> None:
        """
        Topics are counted over the requests' topics and those there are; partitions of a known one are no new topic.
        """
        quota = self.quota(max_topics=2)
        quota.take("u", [(1,)], is_new=True)
        self.assertIn("max.topics = 2", self.refused(quota, "v", [(1,)], is_new=True))
        quota.take("t", [(1,)], is_new=False)

    def test_partitions(self) -> None:
        """
        Replicas are counted for all live brokers together; what is refused is not counted.
        """
        quota = self.quota(max_partitions_per_broker=5)
        self.assertIn("room for 4 on 2 live brokers", self.refused(quota, "u", [(1, 2)] * 3, is_new=True))
        quota.take("u", [(1, 2)] * 2, is_new=True)
        self.assertIn("room for 0 on 2", self.refused(quota, "t", [(1,)], is_new=False))

    def test_internal_topics_do_not_count(self) -> None:
        """
        Groups and transactions go on where clients have made all the topics they may.
        """
        quota = self.quota(max_topics=1, max_partitions_per_broker=3)
        quota.take("__transaction_state", [(1, 2)] * 50, is_new=True)


class DeletionTests(TopicCase):
    """DeleteTopics."""

    def delete(self, *topics: str | UUID) -> list[Any]:
        """Outcomes of a deletion."""
        return list(self.done(self.admin.delete_topics(topics)))

    def test_many_topics_are_deleted_in_slices(self) -> None:
        """Very many topics are found, and removed, in time slices."""
        names = [f"t{number}" for number in range(60)]
        self.create(*(NewTopic(name, 1, 1) for name in names))
        scheduler = SliceScheduler(self.cluster.clock, units=100)
        self.admin.scheduler = self.node.controller.scheduler = scheduler
        active = self.node.controller.active
        assert active is not None
        active.scheduler = scheduler
        answer = self.admin.delete_topics([*names, *(f"none{number}" for number in range(200))])
        left = []
        while not answer.called:
            before = scheduler.slices
            iterate(self.cluster.clock)
            self.assertLessEqual(scheduler.slices, before + 1)
            left.append(len(active.state.topics))
        outcomes = self.done(answer)
        self.assertEqual([one[0] for one in outcomes[:60]], names)
        self.assertEqual({one.code for one in outcomes[60:]}, {Code.UNKNOWN_TOPIC_OR_PARTITION})
        steps = [before - after for before, after in itertools.pairwise(left)]
        self.assertLessEqual(max(steps), 100 // UNITS_TO_DELETE_TOPIC + 1)

    def test_deletion_by_name_and_id(self) -> None:
        """A deleted topic leaves no node, no metadata, and no replica."""
        before = dict(self.cluster.ensemble.tree.nodes)
        first, second = self.create(NewTopic("a", 2, 1, configs={"x": "y"}), NewTopic("b", 1, 1))
        self.assertEqual(self.delete("a", second.topic_id), [("a", first.topic_id), ("b", second.topic_id)])
        self.assertEqual(self.node.metadata.topics, {})
        self.assertIsNone(self.node.metadata.topic_by_id(first.topic_id))
        self.assertEqual(self.node.host.states, {})
        self.assertEqual(self.cluster.ensemble.tree.nodes.keys(), before.keys())

    def test_unknown_topics(self) -> None:
        """Names and ids that no topic has are refused, each with its own code; so is naming one twice."""
        [created] = self.create(NewTopic("a"))
        outcomes = self.delete("none", UUID(int=5), "a", created.topic_id)
        self.refused(Code.UNKNOWN_TOPIC_OR_PARTITION, outcomes[0])
        self.refused(Code.UNKNOWN_TOPIC_ID, outcomes[1])
        self.assertEqual(outcomes[2], ("a", created.topic_id))
        self.refused(Code.INVALID_REQUEST, outcomes[3])

    def test_creation_while_deletion_runs(self) -> None:
        """The name is taken until the deletion is through; then a new topic has a new id and begins at epoch 0."""
        [old] = self.create(NewTopic("t", 1, 1))
        self.node.host.hold()
        deletion = self.admin.delete_topics(["t"])
        self.assertIsNone(self.node.metadata.topic("t"))
        [outcome] = self.create(NewTopic("t", 1, 1))
        self.assertIn("is being deleted", self.refused(Code.TOPIC_ALREADY_EXISTS, outcome))
        self.refused(Code.UNKNOWN_TOPIC_OR_PARTITION, self.delete("t")[0])
        self.assertNoResult(deletion)
        self.node.host.release()
        self.assertEqual(self.successResultOf(deletion), [("t", old.topic_id)])
        [new] = self.create(NewTopic("t", 1, 1))
        self.assertNotEqual(new.topic_id, old.topic_id)
        self.assertIsNone(self.node.metadata.topic_by_id(old.topic_id))
        self.assertEqual(self.node.host.states[TopicPartition("t", 0)].leader_and_isr.leader_epoch, 0)

    def test_timeout(self) -> None:
        """A deletion that takes long goes on after its client was told so."""
        self.create(NewTopic("t"))
        self.node.host.hold()
        answer = self.admin.delete_topics(["t"], timeout_ms=100)
        self.cluster.clock.advance(0.2)
        self.refused(Code.REQUEST_TIMED_OUT, self.successResultOf(answer)[0])
        self.node.host.release()
        self.assertIsNone(self.cluster.ensemble.tree.exists("/brokers/topics/t"))

    def test_controller_replaced_during_a_deletion(self) -> None:
        """The next controller goes on with the deletion, and this one logs no failure."""
        self.create(NewTopic("t"))
        self.node.host.hold()
        answer = self.admin.delete_topics(["t"], timeout_ms=100)
        self.cluster.clock.advance(0.2)
        self.refused(Code.REQUEST_TIMED_OUT, self.successResultOf(answer)[0])
        self.node.controller._resign_controller()
        self.node.host.release()
        self.assertEqual(self.flushLoggedErrors(), [])


class GrowthTests(TopicCase):
    """CreatePartitions."""

    brokers = 3

    def grow(self, *requests: NewPartitions, **options: Any) -> list[Any]:
        """Outcomes."""
        return list(self.done(self.admin.create_partitions(requests, **options)))

    def test_more_partitions(self) -> None:
        """The new ones are served, the old ones stay where they are."""
        self.create(NewTopic("t", 3, 2))
        image = self.node.metadata.topic("t")
        assert image is not None
        before = [one.replicas for one in image.partitions]
        self.assertEqual(self.grow(NewPartitions("t", 6)), ["t"])
        self.assertEqual([one.replicas for one in image.partitions[:3]], before)
        self.assertEqual(len(image.partitions), 6)
        self.assertEqual({len(one.replicas) for one in image.partitions}, {2})
        self.assertEqual(sorted(one.leader for one in image.partitions[3:]), [0, 1, 2])
        self.assertEqual(self.grow(NewPartitions("t", 7, [[2, 0]])), ["t"])
        self.assertEqual(image.partitions[6].replicas, (2, 0))

    def test_refusals(self) -> None:
        """Fewer or as many, an unknown topic, an assignment that does not fit."""
        self.create(NewTopic("t", 3, 2), NewTopic("u", 1, 1))
        outcomes = self.grow(
            NewPartitions("t", 3),
            NewPartitions("none", 3),
            NewPartitions("u", 3, [[0]]),
        )
        self.refused(Code.INVALID_PARTITIONS, outcomes[0])
        self.refused(Code.UNKNOWN_TOPIC_OR_PARTITION, outcomes[1])
        self.refused(Code.INVALID_REPLICA_ASSIGNMENT, outcomes[2])
        [outcome] = self.grow(NewPartitions("t", 4, [[0]]))
        self.refused(Code.INVALID_REPLICA_ASSIGNMENT, outcome)
        self.assertEqual(self.grow(NewPartitions("t", 5), validate_only=True), ["t"])
        image = self.node.metadata.topic("t")
        assert image is not None
        self.assertEqual(len(image.partitions), 3)

    def test_new_partitions_after_a_controller_restart(self) -> None:
        """The next controller reads the partitions that were written, and goes on."""
        self.create(NewTopic("t", 1, 1))
        self.grow(NewPartitions("t", 2))
        self.node.crash()
        admin = self.cluster.nodes[1].admin
        self.assertEqual(self.done(admin.create_partitions([NewPartitions("t", 4)])), ["t"])


class ElsewhereTests(TopicCase):
    """Brokers that are not the controller."""

    brokers = 2

    def test_not_the_controller(self) -> None:
        """They refuse; the metadata says who is asked instead."""
        other = self.cluster.nodes[1]
        failure = self.failureResultOf(other.admin.create_topics([NewTopic("t")]), ApiError)
        self.assertEqual(failure.value.code, Code.NOT_CONTROLLER)
        self.assertEqual(other.metadata.controller_id, 0)


def _versioned(found: Any) -> tuple[bytes, int]:
    data, stat = found
    return data, stat.version
