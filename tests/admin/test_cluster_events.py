"""
Tests of :mod:`logbus.admin.cluster_events`, :mod:`logbus.admin.event_log` and :mod:`logbus.admin.condition_watch`.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.authentication import HttpLogins
from logbus.admin.cluster_events import PARTITIONS_TOLD
from logbus.admin.event_log import KEPT_EVENTS
from logbus.cluster.images import BrokerImage, PartitionImage
from logbus.conditions import CLOCK_JUMPED, REACTOR_LATE, Finding
from logbus.model import LeaderAndIsr
from logbus.security.acl.acls import AclOperation, ResourceType
from logbus.security.sasl.mechanism import Login
from tests.admin.event_reader import Stream
from tests.admin.harness import NOW, ORDERS, World, add_topic, request
from tests.admin.test_authorization import CLUSTER, AuthorizationCase

EVENTS = "/api/v1/events"
AT = int(NOW * 1000)
NEW = UUID(int=99)


def follow(world: World, last: str = "", token: str = "") -> Stream:
    """Begin to follow."""
    headers = {name: text for name, text in (("Last-Event-ID", last), ("Authorization", token)) if text}
    connection = world.connect()
    connection.send(request("GET", EVENTS, None, headers))
    world.turn(20)
    return Stream(connection)


def seen(world: World, stream: Stream) -> list[tuple[str, Any]]:
    """Names and data of the events since the last time."""
    world.turn(5000)
    return [(name, data) for name, _, data in stream.events()]


def names(world: World, stream: Stream) -> list[str]:
    """Their names."""
    return [name for name, _ in seen(world, stream)]


class ChangesTests(SynchronousTestCase):
    """What a client is told of."""

    def setUp(self) -> None:
        self.world = World()
        self.stream = follow(self.world)
        self.assertEqual(seen(self.world, self.stream), [("ready", {})])

    def told(self) -> list[tuple[str, Any]]:
        return seen(self.world, self.stream)

    def test_topics(self) -> None:
        """Topics come, grow, get other settings, and go."""
        metadata = self.world.metadata
        add_topic(metadata, "new", NEW, 2)
        add_topic(metadata, "new", NEW, 3, {"retention.ms": "5"})
        add_topic(metadata, "new", NEW, 3, {"retention.ms": "5"})
        with metadata.changing():
            metadata.remove_topic("new")
        self.assertEqual(
            self.told(),
            [
                ("topic-created", {"at": AT, "topic": "new", "id": str(NEW), "partitions": 2}),
                ("partitions-added", {"at": AT, "topic": "new", "partitions": 3}),
                ("topic-configs-changed", {"at": AT, "topic": "new", "names": ["retention.ms"]}),
                ("topic-deleted", {"at": AT, "topic": "new", "id": str(NEW)}),
            ],
        )

    def test_topic_is_made_again(self) -> None:
        """A topic of the same name is another one."""
        add_topic(self.world.metadata, "orders", NEW)
        self.assertEqual(
            [(name, data["id"]) for name, data in self.told()],
            [("topic-deleted", str(ORDERS)), ("topic-created", str(NEW))],
        )

    def test_partitions(self) -> None:
        """Leaders and replicas in sync change; what stays is not told."""
        metadata = self.world.metadata
        lost, same = PartitionImage((0,), LeaderAndIsr(-1, 4, (0,))), PartitionImage((0,), LeaderAndIsr(0, 3, (0,)))
        with metadata.changing():
            metadata.set_partitions("orders", ORDERS, [(0, same), (1, lost)])
        row = {"partition": 1, "leader": None, "leader_epoch": 4, "replicas": [0], "isr": [0]}
        self.assertEqual(self.told(), [("partitions-changed", {"at": AT, "topic": "orders", "items": [row]})])

    def test_many_partitions(self) -> None:
        """No event has more than so many partitions, and none is left out."""
        add_topic(self.world.metadata, "wide", NEW, 250)
        image = PartitionImage((0,), LeaderAndIsr(-1, 4, (0,)))
        with self.world.metadata.changing() as metadata:
            metadata.set_partitions("wide", NEW, [(number, image) for number in range(250)])
        (_, *events) = self.told()
        self.assertEqual([len(data["items"]) for _, data in events], [PARTITIONS_TOLD, PARTITIONS_TOLD, 50])
        told = [row["partition"] for _, data in events for row in data["items"]]
        self.assertEqual(told, list(range(250)))

    def test_brokers(self) -> None:
        """Brokers come, shut down, come back and go, and another one becomes controller."""
        metadata = self.world.metadata
        for brokers, controller in (
            ({0: BrokerImage(0, {}, epoch=5), 1: BrokerImage(1, {}, epoch=6)}, 0),
            ({0: BrokerImage(0, {}, epoch=5, in_controlled_shutdown=True), 1: BrokerImage(1, {}, epoch=6)}, 1),
            ({0: BrokerImage(0, {}, epoch=7), 1: BrokerImage(1, {}, epoch=6)}, 1),
            ({0: BrokerImage(0, {}, epoch=7)}, -1),
        ):
            with metadata.changing():
                metadata.set_controller(controller)
                metadata.set_brokers(brokers)
        told = [(name, {key: value for key, value in data.items() if key != "at"}) for name, data in self.told()]
        self.assertEqual(
            told,
            [
                ("broker-changed", {"broker": 0, "shutting_down": False}),  # its addresses
                ("broker-joined", {"broker": 1, "epoch": 6}),
                ("controller-changed", {"controller": 1}),
                ("broker-changed", {"broker": 0, "shutting_down": True}),
                ("broker-joined", {"broker": 0, "epoch": 7}),
                ("controller-changed", {"controller": None}),
                ("broker-left", {"broker": 1}),
            ],
        )

    def test_configs(self) -> None:
        """Settings of brokers and groups are told by their names: values may be secret."""
        metadata = self.world.metadata
        for _ in range(2):
            with metadata.changing():
                metadata.set_broker_configs("<default>", {"log.cleaner.threads": "2"})
                metadata.set_broker_configs("1", {"ssl.key.password": "hush"})
                metadata.set_group_configs("g", {"consumer.session.timeout.ms": "50000"})
        self.assertEqual(
            self.told(),
            [
                ("broker-configs-changed", {"at": AT, "broker": None, "names": ["log.cleaner.threads"]}),
                ("broker-configs-changed", {"at": AT, "broker": 1, "names": ["ssl.key.password"]}),
                ("group-configs-changed", {"at": AT, "group": "g", "names": ["consumer.session.timeout.ms"]}),
            ],
        )

    def test_heartbeat(self) -> None:
        """In silence the connection is kept open."""
        self.stream.connection.take()
        self.world.clock.advance(10)
        self.world.turn(5)
        self.assertIn(b": still here", self.stream.connection.take())


class ComingBackTests(SynchronousTestCase):
    """Clients that were cut off."""

    def setUp(self) -> None:
        self.world = World()
        self.stream = follow(self.world)
        ((_, self.last, _),) = self.stream.events()
        self.changes = 0
        self.stream.connection.lose()

    def change(self, times: int = 1) -> None:
        for _ in range(times):
            self.changes += 1
            add_topic(self.world.metadata, "orders", ORDERS, 3, {"retention.ms": str(10_000 + self.changes)})

    def test_missed(self) -> None:
        """Who comes back gets what he has missed, and each event once."""
        self.change(2)
        stream = follow(self.world, self.last)
        self.change()
        self.world.turn(50)
        events = stream.events()
        self.assertEqual([name for name, _, _ in events], ["topic-configs-changed"] * 3)
        again = follow(self.world, events[1][1])
        self.assertEqual([event_id for _, event_id, _ in again.events()], [events[2][1]])

    def test_too_late(self) -> None:
        """Who has missed more than is kept is told so, and goes on from there."""
        self.change(KEPT_EVENTS)
        self.assertEqual(names(self.world, follow(self.world, self.last)), ["topic-configs-changed"] * KEPT_EVENTS)
        self.change()
        stream = follow(self.world, self.last)
        (_, last, _), *more = stream.events()
        self.assertEqual(more, [])
        self.change()
        self.assertEqual(names(self.world, stream), ["topic-configs-changed"])
        self.assertEqual(names(self.world, follow(self.world, last)), ["topic-configs-changed"])

    def test_other_broker(self) -> None:
        """Ids of another broker, or of times to come, tell nothing here."""
        for last in ("abc-1", self.last.replace("-0", "-9")):
            ((name, _, data),) = follow(self.world, last).events()
            self.assertEqual(name, "reset")
            self.assertIn("Read anew", data["reason"])

    def test_no_id(self) -> None:
        """What is no id is refused."""
        for last in ("x", "1:2", "-1", "abc-" + "9" * 40, "g-1"):
            answered = self.world.ask("GET", EVENTS, headers={"Last-Event-ID": last})
            self.assertEqual(answered.status, 400, last)
            self.assertIn("Last-Event-ID", answered.json["detail"])

    def test_slow(self) -> None:
        """A client that reads more slowly than things change is told so; what is kept for it is bounded."""
        stream = follow(self.world)
        producer = stream.connection.transport.producer
        assert producer is not None
        stream.connection.take()
        producer.pauseProducing()
        self.change(2 * KEPT_EVENTS)
        producer.resumeProducing()
        self.assertEqual(names(self.world, stream), ["reset"])

    def test_storm(self) -> None:
        """A change of more than is kept becomes a reset."""
        stream = follow(self.world)
        stream.events()
        with self.world.metadata.changing() as metadata:
            image = PartitionImage((0,), LeaderAndIsr(0, 3, (0,)))
            for number in range(KEPT_EVENTS + 1):
                metadata.set_partitions(f"t{number}", UUID(int=1000 + number), [(0, image)])
        self.assertEqual(names(self.world, stream), ["reset"])

    def test_nothing_is_left(self) -> None:
        """Without clients nothing waits, and nothing is looked at."""
        self.world.turn(50)
        self.assertEqual(self.world.site.streams.open, 0)
        self.assertEqual(self.world.site.events.conditions._loop, None)
        self.assertEqual(self.world.site.events.log._waiting, {})

    def test_stop(self) -> None:
        """A site that was stopped notes nothing."""
        self.world.site.stopFactory()
        self.change()
        self.assertEqual(self.world.site.events.log.last, 0)


class ConditionTests(SynchronousTestCase):
    """What is wrong with brokers."""

    def setUp(self) -> None:
        self.world = World()

    def told(self, stream: Stream) -> list[tuple[str, int, str]]:
        self.world.clock.advance(5)
        found = seen(self.world, stream)
        return [(name, data["broker"], data["condition"]) for name, data in found if name.startswith("condition")]

    def test_own(self) -> None:
        """Conditions of the broker begin and end."""
        stream = follow(self.world)
        self.world.conditions.found(CLOCK_JUMPED, [Finding("clock", "it was set by 9 s")], NOW)
        self.assertEqual(self.told(stream), [("condition-began", 0, "clock-jumped")])
        self.assertEqual(self.told(stream), [])
        self.world.conditions.found(CLOCK_JUMPED, [], NOW)
        self.assertEqual(self.told(stream), [("condition-ended", 0, "clock-jumped")])

    def test_others(self) -> None:
        """So do those of other brokers; of one that does not answer nothing is told, until it is gone."""
        other = World(broker_id=1)
        self.world.others[1] = other
        with self.world.metadata.changing() as metadata:
            metadata.set_brokers({0: BrokerImage(0, {}), 1: BrokerImage(1, {})})
        other.conditions.found(REACTOR_LATE, [Finding("reactor", "it was late")], NOW)
        stream = follow(self.world)
        other.turn(20)
        self.assertEqual(self._told_with(other, stream), [("condition-began", 1, "reactor-late")])
        del self.world.others[1]
        self.assertEqual(self.told(stream), [])
        with self.world.metadata.changing() as metadata:
            metadata.set_brokers({0: BrokerImage(0, {})})
        self.assertEqual(self.told(stream), [("condition-ended", 1, "reactor-late")])

    def _told_with(self, other: World, stream: Stream) -> list[tuple[str, int, str]]:
        found = []
        for _ in range(3):
            self.world.clock.advance(5)
            other.turn(20)
            found += seen(self.world, stream)
        return [(name, data["broker"], data["condition"]) for name, data in found if name.startswith("condition")]


class RightsTests(AuthorizationCase):
    """Who is told of what."""

    def follow(self) -> Stream:
        return follow(self.world, token="Bearer t")

    def change(self) -> None:
        metadata = self.world.metadata
        add_topic(metadata, "secrets", NEW)
        add_topic(metadata, "orders", ORDERS, 4, {"retention.ms": "1000"})
        with metadata.changing():
            metadata.set_controller(-1)
            metadata.set_configs("orders", {})
            metadata.set_broker_configs("0", {"log.cleaner.threads": "2"})
            metadata.set_brokers({})
        self.world.conditions.found(CLOCK_JUMPED, [Finding("clock", "it was set by 9 s")], NOW)
        self.world.clock.advance(5)

    def test_nothing(self) -> None:
        """Brokers are told to everybody, as in the list of brokers, and nothing else."""
        stream = self.follow()
        self.change()
        self.assertEqual(names(self.world, stream), ["ready", "broker-left"])

    def test_one_topic(self) -> None:
        """Who may describe a topic sees it, and not its settings."""
        stream = self.follow()
        self.allow((AclOperation.DESCRIBE, (ResourceType.TOPIC, "orders")))
        self.change()
        self.assertEqual(names(self.world, stream), ["ready", "partitions-added", "broker-left"])

    def test_cluster(self) -> None:
        """The cluster's controller and conditions, and settings, need rights of their own."""
        self.allow((AclOperation.DESCRIBE, CLUSTER), (AclOperation.DESCRIBE_CONFIGS, CLUSTER))
        stream = self.follow()
        self.change()
        told = ["ready", "controller-changed", "broker-configs-changed", "broker-left", "condition-began"]
        self.assertEqual(sorted(names(self.world, stream)), sorted(told))

    def test_right_is_taken_away(self) -> None:
        """Rights are asked for at each event."""
        right = (AclOperation.DESCRIBE, ResourceType.TOPIC, "secrets")
        self.authorizer.rights.add(right)
        stream = self.follow()
        add_topic(self.world.metadata, "secrets", NEW)
        self.assertEqual(names(self.world, stream), ["ready", "topic-created"])
        self.authorizer.rights.remove(right)
        add_topic(self.world.metadata, "secrets", NEW, 2)
        self.assertEqual(names(self.world, stream), [])


class LimitTests(SynchronousTestCase):
    """How many streams there are."""

    def test_bounded(self) -> None:
        """There are so many, and no more; who leaves makes room."""
        world = World(settings={"admin.event.streams": "1"}, logins=HttpLogins(tokens=lambda token: Login("alice")))
        stream = follow(world)
        answered = world.ask("GET", EVENTS)
        self.assertEqual(answered.status, 503)
        self.assertIn("admin.event.streams", answered.json["detail"])
        stream.connection.lose()
        self.assertEqual(names(world, follow(world)), ["ready"])
