"""Changes of users, quotas and ACLs over real controllers on a store in memory."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.controller import security_admin
from logbus.cluster.controller.security_admin import (
    BYTES_AT_ONCE,
    MAX_NODE_BYTES,
    MAX_PATH,
    NODES_AT_ONCE,
    NodeEdit,
)
from logbus.cluster.metadata_update_receiver import MetadataUpdateReceiver
from logbus.cluster.security_node_loader import load_security_nodes
from logbus.errors import ApiError, ErrorCode
from logbus.metastore.memory_store import MemoryEnsemble
from logbus.net.time_slices import SliceScheduler, TimeSlice
from tests.cluster.control_plane import Cluster, Node

ANN, BOB = "/config/users/ann", "/config/users/bob"


def _to(data: bytes | None) -> NodeEdit:
    return lambda _: data


class SecurityAdminTests(SynchronousTestCase):
    """Two brokers; the first one is the controller."""

    def setUp(self) -> None:
        self.cluster = Cluster()
        self.first, self.second = self.cluster.started(0), self.cluster.started(1)

    def change(self, path: str, data: bytes | None, node: Node | None = None) -> None:
        self.successResultOf((node or self.first).security.change(path, _to(data)))

    def refused(self, deferred: Deferred[Any], code: ErrorCode) -> str:
        error = self.failureResultOf(deferred, ApiError).value
        self.assertEqual(error.code, code)
        return str(error.message)

    def test_all_brokers_have_it(self) -> None:
        """When a change is answered, the store and all brokers have it; so when it is undone."""
        self.change(ANN, b"x")
        for node in (self.first, self.second):
            self.assertEqual(node.metadata.security_nodes.get(ANN), b"x")
        self.assertEqual(self.successResultOf(self.second.store.get(ANN))[0], b"x")
        self.change(ANN, None)
        self.assertIsNone(self.second.metadata.security_nodes.get(ANN))
        self.assertIsNone(self.successResultOf(self.second.store.exists(ANN)))

    def test_concurrent_edits(self) -> None:
        """Edits of one node see each other."""
        edits = [self.first.security.change(ANN, lambda now: (now or b"") + b"x") for _ in range(3)]
        self.successResultOf(gatherResults(edits))
        self.assertEqual(self.second.metadata.security_nodes.get(ANN), b"xxx")

    def test_outcomes(self) -> None:
        """One edit that is refused does not keep the others; a validation changes nothing."""

        def refuse(_: bytes | None) -> bytes | None:
            raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, "no")

        edits = {ANN: _to(b"x"), BOB: refuse, "/etc/passwd": _to(b"x")}
        for validate_only in (True, False):
            answer = self.first.security.change_all(edits, validate_only=validate_only)
            outcomes = self.successResultOf(answer)
            codes = {path: error and error.code for path, error in outcomes.items()}
            invalid = ErrorCode.INVALID_REQUEST
            self.assertEqual(codes, {ANN: None, BOB: ErrorCode.RESOURCE_NOT_FOUND, "/etc/passwd": invalid})
            self.assertEqual(len(self.second.metadata.security_nodes), not validate_only)

    def test_not_the_controller(self) -> None:
        """Another broker refuses, so that the request goes to the controller."""
        self.refused(self.second.security.change(ANN, _to(b"x")), ErrorCode.NOT_CONTROLLER)

    def test_next_controller(self) -> None:
        """The next controller knows all, and brokers keep what they have."""
        self.change(ANN, b"x")
        self.change("/config/users/ann/clients/app", b"y")
        self.first.crash()
        self.assertEqual(len(self.second.metadata.security_nodes), 2)
        self.change(ANN, None, self.second)
        self.change("/config/users/ann/clients/app", None, self.second)
        self.assertEqual(len(self.second.metadata.security_nodes), 0)
        self.assertEqual(self.successResultOf(self.second.store.children("/config/users")), [])

    def test_broker_that_was_away(self) -> None:
        """A broker whose session was lost loses what was deleted meanwhile."""
        self.change(ANN, b"x")
        self.second.store.suspend()
        self.second.store.expire()
        self.change(ANN, None)
        self.change(BOB, b"y")
        self.assertEqual(self.second.metadata.security_nodes.get(ANN), b"x")
        self.second.store.resume()
        self.cluster.clock.advance(1)
        self.assertEqual(dict(self.second.metadata.security_nodes.items("/config/users")), {BOB: b"y"})

    def test_changed_behind_the_controller(self) -> None:
        """A node that somebody else changed is not overwritten: the controller reads everything again."""
        self.change(ANN, b"x")
        self.successResultOf(self.second.store.set(ANN, b"z"))
        edit = self.first.security.change(ANN, lambda now: (now or b"") + b"!")
        self.refused(edit, ErrorCode.UNKNOWN_SERVER_ERROR)
        self.flushLoggedErrors()
        self.cluster.clock.advance(2)
        self.assertEqual(self.second.metadata.security_nodes.get(ANN), b"z")
        self.change(ANN, b"w")

    def announce(self, path: str) -> None:
        data = json.dumps({"version": 2, "entity_path": path.removeprefix("/config/")}).encode()
        self.successResultOf(self.second.store.create("/config/changes/config_change_", data, sequence=True))

    def test_changed_by_older_tools(self) -> None:
        """What Kafka's older tools write into ZooKeeper and announce is loaded; so is what they delete."""
        for path, data in ((BOB, b""), (f"{BOB}/clients", b""), (f"{BOB}/clients/app", b"z"), (ANN, b"x")):
            self.successResultOf(self.second.store.create(path, data))
        self.assertEqual(len(self.second.metadata.security_nodes), 0)
        for path in (ANN, f"{BOB}/clients/app", "/config/topics/t", "/config/users"):
            self.announce(path)
        self.assertEqual(
            dict(self.second.metadata.security_nodes.items("/config/users")), {ANN: b"x", f"{BOB}/clients/app": b"z"}
        )
        self.assertEqual(self.successResultOf(self.second.store.children("/config/changes")), [])
        self.change(f"{BOB}/clients/app", None)
        self.successResultOf(self.second.store.delete(ANN))
        self.announce(ANN)
        self.assertEqual(len(self.second.metadata.security_nodes), 0)
        self.assertEqual(self.successResultOf(self.second.store.children("/config/users")), [])

    def test_announced_while_there_was_no_controller(self) -> None:
        """The next controller loads everything, and clears what was announced."""
        self.announce(ANN)
        self.successResultOf(self.second.store.create(ANN, b"x"))
        self.first.crash()
        self.assertEqual(self.second.metadata.security_nodes.get(ANN), b"x")
        self.assertEqual(self.successResultOf(self.second.store.children("/config/changes")), [])

    def test_limits(self) -> None:
        """Nodes, their size and their names are limited; deleting is always possible."""
        self.change(ANN, b"x")
        large = _to(b"x" * (MAX_NODE_BYTES + 1))
        self.assertIn(
            str(MAX_NODE_BYTES), self.refused(self.first.security.change(ANN, large), ErrorCode.POLICY_VIOLATION)
        )
        long = f"/config/users/{'x' * MAX_PATH}"
        self.assertIn("too long", self.refused(self.first.security.change(long, _to(b"x")), ErrorCode.POLICY_VIOLATION))
        with mock.patch.object(security_admin, "MAX_NODES", 1):
            self.assertIn(
                "1 are allowed", self.refused(self.first.security.change(BOB, _to(b"x")), ErrorCode.POLICY_VIOLATION)
            )
            self.change(ANN, b"y")
        with mock.patch.object(security_admin, "MAX_BYTES", 5):
            self.assertIn(
                "5 are allowed", self.refused(self.first.security.change(BOB, _to(b"x")), ErrorCode.POLICY_VIOLATION)
            )
            self.change(ANN, None)

    def test_many_nodes_are_written_in_slices(self) -> None:
        """Very many nodes are written, and sent to the brokers, some at a time; the answer comes when all have them."""
        for content, number in ((b"x", NODES_AT_ONCE), (bytes(BYTES_AT_ONCE // 8), 8), (bytes(BYTES_AT_ONCE + 1), 1)):
            with self.subTest(size=len(content)):
                self.check_many_nodes(content, number)

    def check_many_nodes(self, content: bytes, number: int) -> None:
        """So many nodes of that content are written at once."""
        self.first.security.scheduler = SliceScheduler(self.cluster.clock)
        sizes = []
        write = security_admin.write_nodes

        def counted(active: Any, changes: Any) -> Any:
            sizes.append(len(changes))
            return write(active, changes)

        paths = [f"/kafka-acl/Topic/t{number}" for number in range(5 * number)]
        with mock.patch.object(security_admin, "write_nodes", counted):
            answer = self.first.security.change_all({path: _to(content) for path in paths})
            while not answer.called:
                self.cluster.clock.advance(0)
        self.assertEqual(self.successResultOf(answer), dict.fromkeys(paths))
        self.assertEqual(sizes, [number] * 5)
        for path in paths:
            self.assertEqual(self.second.metadata.security_nodes.get(path), content)

    def test_slow_broker(self) -> None:
        """A broker that does not answer holds a change up for some seconds only."""
        with mock.patch.object(MetadataUpdateReceiver, "apply", lambda self, update: Deferred()):
            answer = self.first.security.change(ANN, _to(b"x"))
            self.assertNoResult(answer)
            self.cluster.clock.advance(security_admin.WAIT_SECONDS)
            self.successResultOf(answer)


class LoadingTests(SynchronousTestCase):
    """Many nodes."""

    def test_others_have_a_turn(self) -> None:
        """Ten thousand ACLs are loaded in many time slices."""
        clock = Clock()
        store = MemoryEnsemble().client()
        self.successResultOf(store.open())
        for path in ("/kafka-acl", "/kafka-acl/Topic"):
            self.successResultOf(store.create(path))
        for number in range(10_000):
            self.successResultOf(store.create(f"/kafka-acl/Topic/{number}", b"x"))
        scheduler = SliceScheduler(clock)
        loading = Deferred.fromCoroutine(load_security_nodes(store, TimeSlice(scheduler)))
        self.assertNoResult(loading)
        clock.advance(1)
        self.assertEqual(len(self.successResultOf(loading)), 10_001)
        self.assertGreater(scheduler.slices, 2)
