"""Tests of :mod:`logbus.admin.partition_changes`: changes of partitions of a whole broker over HTTP."""

from __future__ import annotations

from typing import Any

from tests.admin.broker_kit import HttpBrokerCase
from tests.handlers.kit import a_batch

PARTITIONS = "/api/v1/topics/t/partitions"


class PartitionChangeTests(HttpBrokerCase):
    """Partitions are changed."""

    def test_add(self) -> None:
        """A topic gets more partitions, after a preview that changes nothing."""
        preview = self.http.ask("POST", PARTITIONS, {"count": 5, "validate_only": True})
        self.assertEqual(preview.json, {"topic": "t", "before": 2, "count": 5, "validate_only": True})
        self.assertEqual(self.http.get("/api/v1/topics/t")["partitions"], 2)
        self.assertEqual(self.http.ask("POST", PARTITIONS, {"count": 5}).status, 200)
        self.assertEqual(self.http.get("/api/v1/topics/t")["partitions"], 5)
        answered = self.http.ask("POST", PARTITIONS, {"count": 4, "validate_only": True})
        self.assertEqual((answered.status, answered.json["error"]), (400, "INVALID_PARTITIONS"))

    def test_delete_records(self) -> None:
        """The oldest records of a partition are deleted, if the topic's name is given again."""
        self.client.produce(a_batch(b"a", b"b", b"c"))
        target = f"{PARTITIONS}/0/records?before=2"
        self.assertEqual(self.http.ask("DELETE", target).status, 400)
        answered = self.http.ask("DELETE", target + "&confirm=t")
        self.assertEqual(answered.json, {"topic": "t", "partition": 0, "log_start_offset": 2})
        self.assertEqual([item["offset"] for item in self.http.get(f"{PARTITIONS}/0/records")["items"]], [2])
        answered = self.http.ask("DELETE", f"{PARTITIONS}/0/records?before=9&confirm=t")
        self.assertEqual((answered.status, answered.json["error"]), (400, "OFFSET_OUT_OF_RANGE"))

    def test_internal_topics(self) -> None:
        """Internal topics lose no records on request."""
        self.server.create("__consumer_offsets", 1)
        target = "/api/v1/topics/__consumer_offsets/partitions/0/records?before=0&confirm=__consumer_offsets"
        for more in ("", "&validate_only=true"):
            answered = self.http.ask("DELETE", target + more)
            self.assertEqual((answered.status, answered.json["error"]), (403, "TOPIC_AUTHORIZATION_FAILED"))
            self.assertIn("internal topic", answered.json["detail"])

    def test_validate_only(self) -> None:
        """Moves, elections and deletions can be tried: they are checked as those that are made, and change nothing."""
        move = {"topic": "t", "partition": 0, "replicas": [7]}
        tried = self.http.ask("POST", "/api/v1/reassignments", {"partitions": [move], "validate_only": True})
        self.assertEqual((tried.status, tried.json["error"]), (400, "INVALID_REPLICA_ASSIGNMENT"))
        move["replicas"] = [0]
        tried = self.http.ask("POST", "/api/v1/reassignments", {"partitions": [move], "validate_only": True})
        self.assertEqual([row["error"] for row in tried.json["items"]], [None])
        election = {"type": "preferred", "partitions": [{"topic": "t", "partition": 1}], "validate_only": True}
        tried = self.http.ask("POST", "/api/v1/elections", election)
        self.assertEqual([row["error"] for row in tried.json["items"]], ["ELECTION_NOT_NEEDED"])
        records = [{"value": {"text": str(number)}, "partition": 0} for number in range(3)]
        self.http.ask("POST", "/api/v1/topics/t/records", {"records": records})
        target = f"{PARTITIONS}/0/records?confirm=t&validate_only=true&before="
        self.assertEqual(self.http.ask("DELETE", target + "2").json["log_start_offset"], 2)
        self.assertEqual(self.http.ask("DELETE", target + "9").json["error"], "OFFSET_OUT_OF_RANGE")
        self.assertEqual(self.http.get(f"{PARTITIONS}/0/offsets")["earliest"], 0)

    def test_topics(self) -> None:
        """Topics are created and deleted on trial; the internal ones are not deleted so, either."""
        new = {"name": "new", "partitions": 3, "configs": {"retention.ms": 5}, "validate_only": True}
        tried = self.http.ask("POST", "/api/v1/topics", new)
        self.assertEqual((tried.status, tried.json["partitions"]), (200, 3))
        self.assertNotIn("Location", tried.headers)
        self.assertEqual(self.http.ask("GET", "/api/v1/topics/new").status, 404)
        for wrong, status in (({"name": "t"}, 409), ({"name": "x", "replication_factor": 9}, 400)):
            self.assertEqual(self.http.ask("POST", "/api/v1/topics", {**wrong, "validate_only": True}).status, status)
        self.assertEqual(self.http.ask("DELETE", "/api/v1/topics/t?confirm=t&validate_only=true").status, 204)
        self.assertEqual(self.http.ask("GET", "/api/v1/topics/t").status, 200)

    def test_elections(self) -> None:
        """Where the preferred replica leads already, nothing is to be done."""
        answered = self.http.ask(
            "POST", "/api/v1/elections", {"type": "preferred", "partitions": [{"topic": "t", "partition": 1}]}
        )
        self.assertEqual([item["error"] for item in answered.json["items"]], ["ELECTION_NOT_NEEDED"])
        self.assertEqual(self.http.ask("POST", "/api/v1/elections", {"type": "unclean"}).status, 400)

    def test_moves(self) -> None:
        """Moves are checked, begun and listed."""
        self.assertEqual(self.http.get("/api/v1/reassignments"), {"items": []})
        for replicas, error in (([7], "INVALID_REPLICA_ASSIGNMENT"), (None, "NO_REASSIGNMENT_IN_PROGRESS")):
            answered = self.move({"topic": "t", "partition": 0, "replicas": replicas})
            self.assertEqual(answered.json["error"], error)
        answered = self.move({"topic": "t", "partition": 0, "replicas": [0]})
        self.assertEqual(answered.json["items"], [{"topic": "t", "partition": 0, "error": None, "detail": ""}])
        twice = [{"topic": "t", "partition": 0, "replicas": [0]}] * 2
        self.assertIn("partitions[1] is there twice", self.move(*twice).json["detail"])
        self.assertEqual(self.move({"topic": "t", "partition": 9, "replicas": [0]}).status, 404)

    def move(self, *partitions: Any) -> Any:
        return self.http.ask("POST", "/api/v1/reassignments", {"partitions": list(partitions)})
