"""A broker's copy of users, quotas and ACLs."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.security_nodes import Changes, SecurityNodes
from logbus.metastore.znodes import ACLS, USER_CONFIGS

ANN, BOB, TOPIC = "/config/users/ann", "/config/users/bob", "/kafka-acl/Topic/t"


class SecurityNodesTests(SynchronousTestCase):
    """Reading, changing, following."""

    def setUp(self) -> None:
        self.seen: list[Changes] = []
        self.nodes = SecurityNodes()
        self.nodes.change({ANN: b"1", TOPIC: b"2"})

    def test_reading(self) -> None:
        """Nodes are found by path, and by root."""
        self.assertEqual((self.nodes.get(ANN), self.nodes.get(BOB), len(self.nodes)), (b"1", None, 2))
        self.assertEqual(list(self.nodes.items(ACLS)), [(TOPIC, b"2")])

    def test_following(self) -> None:
        """A subscriber hears what is there, then differences under its root, and no others."""
        unsubscribe = self.nodes.subscribe(USER_CONFIGS, self.seen.append)
        self.nodes.change({ANN: b"1", TOPIC: b"3"})
        self.nodes.change({ANN: b"4", BOB: b"5", TOPIC: None})
        self.nodes.change({ANN: None, "/config/users/none": None, "/of/a/later/release": b"x"})
        self.assertEqual(self.seen, [{ANN: b"1"}, {ANN: b"4", BOB: b"5"}, {ANN: None}])
        unsubscribe()
        unsubscribe()
        self.nodes.change({BOB: None})
        self.assertEqual((len(self.seen), len(self.nodes)), (3, 0))

    def test_replacing(self) -> None:
        """What a full update does not have is gone; a parent without content is no node."""
        self.nodes.subscribe(USER_CONFIGS, self.seen.append)
        self.nodes.subscribe(ACLS, self.seen.append)
        self.nodes.replace({BOB: b"5", TOPIC: b"2", "/config/users/bob/clients": b""})
        self.assertEqual(self.seen, [{ANN: b"1"}, {TOPIC: b"2"}, {ANN: None, BOB: b"5"}])
        self.assertEqual(len(self.nodes), 2)

    def test_failing_subscriber(self) -> None:
        """A subscriber that fails does not keep others from hearing."""
        failures: list[None] = []
        self.nodes.failed = lambda: failures.append(None)
        self.nodes.subscribe(ACLS, lambda changes: 1 / len(changes.get(TOPIC) or b""))
        self.nodes.subscribe(ACLS, self.seen.append)
        self.nodes.change({TOPIC: None})
        self.assertEqual((len(failures), self.seen[-1]), (1, {TOPIC: None}))

    def test_no_secrets(self) -> None:
        """Contents are in no repr."""
        self.nodes.change({ANN: b"secret"})
        self.assertNotIn("secret", repr(self.nodes))
