"""Tests of :mod:`logbus.admin.snapshots`: snapshots of a whole broker over HTTP."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import fail

from logbus.cluster.broker_snapshots import METADATA
from logbus.metastore.metadata_file import load
from logbus.metastore.operations import ConnectionLost
from logbus.metastore.znodes import TopicZnode
from logbus.storage.log_snapshots import MANIFEST
from tests.admin.broker_kit import HttpBrokerCase
from tests.admin.harness import Answered
from tests.handlers.kit import a_batch

SNAPSHOTS = "/api/v1/brokers/0/snapshots"


class SnapshotTests(HttpBrokerCase):
    """Made, renewed and removed by clients of HTTP."""

    def make(self, **body: Any) -> Answered:
        return self.http.ask("POST", SNAPSHOTS, body)

    def test_life(self) -> None:
        """It has the logs and the metadata, until it is removed."""
        self.client.produce(a_batch(b"x"))
        answered = self.make()
        self.assertEqual(answered.status, 201, answered.body)
        made = json.loads(answered.body)
        self.assertEqual(answered.headers["location"], f"{SNAPSHOTS}/{made['name']}")
        self.assertEqual(self.http.get(SNAPSHOTS)["items"], [made])
        disk = self.server.broker.logs.directories[0].disk
        self.assertEqual(made["directories"], [f"{disk.root}/{made['name']}"])
        logs = [json.loads(line) for line in disk.read(f"{made['name']}/{MANIFEST}").splitlines()]
        self.assertEqual(len(logs), made["logs"])
        self.assertEqual({each["directory"]: each["end_offset"] for each in logs if each["topic"] == "t"},
                         {"t-0": 1, "t-1": 0})  # fmt: skip
        self.assertIn(TopicZnode.path("t"), load(disk.read(f"{made['name']}/{METADATA}").decode()).nodes)

        again = self.make()
        self.assertEqual(again.status, 409)
        detail = json.loads(again.body)["detail"]
        self.assertIn(f"{made['name']} was not released yet. Wait for", detail)
        self.assertIn(f"at once by DELETE {SNAPSHOTS}/{made['name']}.", detail)
        self.assertEqual(self.http.ask("PUT", f"{SNAPSHOTS}/{made['name']}", {"kept_seconds": 60}).status, 204)
        self.assertEqual(self.http.ask("DELETE", f"{SNAPSHOTS}/{made['name']}").status, 204)
        self.assertEqual(self.http.get(SNAPSHOTS)["items"], [])
        self.assertEqual(self.make().status, 201)

    def test_kept(self) -> None:
        """As long as was asked for."""
        made = json.loads(self.make(kept_seconds=20).body)
        self.server.reactor.advance(19)
        self.assertEqual(self.http.get(SNAPSHOTS)["items"], [made])
        self.http.ask("PUT", f"{SNAPSHOTS}/{made['name']}", {"kept_seconds": 30})
        self.server.reactor.advance(29)
        self.assertEqual(self.http.get(SNAPSHOTS)["items"], [made])
        self.server.reactor.advance(2)
        self.assertEqual(self.http.get(SNAPSHOTS)["items"], [])

    def test_wrong(self) -> None:
        """Another broker, another name, a time that is none."""
        self.assertEqual(self.http.ask("POST", "/api/v1/brokers/7/snapshots", {}).status, 404)
        for method, body in (("PUT", {}), ("DELETE", None)):
            answered = self.http.ask(method, f"{SNAPSHOTS}/other", body)
            self.assertEqual(answered.status, 404)
            self.assertIn("there is no snapshot 'other'", json.loads(answered.body)["detail"])
        for seconds in (0, -1, 86401, "60", None):
            self.assertEqual(self.make(kept_seconds=seconds).status, 400, seconds)
        self.assertEqual(self.http.get(SNAPSHOTS)["items"], [])

    def test_without_metadata(self) -> None:
        """A snapshot without metadata would be no backup: it is removed."""
        store = self.server.broker.member.store
        self.patch(store, "sync", lambda: fail(ConnectionLost("away")))
        answered = self.make()
        self.assertEqual(answered.status, 503)
        self.assertIn("the metadata cannot be read", json.loads(answered.body)["detail"])
        self.assertEqual(self.http.get(SNAPSHOTS)["items"], [])

    def test_metadata_that_do_not_belong_together(self) -> None:
        """Nor would one with a partition's state and no topic."""
        store = self.server.broker.member.store
        for path in ("/brokers/topics/u", "/brokers/topics/u/partitions"):
            store.create(path, b"")
        answered = self.make()
        self.assertEqual(answered.status, 503)
        self.assertIn("/brokers/topics/u holds", json.loads(answered.body)["detail"])
        self.assertEqual(self.http.get(SNAPSHOTS)["items"], [])
