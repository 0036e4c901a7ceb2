"""Tests of :mod:`logbus.admin.authorization`: what each route needs."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from attrs import define, field
from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.authentication import HttpLogins
from logbus.admin.routing import Router, ViewRequest, route
from logbus.coordination.group_offsets import CommittedOffset
from logbus.model import TopicPartition
from logbus.security.acl.acls import CLUSTER_NAME, AclOperation, ResourceType
from logbus.security.sasl.mechanism import Login
from tests.admin.harness import Answered, World, add_topic, request
from tests.admin.test_groups import classic

Op, Kind = AclOperation, ResourceType
CLUSTER = (Kind.CLUSTER, CLUSTER_NAME)
ORDERS = (Kind.TOPIC, "orders")
Need = tuple[AclOperation, tuple[ResourceType, str]]


@define
class Allows:
    """An authorizer that allows User:alice what is listed."""

    rights: set[tuple[AclOperation, ResourceType, str]] = field(factory=set)
    version: int = 0

    def authorize(self, principal: str, host: str, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        return principal == "User:alice" and (operation, kind, name) in self.rights


NEEDS: dict[tuple[str, str], Need | None] = {
    ("GET", "/healthz"): None,
    ("GET", "/readyz"): None,
    ("GET", "/readyz/in-sync"): None,
    ("GET", "/metrics"): (Op.DESCRIBE, CLUSTER),
    ("GET", "/api/v1/openapi.json"): None,
    ("GET", "/api/v1/cluster"): (Op.DESCRIBE, CLUSTER),
    ("GET", "/api/v1/cluster/faults"): (Op.DESCRIBE, CLUSTER),
    ("GET", "/api/v1/conditions"): (Op.DESCRIBE, CLUSTER),
    ("GET", "/api/v1/events"): None,
    ("GET", "/api/v1/brokers"): None,
    ("GET", "/api/v1/brokers/{broker}"): None,
    ("GET", "/api/v1/hanging-transactions"): (Op.DESCRIBE, CLUSTER),
    ("POST", "/api/v1/topics/{topic}/partitions/{partition}/abort-transaction"): (Op.ALTER, CLUSTER),
    ("GET", "/api/v1/brokers/{broker}/history"): (Op.DESCRIBE, CLUSTER),
    ("POST", "/api/v1/brokers/{broker}/shutdown"): (Op.ALTER, CLUSTER),
    ("GET", "/api/v1/topics"): None,
    ("POST", "/api/v1/topics"): (Op.CREATE, (Kind.TOPIC, "new")),
    ("GET", "/api/v1/topics/{topic}"): (Op.DESCRIBE, ORDERS),
    ("DELETE", "/api/v1/topics/{topic}"): (Op.DELETE, ORDERS),
    ("GET", "/api/v1/topics/{topic}/groups"): (Op.DESCRIBE, ORDERS),
    ("GET", "/api/v1/brokers/{broker}/topics"): None,
    ("GET", "/api/v1/brokers/{broker}/usage"): (Op.DESCRIBE, CLUSTER),
    ("GET", "/api/v1/topics/{topic}/partitions"): (Op.DESCRIBE, ORDERS),
    ("GET", "/api/v1/topics/{topic}/partitions/{partition}"): (Op.DESCRIBE, ORDERS),
    ("GET", "/api/v1/topics/{topic}/partitions/{partition}/records"): (Op.READ, ORDERS),
    ("GET", "/api/v1/topics/{topic}/records"): (Op.READ, ORDERS),
    ("GET", "/api/v1/topics/{topic}/records/tail"): (Op.READ, ORDERS),
    ("POST", "/api/v1/topics/{topic}/records"): (Op.WRITE, ORDERS),
    ("POST", "/api/v1/topics/{topic}/partitions/{partition}/records"): (Op.WRITE, ORDERS),
    ("GET", "/api/v1/configs/topics/{topic}"): (Op.DESCRIBE_CONFIGS, ORDERS),
    ("PATCH", "/api/v1/configs/topics/{topic}"): (Op.ALTER_CONFIGS, ORDERS),
    ("PATCH", "/api/v1/configs/brokers"): (Op.ALTER_CONFIGS, CLUSTER),
    ("PATCH", "/api/v1/configs/brokers/{broker}"): (Op.ALTER_CONFIGS, CLUSTER),
    ("GET", "/api/v1/configs/brokers"): (Op.DESCRIBE_CONFIGS, CLUSTER),
    ("GET", "/api/v1/configs/brokers/{broker}"): (Op.DESCRIBE_CONFIGS, CLUSTER),
    ("GET", "/api/v1/loggers/{broker}"): (Op.DESCRIBE_CONFIGS, CLUSTER),
    ("PATCH", "/api/v1/loggers/{broker}"): (Op.ALTER_CONFIGS, CLUSTER),
    ("GET", "/api/v1/groups"): None,
    ("GET", "/api/v1/groups/{group}"): (Op.DESCRIBE, (Kind.GROUP, "g")),
    ("POST", "/api/v1/topics/{topic}/partitions"): (Op.ALTER, ORDERS),
    ("DELETE", "/api/v1/topics/{topic}/partitions/{partition}/records"): (Op.DELETE, ORDERS),
    ("GET", "/api/v1/quotas"): (Op.DESCRIBE_CONFIGS, CLUSTER),
    ("PATCH", "/api/v1/quotas"): (Op.ALTER_CONFIGS, CLUSTER),
    ("GET", "/api/v1/brokers/{broker}/log-dirs"): (Op.DESCRIBE, CLUSTER),
    ("GET", "/api/v1/groups/{group}/lag"): (Op.DESCRIBE, (Kind.GROUP, "g")),
    ("GET", "/api/v1/users"): (Op.DESCRIBE, CLUSTER),
    ("GET", "/api/v1/users/{user}"): (Op.DESCRIBE, CLUSTER),
    ("PUT", "/api/v1/users/{user}"): (Op.ALTER, CLUSTER),
    ("DELETE", "/api/v1/users/{user}"): (Op.ALTER, CLUSTER),
    ("GET", "/api/v1/brokers/{broker}/snapshots"): (Op.DESCRIBE, CLUSTER),
    ("POST", "/api/v1/brokers/{broker}/snapshots"): (Op.ALTER, CLUSTER),
    ("PUT", "/api/v1/brokers/{broker}/snapshots/{name}"): (Op.ALTER, CLUSTER),
    ("DELETE", "/api/v1/brokers/{broker}/snapshots/{name}"): (Op.ALTER, CLUSTER),
    ("GET", "/api/v1/acls"): (Op.DESCRIBE, CLUSTER),
    ("POST", "/api/v1/acls"): (Op.ALTER, CLUSTER),
    ("DELETE", "/api/v1/acls"): (Op.ALTER, CLUSTER),
    ("POST", "/api/v1/elections"): (Op.ALTER, CLUSTER),
    ("GET", "/api/v1/mirrors"): (Op.DESCRIBE, CLUSTER),
    ("GET", "/api/v1/mirrors/{mirror}"): (Op.DESCRIBE, CLUSTER),
    ("GET", "/api/v1/mirrors/{mirror}/partitions"): (Op.DESCRIBE, CLUSTER),
    ("GET", "/api/v1/reassignments"): (Op.DESCRIBE, CLUSTER),
    ("POST", "/api/v1/reassignments"): (Op.ALTER, CLUSTER),
    ("POST", "/api/v1/transactions/{transaction}/abort"): (Op.WRITE, (Kind.TRANSACTIONAL_ID, "t")),
    ("GET", "/api/v1/topics/{topic}/partitions/{partition}/offsets"): (Op.DESCRIBE, ORDERS),
    ("POST", "/api/v1/groups/{group}/offsets"): (Op.READ, (Kind.GROUP, "g")),
    ("DELETE", "/api/v1/groups/{group}/offsets"): (Op.DELETE, (Kind.GROUP, "g")),
    ("DELETE", "/api/v1/groups/{group}"): (Op.DELETE, (Kind.GROUP, "g")),
    ("GET", "/api/v1/transactions"): None,
    ("GET", "/api/v1/transactions/{transaction}"): (Op.DESCRIBE, (Kind.TRANSACTIONAL_ID, "t")),
}
"""The right that each route needs; None: it needs none, or leaves out what may not be told."""

AN_ACL = {
    "resource_type": "topic",
    "resource_name": "orders",
    "pattern_type": "literal",
    "principal": "User:bob",
    "host": "*",
    "operation": "read",
    "permission": "allow",
}

BODIES: dict[tuple[str, str], Any] = {
    ("PATCH", "/api/v1/quotas"): {"entity": {"user": "bob"}, "quotas": {}},
    ("POST", "/api/v1/acls"): {"items": [AN_ACL]},
    ("PUT", "/api/v1/users/{user}"): {"password": "secret"},
    ("POST", "/api/v1/brokers/{broker}/snapshots"): {},
    ("PUT", "/api/v1/brokers/{broker}/snapshots/{name}"): {},
    ("PATCH", "/api/v1/configs/brokers"): {"log.cleaner.threads": 1},
    ("PATCH", "/api/v1/configs/brokers/{broker}"): {"log.cleaner.threads": 1},
    ("POST", "/api/v1/topics/{topic}/partitions"): {"count": 9},
    ("POST", "/api/v1/elections"): {"type": "preferred"},
    ("POST", "/api/v1/reassignments"): {"partitions": [{"topic": "orders", "partition": 0, "replicas": None}]},
    ("POST", "/api/v1/transactions/{transaction}/abort"): {"confirm": "t"},
    ("POST", "/api/v1/topics/{topic}/partitions/{partition}/abort-transaction"): {"producer_id": 1, "start_offset": 0},
    ("POST", "/api/v1/groups/{group}/offsets"): {"to": "latest"},
    ("POST", "/api/v1/topics"): {"name": "new"},
    ("POST", "/api/v1/brokers/{broker}/shutdown"): {"force": True},
    ("POST", "/api/v1/topics/{topic}/records"): {"records": [{"value": None}]},
    ("POST", "/api/v1/topics/{topic}/partitions/{partition}/records"): {"records": [{"value": None}]},
    ("PATCH", "/api/v1/configs/topics/{topic}"): {"retention.ms": "5"},
}


DELETIONS: dict[str, str] = {
    "/api/v1/acls": urlencode(AN_ACL),
    "/api/v1/groups/{group}/offsets": "topic=orders",
    "/api/v1/topics/{topic}/partitions/{partition}/records": "before=1&confirm=orders",
}
"""The queries of deletions, where they are more than to confirm."""


class AuthorizationCase(SynchronousTestCase):
    """A site with an authorizer, and a client with a token of alice's."""

    def setUp(self) -> None:
        self.authorizer = Allows()
        self.stopped: list[int] = []
        self.world = World(
            authorizer=self.authorizer,
            logins=HttpLogins(tokens=lambda token: Login("alice")),
            stop=lambda: self.stopped.append(1),
        )
        self.logged: list[str] = []

        def observe(event: Any) -> None:
            if event.get("log_namespace") == "logbus.audit":
                self.logged.append(formatEvent(event))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)

    def allow(self, *rights: Need) -> None:
        self.authorizer.rights |= {(operation, kind, name) for operation, (kind, name) in rights}
        self.authorizer.version += 1

    def ask(self, method: str, target: str, body: Any = None, token: str = "t") -> Answered:
        return self.world.ask(method, target, body, {"Authorization": f"Bearer {token}"} if token else {})

    def call(self, method: str, path: str, token: str = "t") -> Answered:
        """Call a route."""
        target = path.format(
            broker=0, topic="orders", partition=0, group="g", transaction="t", user="bob", name="s", mirror="m"
        )
        if method == "DELETE":
            target += f"?{DELETIONS.get(path) or 'confirm=' + target.rpartition('/')[2]}"
        return self.ask(method, target, BODIES.get((method, path)), token)


