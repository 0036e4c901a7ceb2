"""Tests of :mod:`logbus.admin.group_changes`: changes of groups of a whole broker over HTTP."""

from __future__ import annotations

from typing import Any

from logbus.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.admin.broker_kit import HttpBrokerCase
from tests.handlers.kit import NOW_MS, a_batch

OFFSETS = "/api/v1/groups/g/offsets"


class GroupChangeCase(HttpBrokerCase):
    """A group that has committed an offset in one of two partitions, of ten records each."""

    config = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}

    def setUp(self) -> None:
        super().setUp()
        for partition in (0, 1):
            for number in range(5):
                self.client.produce(a_batch(b"a", b"b", timestamp=NOW_MS + number), partition=partition)
        self.server.create("__consumer_offsets", 1)
        for _ in range(50):
            self.server.reactor.advance(0.1)
        self.commit(4)

    def commit(self, offset: int) -> None:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
        answer = self.client.ask(OffsetCommitRequest(group_id="g", topics=[topic]), 8)
        self.assertEqual(answer.topics[0].partitions[0].error_code, 0)

    def committed(self) -> dict[int, int]:
        return {row["partition"]: row["offset"] for row in self.http.get("/api/v1/groups/g")["offsets"]}

    def reset(self, **body: Any) -> Any:
        answered = self.http.ask("POST", OFFSETS, body)
        self.assertEqual(answered.status, 200, answered.body)
        return answered.json


class ResetTests(GroupChangeCase):
    """Offsets that are reset."""

    def test_targets(self) -> None:
        """A preview says what a reset would change, and the reset does that."""
        for body, expected in [
            ({"to": "earliest"}, 0),
            ({"to": "latest"}, 10),
            ({"to": "offset", "value": 7}, 7),
            ({"to": "shift", "value": -3}, 1),
            ({"to": "timestamp", "value": NOW_MS + 3}, 6),
            ({"to": "offset", "value": 99}, 10),
            ({"to": "shift", "value": -99}, 0),
            ({"to": "timestamp", "value": NOW_MS + 99}, 10),
        ]:
            self.commit(4)
            preview = self.reset(validate_only=True, **body)
            self.assertEqual([(row["old"], row["new"]) for row in preview["items"]], [(4, expected)], body)
            self.assertEqual(self.committed(), {0: 4})
            self.assertEqual(self.reset(**body)["items"], preview["items"])
            self.assertEqual(self.committed(), {0: expected})

    def test_partitions(self) -> None:
        """Partitions may be named, also where nothing is committed; a group may be made so."""
        changed = self.reset(to="latest", topics=[{"topic": "t", "partitions": [1]}])
        self.assertEqual([(row["partition"], row["old"], row["new"]) for row in changed["items"]], [(1, None, 10)])
        self.reset(to="earliest", topics=[{"topic": "t"}])
        self.assertEqual(self.committed(), {0: 0, 1: 0})

    def test_bounds(self) -> None:
        """A partition's offsets are told."""
        bounds = self.http.get(f"/api/v1/topics/t/partitions/1/offsets?timestamp={NOW_MS + 1}")
        self.assertEqual((bounds["earliest"], bounds["latest"], bounds["at_timestamp"]), (0, 10, 2))

    def test_what_is_wrong(self) -> None:
        """Errors name what is wrong, and what would be right."""
        for body, status, told in [
            ({"to": "offset"}, 400, "which needs body.value"),
            ({"to": "latest", "value": 1}, 400, "which takes no body.value"),
            ({"to": "offset", "value": -1}, 400, "only a shift is negative"),
            ({"to": "shift", "value": 1, "topics": [{"topic": "t"}]}, 400, "t-1 that could be shifted"),
            ({"to": "latest", "topics": [{"topic": "no"}]}, 404, "no topic named no"),
            ({"to": "latest", "topics": [{"topic": "t", "partitions": [2]}]}, 404, "no partition 2"),
        ]:
            answered = self.http.ask("POST", OFFSETS, body)
            self.assertEqual(answered.status, status, answered.body)
            self.assertIn(told, answered.json["detail"])
        answered = self.http.ask("POST", "/api/v1/groups/no/offsets", {"to": "latest"})
        self.assertEqual((answered.status, answered.json["error"]), (404, "GROUP_ID_NOT_FOUND"))
        self.assertEqual(self.committed(), {0: 4})


class NoGroupsTests(HttpBrokerCase):
    """A cluster that never had a group."""

    def test_there_is_none(self) -> None:
        """Nobody coordinates a group yet, so that there is none; that is no error of the cluster."""
        for method, target, body in [
            ("POST", OFFSETS, {"to": "latest", "topics": [{"topic": "t"}]}),
            ("DELETE", f"{OFFSETS}?topic=t", None),
            ("DELETE", "/api/v1/groups/g?confirm=g", None),
        ]:
            answered = self.http.ask(method, target, body)
            self.assertEqual((answered.status, answered.json["error"]), (404, "GROUP_ID_NOT_FOUND"))


class DeleteTests(GroupChangeCase):
    """What is deleted."""

    def test_offsets(self) -> None:
        """Offsets of a topic are deleted."""
        self.reset(to="latest", topics=[{"topic": "t"}])
        before = self.committed()
        self.assertEqual(self.http.ask("DELETE", f"{OFFSETS}?topic=t&validate_only=true").status, 204)
        self.assertEqual(self.committed(), before)
        self.assertEqual(self.http.ask("DELETE", f"{OFFSETS}?topic=t&partition=0").status, 204)
        self.assertEqual(self.committed(), {1: 10})
        self.assertEqual(self.http.ask("DELETE", OFFSETS).status, 400)
        self.assertEqual(self.http.ask("DELETE", f"{OFFSETS}?topic=no").status, 404)

    def test_group(self) -> None:
        """A group is deleted with its offsets, if its id is given again."""
        self.assertEqual(self.http.ask("DELETE", "/api/v1/groups/g").status, 400)
        tried = "?confirm=g&validate_only=true"
        self.assertEqual(self.http.ask("DELETE", f"/api/v1/groups/g{tried}").status, 204)
        self.assertEqual(self.http.ask("DELETE", f"/api/v1/groups/h{tried.replace('=g', '=h')}").status, 404)
        self.assertEqual(self.http.ask("GET", "/api/v1/groups/g").status, 200)
        self.assertEqual(self.http.ask("DELETE", "/api/v1/groups/g?confirm=g").status, 204)
        self.assertEqual(self.http.ask("GET", "/api/v1/groups/g").status, 404)
        answered = self.http.ask("DELETE", "/api/v1/groups/g?confirm=g")
        self.assertEqual((answered.status, answered.json["error"]), (404, "GROUP_ID_NOT_FOUND"))
