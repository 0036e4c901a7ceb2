"""Tests of :mod:`logbus.errors`."""

from __future__ import annotations

import errno

from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import short_reason


class ShortReasonTests(SynchronousTestCase):
    """What is said of an error of a file or an address."""

    def test_os_error(self) -> None:
        """Its words, without number and name; a timeout has neither number nor name."""
        self.assertEqual(
            short_reason(OSError(errno.ENOENT, "No such file or directory", "a")), "No such file or directory"
        )
        self.assertEqual(short_reason(TimeoutError("timed out")), "timed out")

    def test_not_utf8(self) -> None:
        """The line is said, as an editor shows it."""
        with self.assertRaises(UnicodeDecodeError) as raised:
            b"a=1\nb=\xff\n".decode()
        self.assertEqual(short_reason(raised.exception), "it is not UTF-8: line 2 has the byte 0xff")
