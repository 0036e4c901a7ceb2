"""Tests how standard input is read in lines."""

from __future__ import annotations

import os
from unittest.mock import patch

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.line_reader import LineReader, LineTooLong


class Readers:
    """A reactor that knows which descriptors are to be read."""

    def __init__(self) -> None:
        self.readers: set[LineReader] = set()

    def addReader(self, reader: LineReader) -> None:
        self.readers.add(reader)

    def removeReader(self, reader: LineReader) -> None:
        self.readers.discard(reader)


class LineReaderTests(SynchronousTestCase):
    """Lines of a pipe."""

    def setUp(self) -> None:
        self.ours, self.theirs = os.pipe()
        self.addCleanup(os.close, self.ours)
        self.lines = LineReader(Readers(), self.ours)

    def more(self, *written: bytes) -> list[bytes] | None:
        """What is read after the pipe has had this in it."""
        found = Deferred.fromCoroutine(self.lines.more())
        for each in written:
            os.write(self.theirs, each)
            self.lines.doRead()
        return self.successResultOf(found)

    def test_pieces(self) -> None:
        """A line may come in pieces, and the last one without a newline."""
        self.assertEqual(self.more(b"a\nb"), [b"a"])
        self.assertEqual(self.more(b"c", b"\nde\nf"), [b"bc", b"de"])
        os.close(self.theirs)
        found = Deferred.fromCoroutine(self.lines.more())
        self.lines.doRead()
        self.assertEqual(self.successResultOf(found), [b"f"])
        self.assertIsNone(self.successResultOf(Deferred.fromCoroutine(self.lines.more())))

    def test_too_long(self) -> None:
        """A line without an end is not gathered without a bound; its number is said."""
        self.addCleanup(os.close, self.theirs)
        with patch("logbus.cli.line_reader.LONGEST", 10):
            self.assertEqual(self.more(b"0123456789\n0123456789"), [b"0123456789"])
            found = Deferred.fromCoroutine(self.lines.more())
            os.write(self.theirs, b"0")
            self.lines.doRead()
            self.assertEqual(str(self.failureResultOf(found, LineTooLong).value), "line 2 is longer than 10 bytes")
