"""Tests of the page that follows a topic, as a browser without JavaScript gets it."""

from __future__ import annotations

from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.record_tail import MAX_PARTITIONS
from tests.admin.harness import add_topic
from tests.console.kit import Seen, console, seen


class RecordTailPageTests(SynchronousTestCase):
    """The page of a topic with three partitions."""

    def setUp(self) -> None:
        self.world = console()

    def page(self, target: str, status: int = 200) -> Seen:
        answered = self.world.ask("GET", target)
        self.assertEqual(answered.status, status)
        return seen(answered)

    def test_stream(self) -> None:
        """The script gets the stream with what is filtered by; whoever has none is led to the newest records."""
        page = self.page("/console/topics/orders/tail?value=%3Cb%3E%26&partition=2&committed=yes")
        (section,) = page.having("section", id="tail")
        stream = section["data-tail"] or ""
        self.assertEqual(
            stream,
            "/api/v1/topics/orders/records/tail?partition=2&newest=10&shown_bytes=4096&isolation=read_committed"
            "&value=%3Cb%3E%26",
        )
        self.assertEqual(self.world.ask("HEAD", stream).status, 200)
        self.assertIn(
            "/console/topics/orders/records?partition=2&from=newest&value=%3Cb%3E%26&committed=yes", page.links
        )
        self.assertEqual(page.having("button", id="tail-pause")[0]["hidden"], "hidden")
        self.assertEqual(len(page.having("script")), 2)
        for script in page.having("script"):
            self.assertEqual(self.world.ask("GET", script["src"] or "").status, 200)

    def test_wrong(self) -> None:
        """What is wrong with the filter is told beside its field, and nothing is followed."""
        page = self.page("/console/topics/orders/tail?partition=x", 400)
        self.assertIn("the number of a partition", page.text)
        self.assertEqual(page.having("section", id="tail"), [])
        self.page("/console/topics/nope/tail", 404)

    def test_too_many_partitions(self) -> None:
        """Of a topic with more partitions than a stream follows one must be chosen."""
        add_topic(self.world.metadata, "wide", UUID(int=9), MAX_PARTITIONS + 1)
        page = self.page("/console/topics/wide/tail")
        self.assertIn("choose one above", page.text)
        self.assertEqual(page.having("section", id="tail"), [])
        self.assertEqual(len(self.page("/console/topics/wide/tail?partition=7").having("section", id="tail")), 1)
