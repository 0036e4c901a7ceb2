"""Tests of the lags of groups as metrics."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.group_lags import GroupLags
from logbus.coordination.group_offsets import CommittedOffset
from logbus.exposition import render
from logbus.metrics import Sample
from logbus.model import TopicPartition
from tests.admin.harness import World, replica
from tests.admin.test_groups import O0, O1, classic


class GroupLagsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.lags = GroupLags(self.world.groups, self.world.replicas)  # type: ignore[arg-type]

    def samples(self, families: Any) -> dict[tuple[str, ...], float]:
        found = {}
        for family in families:
            for sample in family.samples:
                if isinstance(sample, Sample):
                    found[family.name, *(value for _, value in sample.labels)] = sample.value
        return found

    def test_lag_sums(self) -> None:
        """
        Sums for each group; what is not known is left out, not shown as nothing.
        """
        self.world.replicas.add(replica("orders", 1, log_end_offset=10))
        self.world.groups.add(classic("g", ("m", [0])), {O0: CommittedOffset(4), O1: CommittedOffset(1)})
        self.world.groups.add(classic("elsewhere"), {TopicPartition("orders", 2): CommittedOffset(1)})
        self.assertEqual(
            self.samples(self.lags.families()),
            {
                ("logbus_group_members", "g"): 1,
                ("logbus_group_members", "elsewhere"): 0,
                ("logbus_group_sum_lag", "g"): 13,
                ("logbus_group_max_lag", "g"): 8,
            },
        )

    def test_by_partition(self) -> None:
        """
        The offset of each partition, and the lag where it is known, for who turned that on.
        """
        self.world.groups.add(classic("g"), {O0: CommittedOffset(4), O1: CommittedOffset(1)})
        self.assertEqual(
            self.samples(self.lags.partition_families()),
            {
                ("logbus_group_committed_offset", "g", "orders", "0"): 4,
                ("logbus_group_committed_offset", "g", "orders", "1"): 1,
                ("logbus_group_lag", "g", "orders", "0"): 5,
            },
        )
        for setting, shown in (("true", True), ("false", False)):
            world = World(settings={"admin.metrics.per.partition": setting})
            world.groups.add(classic('a"b'), {O0: CommittedOffset(4)})
            body = world.ask("GET", "/metrics").body.decode()
            line = 'logbus_group_lag{group="a\\"b",partition="0",topic="orders"} 5.0'
            self.assertEqual(line in body, shown)

    def test_pauses(self) -> None:
        """
        A group with ten thousand partitions is one sample, and yet many slices of work; groups and offsets that come
        and go in between do no harm.
        """
        many = {TopicPartition("orders", n): CommittedOffset(n) for n in range(10_000)}
        self.world.groups.add(classic("g"), many)
        self.world.groups.add(classic("h"), {O0: CommittedOffset(0)})
        pieces = []
        for piece in render(self.lags.families(), False, 20):
            pieces.append(piece)
            self.world.groups.shard.groups.pop("h", None)
            self.world.groups.shard.offsets["g"].committed.popitem()
        self.assertGreater(len(pieces), 15)
        text = b"".join(pieces).decode()
        self.assertIn('logbus_group_max_lag{group="g"} 9.0', text)
