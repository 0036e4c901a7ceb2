"""Tests of :mod:`logbus.metastore.database`."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory

from twisted.trial.unittest import SynchronousTestCase

from logbus.metastore.database import Database
from logbus.metastore.operations import StoreUnusable
from logbus.metastore.tree import Row


def node(number: int) -> Row:
    """A node of two kilobytes."""
    return Row(f"/{number}", bytes(2000), 1, 1, 0, 0, 0, 0, 0)


class HeldRoomTests(SynchronousTestCase):
    """What the files take, so that changes are possible on a full disk."""

    def setUp(self) -> None:
        directory = TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.database = Database(self.directory / "metadata.db")

    def taken(self) -> int:
        """Bytes on the disk."""
        return sum(path.stat().st_blocks * 512 for path in self.directory.iterdir())

    def test_changes(self) -> None:
        """Nodes that come and go again take no more room than what is held, however many; nor do those that stay."""
        self.database.open()
        self.addCleanup(self.database.close)
        held = self.taken()
        for number in range(100):
            self.database.commit([node(number)], [], number)
            if number >= 50:
                self.database.commit([], [node(number).path], number)
        self.assertEqual(self.taken(), held)

    def test_while_closed(self) -> None:
        """A closed file's room is held for the next start, which begins with as much again."""
        self.database.open()
        held = self.taken()
        for _ in range(2):
            self.database.close()
            self.assertGreaterEqual(self.taken(), held)
            self.database.open()
            self.assertLessEqual(self.taken(), held)
        self.database.close()

    def test_refused(self) -> None:
        """Beside a file that is not a metadata store nothing is left."""
        with sqlite3.connect(self.database.path) as other:
            other.execute("CREATE TABLE kept (kept)")
        self.assertRaises(StoreUnusable, self.database.open)
        self.database.close()
        self.assertEqual([path.name for path in self.directory.iterdir()], ["metadata.db"])
