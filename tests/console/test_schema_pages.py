"""Tests of the pages of the schema registry, over a whole broker in memory."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any
from urllib.parse import urlencode

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.console.schema_pages import LEVELS
from logbus.console.schema_text import MOST_CHARACTERS, MOST_LINES, Line, compared, indented
from logbus.registry import model
from tests.admin.broker_kit import HttpBrokerCase
from tests.admin.harness import Answered
from tests.console.kit import SAME_ORIGIN, console, seen
from tests.registry.kit import GIFT, ORDER, PRICE

SECTION = "/console/schemas"
SCRIPT = "<script>alert(1)</script>"


def difference(old: list[str], new: list[str]) -> tuple[list[Line] | None, int]:
    """What differs, and how often the comparison paused."""
    steps: Iterator[Any] = compared(old, new)
    pauses = 0
    while True:
        try:
            next(steps)
            pauses += 1
        except StopIteration as e:
            return e.value, pauses


class SchemaTextTests(SynchronousTestCase):
    """Texts of schemas."""

    @given(st.lists(st.sampled_from("abcd"), max_size=12), st.lists(st.sampled_from("abcd"), max_size=12))
    def test_compared(self, old: list[str], new: list[str]) -> None:
        """Both texts can be read off it, and it keeps no fewer lines than difflib."""
        lines, _ = difference(old, new)
        assert lines is not None
        self.assertEqual([line for mark, line in lines if mark in " -"], old)
        self.assertEqual([line for mark, line in lines if mark in " +"], new)
        kept = sum(mark == " " for mark, _ in lines)
        blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
        self.assertGreaterEqual(kept, sum(block.size for block in blocks))

    def test_large(self) -> None:
        """It pauses, and gives up where too much differs; equal ends do not count."""
        most = [str(number) for number in range(MOST_LINES)]
        lines, pauses = difference(["x"], most)
        self.assertEqual(len(lines or []), MOST_LINES + 1)
        lines, pauses = difference(most, most[::-1])
        self.assertGreater(pauses, 5)
        self.assertEqual(difference([*most, "x"], most[::-1]), (None, 0))
        lines, _ = difference([*most, "x", *most], [*most, "y", *most])
        self.assertEqual([line for line in lines or [] if line[0] != " "], [("-", "x"), ("+", "y")])

    def test_indented(self) -> None:
        """JSON gets lines; what is none, too long, or deep enough to grow a lot stays."""
        self.assertEqual(indented('{"a":"ä"}'), '{\n  "a": "ä"\n}')
        deep = "[" * 90 + ",".join(["1"] * 15_000) + "]" * 90
        for text in ("no JSON", "[" * 30_000, json.dumps("x" * MOST_CHARACTERS), deep):
            self.assertEqual(indented(text), text)


class SchemaCase(HttpBrokerCase):
    """A broker with its registry."""

    def setUp(self) -> None:
        super().setUp()
        self.http.site.startFactory()
        self.addCleanup(self.http.site.stopFactory)

    def page(self, path: str = "", status: int = 200, **query: Any) -> str:
        answered = self.http.ask("GET", f"{SECTION}{path}?{urlencode(query)}")
        self.assertEqual(answered.status, status, answered.body)
        return seen(answered).text

    def post(self, path: str, **fields: Any) -> Answered:
        return self.http.ask("POST", f"{SECTION}/{path}", urlencode(fields).encode(), SAME_ORIGIN)

    def registry(self, path: str) -> Any:
        return self.http.get(f"/registry/{path}")

    def register(self, schema: Any, subject: str = "orders-value") -> None:
        answered = self.post("register", subject=subject, type="AVRO", schema=json.dumps(schema), confirmed="yes")
        self.assertEqual(answered.status, 303, answered.body)


class SchemaPagesTests(SchemaCase):
    """Subjects, versions, levels."""

    def test_levels(self) -> None:
        """All are explained."""
        self.assertEqual(tuple(LEVELS), model.LEVELS)

    def test_protobuf(self) -> None:
        """Its text is compared by lines, and is what the form of the next version begins with."""
        first = 'syntax = "proto3";\nmessage Order {\n  string what = 1;\n}'
        second = first.replace("}", "  int32 count = 2;\n}")
        for text in (first, second):
            sent = text.replace("\n", "\r\n")
            answered = self.post("register", subject="p", type="PROTOBUF", schema=sent, confirmed="yes")
            self.assertEqual(answered.status, 303, answered.body)
        self.assertEqual(self.registry("subjects/p/versions/2")["schema"], second)
        shown = self.page("/subject", subject="p", against=1)
        self.assertIn("PROTOBUF", shown)
        self.assertIn("+ int32 count = 2;", shown)
        self.assertNotIn("+ string what", shown)
        form = self.http.ask("GET", f"{SECTION}/register?subject=p").body
        self.assertRegex(form, rb'<option value="PROTOBUF" selected="[a-z]*">Protobuf<')

    def test_tabs(self) -> None:
        """A text that is shown again to edit is as it was typed; browsers leave out a line break that is first."""
        text = '\nsyntax = "proto3";\nmessage Order {\n\tstring what = 1;\n}'
        sent = {"subject": "p", "type": "PROTOBUF", "schema": text.replace("\n", "\r\n")}
        checked = self.post("register", **sent, check="yes")
        self.assertEqual(self.post("register", **sent, confirmed="yes").status, 303)
        for body in (checked.body, self.http.ask("GET", f"{SECTION}/register?subject=p").body):
            shown = re.search(r"<textarea[^>]*>\n?(.*?)</textarea>", body.decode(), re.DOTALL)
            self.assertEqual(html.unescape(shown[1] if shown else ""), text)
        stray = self.post("register", subject="a\tb\nc\0", type="AVRO", schema="\0\tx")
        self.assertIn('value="a\tb\ufffdc\ufffd"', stray.body.decode())

    def test_life_of_a_subject(self) -> None:
        """It is checked, registered, compared, deleted softly, then for good; each is asked before."""
        self.assertIn("There is no schema.", self.page())
        text = json.dumps(ORDER)
        checked = self.post("register", subject="orders-value", type="AVRO", schema=text, check="yes")
        self.assertIn("It is compatible; it was not registered.", seen(checked).text)
        asked = self.post("register", subject="orders-value", type="AVRO", schema=text)
        self.assertIn("POST /registry/subjects/orders-value/versions", seen(asked).text)
        self.assertEqual(self.registry("subjects"), [])
        self.register(ORDER)
        self.register(GIFT)
        self.assertIn("orders-value", self.page())
        shown = self.page("/subject", subject="orders-value", against=1)
        self.assertIn("From version 1 to version 2", shown)
        self.assertIn('+ "name": "to",', shown)
        self.assertIn("BACKWARD a new schema can read what the last version wrote, as of all subjects", shown)
        self.assertIn("The texts are the same.", self.page("/subject", subject="orders-value", version=1, against=1))
        self.assertIn('"name": "to",', self.page("/register", subject="orders-value"), "the last one to begin with")
        self.assertNotIn('"name"', self.page("/register", subject="orders-key"))
        self.page("/delete", subject="orders-value")
        self.assertEqual(self.registry("subjects/orders-value/versions"), [1, 2])
        sure = {"subject": "orders-value", "confirmed": "yes", "typed_name": "orders-value"}
        self.assertEqual(self.post("delete", **{**sure, "typed_name": "orders"}).status, 400)
        self.assertEqual(self.post("delete", **sure, version=1, for_good="yes").status, 404)
        self.assertEqual(self.post("delete", **sure, version=1).status, 303)
        self.assertEqual(self.registry("subjects/orders-value/versions"), [2])
        self.assertIn("State deleted", self.page("/subject", subject="orders-value", version=1))
        self.assertEqual(self.post("delete", **sure).status, 303)
        self.assertIn("orders-value deleted", self.page())
        self.assertEqual(self.post("delete", **sure, for_good="yes").status, 303)
        self.assertEqual(self.registry("subjects?deleted=true"), [])
        self.page("/subject", 404, subject="orders-value")

    def test_incompatible(self) -> None:
        """The form says why, keeps what was typed, and nothing is registered, confirmed or not."""
        self.register(ORDER)
        for more in ({}, {"check": "yes"}, {"confirmed": "yes"}):
            answered = self.post("register", subject="orders-value", type="AVRO", schema=json.dumps(PRICE), **more)
            self.assertEqual(answered.status, 409)
            self.assertIn("It is not compatible. ", seen(answered).text)
            self.assertIn("Order.price", seen(answered).text)
        self.assertEqual(self.registry("subjects/orders-value/versions"), [1])

    def test_level(self) -> None:
        """That of a subject, back to that of all, and that of all."""
        self.register(ORDER)
        level = {"subject": "orders-value", "level": "FULL"}
        self.assertIn("PUT /registry/config/orders-value", seen(self.post("level", **level)).text)
        self.assertEqual(self.post("level", **level, confirmed="yes").status, 303)
        self.assertEqual(self.registry("config/orders-value"), {"compatibilityLevel": "FULL"})
        self.assertIn("As of all subjects", self.page("/level", subject="orders-value"))
        back = {"subject": "orders-value", "level": "inherited", "confirmed": "yes"}
        self.assertEqual(self.post("level", **back).status, 303)
        self.assertIn("no level of its own", seen(self.post("level", **back)).text)
        self.assertEqual(self.post("level", level="NONE", confirmed="yes").status, 303)
        self.assertIn("NONE any schema is taken", self.page())
        self.assertEqual(self.post("level", level=SCRIPT).status, 400)
        self.assertEqual(self.post("level", level="inherited").status, 400)

    def test_wrong(self) -> None:
        """Wrong and hostile values are told, and never run."""
        name = f"a/{SCRIPT}?%2e"
        self.register(ORDER, name)
        self.assertIn(SCRIPT, self.page())
        self.assertIn(SCRIPT, self.page("/subject", subject=name))
        for path, status, query in (
            ("/subject", 404, {"subject": SCRIPT}),
            ("/subject", 404, {}),
            ("/subject", 422, {"subject": name, "version": SCRIPT}),
            ("/subject", 404, {"subject": name, "against": "7"}),
            ("/delete", 400, {}),
        ):
            self.page(path, status, **query)
        self.page("", offset="-1")
        for fields in ({}, {"subject": name}, {"schema": "{}"}):
            self.assertEqual(self.post("register", **fields).status, 400, fields)
        for schema in (SCRIPT, "{", '"nothing"', "[" * 5000):
            answered = self.post("register", subject=name, type="AVRO", schema=schema)
            self.assertGreaterEqual(answered.status, 400)
            self.assertNotIn(SCRIPT.encode(), answered.body)
            seen(answered)
        answered = self.post("register", subject="s", type="PROTOBUF", schema='syntax = "proto3";\r\nmessage {}')
        self.assertEqual(answered.status, 409)
        self.assertIn("line 2, column 9: Expected message name.", seen(answered).text)


class RightsTests(SchemaCase):
    """With an authorizer, and nobody who may."""

    config = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}

    def test_refused(self) -> None:
        """Nothing is shown or changed without the rights."""
        for path in ("", "/subject?subject=s", "/level"):
            answered = self.http.ask("GET", f"{SECTION}{path}")
            self.assertIn(answered.status, (401, 403), path)
        for path, fields in (
            ("register", {"subject": "s", "schema": '"int"'}),
            ("level", {"level": "NONE"}),
            ("delete", {"subject": "s", "typed_name": "s"}),
        ):
            self.assertIn(self.post(path, **fields, confirmed="yes").status, (401, 403), path)


class WithoutRegistryTests(SynchronousTestCase):
    """A listener whose registry was left out."""

    def test_it_is_told(self) -> None:
        answered = console(plugins=[]).ask("GET", SECTION)
        self.assertEqual(answered.status, 501)
        self.assertIn("has no schema registry", seen(answered).text)
