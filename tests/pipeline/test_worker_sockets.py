"""Tests the choice of Unix domain sockets between Java and Python."""

from __future__ import annotations

import logging
import socket
import stat
import subprocess
import sys
from pathlib import Path
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from logbus.pipeline.worker_sockets import DAEMON, DIRECTORY, ENABLED, socket_settings

_LOGGER = "logbus.pipeline.worker_sockets"


class ChoiceTests(SynchronousTestCase):
    """Unix domain sockets are the default of jobs on one machine."""

    def chosen(
        self, *names: str, directory: str = "/tmp/x", version: str = "4.3.0", here: bool = True, **environ: str
    ) -> str:
        """Why they are not used; "": they are."""
        with self.assertLogs(_LOGGER, logging.DEBUG) as said:
            logging.getLogger(_LOGGER).debug("begin")
            settings = socket_settings(
                environ, names, is_here=here, pyspark_version=version, make_directory=lambda: directory
            )
        if settings:
            daemon = "logbus.pipeline.worker_daemon"
            self.assertEqual(settings, {ENABLED: "true", DIRECTORY: directory, DAEMON: daemon})
        messages = [each.getMessage() for each in said.records[1:]]
        self.assertEqual(len(messages), 0 if settings else 1)
        start = "Java and Python are connected by TCP, not by Unix domain sockets: "
        self.assertTrue(all(each.startswith(start) for each in messages), messages)
        return messages[0].removeprefix(start) if messages else ""

    def test_the_users_choice(self) -> None:
        """Whoever has said something about it is not overruled, nor whoever uses what fails with it."""
        for name in (ENABLED, DIRECTORY, DAEMON, "spark.python.udf.pipelined.enabled"):
            self.assertEqual(self.chosen(name), f"{name} is set")
        self.assertEqual(self.chosen(PYSPARK_UDS_MODE="false"), "PYSPARK_UDS_MODE is set in the environment")
        self.assertEqual(self.chosen("spark.ui.enabled"), "")

    def test_impossible(self) -> None:
        """Old packages; tasks elsewhere; long paths, since a socket's has at most 107 bytes; systems without any."""
        self.assertEqual(self.chosen(version="4.0.2"), "pyspark is 4.0.2, and has them as of 4.1")
        self.assertEqual(self.chosen(version="4.10.0.dev1"), "")
        self.assertRegex(self.chosen(here=False), "^tasks run in other processes than Spark's driver, ")
        self.assertRegex(self.chosen(directory="/tmp/" + 28 * "é"), r"^/tmp/é+ is too long .* \(60 bytes\); TMPDIR")
        with mock.patch.object(socket, "AF_UNIX", create=True):
            del socket.AF_UNIX
            self.assertEqual(self.chosen(), "this system has none")

    def test_debug(self) -> None:
        """Whoever looks for a problem sees what is used instead, without a setting of loggers."""
        with self.assertLogs(_LOGGER, logging.WARNING):
            socket_settings({"LOGBUS_DEBUG": "1"}, (), is_here=False, pyspark_version="4.3.0")

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
