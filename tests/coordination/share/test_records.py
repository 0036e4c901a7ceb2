"""Tests of :mod:`logbus.coordination.share.records` and what a group reads from them."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.consumer.topics_view import Topic
from logbus.coordination.share import records
from logbus.coordination.share.recorded_state import RecordedState
from logbus.coordination.share.share_group import ShareGroup
from logbus.coordination.share.share_group_settings import ShareGroupSettings
from logbus.coordination.share.share_partitions import NONE, SharePartitions
from logbus.wire.messages.group_log import (
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
)
from logbus.wire.messages.group_log import SharePartitions as WirePartitions
from tests.coordination.consumer.kit import Cluster

A, B = b"a" * 16, b"b" * 16


class RecordTests(SynchronousTestCase):
    """Records of Kafka's, too."""

    def test_partitions(self) -> None:
        """They are read back as they were."""
        state = NONE.begun({A: frozenset({0, 1}), B: frozenset({0})}, {A: "a", B: "b"}).made({A: frozenset({0})}, {})
        state = state.deletion_begun(frozenset({B}))
        recorded = RecordedState("g")
        recorded.apply(records.share_partitions("g", state))
        self.assertEqual(recorded.partitions, state)
        self.assertEqual(state.without(frozenset({B})).names, {A: "a"})
        self.assertEqual(
            state,
            SharePartitions(
                {A: frozenset({1}), B: frozenset({0})}, {A: frozenset({0})}, frozenset({B}), {A: "a", B: "b"}
            ),
        )

    def test_start_offsets_set_at_kafka(self) -> None:
        """A partition whose start offset was being set has a state; a group without an epoch is a group."""

        cluster = Cluster()
        topic_id = cluster.create("a", 3)

        def group() -> ShareGroup:
            return ShareGroup("g", ShareGroupSettings, cluster, lambda changes, done: None)

        def topic(*numbers: int) -> WirePartitions:
            return WirePartitions(topic_id=topic_id, topic_name="a", partitions=list(numbers))

        key = ShareGroupStatePartitionMetadataKey(group_id="g")
        for initializing, initialized, made in (
            ([topic(0)], [topic(0, 1)], {}),
            ([topic(2)], [], {topic_id: frozenset({2})}),
        ):
            value = ShareGroupStatePartitionMetadataValue(
                initializing_topics=initializing, initialized_topics=initialized, deleting_topics=[]
            )
            read = group()
            read.apply((key, value))
            self.assertEqual(read.to_initialize, made)
            cluster.delete("a")
            self.assertEqual(read.to_initialize, {})
            cluster.topics["a"] = Topic(topic_id, 3)
            self.assertFalse(read.is_dead)
            self.assertEqual(read.state_name, "Empty")
            read.apply((key, None))
            self.assertTrue(read.is_dead)
