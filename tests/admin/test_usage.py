"""Tests of what lists of topics and groups tell: usage, faults, readers; and of their filters."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.json_schema import schema_errors
from logbus.admin.topic_groups import WORK_A_TURN
from logbus.admin.usage import REPLICAS_A_TURN
from logbus.cluster.cluster_metadata import BrokerImage, PartitionImage
from logbus.coordination.group_offsets import CommittedOffset
from logbus.errors import ApiError, ErrorCode
from logbus.model import Endpoint, LeaderAndIsr, TopicPartition
from tests.admin.harness import World, add_topic, replica
from tests.admin.test_groups import O0, O1, classic


class ListCase(SynchronousTestCase):
    """The world has a topic orders of three partitions, of which broker 0 leads all and has one replica."""

    def setUp(self) -> None:
        self.world = World()

    def ask(self, target: str) -> Any:
        answered = self.world.ask("GET", target)
        self.assertEqual(answered.status, 200, answered.body)
        route = self.world.site.router.find(target.partition("?")[0])[0]["GET"]
        assert route.answer is not None
        self.assertEqual(list(schema_errors(route.answer, answered.json)), [])
        return answered.json

    def names(self, target: str, name: str = "name") -> list[str]:
        return [each[name] for each in self.ask(target)["items"]]


class UsageTests(ListCase):
    """Records and bytes, by broker."""

    def test_usage(self) -> None:
        """Records count where the broker leads, bytes wherever it has a replica."""
        self.world.replicas.add(replica("orders", 1, log_start_offset=4, log_end_offset=40, size=100))
        follower = replica("orders", 2, size=7)
        follower.partition.is_leader = False
        self.world.replicas.add(follower)
        add_topic(self.world.metadata, "idle", UUID(int=9))
        self.assertEqual(
            self.ask("/api/v1/brokers/0/topics")["items"],
            [
                {"name": "idle", "leads": 0, "records": 0, "size_bytes": 0},
                {"name": "orders", "leads": 2, "records": 46, "size_bytes": 807},
            ],
        )
        self.assertEqual(self.names("/api/v1/brokers/0/topics?contains=RDE"), ["orders"])

    def test_usage_of_a_broker(self) -> None:
        """A broker has replicas, of which it leads some, over however many turns of the reactor that is counted."""
        with self.world.metadata.changing():
            image = PartitionImage((0, 1), LeaderAndIsr(0, 3, (0,)))
            self.world.metadata.set_partitions("ill", UUID(int=9), [(0, image)])
        self.world.replicas.add(replica("ill", 0, size=5))
        for number in range(REPLICAS_A_TURN):
            follower = replica("elsewhere", number, size=2)
            follower.partition.is_leader = False
            self.world.replicas.add(follower)
        self.assertEqual(
            self.ask("/api/v1/brokers/0/usage"),
            {"broker": 0, "replicas": 502, "leads": 2, "under_replicated": 1, "size_bytes": 1705},
        )

    def test_usage_of_another_broker(self) -> None:
        """Another broker is asked for what it has."""
        other = World(broker_id=1, clock=self.world.clock)
        other.replicas.add(replica("orders", 0, size=55))
        with self.world.metadata.changing():
            image = BrokerImage(1, {"kafka": Endpoint("kafka", "127.0.0.1", 9093)}, epoch=6)
            self.world.metadata.set_brokers({**self.world.metadata.brokers, 1: image})
        self.world.others[1] = other
        self.assertEqual(self.ask("/api/v1/brokers/1/topics")["items"][0]["size_bytes"], 55)

    def test_faults(self) -> None:
        """Topics tell how many partitions have no leader, or lack replicas; and what happens to old records."""
        images = [
            (0, PartitionImage((0, 1), LeaderAndIsr(0, 3, (0,)))),
            (1, PartitionImage((1,), LeaderAndIsr(-1, 3, (1,)))),
        ]
        with self.world.metadata.changing():
            self.world.metadata.set_partitions("ill", UUID(int=9), images)
            self.world.metadata.set_configs("ill", {"cleanup.policy": "compact"})
        ill, orders = self.ask("/api/v1/topics")["items"]
        self.assertEqual((ill["offline"], ill["under_replicated"], ill["cleanup_policy"]), (1, 1, "compact"))
        self.assertEqual((orders["offline"], orders["under_replicated"], orders["cleanup_policy"]), (0, 0, "delete"))

    def test_filters(self) -> None:
        """Lists are filtered by a part of the name, in any case, and internal topics are left out if so asked."""
        add_topic(self.world.metadata, "__consumer_offsets", UUID(int=9))
        self.assertEqual(self.names("/api/v1/topics"), ["__consumer_offsets", "orders"])
        self.assertEqual(self.names("/api/v1/topics?internal=false"), ["orders"])
        self.assertEqual(self.names("/api/v1/topics?contains=OFF"), ["__consumer_offsets"])
        self.world.groups.add(classic("Billing", ("m", [0])))
        self.world.groups.add(classic("audit"))
        self.assertEqual(self.names("/api/v1/groups?contains=bill", "id"), ["Billing"])
        self.assertEqual(self.names("/api/v1/groups?state=empty", "id"), ["audit"])
        self.assertEqual(self.names("/api/v1/groups?state=Empty&contains=bill", "id"), [])


class ReaderTests(ListCase):
    """The groups that read a topic."""

    def setUp(self) -> None:
        super().setUp()
        add_topic(self.world.metadata, "other", UUID(int=9))
        self.world.groups.add(classic("billing", ("m", [0])), {O0: CommittedOffset(4), O1: CommittedOffset(1)})
        self.world.groups.add(classic("elsewhere"), {TopicPartition("other", 0): CommittedOffset(1)})
        self.world.groups.add(classic("new"))

    def test_readers(self) -> None:
        """Those with committed offsets of it, with their lag as far as the ends are known."""
        (told,) = self.ask("/api/v1/topics/orders/groups")["items"]
        self.assertEqual(
            told, {"id": "billing", "state": "Stable", "members": 1, "partitions": 2, "lag": 5, "unknown": 1}
        )
        (told,) = self.ask("/api/v1/topics/other/groups")["items"]
        self.assertEqual((told["id"], told["lag"], told["unknown"]), ("elsewhere", None, 1))

    def test_group_of_many_topics(self) -> None:
        """A group with offsets of far more than the topic is found as well."""
        many = {TopicPartition("other", number): CommittedOffset(0) for number in range(20)}
        self.world.groups.add(classic("wide"), {**many, O0: CommittedOffset(9)})
        told = self.ask("/api/v1/topics/orders/groups")["items"]
        self.assertEqual([(each["id"], each["partitions"]) for each in told], [("billing", 2), ("wide", 1)])

    def test_pages(self) -> None:
        """All are reached page by page, over several turns of the reactor."""
        names = [f"g{number:05}" for number in range(WORK_A_TURN)]
        for name in names[:: len(names) // 5]:
            self.world.groups.add(classic(name), {O0: CommittedOffset(0)})
        for name in names:
            if name not in self.world.groups.shard.groups:
                self.world.groups.shard.groups[name] = self.world.groups.group("new")
        found: list[str] = []
        after: str | None = "f"
        while after is not None:
            told = self.ask(f"/api/v1/topics/orders/groups?limit=2&after={after}")
            found += [each["id"] for each in told["items"]]
            after = told["next"]
        self.assertEqual(found, names[:: len(names) // 5])

    def test_moved(self) -> None:
        """A group that has moved to another broker meanwhile is left to that one."""
        self.world.groups.problem = ApiError(ErrorCode.NOT_COORDINATOR)
        self.assertEqual(self.names("/api/v1/topics/orders/groups", "id"), [])
