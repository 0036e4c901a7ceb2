"""Names of topics and groups."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.config.kinds import split_expressions
from logbus.errors import ConfigError
from logbus.mirror.mirror_options import MirrorOptions
from logbus.mirror.name_filter import GROUPS_EXCLUDED, TOPICS_EXCLUDED, NameFilter
from logbus.mirror.replication_policy import Naming, ReplicationPolicy, is_internal


class PolicyTests(SynchronousTestCase):
    """Names at the target."""

    def test_prefix(self) -> None:
        """Names say where records come from, over several clusters."""
        policy = ReplicationPolicy("b", "c")
        self.assertEqual(policy.remote_topic("a.orders"), "b.a.orders")
        self.assertEqual(policy.offset_syncs_topic, "mm2-offset-syncs.b.internal")
        self.assertEqual(policy.checkpoints_topic, "b.checkpoints.internal")

    def test_loops(self) -> None:
        """A topic that came from the target, by whatever way, is one of a loop; dots alone make none."""
        policy = ReplicationPolicy("b", "c")
        for name, is_loop in {
            "c.orders": True,
            "a.c.orders": True,
            "a.orders": False,
            "c": False,
            "x.c": False,
        }.items():
            self.assertEqual(policy.is_loop(name), is_loop, name)
        self.assertFalse(ReplicationPolicy("b", "c", Naming.IDENTITY).is_loop("c.orders"))

    def test_identity(self) -> None:
        """Names stay, but for those of heartbeats, which say where they come from."""
        policy = ReplicationPolicy("b", "c", Naming.IDENTITY)
        self.assertEqual(policy.remote_topic("a.orders"), "a.orders")
        self.assertEqual(policy.remote_topic("heartbeats"), "b.heartbeats")

    def test_internal(self) -> None:
        """Topics of brokers, Connect and mirrors are internal."""
        for name in ("__consumer_offsets", "a.checkpoints.internal", "connect-offsets-internal", ".x"):
            self.assertTrue(is_internal(name), name)
        self.assertFalse(is_internal("orders"))


class FilterTests(SynchronousTestCase):
    """Which are meant."""

    def test_topics(self) -> None:
        """Expressions are of whole names, and exceptions win."""
        topics = NameFilter(["orders", "bills-.*"], [*TOPICS_EXCLUDED, ".*-test"])
        found = [each for each in ("orders", "orders2", "bills-1", "bills-test", "__x") if topics.allows(each)]
        self.assertEqual(found, ["orders", "bills-1"])

    def test_groups(self) -> None:
        """Groups of console consumers and of Connect are left out."""
        groups = NameFilter([".*"], GROUPS_EXCLUDED)
        found = [each for each in ("billing", "console-consumer-7", "connect-sink", "__x") if groups.allows(each)]
        self.assertEqual(found, ["billing"])

    def test_lists(self) -> None:
        """Commas divide expressions, but not within braces."""
        self.assertEqual(split_expressions("a, b{1,2} ,[,c],"), ["a", "b{1,2}", "[,c]"])

    def test_wrong(self) -> None:
        """A wrong expression, alias or pair of aliases is named, with what would be right."""
        with self.assertRaisesRegex(ConfigError, r"'\[' is not a regular expression: .*; such as orders"):
            NameFilter(["["])
        with self.assertRaisesRegex(ConfigError, "source is 'a.b'; a cluster's alias has letters, digits"):
            MirrorOptions(source="a.b")
        with self.assertRaisesRegex(ConfigError, "source and target are both 'a'"):
            MirrorOptions(source="a", target="a")
        with self.assertRaisesRegex(ConfigError, "rate is 0"):
            MirrorOptions(rate=0)
