"""Plans that are made and checked while others are carried out, with a cluster that a test plays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.reassignment import RATES, cancel, generate, verify
from logbus.cli.reassignment_plan import InvalidPlan
from logbus.client.admin.admin_client import AdminClient
from logbus.client.admin.config_admin import ConfigEntry, ConfigSource, Resource, ResourceType
from logbus.model import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


@define
class PlayedCluster:
    """
    Three brokers, of which the first one is throttled.

    :ivar moving: partitions that are being moved.
    :ivar removed: settings that were removed.
    """

    replicas: dict[TopicPartition, tuple[int, ...]]
    moving: set[TopicPartition] = field(factory=set)
    removed: list[str] = field(factory=list)

    def describe_cluster(self) -> Deferred[Any]:
        return succeed(SimpleNamespace(nodes=[SimpleNamespace(node_id=n, rack=None) for n in range(3)]))

    def describe_topics(self, names: Iterable[str]) -> Deferred[Any]:
        return succeed(
            {
                name: SimpleNamespace(
                    name=name, partitions={0: SimpleNamespace(replicas=self.replicas[TopicPartition(name, 0)])}
                )
                for name in names
            }
        )

    def list_reassignments(self, names: Iterable[TopicPartition] | None = None) -> Deferred[Any]:
        return succeed({name: None for name in self.moving if names is None or name in names})

    def describe_configs(self, resources: Iterable[Resource]) -> Deferred[Any]:
        entry = ConfigEntry(RATES[0], "1000", ConfigSource.DYNAMIC_BROKER, read_only=False, sensitive=False)
        first = Resource(ResourceType.BROKER, "0")
        return succeed({each: [entry] if each == first else [] for each in resources})

    def alter_reassignments(self, changes: Mapping[TopicPartition, None]) -> Deferred[Any]:
        self.moving -= changes.keys()
        return succeed(dict.fromkeys(changes))

    def alter_configs(self, changes: Mapping[Resource, Mapping[str, str | None]]) -> Deferred[Any]:
        self.removed += [name for each in changes.values() for name, value in each.items() if value is None]
        return succeed(dict.fromkeys(changes))


class ReassignmentTests(SynchronousTestCase):
    """Two topics of one partition."""

    def setUp(self) -> None:
        self.cluster = PlayedCluster({A: (0, 1), B: (0, 1, 2)}, {B})
        self.admin = cast(AdminClient, self.cluster)

    def test_throttle_of_another_plan(self) -> None:
        """What is done with one plan does not take the throttle from what is still moved by another one."""
        states = self.successResultOf(verify(self.admin, {A: (0, 1)})).states
        self.assertEqual((states, self.cluster.removed), ({A: "done"}, []))
        self.cluster.moving.clear()
        self.assertTrue(self.successResultOf(verify(self.admin, {A: (0, 1)})).is_lifted)
        self.assertEqual(self.cluster.removed, [RATES[0]])

    def test_throttle_while_another_plan_goes_on(self) -> None:
        """What is cancelled of one plan does not take the throttle from what is still moved by another one."""
        self.cluster.moving = {A, B}
        cancelled = self.successResultOf(cancel(self.admin, {A: (0, 1)}))
        self.assertEqual((cancelled.partitions, cancelled.is_lifted, self.cluster.removed), ([A], False, []))
        cancelled = self.successResultOf(cancel(self.admin, {B: (0, 1)}))
        self.assertEqual((cancelled.partitions, cancelled.is_lifted, self.cluster.removed), ([B], True, [RATES[0]]))

    def test_plan_of_what_is_moved(self) -> None:
        """A plan would keep all replicas that a partition has while it is moved: none is made."""
        failed = self.failureResultOf(generate(self.admin, ["a", "b"], None), InvalidPlan)
        self.assertIn("partitions are being moved, such as b-0: wait for them", failed.getErrorMessage())
        plan = self.successResultOf(generate(self.admin, ["a"], None))
        self.assertEqual({name: len(replicas) for name, replicas in plan.items()}, {A: 2})
