"""Tests of the views of the REST interface."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.json_schema import schema_errors
from logbus.cluster.cluster_metadata import PartitionImage
from logbus.conditions import LOG_DIRECTORY_FULL, Finding
from logbus.model import LeaderAndIsr
from tests.admin.harness import ORDERS, Answered, World, add_topic


class ViewTests(SynchronousTestCase):
    """Each route, asked as a client would."""

    def setUp(self) -> None:
        self.world = World()

    def ask(self, method: str, target: str, body: Any = None, status: int = 200) -> Any:
        """Ask, and hold the answer against the shape that is documented for it."""
        answered = self.world.ask(method, target, body)
        self.assertEqual(answered.status, status, answered.body)
        if status == 204:
            self.assertEqual(answered.body, b"")
            return None
        if status < 300:
            self.assert_as_documented(method, target, answered)
        return answered.json

    def assert_as_documented(self, method: str, target: str, answered: Answered) -> None:
        """The answer has the shape its route declares."""
        route = self.world.site.router.find(target.partition("?")[0])[0][method]
        assert route.answer is not None
        self.assertEqual(list(schema_errors(route.answer, answered.json)), [])
        self.assertEqual(answered.headers["Content-Type"], "application/json")

    def test_cluster(self) -> None:
        """The cluster is told in numbers."""
        told = self.ask("GET", "/api/v1/cluster")
        self.assertEqual((told["controller"], told["topics"], told["partitions"]), (0, 1, 3))

    def test_cluster_without_controller(self) -> None:
        """A cluster that has no controller says null, not a number that looks like a broker's."""
        with self.world.metadata.changing():
            self.world.metadata.set_controller(-1)
        self.assertIsNone(self.ask("GET", "/api/v1/cluster")["controller"])

    def test_brokers(self) -> None:
        """Brokers are told with where they are reached."""
        (broker,) = self.ask("GET", "/api/v1/brokers")["items"]
        self.assertEqual(broker["endpoints"], {"kafka": {"protocol": "kafka", "host": "127.0.0.1", "port": 9092}})
        self.assertEqual(self.ask("GET", "/api/v1/brokers/0"), broker)

    def spoil(self, *images: PartitionImage) -> None:
        """Give the topic other partitions."""
        with self.world.metadata.changing() as metadata:
            metadata.set_partitions("orders", ORDERS, list(enumerate(images)))

    def test_faults(self) -> None:
        """Partitions that lack something are told with what; the others are not."""
        self.assertEqual(self.ask("GET", "/api/v1/cluster/faults")["items"], [])
        with self.world.metadata.changing() as metadata:
            metadata.set_configs("orders", {"min.insync.replicas": "2"})
        self.spoil(
            PartitionImage((0, 1), LeaderAndIsr(0, 1, (0, 1))),
            PartitionImage((0, 1, 2), LeaderAndIsr(0, 1, (0, 1))),
            PartitionImage((1, 0), LeaderAndIsr(-1, 1, (1,))),
        )
        told = self.ask("GET", "/api/v1/cluster/faults")
        self.assertEqual(
            [(each["partition"], each["leader"], each["faults"]) for each in told["items"]],
            [(1, 0, ["under_replicated"]), (2, None, ["under_replicated", "under_min_isr", "offline"])],
        )
        self.assertEqual(told["counts"], {"under_replicated": 2, "under_min_isr": 1, "offline": 1})

    def test_in_sync(self) -> None:
        """The next broker is stopped when this one serves, and has caught up; what others lack does not matter."""
        path = "/readyz/in-sync"
        self.spoil(
            PartitionImage((0, 1), LeaderAndIsr(0, 1, (0,))),
            PartitionImage((1, 0), LeaderAndIsr(1, 1, (1, 0))),
        )
        self.assertEqual(self.ask("GET", path), {"ready": True, "reasons": []})
        self.spoil(PartitionImage((1, 0), LeaderAndIsr(1, 1, (1,))), PartitionImage((0,), LeaderAndIsr(0, 1, (0,))))
        told = self.ask("GET", path, status=503)
        self.assertEqual(told, {"ready": False, "reasons": ["replicas of this broker that are not in sync: 1"]})
        self.assertEqual(self.ask("GET", "/readyz")["ready"], True)
        self.world.reasons.append("it starts")
        self.assertEqual(self.ask("GET", path, status=503)["reasons"][0], "it starts")

    def test_in_sync_with_the_brokers_of_a_host(self) -> None:
        """Worker processes of a host are restarted together: what any of them lacks counts."""
        with self.world.metadata.changing() as metadata:
            own = metadata.brokers[0]
            metadata.set_brokers({0: own, 1: evolve(own, broker_id=1)})
        self.spoil(PartitionImage((0, 1), LeaderAndIsr(0, 1, (0,))))
        self.ask("GET", "/readyz/in-sync", status=503)

    def test_shutdown(self) -> None:
        """A broker that can be missed stops when it is asked to; one that cannot, only by force."""
        path = "/api/v1/brokers/0/shutdown"
        self.assertIn("another process", self.ask("POST", path, {}, status=501)["detail"])
        stopped: list[bool] = []
        self.world.stop = lambda: stopped.append(True)
        self.assertIn("no live broker 1", self.ask("POST", "/api/v1/brokers/1/shutdown", {}, status=404)["detail"])
        self.assertIn("3 partitions would have no leader", self.ask("POST", path, {}, status=409)["detail"])
        self.assertEqual(stopped, [])
        self.ask("POST", path, {"force": True}, status=202)
        self.assertEqual(stopped, [True])
        self.spoil(*[PartitionImage((0, 1, 2), LeaderAndIsr(0, 1, (0, 1, 2)))] * 3)
        self.ask("POST", path, {}, status=202)
        with self.world.metadata.changing() as metadata:
            metadata.set_configs("orders", {"min.insync.replicas": "3"})
        self.assertIn("3 would refuse acks=all", self.ask("POST", path, {}, status=409)["detail"])
        self.ask("POST", path, {"force": 1}, status=400)

    def test_unknown_broker(self) -> None:
        """A broker that is not alive is not found, and the answer names it."""
        detail = self.ask("GET", "/api/v1/brokers/9", status=404)["detail"]
        self.assertEqual(detail, "There is no live broker 9; alive: 0.")

    def test_invalid_broker_id(self) -> None:
        """An id that is not a number is the client's error."""
        self.assertIn("not integer", self.ask("GET", "/api/v1/brokers/zero", status=400)["detail"])

    def test_topics(self) -> None:
        """A topic is told with its overrides."""
        told = self.ask("GET", "/api/v1/topics")
        self.assertIsNone(told["next"])
        (topic,) = told["items"]
        self.assertEqual(topic["id"], str(ORDERS))
        self.assertEqual(topic["configs"], {"retention.ms": "1000"})
        self.assertEqual(self.ask("GET", "/api/v1/topics/orders"), topic)

    def test_topics_in_pages(self) -> None:
        """Pages put together are all topics by name, each once."""
        for number in range(7):
            add_topic(self.world.metadata, f"t{number}", UUID(int=100 + number))
        names: list[str] = []
        target = "/api/v1/topics?limit=3"
        for _ in range(3):
            page = self.ask("GET", target)
            names += [topic["name"] for topic in page["items"]]
            target = f"/api/v1/topics?limit=3&after={page['next']}"
        self.assertIsNone(page["next"])
        self.assertEqual(names, ["orders", *(f"t{number}" for number in range(7))])

    def test_bad_pages(self) -> None:
        """An invalid page is refused with the valid values."""
        for query in ("limit=0", "limit=501", "limit=x", "limit=99999999999999999999", "limit=1&limit=2", "offset=1"):
            detail = self.ask("GET", f"/api/v1/topics?{query}", status=400)["detail"]
            self.assertRegex(detail, "accepted|not integer", query)

    def test_internal_topics(self) -> None:
        """A topic that only brokers write to says so; one that merely looks like it does not."""
        add_topic(self.world.metadata, "__consumer_offsets", UUID(int=8))
        add_topic(self.world.metadata, "__mine", UUID(int=9))
        self.assertTrue(self.ask("GET", "/api/v1/topics/__consumer_offsets")["internal"])
        self.assertFalse(self.ask("GET", "/api/v1/topics/__mine")["internal"])

    def test_unknown_topic(self) -> None:
        """A topic that is not there is not found, with Kafka's word for it."""
        told = self.ask("GET", "/api/v1/topics/nope", status=404)
        self.assertEqual((told["error"], told["status"]), ("UNKNOWN_TOPIC_OR_PARTITION", 404))

    def test_invalid_topic_names(self) -> None:
        """Paths out of the tree, line ends and the like are invalid names."""
        for name in ("..%2F..%2Fetc%2Fpasswd", "a%0d%0aX-Bad:%201", "%00", "a%20b", "..", "%E2%82%AC", "x" * 249):
            answered = self.world.ask("GET", f"/api/v1/topics/{name}")
            self.assertEqual(answered.status, 404, name)
            self.assertNotIn("X-Bad", answered.headers)
        self.assertEqual(self.world.ask("GET", "/api/v1/topics/" + "x" * 250).status, 400)
        self.assertEqual(self.world.ask("GET", "/api/v1/topics/%ff").status, 400)

    def test_create(self) -> None:
        """A topic is created as asked, and told as created."""
        body = {"name": "new", "partitions": 4, "configs": {"retention.ms": 5, "cleanup.policy": "compact"}}
        told = self.ask("POST", "/api/v1/topics", body, status=201)
        self.assertEqual((told["name"], told["partitions"]), ("new", 4))
        (new,) = self.world.topics.created
        self.assertEqual((new.num_partitions, new.replication_factor), (4, -1))
        self.assertEqual(new.configs, {"retention.ms": "5", "cleanup.policy": "compact"})

    def test_create_existing_topic(self) -> None:
        """Creating a topic that exists is a conflict."""
        told = self.ask("POST", "/api/v1/topics", {"name": "orders"}, status=409)
        self.assertEqual((told["error"], told["retriable"]), ("TOPIC_ALREADY_EXISTS", False))

    def test_create_with_a_wrong_body(self) -> None:
        """Every fault of a body is named; nothing is asked of the controller."""
        told = self.ask("POST", "/api/v1/topics", {"partitions": "4", "nmae": "x"}, status=400)
        for word in ("'name'", "body.partitions is string, not integer", "'nmae'"):
            self.assertIn(word, told["detail"])
        for body in (
            [],
            None,
            1,
            "x",
            {"name": 1},
            {"name": "x", "partitions": True},
            {"name": "x", "partitions": 1e9},
        ):
            self.ask("POST", "/api/v1/topics", repr(body).replace("'", '"').encode(), status=400)
        self.assertEqual(self.world.topics.created, [])

    def test_delete(self) -> None:
        """A topic is deleted by the id it had when it was asked for."""
        self.ask("DELETE", "/api/v1/topics/orders?confirm=orders", status=204)
        self.assertEqual(self.world.topics.deleted, [ORDERS])
        self.ask("DELETE", "/api/v1/topics/orders?confirm=orders", status=404)

    def test_unconfirmed_deletion(self) -> None:
        """A topic is deleted only if its name is given twice."""
        for query in ("", "?confirm=", "?confirm=true", "?confirm=Orders"):
            told = self.ask("DELETE", f"/api/v1/topics/orders{query}", status=400)
            self.assertIn("add ?confirm=orders", told["detail"])
        self.assertEqual(self.world.topics.deleted, [])

    def test_delete_disabled(self) -> None:
        """With delete.topic.enable=false nothing is deleted."""
        self.world = World(settings={"delete.topic.enable": "false"})
        told = self.ask("DELETE", "/api/v1/topics/orders?confirm=orders", status=403)
        self.assertEqual(told["error"], "TOPIC_DELETION_DISABLED")
        self.assertEqual(self.world.topics.deleted, [])

    def test_delete_internal(self) -> None:
        """Topics that brokers keep their state in are not deleted."""
        add_topic(self.world.metadata, "__consumer_offsets", UUID(int=8))
        told = self.ask("DELETE", "/api/v1/topics/__consumer_offsets?confirm=__consumer_offsets", status=403)
        self.assertEqual(told["error"], "TOPIC_AUTHORIZATION_FAILED")
        self.assertEqual(self.world.topics.deleted, [])

    def test_client_leaves_a_deletion(self) -> None:
        """A deletion whose client goes away runs to its end, and nothing of it is left behind."""
        self.world.topics.waiting = Deferred()
        connection = self.world.connect()
        connection.send(b"DELETE /api/v1/topics/orders?confirm=orders HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connection.lose()
        self.assertEqual(self.world.clock.getDelayedCalls(), [])
        self.world.topics.waiting.callback(None)
        self.assertEqual(connection.take(), b"")

    def test_slow_deletion(self) -> None:
        """A client that waits too long gets one error; the work continues."""
        self.world.topics.waiting = Deferred()
        connection = self.world.connect()
        connection.send(b"DELETE /api/v1/topics/orders?confirm=orders HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertEqual(connection.take(), b"")
        self.world.clock.advance(61)
        self.assertEqual(Answered(connection.take()).status, 504)
        self.world.topics.waiting.callback(None)
        self.assertEqual(connection.take(), b"")

    def test_partitions(self) -> None:
        """A partition is told with what is on this broker of it."""
        first, second, _ = self.ask("GET", "/api/v1/topics/orders/partitions")["items"]
        self.assertEqual(first["local"]["log_dir"], "/var/lib/logbus")
        self.assertEqual((first["local"]["size_bytes"], first["local"]["high_watermark"]), (700, 9))
        self.assertIsNone(second["local"])
        self.assertEqual(self.ask("GET", "/api/v1/topics/orders/partitions/0"), first)

    def test_partitions_in_pages(self) -> None:
        """Pages of partitions are all of them, each once."""
        page = self.ask("GET", "/api/v1/topics/orders/partitions?limit=2")
        self.assertEqual(([p["partition"] for p in page["items"]], page["next"]), ([0, 1], 1))
        page = self.ask("GET", "/api/v1/topics/orders/partitions?limit=2&after=1")
        self.assertEqual(([p["partition"] for p in page["items"]], page["next"]), ([2], None))
        self.assertIsNone(self.ask("GET", "/api/v1/topics/orders/partitions?limit=3")["next"])
        self.assertIsNone(self.ask("GET", "/api/v1/topics?limit=1")["next"])

    def test_unknown_partition(self) -> None:
        """The answer says which partitions there are."""
        told = self.ask("GET", "/api/v1/topics/orders/partitions/3", status=404)
        self.assertIn("0 to 2", told["detail"])

    def test_topic_configs(self) -> None:
        """A topic's configuration has all keys, each with its sources."""
        items = {item["name"]: item for item in self.ask("GET", "/api/v1/configs/topics/orders")["items"]}
        retention = items["retention.ms"]
        self.assertEqual((retention["value"], retention["source"]), ("1000", "topic"))
        self.assertEqual(retention["synonyms"][0], {"name": "retention.ms", "value": "1000", "source": "topic"})
        self.assertEqual(items["cleanup.policy"]["source"], "default")

    def test_alter_topic_configs(self) -> None:
        """A change sets some keys, takes others away, and leaves the rest."""
        body = {"retention.ms": None, "max.message.bytes": 5000, "segment.jitter.ms": 7}
        items = {item["name"]: item for item in self.ask("PATCH", "/api/v1/configs/topics/orders", body)["items"]}
        self.assertEqual(items["retention.ms"]["source"], "default")
        self.assertEqual((items["max.message.bytes"]["value"], items["segment.jitter.ms"]["value"]), ("5000", "7"))
        self.assertEqual(
            self.world.metadata.topics["orders"].configs, {"max.message.bytes": "5000", "segment.jitter.ms": "7"}
        )

    def test_alter_invalid_configs(self) -> None:
        """An unknown key and a value out of range change nothing, and are named."""
        for body, word in (
            ({"retention.msec": 1}, "retention.ms"),
            ({"retention.msec": None}, "retention.ms"),
            ({"max.message.bytes": -1}, "max.message.bytes"),
            ({"retention.ms": [1]}, "retention.ms"),
        ):
            self.assertIn(word, self.ask("PATCH", "/api/v1/configs/topics/orders", body, status=400)["detail"])
        self.ask("PATCH", "/api/v1/configs/topics/nope", {}, status=404)
        self.assertEqual(self.world.metadata.topics["orders"].configs, {"retention.ms": "1000"})

    def test_broker_configs_hide_secrets(self) -> None:
        """A password is neither the value nor among the places it was said."""
        self.world = World(settings={"ssl.keystore.password": "hunter2"})
        items = self.ask("GET", "/api/v1/configs/brokers/0")["items"]
        (secret,) = [item for item in items if item["name"] == "ssl.keystore.password"]
        self.assertEqual((secret["sensitive"], secret["value"]), (True, None))
        self.assertNotIn("hunter2", str(items))
        self.ask("GET", "/api/v1/configs/brokers/1", status=404)

    def test_health(self) -> None:
        """The process is alive even while it is not ready."""
        self.assertEqual(self.ask("GET", "/healthz"), {"status": "alive"})
        self.assertEqual(self.ask("GET", "/readyz"), {"ready": True, "reasons": []})
        self.world.reasons.append("The metadata store is not connected.")
        self.assertEqual(self.ask("GET", "/healthz"), {"status": "alive"})
        told = self.ask("GET", "/readyz", status=503)
        self.assertEqual(told, {"ready": False, "reasons": ["The metadata store is not connected."]})

    def test_conditions(self) -> None:
        """What is wrong is told with what it means and what to do."""
        self.assertEqual(self.ask("GET", "/api/v1/conditions")["items"], [])
        self.world.conditions.found(LOG_DIRECTORY_FULL, [Finding("/d", "0 bytes are free")], 12.5)
        [told] = self.ask("GET", "/api/v1/conditions")["items"]
        self.assertEqual(
            (told["id"], told["severity"], told["message"], told["since"]),
            ("0/log-directory-full//d", "critical", "0 bytes are free", 12_500),
        )
        self.assertIn("log.retention", told["advice"])
