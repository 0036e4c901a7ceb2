"""Tests of :mod:`logbus.admin.mirrors`, and of the console's pages: mirrors that brokers run."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from logbus.console.console_site import ConsoleSite
from logbus.mirror.mirror_options import MirrorOptions
from logbus.mirror.mirror_status import MirrorState, MirrorStatus
from logbus.mirror.name_filter import NameFilter
from logbus.mirror.running_mirror import RunningMirror
from logbus.model import TopicPartition
from logbus.security.acl.acls import AclOperation, ResourceType
from tests.admin.harness import NOW, World
from tests.console.kit import seen

PATH = "/api/v1/mirrors/paris-to-rome"


def a_mirror(world: World) -> RunningMirror:
    """A mirror of two topics, one of which cannot be copied."""
    options = MirrorOptions(source="paris", target="rome", topics=NameFilter(["orders", "bills-.*"]))
    status = MirrorStatus(options.flow, wall_clock=lambda: NOW)
    status.state = MirrorState.RUNNING
    status.topics = {"orders": ("paris.orders", 2), "bills-1": ("paris.bills-1", 1)}
    orders, bills = TopicPartition("orders", 0), TopicPartition("bills-1", 0)
    status.positions = {orders: 90, bills: 3}
    status.ends = {orders: 100, bills: 4}
    status.records, status.size = 93, 9300
    status.rates.add(world.clock.seconds(), {orders: 90, bills: 3}, 9300)
    status.problem(bills, "bills-1-0: it cannot be read")
    return RunningMirror(("paris:9092",), options, status, NOW)


class Describers:
    """Lets everybody describe the cluster, and one topic."""

    version = 0

    def authorize(self, principal: str, host: str, operation: Any, kind: Any, name: str) -> bool:
        return operation is AclOperation.DESCRIBE and (kind is ResourceType.CLUSTER or name == "paris.orders")


class MirrorViewTests(SynchronousTestCase):
    """One broker, the controller, with a mirror."""

    def setUp(self) -> None:
        self.world = World(make_pages=ConsoleSite.of)
        self.world.mirrors.append(a_mirror(self.world))
        self.world.clock.advance(10)

    def get(self, target: str) -> Any:
        answered = self.world.ask("GET", target)
        self.assertEqual(answered.status, 200, answered.body)
        return answered.json

    def test_mirror(self) -> None:
        """Its clusters, state, counts, rates, lag and errors."""
        told = self.get(PATH)
        self.assertEqual(self.get("/api/v1/mirrors"), {"items": [told], "next": None})
        self.assertEqual(
            told,
            {
                "id": "paris-to-rome",
                "broker": 0,
                "source": "paris",
                "source_servers": ["paris:9092"],
                "target": "rome",
                "naming": "prefix",
                "topics": ["orders", "bills-.*"],
                "state": "running",
                "since": int(NOW * 1000),
                "records": 93,
                "skipped": 0,
                "bytes": 9300,
                "records_per_second": 9.3,
                "bytes_per_second": 930.0,
                "lag": 11,
                "topics_copied": 2,
                "partitions": 3,
                "restarts": 0,
                "aborted": 0,
                "problems": [{"subject": "bills-1-0", "message": "bills-1-0: it cannot be read"}],
                "last_error": {"at": int(NOW * 1000), "message": "bills-1-0: it cannot be read"},
            },
        )
        self.assertEqual(self.world.ask("GET", "/api/v1/mirrors/x-to-y").status, 404)

    def test_partitions(self) -> None:
        """By their names, in pages, or first those that are not copied and those with the largest lag."""
        rows = self.get(f"{PATH}/partitions")["items"]
        self.assertEqual([each["id"] for each in rows], ["bills-1-0", "orders-0", "orders-1"])
        self.assertEqual(
            rows[1],
            {
                "id": "orders-0",
                "topic": "orders",
                "partition": 0,
                "copy": "paris.orders",
                "offset": 90,
                "end_offset": 100,
                "lag": 10,
                "records_per_second": 9.0,
                "problem": None,
            },
        )
        self.assertEqual((rows[2]["offset"], rows[2]["lag"]), (None, None))
        page = self.get(f"{PATH}/partitions?limit=1&after=bills-1-0")
        self.assertEqual(([each["id"] for each in page["items"]], page["next"]), (["orders-0"], "orders-0"))
        page = self.get(f"{PATH}/partitions?limit=2&order=lag")
        self.assertEqual(([each["id"] for each in page["items"]], page["next"]), (["bills-1-0", "orders-0"], None))

    def test_copies_that_are_not_to_be_seen(self) -> None:
        """Partitions of topics without the right to describe them are left out."""
        authorizer: Any = Describers()
        self.world.site.authorization = evolve(self.world.site.authorization, authorizer=authorizer)
        rows = self.get(f"{PATH}/partitions")["items"]
        self.assertEqual({each["topic"] for each in rows}, {"orders"})

    def test_no_mirror(self) -> None:
        """There may be none; without a controller nobody knows."""
        self.world.mirrors.clear()
        self.assertEqual(self.get("/api/v1/mirrors"), {"items": [], "next": None})
        self.assertIn("mirror.source.bootstrap.servers", seen(self.world.ask("GET", "/console/mirrors")).text)
        self.world.metadata.controller_id = -1
        self.assertEqual(self.world.ask("GET", "/api/v1/mirrors").status, 503)

    def test_another_broker(self) -> None:
        """Any broker tells of the mirror of the controller."""
        other = World(1, clock=self.world.clock)
        other.others[0] = self.world
        for world in (self.world, other):
            with world.metadata.changing() as metadata:
                own = metadata.brokers[0]
                metadata.set_brokers({number: evolve(own, broker_id=number) for number in (0, 1)})
        for target in ("/api/v1/mirrors", PATH, f"{PATH}/partitions?order=lag"):
            self.assertEqual(other.ask("GET", target).json, self.get(target))

    def test_pages(self) -> None:
        """The list, and the mirror with its partitions and problems."""
        text = seen(self.world.ask("GET", "/console/mirrors")).text
        self.assertIn("paris-to-rome running 1 problem 11 9.3 930 B/s 3 paris:9092", text)
        page = seen(self.world.ask("GET", "/console/mirrors/paris-to-rome"))
        self.assertIn("State running at broker 0 Lag 11 offsets still to copy Rate 930 B/s", page.text)
        self.assertIn("bills-1 0 paris.bills-1 not copied 1 0.3 3 4 orders 0 paris.orders copied 10 9 90", page.text)
        self.assertIn("/console/topics/paris.orders", page.links)
        self.assertEqual(
            {each["id"] for _, each in page.elements if "data-live" in each},
            {"state", "problems", "partitions", "details"},
        )

    def test_failed(self) -> None:
        """A mirror that has ended says why."""
        (mirror,) = self.world.mirrors
        mirror.status.fail("the source paris cannot be reached")
        text = seen(self.world.ask("GET", "/console/mirrors/paris-to-rome")).text
        self.assertIn("It has ended, and is started again after some seconds: the source paris cannot be reached", text)
