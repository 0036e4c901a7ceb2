"""Tests imports when the process has no file descriptor left."""

from __future__ import annotations

import errno
import json
import os
from types import ModuleType
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from logbus import late_imports
from logbus.late_imports import import_late, keep_descriptor


class LateImportTests(SynchronousTestCase):
    """At the limit of descriptors an import has the one that is kept for it."""

    def setUp(self) -> None:
        self.spare: list[int] = []
        self.patch(late_imports, "_spare", self.spare)
        self.addCleanup(self.close)
        self.opened = 0

    def close(self) -> None:
        """Close what is kept."""
        for each in self.spare:
            os.close(each)

    def at_limit(self, name: str) -> ModuleType:
        """Import as Python does, where a process may have no descriptor more than it has, and the spare one is one."""
        self.opened += 1
        if self.spare:
            raise OSError(errno.EMFILE, "Too many open files", name)
        return json

    def test_at_the_limit(self) -> None:
        """The module is imported, and a descriptor is kept for the next one."""
        keep_descriptor()
        with mock.patch.object(late_imports, "import_module", self.at_limit):
            self.assertIs(import_late("json"), json)
            self.assertEqual(len(self.spare), 1)
            self.assertIs(import_late("json"), json)
        self.assertEqual(self.opened, 4)

    def test_none_is_kept(self) -> None:
        """Then the error is that of the import, and so it is where the spare one does not help."""
        missing = OSError(errno.EMFILE, "Too many open files")
        with mock.patch.object(late_imports, "import_module", side_effect=missing):
            self.assertRaises(OSError, import_late, "json")
            keep_descriptor()
            self.assertRaises(OSError, import_late, "json")
        self.assertEqual(len(self.spare), 1)

    def test_no_room_to_keep_one(self) -> None:
        """At the limit none is kept, which is tried again."""
        with mock.patch.object(os, "open", side_effect=OSError(errno.ENFILE, "Too many open files in system")):
            keep_descriptor()
        self.assertEqual(self.spare, [])
        keep_descriptor()
        keep_descriptor()
        self.assertEqual(len(self.spare), 1)

    def test_other_errors(self) -> None:
        """They have nothing to do with descriptors, and are not tried twice."""
        keep_descriptor()
        with mock.patch.object(late_imports, "import_module", side_effect=OSError(errno.EIO, "I/O error")) as asked:
            self.assertRaises(OSError, import_late, "json")
        asked.assert_called_once_with("json")
