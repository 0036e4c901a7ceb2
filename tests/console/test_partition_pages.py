"""Tests of the pages of a partition, over a whole broker in memory; several brokers are in tests/interop."""

from __future__ import annotations

import re
import shlex
from urllib.parse import urlencode

from tests.admin.broker_kit import HttpBrokerCase
from tests.admin.harness import Answered
from tests.cli.parsing import accepts
from tests.console.kit import SAME_ORIGIN, seen
from tests.handlers.kit import a_batch

PATH = "/console/topics/t/partitions/0"
SCRIPT = "<script>alert(1)</script>"


class PartitionPageTests(HttpBrokerCase):
    """A partition with one replica."""

    def post(self, action: str, **fields: str) -> Answered:
        return self.http.ask("POST", f"{PATH}/{action}", urlencode(fields).encode(), SAME_ORIGIN)

    def command(self, answered: Answered) -> list[str]:
        """The command that a page shows, which ``logbus`` accepts."""
        found = re.search(r"logbus cluster (?:elect-leaders|reassign) .*?(?= logbus 0|$)", seen(answered).text)
        assert found is not None, seen(answered).text
        words = shlex.split(found[0])[1:]
        self.assertTrue(accepts(words), found[0])
        return words

    def test_shown(self) -> None:
        """It is reached from its topic, and told with its replica."""
        self.client.produce(a_batch(b"x"))
        self.assertIn(PATH, seen(self.http.ask("GET", "/console/topics/t")).links)
        text = seen(self.http.ask("GET", PATH)).text
        for told in ("Leader broker 0", "Replicas 0", "End offset 1", "The preferred leader leads it."):
            self.assertIn(told, text)

    def test_asked(self) -> None:
        """Each change is asked once, with its command."""
        self.assertEqual(self.command(self.post("elect")), ["cluster", "elect-leaders", "t-0"])
        asked = self.post("move", replicas="7 , 0")
        self.assertIn('"partition": 0, "replicas": [7, 0]}]}', seen(asked).text)
        self.assertEqual(self.command(asked), ["cluster", "reassign", "--execute", "-"])
        self.assertEqual(self.command(self.post("cancel-move")), ["cluster", "reassign", "--cancel", "-"])
        self.assertEqual(self.http.get("/api/v1/reassignments"), {"items": []})

    def test_delete_records(self) -> None:
        """The oldest records are deleted when the name of the topic has been typed."""
        self.client.produce(a_batch(b"a", b"b", b"c"))
        for before, told in (("", "This must be an offset"), (SCRIPT, "This must be an offset"), ("4", "can be is 3.")):
            answered = self.post("delete-records", before=before)
            self.assertEqual(answered.status, 400)
            self.assertIn(told, seen(answered).text)
        text = seen(self.post("delete-records", before="2")).text
        self.assertIn("The records before offset 2 are lost, by offsets 2 records", text)
        self.assertIn("DELETE /api/v1/topics/t/partitions/0/records?before=2", text)
        self.assertEqual(self.post("delete-records", before="2", confirmed="yes", typed_name="x").status, 400)
        answered = self.post("delete-records", before="2", confirmed="yes", typed_name="t")
        self.assertEqual(answered.status, 303, answered.body)
        text = seen(self.http.ask("GET", answered.headers["Location"])).text
        self.assertIn("The records were deleted.", text)
        self.assertIn("First offset 2", text)

    def test_nothing_to_elect(self) -> None:
        """The preferred leader leads: that is no error."""
        answered = self.post("elect", confirmed="yes")
        self.assertEqual(answered.status, 303)
        self.assertIn("The election was held.", seen(self.http.ask("GET", answered.headers["Location"])).text)

    def test_refused(self) -> None:
        """What is wrong is told on the form, which keeps what was typed."""
        for replicas, told in (
            ("", "Give the ids of brokers"),
            (SCRIPT, "Give the ids of brokers"),
            ("1,", "Give the ids of brokers"),
            ("0", "These are the brokers that have it."),
        ):
            answered = self.post("move", replicas=replicas)
            self.assertEqual(answered.status, 400, replicas)
            self.assertIn(told, seen(answered).text)
            self.assertNotIn(SCRIPT.encode(), answered.body)
        for action, fields in (("move", {"replicas": "7"}), ("cancel-move", {})):
            answered = self.post(action, **fields, confirmed="yes")
            self.assertEqual(answered.status, 400)
            self.assertEqual(len(seen(answered).having("div", role="alert")), 1)
        self.assertEqual(self.http.ask("GET", "/console/topics/t/partitions/9").status, 404)
        self.assertEqual(self.http.ask("GET", "/console/topics/t/partitions/x").status, 400)
