"""Tests of the output of ``logbus consume`` and of errors, without a broker."""

from __future__ import annotations

import io
import json
from unittest import mock

import click
from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.app import print_error
from logbus.cli.options import parse_pairs, timestamp_ms
from logbus.cli.output import Progress, print_table, quantity
from logbus.cli.record_printer import record_format
from logbus.cli.terminal_escapes import for_terminal
from logbus.records.record import Record

RECORD = Record(7, 1714564800000, b"k", b"v", (("h", b"1"), ("n", None)))


class RenderingTests(SynchronousTestCase):
    def test_values_and_keys(self) -> None:
        """
        The value and a newline; with a separator the key before it; nothing for what is null.
        """
        self.assertEqual(record_format(None, False, None)("t", 0, RECORD), b"v\n")
        self.assertEqual(record_format(None, False, "::")("t", 0, RECORD), b"k::v\n")
        self.assertEqual(record_format(None, False, None)("t", 0, Record(0, 0, None, None)), b"\n")

    def test_templates(self) -> None:
        """
        Every field, escapes, and plain text in between.
        """
        render = record_format("%t/%p@%o %T %k=%v [%h] 100%%\\t\\\\\\n", False, None)
        self.assertEqual(render("t", 3, RECORD), b"t/3@7 1714564800000 k=v [h=1,n=] 100%\t\\\n")
        self.assertIn("%q", str(self.assertRaises(click.BadParameter, record_format, "%q", False, None)))

    def test_json(self) -> None:
        """
        Text as text, null as null, other bytes as base64 under a name that says so.
        """
        shown = json.loads(record_format(None, True, None)("t", 3, RECORD._replace(value=b"\xff", key=None)))
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

    def test_control_characters(self) -> None:
        """
        For a terminal, escape sequences in keys, values and headers are spelled, not obeyed; in a pipe they are kept.
        """
        steering = b"\x1b]0;title\x07\r\x7f\xc2\x9b2J\xff\xe2\x80\xae \t\nplain \xc3\xa9"
        spelled = rb"\x1b]0;title\x07\x0d\x7f\x9b2J\xff\u202e" + b" \t\nplain \xc3\xa9"
        record = Record(7, 0, steering, steering, (("h\x1b", steering),))
        for show, seen in ((for_terminal, spelled), (bytes, steering)):
            self.assertEqual(record_format(None, False, None, show)("t", 0, record), seen + b"\n")
            self.assertEqual(record_format(None, False, "\x1b", show)("t", 0, record), seen + b"\x1b" + seen + b"\n")
            name = b"h" + show(b"\x1b")
            self.assertEqual(
                record_format("%k|%v|%s|%h\x1b", False, None, show)("t", 0, record),
                b"|".join((seen, seen, seen, name + b"=" + seen)) + b"\x1b",
            )
        record = record._replace(value=b"\x1b\x7f\xc2\x9b\xe2\x80\xae")
        told = record_format(None, True, None)("t", 0, record)
        self.assertIn(rb"\u001b\u007f\u009b\u202e", told)
        self.assertEqual(json.loads(told)["value"], "\x1b\x7f\x9b\u202e")

    def test_complaints(self) -> None:
        """
        A broker's message is printed as one line without control characters.
        """
        with mock.patch("sys.stderr", io.StringIO()) as said:
            print_error("group '\x1b[2J\n\x9b' is unknown")
        self.assertEqual(said.getvalue(), "logbus: group '\\x1b[2J \\x9b' is unknown\n")

    def test_times(self) -> None:
        """
        Milliseconds, or a date with or without a zone; anything else is wrong usage.
        """
        self.assertEqual(timestamp_ms("1714564800000", "--timestamp"), 1714564800000)
        self.assertEqual(timestamp_ms("2024-05-01T12:00:00+00:00", "--timestamp"), 1714564800000)
        for wrong in ("yesterday", "", "1969-12-31T00:00+00:00", "-1"):
            self.assertRaises(click.BadParameter, timestamp_ms, wrong, "--timestamp")

    def test_settings(self) -> None:
        """
        NAME=VALUE, of which the value may have further equals signs, or be empty.
        """
        self.assertEqual(parse_pairs(("a=1", "b=x=y", "c="), "--config"), {"a": "1", "b": "x=y", "c": ""})
        self.assertRaises(click.BadParameter, parse_pairs, ("a",), "--config")
        self.assertRaises(click.BadParameter, parse_pairs, ("=1",), "--config")

    def test_a_setting_twice(self) -> None:
        """
        The same value is taken, and two that contradict each other are refused: neither is right for sure.
        """
        self.assertEqual(parse_pairs(("a=1", "a=1"), "--config"), {"a": "1"})
        with self.assertRaises(click.BadParameter) as refused:
            parse_pairs(("a=1", " a =2"), "--config")
        self.assertEqual(
            refused.exception.format_message(), "Invalid value for --config: a has two values; give it once"
        )

    def test_control_characters_in_names(self) -> None:
        """Names come from clients: unprintable characters are quoted."""
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
        Progress is not written without a terminal.
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
