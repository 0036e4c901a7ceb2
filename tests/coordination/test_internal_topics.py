"""Tests of :mod:`logbus.coordination.internal_topics`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.cluster_metadata import BrokerImage, ClusterMetadata
from logbus.cluster.controller.topic_plan import NewTopic
from logbus.config import ConfigView
from logbus.coordination.internal_topics import InternalTopics
from logbus.errors import ApiError, ErrorCode
from logbus.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC


class Topics:
    """Topic administration that takes its time."""

    def __init__(self) -> None:
        self.asked: list[NewTopic] = []
        self.answer: Deferred[list[Any]] = Deferred()

    def create_topics(self, topics: Sequence[NewTopic], *, timeout_ms: int) -> Deferred[list[Any]]:
        self.asked += topics
        self.answer = Deferred()
        return self.answer


class InternalTopicsTests(SynchronousTestCase):
    """Concurrent requests create a topic once."""

    def setUp(self) -> None:
        self.topics: Any = Topics()
        self.metadata = ClusterMetadata("c")
        self.internal = InternalTopics(self.metadata, self.topics, ConfigView.load())

    def test_one_creation_for_concurrent_requests(self) -> None:
        """Concurrent requests wait for the same creation; cancelled ones are ignored."""
        first, second, third = (self.internal.ensure(OFFSETS_TOPIC) for _ in range(3))
        second.addErrback(lambda _: None)
        second.cancel()
        self.assertEqual(len(self.topics.asked), 1)
        self.assertNoResult(first)
        self.topics.answer.callback([None])
        self.successResultOf(first)
        self.successResultOf(third)

    def test_topic_exists_already(self) -> None:
        """A topic that another broker has just created is used."""
        waiting = self.internal.ensure(OFFSETS_TOPIC)
        self.topics.answer.callback([ApiError(ErrorCode.TOPIC_ALREADY_EXISTS)])
        self.successResultOf(waiting)

    def test_refusals(self) -> None:
        """Any error makes the client retry, and the next request tries again."""
        for refusal in (ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "no space"), ValueError("a bug")):
            waiting = self.internal.ensure(OFFSETS_TOPIC)
            self.topics.answer.errback(refusal)
            error = self.failureResultOf(waiting, ApiError).value
            self.assertEqual(error.code, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        waiting = self.internal.ensure(OFFSETS_TOPIC)
        self.topics.answer.callback([ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, "too many")])
        self.assertIn("too many", self.failureResultOf(waiting, ApiError).getErrorMessage())
        self.assertEqual(len(self.topics.asked), 3)

    def test_plans(self) -> None:
        """Replicas as configured, but no more than there are brokers; other topics are made by default."""
        alone = self.internal.plan(TRANSACTIONS_TOPIC)
        self.assertEqual((alone.replication_factor, alone.configs["min.insync.replicas"]), (1, "1"))
        self.assertEqual(self.internal.plan(OFFSETS_TOPIC).replication_factor, 1)
        with self.metadata.changing() as metadata:
            metadata.set_brokers({number: BrokerImage(number, {}) for number in range(5)})
        plan = self.internal.plan(OFFSETS_TOPIC)
        self.assertEqual((plan.num_partitions, plan.replication_factor), (50, 3))
        self.assertEqual(plan.configs["cleanup.policy"], "compact")
        plan = self.internal.plan(TRANSACTIONS_TOPIC)
        self.assertEqual((plan.num_partitions, plan.replication_factor), (50, 3))
        self.assertEqual(plan.configs["min.insync.replicas"], "2")
        self.assertEqual(self.internal.plan("orders"), NewTopic("orders"))
