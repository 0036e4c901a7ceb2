"""``logbus transactions``."""

from __future__ import annotations

import io
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from logbus.cli import transactions
from logbus.cli.app import run_app
from logbus.cli.transactions import date
from logbus.client.transactions import STATES


class WrongUsageTests(SynchronousTestCase):
    def test_wrong_usage(self) -> None:
        """
        It ends with 2, and says what would be right.
        """
        where = ("--topic", "t", "--partition", "0")
        for part, *arguments in (
            ("ongoing", "list", "--state", "happy"),
            ("0<=x", "list", "--duration-filter", "-1"),
            ("x<=9223372036854775807", "list", "--producer-id", "9" * 20),
            ("name a transactional id", "describe"),
            ("the transactional id is empty", "describe", ""),
            ("at most 32767", "describe", "--transactional-id", "i" * 32768),
            ("not UTF-8", "force-terminate", "\udcff"),
            ("--partition", "describe-producers", "--topic", "t"),
            ("--broker-id or --topic", "find-hanging"),
            ("--partition needs --topic", "find-hanging", "--broker-id", "0", "--partition", "1"),
            ("--start-offset, or all of", "abort", *where),
            ("--producer-epoch is missing", "abort", *where, "--producer-id", "1", "--coordinator-epoch", "0"),
            ("leave out the producer", "abort", *where, "--producer-id", "1", "--start-offset", "0"),
            ("0<=x<=32767", "abort", *where, "--producer-id", "1", "--producer-epoch", "40000"),
        ):
            with mock.patch("sys.stdout", io.StringIO()) as out, mock.patch("sys.stderr", io.StringIO()) as err:
                status = run_app(["transactions", *arguments])
            self.assertEqual((status, out.getvalue()), (2, ""), arguments)
            self.assertIn(part, err.getvalue(), arguments)


class WordTests(SynchronousTestCase):
    def test_the_states_there_are(self) -> None:
        """
        Those that can be asked for are those the client knows.
        """
        self.assertEqual(transactions._STATES, STATES)

    def test_dates(self) -> None:
        """
        In UTC; what is not known is left open, and what no calendar has is a number.
        """
        for at_ms, told in (
            (1_700_000_000_999, "2023-11-14T22:13:20Z"),
            (0, "1970-01-01T00:00:00Z"),
            (-1, None),
            (None, None),
            (2**62, str(2**62)),
        ):
            self.assertEqual(date(at_ms), told)