class RightsTests(AuthorizationCase):
    """Each route, with and without its right."""

    def test_every_route_is_here(self) -> None:
        """A new route says here what it needs."""
        self.assertEqual({(route.method, route.path) for route in self.world.site.router.routes}, set(NEEDS))

    def test_routes_must_say(self) -> None:
        """A route that does not say who may ask it is not served."""

        class Views:
            @route("GET", "/x", "Open")
            def x(self, call: ViewRequest) -> None:
                """Never called."""

        self.assertRaises(ValueError, Router().add, [Views()])

    def test_without_rights(self) -> None:
        """Somebody without rights is refused, and changes nothing."""
        for (method, path), need in NEEDS.items():
            answered = self.call(method, path)
            self.assertEqual(answered.status, 403 if need else 200, path)
            if need is not None:
                kind = need[1][0].name
                self.assertEqual(answered.json["error"], f"{kind}_AUTHORIZATION_FAILED")
                self.assertIn(f"{need[0].title} on the {need[1][0].title}", answered.json["detail"])
        self.assertEqual((self.world.topics.created, self.world.topics.deleted, self.stopped), ([], [], []))

    def test_before_login(self) -> None:
        """Somebody who has not logged in is asked to, where that may help."""
        for (method, path), need in NEEDS.items():
            asked = need or path == "/api/v1/events"  # there are few streams
            self.assertEqual(self.call(method, path, token="").status, 401 if asked else 200, path)

    def test_with_the_right(self) -> None:
        """The one right is enough."""
        for (method, path), need in NEEDS.items():
            if need is not None:
                self.authorizer.rights.clear()
                self.allow(need)
                self.assertNotIn(self.call(method, path).status, (401, 403), path)

    def test_missing_looks_like_forbidden(self) -> None:
        """Who may not describe a topic cannot tell whether it exists."""
        there, not_there = self.ask("GET", "/api/v1/topics/orders"), self.ask("GET", "/api/v1/topics/sredro")
        self.assertEqual(there.status, not_there.status)
        self.assertEqual(there.body.replace(b"orders", b"sredro"), not_there.body)

    def test_missing_looks_like_forbidden_to_groups(self) -> None:
        """Who may change a group's offsets, and not read a topic, cannot tell whether it exists, or how large it is."""
        add_topic(self.world.metadata, "__consumer_offsets", UUID(int=9))
        self.allow((Op.READ, (Kind.GROUP, "g")), (Op.DELETE, (Kind.GROUP, "g")))
        offsets = "/api/v1/groups/g/offsets"
        for named in ({}, {"partitions": [0]}, {"partitions": [7]}):
            answers = [
                self.ask("POST", offsets, {"to": "latest", "topics": [{"topic": topic, **named}]})
                for topic in ("orders", "sredro")
            ]
            self.assertEqual([each.status for each in answers], [403, 403], named)
            self.assertEqual(answers[0].body.replace(b"orders", b"sredro"), answers[1].body)
        for query in ("", "&partition=0", "&partition=7"):
            answers = [self.ask("DELETE", f"{offsets}?topic={topic}{query}") for topic in ("orders", "sredro")]
            self.assertEqual([each.status for each in answers], [403, 403], query)
            self.assertEqual(answers[0].body.replace(b"orders", b"sredro"), answers[1].body)

    def test_everybody_without_authorizer(self) -> None:
        """Without an authorizer everybody may do everything."""
        world = World()
        self.assertEqual(world.ask("GET", "/metrics").status, 200)
        self.assertEqual(world.ask("DELETE", "/api/v1/topics/orders?confirm=orders").status, 204)
        self.assertEqual(self.logged, [])

    def test_public_metrics(self) -> None:
        """A public path needs no right."""
        world = World(authorizer=self.authorizer, settings={"admin.public.paths": "/metrics"})
        self.assertEqual(world.ask("GET", "/metrics").status, 200)


