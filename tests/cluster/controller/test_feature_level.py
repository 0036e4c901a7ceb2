"""The cluster's feature level: raised when all brokers support it, and never lowered."""

from __future__ import annotations

from attrs import evolve
from twisted.internet.defer import Deferred

from logbus.errors import ConfigError
from tests.cluster.control_plane import Node
from tests.cluster.controller.test_controller import ControllerCase


class FeatureTests(ControllerCase):
    """Brokers of several releases."""

    def started(self, broker: int, level: int) -> Node:
        """A broker that can do so much."""
        node = self.starting(broker, level)[0]
        return node

    def starting(self, broker: int, level: int) -> tuple[Node, Deferred[None]]:
        """The same, and how its start goes."""
        node = self.cluster.node(broker)
        node.membership.registration = evolve(node.membership.registration, feature_level=level)
        return node, Deferred.fromCoroutine(node.start())

    def level(self) -> int:
        """As it is written down."""
        return int(self.cluster.ensemble.tree.get("/feature_level")[0])

    def test_rolling_upgrade(self) -> None:
        """One after the other comes back newer; the level rises when the last one has."""
        nodes = [self.started(number, 1) for number in range(3)]
        self.create(nodes[0], [0, 1, 2])
        for number in (0, 1, 2):
            self.assertEqual(self.level(), 1)
            self.cluster.nodes[number].crash()
            self.started(number, 2)
        self.assertEqual(self.level(), 2)

    def test_newer_broker_alone(self) -> None:
        """A newer broker that is alone for a moment does not shut out the others."""
        nodes = [self.started(number, 1) for number in range(2)]
        self.create(nodes[0], [0, 1])
        for node in nodes:
            node.crash()
        self.started(0, 2)
        self.assertEqual(self.level(), 1)
        self.successResultOf(self.starting(1, 1)[1])

    def test_too_old(self) -> None:
        """A broker that cannot do what the cluster does is refused, with both levels; nobody hears of it."""
        node = self.started(0, 2)
        failure = self.failureResultOf(self.starting(1, 1)[1], ConfigError)
        self.assertIn("feature level 2; this release knows 1", str(failure.value))
        self.assertEqual(sorted(node.metadata.brokers), [0])

    def test_too_old_at_the_same_moment(self) -> None:
        """One that registered while the level rose is left out by the controller."""
        node = self.started(0, 2)
        old = self.cluster.node(1)
        old.membership.registration = evolve(old.membership.registration, feature_level=1)
        self.patch(type(old.membership), "_check_level", _unchecked)
        Deferred.fromCoroutine(old.start())
        self.assertIsNotNone(self.cluster.ensemble.tree.exists("/brokers/ids/1"))
        self.assertEqual(sorted(node.metadata.brokers), [0])


async def _unchecked(_: object) -> None:
    """As if the level had risen afterwards."""
