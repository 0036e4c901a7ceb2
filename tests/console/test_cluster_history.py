"""Tests of :mod:`logbus.console.cluster_history` and of the overview: the last hour of all brokers together."""

from __future__ import annotations

from typing import Any, cast

from attrs import evolve
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.metric_history import FREE, LATENCY, RECEIVED, SIZE
from logbus.cluster.cluster_metadata import PartitionImage
from logbus.console.api_client import ApiClient
from logbus.console.broker_answers import PATIENCE_SECONDS
from logbus.console.cluster_history import ClusterHistory, last_hour
from logbus.coordination.group_offsets import CommittedOffset
from logbus.model import LeaderAndIsr
from tests.admin.harness import ORDERS, World, replica
from tests.admin.test_groups import O0, O1, classic
from tests.console.kit import console, seen


def _world(broker_id: int, others: World | None = None) -> World:
    world = console(broker_id=broker_id) if others is None else console(broker_id=broker_id, clock=others.clock)
    received = world.registry.counter(RECEIVED, "Bytes.").labels()
    times = world.registry.histogram(LATENCY, "Seconds.", ("api", "phase"), (0.1, 1.0, 10.0))
    for name in (FREE, SIZE):
        gauge = world.registry.gauge(name, "Bytes.", ("directory",))
        gauge.labels(directory=f"/data/{broker_id}").value = 1000.0
    world.site.history.sample()
    received.value = 1000.0 * (broker_id + 1)
    times.labels(api="Produce", phase="total").observe(0.5 + broker_id)
    world.site.history.sample()
    return world


class Answering:
    """The API of two brokers, of which the second hangs."""

    def get(self, path: str) -> Deferred[Any]:
        return succeed({"x": []}) if path == "/api/v1/brokers/0/history" else Deferred()


class ClusterHistoryTests(SynchronousTestCase):
    """Two brokers, of which the first is asked."""

    def setUp(self) -> None:
        self.first = _world(0)
        self.second = _world(1, self.first)
        self.first.others[1], self.second.others[0] = self.second, self.first
        for world in (self.first, self.second):
            with world.metadata.changing() as metadata:
                own = metadata.brokers[0]
                metadata.set_brokers({number: evolve(own, broker_id=number) for number in (0, 1)})

    def test_all_brokers(self) -> None:
        """Rates are sums, percentiles those of the slowest; each broker's disks are listed."""
        text = seen(self.first.ask("GET", "/")).text
        self.assertIn("in 300 B/s", text)
        self.assertIn("produce 10.0 s", text)
        self.assertIn("Percentiles are those of the slowest broker.", text)
        self.assertIn("/data/0", text)
        self.assertIn("/data/1", text)

    def test_offsets_of_leaders(self) -> None:
        """A topic's page has the offsets that the leaders tell, whichever broker is asked."""
        for world in (self.first, self.second):
            with world.metadata.changing() as metadata:
                lead = [(n, PartitionImage((0, 1), LeaderAndIsr(n % 2, 1, (0, 1)))) for n in range(3)]
                metadata.set_partitions("orders", ORDERS, lead)
        self.second.replicas.add(replica("orders", 1, log_end_offset=432))
        text = seen(self.first.ask("GET", "/console/topics/orders")).text
        self.assertIn(" 432 700 B", text)
        self.assertIn("Offsets and sizes are those of the leaders.", text)
        answered = self.first.ask("GET", "/api/v1/topics/orders/partitions?broker=9")
        self.assertEqual((answered.status, answered.json["detail"]), (404, "There is no live broker 9; alive: 0, 1."))

    def test_topics_of_all_brokers(self) -> None:
        """The list of topics has what all brokers have of them, and names brokers that do not tell it."""
        self.second.replicas.add(replica("orders", 1, log_start_offset=2, log_end_offset=434, size=5000))
        text = seen(self.first.ask("GET", "/console/topics")).text
        self.assertIn("orders ok 3 1 452 6.2 KiB delete", text)
        del self.first.others[1]
        text = seen(self.first.ask("GET", "/console/topics?sort=size")).text
        self.assertIn("orders ok 3 1 10 700 B delete", text)
        self.assertIn("without what these brokers did not tell: 1.", text)

    def test_brokers(self) -> None:
        """The list of brokers has what each of them leads and keeps, as far as they tell."""
        self.second.replicas.add(replica("orders", 1, size=5000))
        page = seen(self.first.ask("GET", "/console/brokers"))
        self.assertIn("Broker 0 controller 1 1 700 B", page.text)
        self.assertIn("Broker 1 2 2 5.6 KiB", page.text)
        del self.first.others[1]
        self.assertIn("Broker 1 – – –", seen(self.first.ask("GET", "/console/brokers")).text)

    def test_readers_of_all_brokers(self) -> None:
        """A topic's page has the groups that read it, whichever broker coordinates them."""
        self.first.groups.add(classic("billing", ("m", [0])), {O0: CommittedOffset(4)})
        self.second.groups.add(classic("audit"), {O0: CommittedOffset(9), O1: CommittedOffset(1)})
        page = seen(self.first.ask("GET", "/console/topics/orders"))
        self.assertIn("audit Empty 0 and 1 partition of which this is not known 0 2 billing Stable 5 1 1", page.text)
        self.assertIn("/console/groups/audit", page.links)
        del self.first.others[1]
        text = seen(self.first.ask("GET", "/console/topics/orders")).text
        self.assertIn("Without the groups of these brokers, which did not answer: 1.", text)

    def test_broker_is_away(self) -> None:
        """One that cannot be reached is left out, and named."""
        del self.first.others[1]
        text = seen(self.first.ask("GET", "/")).text
        self.assertIn("in 100 B/s", text)
        self.assertIn("Without what these brokers did not tell: 1.", text)

    def test_broker_hangs(self) -> None:
        """One that does not answer holds the page up for a moment only."""
        clock = Clock()
        told = Deferred.fromCoroutine(last_hour(cast(ApiClient, Answering()), [0, 1], clock))
        clock.advance(PATIENCE_SECONDS)
        history = self.successResultOf(told)
        self.assertEqual((history.of, history.silent), ({0: {"x": []}}, [1]))

    def test_only_one(self) -> None:
        """A broker that has just started has fewer intervals: the newest are put together."""
        told = {0: {"x": [1.0, None, 3.0]}, 1: {"x": [10.0]}}
        history = ClusterHistory(told, [])
        self.assertEqual(history.sum("x"), [1.0, None, 13.0])
        self.assertEqual(history.highest("x"), [1.0, None, 10.0])
        self.assertEqual(ClusterHistory({}, [0]).sum("x"), [])