class FilterTests(AuthorizationCase):
    """Answers leave out what a client may not know."""

    def test_topics(self) -> None:
        """Topics are listed to who may describe them, and their overrides shown to who may describe those."""
        add_topic(self.world.metadata, "secrets", UUID(int=8))
        self.assertEqual(self.ask("GET", "/api/v1/topics").json, {"items": [], "next": None})
        self.allow((Op.DESCRIBE, ORDERS))
        (topic,) = self.ask("GET", "/api/v1/topics").json["items"]
        self.assertEqual((topic["name"], topic["configs"]), ("orders", None))
        self.allow((Op.DESCRIBE_CONFIGS, ORDERS))
        self.assertEqual(self.ask("GET", "/api/v1/topics/orders").json["configs"], {"retention.ms": "1000"})

    def test_usage_and_readers(self) -> None:
        """What a broker has of a topic, and which groups read it, is told to who may describe them."""
        offsets = {TopicPartition("orders", 0): CommittedOffset(1)}
        for name in ("billing", "secret"):
            self.world.groups.add(classic(name), offsets)
        self.allow((Op.DESCRIBE, (Kind.GROUP, "billing")))
        self.assertEqual(self.ask("GET", "/api/v1/brokers/0/topics").json["items"], [])
        self.allow((Op.DESCRIBE, ORDERS))
        (usage,) = self.ask("GET", "/api/v1/brokers/0/topics").json["items"]
        (reader,) = self.ask("GET", "/api/v1/topics/orders/groups").json["items"]
        self.assertEqual((usage["name"], usage["size_bytes"], reader["id"]), ("orders", 700, "billing"))
        self.assertIsNone(self.ask("GET", "/api/v1/topics").json["items"][0]["cleanup_policy"])

    def test_pages(self) -> None:
        """A page is full although topics before it are left out."""
        for number in range(6):
            add_topic(self.world.metadata, f"t{number}", UUID(int=10 + number))
        self.allow(*((Op.DESCRIBE, (Kind.TOPIC, f"t{number}")) for number in (1, 3, 5)))
        first = self.ask("GET", "/api/v1/topics?limit=2").json
        self.assertEqual(([topic["name"] for topic in first["items"]], first["next"]), (["t1", "t3"], "t3"))
        last = self.ask("GET", "/api/v1/topics?limit=2&after=t3").json
        self.assertEqual(([topic["name"] for topic in last["items"]], last["next"]), (["t5"], None))

    def test_groups(self) -> None:
        """Describe on the cluster shows all groups, as in Kafka; topics in them need a right of their own."""
        self.world.groups.add(classic("g", ("m", [0, 1])))
        self.world.groups.add(classic("h"))
        self.assertEqual(self.ask("GET", "/api/v1/groups").json["items"], [])
        self.allow((Op.DESCRIBE, (Kind.GROUP, "g")))
        self.assertEqual([group["id"] for group in self.ask("GET", "/api/v1/groups").json["items"]], ["g"])
        self.assertEqual(self.ask("GET", "/api/v1/groups/g").json["members"][0]["assignment"], {})
        self.allow((Op.DESCRIBE, CLUSTER), (Op.DESCRIBE, ORDERS))
        self.assertEqual([group["id"] for group in self.ask("GET", "/api/v1/groups").json["items"]], ["g", "h"])
        members = self.ask("GET", "/api/v1/groups/g").json["members"]
        self.assertEqual(members[0]["assignment"], {"orders": [0, 1]})

    def test_altered_configuration(self) -> None:
        """Who may alter settings and not read them learns none by altering."""
        self.allow((Op.ALTER_CONFIGS, ORDERS))
        answered = self.ask("PATCH", "/api/v1/configs/topics/orders", {"retention.ms": 5})
        self.assertEqual((answered.status, answered.json), (200, {"items": []}))

    def test_created(self) -> None:
        """Create on the cluster is enough for all topics."""
        self.allow((Op.CREATE, CLUSTER))
        created = self.ask("POST", "/api/v1/topics", {"name": "new"})
        self.assertEqual((created.status, created.json["configs"]), (201, None))


