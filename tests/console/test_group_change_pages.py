"""Tests of the pages that change groups, over a whole broker in memory."""

from __future__ import annotations

from urllib.parse import urlencode

from tests.admin.broker_kit import HttpBrokerCase
from tests.admin.harness import Answered
from tests.admin.test_group_changes import GroupChangeCase
from tests.console.kit import SAME_ORIGIN, seen
from tests.handlers.kit import a_batch


class GroupChangeTests(GroupChangeCase):
    """Resets and deletions."""

    def post(self, path: str, fields: dict[str, str]) -> Answered:
        return self.http.ask("POST", path, urlencode(fields).encode(), SAME_ORIGIN)

    def test_wrong_fields(self) -> None:
        """What is wrong is told beside its field."""
        for fields, told in (
            ({}, "one of earliest"),
            ({"to": "shift", "value": "few"}, "whole number"),
            ({"to": "timestamp", "value": "yesterday"}, "a time as 2026-05-01T12:00"),
            ({"to": "latest", "topic": "t", "partitions": "0-2"}, "the numbers of partitions"),
            ({"to": "latest", "partitions": "0"}, "need the name of their topic"),
        ):
            answered = self.post("/console/groups/g/reset", fields)
            self.assertEqual(answered.status, 400)
            self.assertIn(told, seen(answered).text)

    def test_reset(self) -> None:
        """Offsets are reset after a preview of each, with the command."""
        fields = {"to": "shift", "value": "-3"}
        page = seen(self.post("/console/groups/g/reset", fields))
        self.assertIn("logbus groups reset-offsets g --all-topics --shift-by -3 --execute", page.text)
        self.assertIn("t 0 4 1", page.text)
        self.assertEqual(self.committed(), {0: 4})
        answered = self.post("/console/groups/g/reset", {**fields, "confirmed": "yes"})
        self.assertEqual((answered.status, self.committed()), (303, {0: 1}))
        self.assertIn("The offsets were reset.", seen(self.http.ask("GET", answered.headers["Location"])).text)

    def test_reset_to_a_time(self) -> None:
        """A time is one of a calendar, in UTC, or milliseconds; the command has it with its zone."""
        for value in ("1999-12-31T23:30:00+00:30", "1999-12-31T23:00", "946681200000"):
            fields = {"to": "timestamp", "value": value}
            page = seen(self.post("/console/groups/g/reset", fields))
            self.assertIn("--to-datetime 1999-12-31T23:00:00.000+00:00 --execute", page.text)
            self.assertIn("The time is 1999-12-31 23:00:00 UTC.", page.text)
            answered = self.post("/console/groups/g/reset", {**fields, "confirmed": "yes"})
            self.assertEqual((answered.status, self.committed()), (303, {0: 0}))

    def test_reset_of_partitions(self) -> None:
        """Some partitions of a topic are reset, be there an offset of them or not."""
        fields = {"to": "latest", "topic": "t", "partitions": "1"}
        page = seen(self.post("/console/groups/g/reset", fields))
        self.assertIn("logbus groups reset-offsets g --topic t:1 --to-latest --execute", page.text)
        self.assertEqual(self.post("/console/groups/g/reset", {**fields, "confirmed": "yes"}).status, 303)
        self.assertEqual(self.committed(), {0: 4, 1: 10})

    def test_delete_offsets(self) -> None:
        """Offsets of a topic, or of one partition, are deleted after a question with the command."""
        path = "/console/groups/g/delete-offsets"
        self.assertIn(path, seen(self.http.ask("GET", "/console/groups/g")).links)
        for fields, told in (
            ({"topic": ""}, "Give the name of a topic."),
            ({"topic": "t", "partitions": "0, 1"}, "Give one partition"),
            ({"topic": "<b>", "confirmed": "yes"}, "&lt;b&gt;"),
        ):
            answered = self.post(path, fields)
            self.assertGreaterEqual(answered.status, 400)
            self.assertIn(told, answered.body.decode())
        for fields, command, left in (
            ({"topic": "t", "partitions": "1"}, "logbus groups delete-offsets g --topic t:1", {0: 4}),
            ({"topic": "t"}, "logbus groups delete-offsets g --topic t", {}),
        ):
            self.assertIn(command, seen(self.post(path, fields)).text)
            answered = self.post(path, {**fields, "confirmed": "yes"})
            self.assertEqual(answered.status, 303, answered.body)
            self.assertIn("The offsets were deleted.", seen(self.http.ask("GET", answered.headers["Location"])).text)
            self.assertEqual(self.committed(), left)

    def test_reset_refused(self) -> None:
        """A topic that does not exist is told on the form, which keeps what was typed."""
        answered = self.post("/console/groups/g/reset", {"to": "latest", "topic": "nope"})
        self.assertEqual(answered.status, 404)
        self.assertEqual(seen(answered).having("input", name="topic")[0]["value"], "nope")

    def test_delete(self) -> None:
        """A group is deleted when its id has been typed."""
        path = "/console/groups/g/delete"
        self.assertIn("logbus groups delete g", seen(self.http.ask("GET", path)).text)
        self.assertEqual(self.post(path, {"confirmed": "yes", "typed_name": "x"}).status, 400)
        self.assertEqual(self.post(path, {"confirmed": "yes", "typed_name": "g"}).status, 303)
        self.assertEqual(self.http.ask("GET", "/console/groups/g").status, 404)

    def test_unknown_group(self) -> None:
        """A group that does not exist is told."""
        self.assertEqual(self.http.ask("GET", "/console/groups/nope/delete").status, 404)


class PartitionTests(HttpBrokerCase):
    """More partitions."""

    def post(self, fields: dict[str, str]) -> Answered:
        return self.http.ask("POST", "/console/topics/t/more-partitions", urlencode(fields).encode(), SAME_ORIGIN)

    def test_add(self) -> None:
        """Partitions are added after a question with the command."""
        self.assertIn("logbus topics add-partitions t --total 5", seen(self.post({"count": "5"})).text)
        self.assertEqual(self.http.get("/api/v1/topics/t")["partitions"], 2)
        answered = self.post({"count": "5", "confirmed": "yes"})
        self.assertEqual(answered.status, 303, answered.body)
        self.assertEqual(self.http.get("/api/v1/topics/t")["partitions"], 5)

    def test_wrong(self) -> None:
        """No number, and one that is not more, are told on the form."""
        self.assertEqual(self.post({"count": "many"}).status, 400)
        self.assertGreaterEqual(self.post({"count": "1", "confirmed": "yes"}).status, 400)

    def test_all_partitions(self) -> None:
        """A search through many partitions is begun without knowing where the next one ends."""
        self.post({"count": "24", "confirmed": "yes"})
        for number in range(24):
            self.client.produce(a_batch(*[b"v"] * 20), partition=number)
        page = seen(self.http.ask("GET", "/console/topics/t/records"))
        self.assertIn("48 records; all 24 partitions gone through.", page.text)
