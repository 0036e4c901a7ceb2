"""
Tests of :mod:`logbus.records.file_slice`.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from logbus.records.file_slice import MEMORY, FileSlice, Parts, in_memory, joined, total_length


class FileSliceTests(SynchronousTestCase):
    """Runs of bytes in a file."""

    def a_file(self, content: bytes) -> BinaryIO:
        """An open file with ``content``, already unlinked, as after retention."""
        directory = TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = Path(directory.name, "file")
        path.write_bytes(content)
        file = path.open("rb")
        self.addCleanup(file.close)
        path.unlink()
        return file

    def test_read(self) -> None:
        """A slice reads its run, also of an unlinked file, and leaves the file's position alone."""
        file = self.a_file(b"0123456789")
        piece = FileSlice(file, 2, 5)
        self.assertEqual((len(piece), piece.read(), piece.read()), (5, b"23456", b"23456"))
        self.assertEqual(file.tell(), 0)

    def test_narrow(self) -> None:
        """A part of a slice is counted from the slice's own start."""
        piece = FileSlice(self.a_file(b"0123456789"), 2, 5)
        self.assertEqual(piece.narrow(1, 3).read(), b"345")
        self.assertEqual(piece.narrow(4).read(), b"6")
        self.assertEqual(piece.narrow(5), FileSlice(piece.file, 7, 0))
        for start, length in ((-1, 1), (0, 6), (6, None), (0, -1)):
            self.assertRaises(ValueError, piece.narrow, start, length)

    def test_truncated_file(self) -> None:
        """If the file became shorter than the slice, reading fails instead of returning less."""
        piece = FileSlice(self.a_file(b"0123456789"), 8, 5)
        self.assertIn("ends at 10", str(self.assertRaises(EOFError, piece.read)))

    def test_short_reads(self) -> None:
        """Reads that the system cuts short are continued."""
        piece = FileSlice(self.a_file(b"0123456789"), 1, 8)
        pread = os.pread
        with mock.patch("os.pread", lambda fd, n, at: pread(fd, min(n, 3), at)):
            self.assertEqual(piece.read(), b"12345678")


class PartsTests(SynchronousTestCase):
    """Lists of parts."""

    def test_mixed(self) -> None:
        """Length and content of parts of every kind."""
        directory = TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = Path(directory.name, "file")
        path.write_bytes(b"file")
        with path.open("rb") as file:
            parts: Parts = [b"ab", memoryview(b"xcdx")[1:3], FileSlice(file, 1, 2), b""]
            self.assertEqual((total_length(parts), joined(parts)), (6, b"abcdil"))
            self.assertEqual(in_memory(parts), [b"ab", b"cd", b"il", b""])
        self.assertEqual((total_length([]), joined([])), (0, b""))

    def test_not_copied(self) -> None:
        """What is in memory stays where it is."""
        data = memoryview(bytearray(b"abc"))
        self.assertIs(in_memory([FileSlice(MEMORY, 0, 3, data)])[0], data)
        self.assertEqual(in_memory([FileSlice(MEMORY, 0, 0, b"")]), [b""])
