"""The lock of a log directory: its errors name the file, and whose it is."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ConfigError
from logbus.storage.filesystem import directory_lock
from logbus.storage.filesystem.directory_lock import lock_directory


class DirectoryLockTests(SynchronousTestCase):
    def setUp(self) -> None:
        directory = TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)

    def test_held(self) -> None:
        """Who holds it is named."""
        self.addCleanup(os.close, lock_directory(str(self.root)))
        error = self.assertRaises(ConfigError, lock_directory, str(self.root))
        self.assertIn(f"(process {os.getpid()} holds {self.root}/.lock)", str(error))

    def test_another_owner(self) -> None:
        """A file that another user's broker made is named, with both users."""
        (self.root / ".lock").touch()

        def refuse(*arguments: object) -> int:
            raise PermissionError(13, "Permission denied")

        mine = os.geteuid()
        some = {name: getattr(os, name) for name in ("stat", "O_CREAT")}
        self.patch(directory_lock, "os", SimpleNamespace(**some, open=refuse, geteuid=lambda: mine + 1))
        error = self.assertRaises(ConfigError, lock_directory, str(self.root))
        self.assertEqual(
            str(error),
            f"the log directory {self.root} is not writable: {self.root}/.lock: Permission denied; it belongs to uid "
            f"{mine}, and this broker runs as uid {mine + 1}",
        )

    def test_no_such_directory(self) -> None:
        """Without a file there is no owner to name."""
        error = self.assertRaises(ConfigError, lock_directory, f"{self.root}/none")
        self.assertTrue(str(error).endswith("/none/.lock: No such file or directory"), error)
