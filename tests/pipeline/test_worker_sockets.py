"""Tests the choice of Unix domain sockets between Java and Python."""

from __future__ import annotations

import socket
import stat
import subprocess
import sys
from pathlib import Path
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from logbus.pipeline.worker_sockets import DAEMON, DIRECTORY, ENABLED, socket_settings


class ChoiceTests(SynchronousTestCase):
    """Unix domain sockets are the default of jobs on one machine."""

    def chosen(self, *names: str, directory: str = "/tmp/x", **environ: str) -> bool:
        """Whether they are used."""
        settings = socket_settings(environ, names, lambda: directory)
        if settings:
            daemon = "logbus.pipeline.worker_daemon"
            self.assertEqual(settings, {ENABLED: "true", DIRECTORY: directory, DAEMON: daemon})
        return bool(settings)

    def test_the_users_choice(self) -> None:
        """Whoever has said something about it is not overruled, nor whoever uses what fails with it."""
        for name in (ENABLED, DIRECTORY, DAEMON, "spark.python.udf.pipelined.enabled"):
            self.assertFalse(self.chosen(name), name)
        self.assertFalse(self.chosen(PYSPARK_UDS_MODE="false"))
        self.assertTrue(self.chosen("spark.ui.enabled"))

    def test_impossible(self) -> None:
        """A path of a socket has at most 107 bytes, and not every system has such sockets."""
        self.assertFalse(self.chosen(directory="/tmp/" + 60 * "x"))
        with mock.patch.object(socket, "AF_UNIX", create=True):
            del socket.AF_UNIX
            self.assertFalse(self.chosen())

    def test_directory(self) -> None:
        """Nobody else can look into it, and it is gone afterwards."""
        code = (
            "from logbus.pipeline.worker_sockets import private_directory\n"
            "import os\n"
            "path = private_directory()\n"
            "open(os.path.join(path, 'left'), 'w').close()\n"
            "print(path, os.stat(path).st_mode)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
        path, mode = done.stdout.split()
        self.assertEqual(stat.S_IMODE(int(mode)), stat.S_IRWXU)
        self.assertFalse(Path(path).exists())
