"""Controlled shutdown, and the return of leadership to preferred leaders."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.controlled_shutdown import REQUEST_TIMEOUT_S, ControlledShutdown
from logbus.cluster.controller.leader_rebalancer import LeaderRebalancer
from logbus.config import ConfigView
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from tests.cluster.controller.test_reassignment import AdminCase


@define(eq=False)
class Link:
    """A controller that answers when it is told to."""

    asked: list[Deferred[Sequence[TopicPartition]]] = field(factory=list)

    def shut_down(self) -> Deferred[Sequence[TopicPartition]]:
        self.asked.append(Deferred())
        return self.asked[-1]


class FarewellTests(SynchronousTestCase):
    """Controlled shutdown, as the broker sees it."""

    def setUp(self) -> None:
        self.clock, self.link = Clock(), Link()

    def controlled_shutdown(self, **settings: str) -> ControlledShutdown:
        config = ConfigView.load(set={name.replace("_", "."): value for name, value in settings.items()})
        return ControlledShutdown(self.link, config, self.clock)  # type: ignore[arg-type]

    def test_leaderships_without_another_replica(self) -> None:
        """
        The broker waits for the controller's response, and stops even if no other broker can lead some partitions.
        """
        said = self.controlled_shutdown().say([2])
        self.assertNoResult(said)
        self.link.asked[0].callback([TopicPartition("t", 0)])
        self.assertIsNone(self.successResultOf(said))

    def test_retries(self) -> None:
        """A failed request is retried after a pause, as often as configured; then the broker stops anyway."""
        said = self.controlled_shutdown(
            controlled_shutdown_max_retries="2", controlled_shutdown_retry_backoff_ms="700"
        ).say([2])
        self.link.asked[0].errback(ApiError(ErrorCode.NOT_CONTROLLER))
        self.clock.advance(0.6)
        self.assertEqual(len(self.link.asked), 1)
        self.clock.advance(0.1)
        self.assertEqual(len(self.link.asked), 2)
        self.clock.advance(REQUEST_TIMEOUT_S)  # No answer at all.
        self.clock.advance(0.7)
        self.link.asked[2].errback(ApiError(ErrorCode.NETWORK_EXCEPTION))
        self.assertIsNone(self.successResultOf(said))
        self.assertEqual((len(self.link.asked), self.clock.getDelayedCalls()), (3, []))

    def test_without_controlled_shutdown(self) -> None:
        """A single broker, and one with controlled shutdown disabled, stops at once."""
        self.successResultOf(self.controlled_shutdown().say([]))
        self.successResultOf(self.controlled_shutdown(controlled_shutdown_enable="false").say([2]))
        self.assertEqual(self.link.asked, [])


class BalancerTests(AdminCase):
    """Preferred leaders, from time to time."""

    def test_from_time_to_time(self) -> None:
        """A look comes every so often, unless it is not wanted, and no more after the stop."""
        config = ConfigView.load(set={"leader.imbalance.check.interval.seconds": "60"})
        self.create(self.nodes[0], [1, 2])
        self.successResultOf(self.shut_down(1))
        self.nodes[1].crash()
        self.cluster.started(1)
        self.join([2, 1])
        balancers = [LeaderRebalancer(self.admin(node), config, self.cluster.clock) for node in self.nodes[:2]]
        for balancer in balancers:
            balancer.start()
        self.cluster.clock.advance(59)
        self.assertEqual(self.seen(self.nodes[0]).leader, 2)
        self.cluster.clock.advance(1)
        self.assertEqual(self.seen(self.nodes[0]).leader, 1)
        for balancer in balancers:
            balancer.stop()
        self.assertEqual(self.cluster.clock.getDelayedCalls(), [])