class AuditTests(AuthorizationCase):
    """Lines of ``logbus.audit``."""

    def test_lines(self) -> None:
        """A denial says who, from where, what; so does a privileged operation."""
        self.ask("GET", "/api/v1/topics/orders")
        self.allow((Op.DELETE, ORDERS), (Op.DESCRIBE, ORDERS))
        self.ask("GET", "/api/v1/topics/orders")
        self.ask("DELETE", "/api/v1/topics/orders?confirm=orders")
        self.assertEqual(
            self.logged,
            [
                "denied: User:alice from 127.0.0.1 on admin: Describe on Topic 'orders' by GET /api/v1/topics/orders",
                "allowed: User:alice from 127.0.0.1 on admin: Delete on Topic 'orders' by DELETE /api/v1/topics/orders",
            ],
        )

    def test_forged_line(self) -> None:
        """A path puts nothing into the log that a terminal or a reader could take for something else."""
        for raw in ("a\x1b[2J", "a\xc2\x9b2J", "a\rb"):
            self.assertEqual(self.ask("GET", f"/api/v1/topics/{raw}").status, 400)
        self.ask("GET", "/api/v1/topics/a%0Adenied:%C2%9B2J?x")
        (line,) = self.logged
        self.assertTrue(line.isprintable(), line)
        self.assertTrue(line.endswith("by GET /api/v1/topics/a%0Adenied:%C2%9B2J"), line)

    def test_flood(self) -> None:
        """Denials fill no disk."""
        for _ in range(20):
            self.ask("GET", "/api/v1/cluster")
        self.assertEqual(len(self.logged), 1)
        self.world.clock.advance(1)
        self.ask("GET", "/api/v1/cluster")
        self.assertIn("(19 more denials suppressed)", self.logged[-1])

    def test_without_authorizer(self) -> None:
        """Without ACLs, too, it is noted what somebody who logged in has changed."""
        world = World(logins=HttpLogins(tokens=lambda token: Login("alice")))
        world.ask("DELETE", "/api/v1/topics/orders?confirm=orders", headers={"Authorization": "Bearer t"})
        self.assertEqual(len(self.logged), 1)
        self.assertIn("allowed: User:alice", self.logged[0])


class PluginRightsTests(SynchronousTestCase):
    """Resources of plugins that do not know of rights."""

    def test_default(self) -> None:
        """Reading one needs Describe on the cluster, all else Alter."""
        from tests.admin.test_site import Page, PagePlugin

        authorizer = Allows()
        logins = HttpLogins(tokens=lambda token: Login("alice"))
        world = World(authorizer=authorizer, logins=logins, plugins=[PagePlugin(page=Page())])
        headers = {"Authorization": "Bearer t"}

        def statuses() -> tuple[int, int]:
            return (
                world.ask("GET", "/page", headers=headers).status,
                world.ask("POST", "/page", [1], headers=headers).status,
            )

        self.assertEqual(statuses(), (403, 403))
        authorizer.rights.add((Op.DESCRIBE, *CLUSTER))
        self.assertEqual(statuses(), (200, 403))
        authorizer.rights.add((Op.ALTER, *CLUSTER))
        self.assertEqual(statuses(), (200, 200))
        connection = world.connect()
        connection.send(request("GET", "/page"))
        self.assertEqual(Answered(connection.take()).status, 401)
