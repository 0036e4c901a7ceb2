"""Tests the plans of loads, without Spark, with simulated brokers."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ApiError
from logbus.pipeline.blocking import brokers_for
from logbus.pipeline.errors import LakeError
from logbus.pipeline.jobs.load_planner import LoadPlan, LoadPlanner
from logbus.pipeline.lake.load_state import LoadState, TopicOffsets
from logbus.pipeline.lake.offset_set import OffsetSet
from logbus.pipeline.source.options import read_source_options
from tests.pipeline.socket_cluster import SocketCluster

QUICK = {"kafka.retry.backoff.ms": "1", "kafka.default.api.timeout.ms": "50"}


class DeletedTopicTests(SynchronousTestCase):
    """A topic that is deleted before all of it is loaded."""

    def setUp(self) -> None:
        """Two topics."""
        self.cluster = SocketCluster()
        for name in ("t", "u"):
            self.cluster.add(name, 1)[0].put(b"a", b"b")
        self.enterContext(self.cluster)

    def planner(self, **selection: str) -> LoadPlanner:
        """Of a load of the topics that are selected."""
        options = read_source_options(
            {"kafka.bootstrap.servers": self.cluster.bootstrap, **QUICK, **selection}, streaming=False
        )
        self.addCleanup(brokers_for(options.settings).close)
        return LoadPlanner(options, "lake/t")

    def loaded(self, plan: LoadPlan) -> LoadState:
        """A table with the first record of each topic."""
        return LoadState(
            offsets={name: TopicOffsets(topic_id, {0: OffsetSet.of((0, 1))}) for name, topic_id in plan.ids.items()}
        )

    def test_topics_of_a_pattern(self) -> None:
        """The plan says which are gone; the others are loaded."""
        planner = self.planner(subscribePattern="^[tu]$")
        first = planner.plan(LoadState())
        self.assertEqual(first.gone, "")
        state = self.loaded(first)
        del self.cluster.topics["u"]
        plan = planner.plan(state)
        self.assertEqual(plan.gone, "not there any more: u; what the table lacks of it cannot be loaded")
        self.assertEqual([str(each) for each in plan.wanted], ["t-0"])
        del self.cluster.topics["t"]
        self.assertIn("not there any more: t, u; what the table lacks of them", planner.plan(state).gone)
        # It is no matter of a load of other topics.
        self.assertEqual(self.planner(subscribePattern="^x").plan(state).gone, "")

    def test_named_topics(self) -> None:
        """It is an error that a named one is gone; another one's end is no matter of the load."""
        state = self.loaded(self.planner(subscribe="t,u").plan(LoadState()))
        del self.cluster.topics["u"]
        with self.assertRaisesRegex(ApiError, "there is no topic 'u'"):
            self.planner(subscribe="t,u").plan(state)
        self.assertEqual(self.planner(subscribe="t").plan(state).gone, "")

    def test_deleted_while_a_batch_is_read(self) -> None:
        """The error does not say that it was made anew."""
        planner = self.planner(subscribePattern="^[tu]$")
        ids = planner.plan(LoadState()).ids
        planner.check_ids(ids)
        del self.cluster.topics["u"]
        with self.assertRaisesRegex(LakeError, "topic 'u' was deleted while a batch of it was read; nothing of the"):
            planner.check_ids(ids)
        self.cluster.anew("u")
        with self.assertRaisesRegex(LakeError, "it was deleted and created again"):
            planner.check_ids(ids)
