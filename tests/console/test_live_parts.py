"""Tests of :mod:`logbus.console.live_parts`: pages that stay open and get what changes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase
from twisted.web.template import tags

from logbus.admin.authentication import HttpLogins
from logbus.console.live_parts import parts_of
from logbus.security.sasl.mechanism import Login
from tests.admin.event_reader import Stream
from tests.admin.harness import World, add_topic, request
from tests.admin.test_authorization import Allows
from tests.console.kit import console


class LivePartsTests(SynchronousTestCase):
    """A browser follows a page."""

    def setUp(self) -> None:
        self.world = console(settings={"admin.event.streams": "2"})

    def follow(self, path: str, world: World | None = None) -> Stream:
        connection = (world or self.world).connect()
        connection.send(request("GET", path, None, {"Accept": "text/event-stream"}))
        return Stream(connection)

    def events(self, stream: Stream, seconds: float = 0.0) -> list[tuple[str, Any]]:
        """What came until this time has passed."""
        self.world.turn()
        for _ in range(int(seconds)):
            self.world.clock.advance(1)
            self.world.turn()
        return [(name, data) for name, _, data in stream.events()]

    def test_follows(self) -> None:
        """At first there is the whole part, then only what is new, in its place."""
        stream = self.follow("/console/topics")
        ((name, data),) = self.events(stream)
        self.assertEqual((name, data["id"]), ("part", "topics"))
        self.assertIn("orders", data["html"])
        self.assertEqual(self.events(stream, 9), [])
        add_topic(self.world.metadata, "payments", UUID(int=9), 1, {})
        ((name, data),) = self.events(stream, 3)
        self.assertEqual(name, "part")
        self.assertIn("payments", data["html"])

    def test_alive(self) -> None:
        """In silence the browser is told that somebody is there: a comment would not reach its script."""
        stream = self.follow("/console/topics")
        self.events(stream)
        self.assertEqual(self.events(stream, 13), [("alive", {})])

    def test_over(self) -> None:
        """What is deleted is not followed any more, and its place is free for another."""
        stream = self.follow("/console/topics/orders")
        self.assertIn("part", {name for name, _ in self.events(stream)})
        with self.world.metadata.changing():
            self.world.metadata.remove_topic("orders")
        self.assertEqual(self.events(stream, 3)[-1], ("over", {"reason": "Not Found"}))
        self.assertEqual(self.world.site.streams.open, 0)

    def test_bounded(self) -> None:
        """Streams of pages count with those of records; the page itself is still to be had."""
        streams = [self.follow("/console/topics") for _ in range(2)]
        self.world.turn()
        answered = self.world.ask("GET", "/console/topics", headers={"Accept": "text/event-stream"})
        self.assertEqual(answered.status, 503)
        self.assertEqual(self.world.ask("GET", "/console/topics").status, 200)
        streams[0].connection.lose()
        self.assertEqual(self.world.site.streams.open, 1)

    def test_nothing_changes(self) -> None:
        """A path whose answer does not change, or is no page, keeps no stream, and is no failure."""
        for path in ("/console/new-topic", "/console", "/console/topics/orders/delete"):
            stream = self.follow(path)
            self.assertEqual([name for name, _ in self.events(stream)], ["over"], path)
            self.assertEqual(self.world.site.streams.open, 0)
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_not_for_everybody(self) -> None:
        """Who has not logged in, and may not describe the cluster, takes none of the few streams."""
        rights = Allows()
        world = console(authorizer=rights, logins=HttpLogins(tokens=lambda token: Login("alice")))
        answered = world.ask("GET", "/console/topics", headers={"Accept": "text/event-stream"})
        self.assertEqual((answered.status, world.site.streams.open), (403, 0))
        self.assertNotIn("WWW-Authenticate", answered.headers)
        self.assertEqual(world.ask("GET", "/console/topics").status, 200)
        connection = world.connect()
        asked = {"Accept": "text/event-stream", "Authorization": "Bearer t"}
        connection.send(request("GET", "/console/topics", None, asked))
        world.turn()
        self.assertEqual([name for name, _, _ in Stream(connection).events()], ["part"])

    def test_other_types(self) -> None:
        """Who takes other types as well gets the page."""
        answered = self.world.ask("GET", "/console/topics", headers={"Accept": "text/html, text/event-stream"})
        self.assertEqual(answered.headers["Content-Type"], "text/html; charset=utf-8")

    def test_parts(self) -> None:
        """Parts are found at any depth, and not within parts."""
        inner = tags.p(id="b", **{"data-live": ""})
        content = ["text", [tags.div(tags.p("x"), tags.section(inner, id="a", **{"data-live": ""}))], ("y", inner)]
        self.assertEqual([part.attributes["id"] for part in parts_of(content)], ["a", "b"])
