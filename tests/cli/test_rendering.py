"""What the commands print, without running them."""

from __future__ import annotations

import io
import json
from unittest import mock

import click
from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.consume import renderer
from logbus.cli.options import pairs, when
from logbus.cli.output import Progress, print_table, quantity
from logbus.records.record import Record

RECORD = Record(7, 1714564800000, b"k", b"v", (("h", b"1"), ("n", None)))


class RenderingTests(SynchronousTestCase):
    def test_values_and_keys(self) -> None:
        """
        The value and a newline; with a separator the key before it; nothing for what is null.
        """
        self.assertEqual(renderer(None, False, None)("t", 0, RECORD), b"v\n")
        self.assertEqual(renderer(None, False, "::")("t", 0, RECORD), b"k::v\n")
        self.assertEqual(renderer(None, False, None)("t", 0, Record(0, 0, None, None)), b"\n")

    def test_templates(self) -> None:
        """
        Every field, escapes, and plain text in between.
        """
        render = renderer("%t/%p@%o %T %k=%v [%h] 100%%\\t\\\\\\n", False, None)
        self.assertEqual(render("t", 3, RECORD), b"t/3@7 1714564800000 k=v [h=1,n=] 100%\t\\\n")
        self.assertIn("%q", str(self.assertRaises(click.BadParameter, renderer, "%q", False, None)))

    def test_json(self) -> None:
        """
        Text as text, null as null, other bytes as base64 under a name that says so.
        """
        shown = json.loads(renderer(None, True, None)("t", 3, RECORD._replace(value=b"\xff", key=None)))
        self.assertEqual(
            shown,
            {
                "topic": "t",
                "partition": 3,
                "offset": 7,
                "timestamp": 1714564800000,
                "key": None,
                "value_base64": "/w==",
                "headers": [{"name": "h", "value": "1"}, {"name": "n", "value": None}],
            },
        )

    def test_times(self) -> None:
        """
        Milliseconds, or a date with or without a zone; anything else is wrong usage.
        """
        self.assertEqual(when("1714564800000", "--timestamp"), 1714564800000)
        self.assertEqual(when("2024-05-01T12:00:00+00:00", "--timestamp"), 1714564800000)
        for wrong in ("yesterday", "", "1969-12-31T00:00+00:00", "-1"):
            self.assertRaises(click.BadParameter, when, wrong, "--timestamp")

    def test_settings(self) -> None:
        """
        NAME=VALUE, of which the value may have further equals signs, or be empty.
        """
        self.assertEqual(pairs(("a=1", "b=x=y", "c="), "--config"), {"a": "1", "b": "x=y", "c": ""})
        self.assertRaises(click.BadParameter, pairs, ("a",), "--config")
        self.assertRaises(click.BadParameter, pairs, ("=1",), "--config")

    def test_what_could_steer_a_terminal(self) -> None:
        """
        Names come from clients: what is not printable is quoted.
        """
        with mock.patch("sys.stdout", io.StringIO()) as out:
            print_table(["group"], [["a\x1b[2J\nb"], ["é"]])
        self.assertEqual(out.getvalue().splitlines(), ["group", '"a\\u001b[2J\\nb"', "é"])

    def test_tables(self) -> None:
        """
        Numbers to the right, words to the left, a dash for nothing, no blanks at the end.
        """
        with mock.patch("sys.stdout", io.StringIO()) as out:
            print_table(["name", "n"], [["a", 5], ["long name", 100], ["b", None]])
        self.assertEqual(
            out.getvalue().splitlines(), ["name         n", "a            5", "long name  100", "b            -"]
        )

    def test_one_very_long_cell(self) -> None:
        """
        It is shown whole, and leaves the other lines as they were.
        """
        with mock.patch("sys.stdout", io.StringIO()) as out:
            print_table(["name", "n"], [["a", 5], ["x" * 10_000, 7]])
        self.assertEqual(out.getvalue().splitlines(), ["name  n", "a     5", "x" * 10_000 + "  7"])

    def test_progress_is_for_terminals(self) -> None:
        """
        Nothing is written where nobody looks.
        """
        with mock.patch("sys.stderr", io.StringIO()) as error:
            progress = Progress()
            progress.show("5 records")
            progress.clear()
        self.assertEqual(error.getvalue(), "")
        terminal = io.StringIO()
        terminal.isatty = lambda: True  # type: ignore[method-assign]
        with mock.patch("sys.stderr", terminal):
            progress = Progress()
            progress.show("5 records")
            progress.clear()
        self.assertIn("5 records", terminal.getvalue())

    def test_quantities(self) -> None:
        """
        Thousands are shortened.
        """
        shown = [quantity(each) for each in (7, 1234, 5_600_000, 7.8e9, 1.2e12)]
        self.assertEqual(shown, ["7", "1.2 k", "5.6 M", "7.8 G", "1.2 T"])
