"""Tests that Spark's Python processes end quietly when Java has gone, and that all else is said."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyspark.errors import PySparkRuntimeError
from twisted.trial.unittest import SynchronousTestCase

from logbus.pipeline.hang_ups import expect_hang_up, expect_hang_ups_of_tasks, is_hang_up
from logbus.pipeline.spark_home import lean_home

_PLANNER = "pyspark.sql.streaming.python_streaming_source_runner"
_GONE = PySparkRuntimeError(errorClass="CANNOT_OPEN_SOCKET", messageParameters={"errors": "no such file"})
_OTHER = PySparkRuntimeError(errorClass="UNEXPECTED_RESPONSE_FROM_SERVER", messageParameters={})
_ERRORS = [BrokenPipeError(32, "Broken pipe"), ConnectionResetError(104, "reset"), _GONE, ValueError("x"), _OTHER]


class HangUpTests(SynchronousTestCase):
    """What says only that Java has gone, and where that is not said."""

    def setUp(self) -> None:
        self.patch(os, "environ", {name: value for name, value in os.environ.items() if name != "LOGBUS_DEBUG"})

    def reported(self, *command: str) -> list[Any]:
        """Which errors that end a process are reported."""
        reported: list[Any] = []
        self.patch(sys, "excepthook", lambda kind, error, trace: reported.append(error))
        expect_hang_up(command)
        for error in _ERRORS:
            sys.excepthook(type(error), error, None)
        return reported

    def test_planner(self) -> None:
        """That Java has gone is no error; others are."""
        self.assertEqual(self.reported("python", "-m", _PLANNER), _ERRORS[3:])

    def test_others(self) -> None:
        """Other programs report all."""
        self.assertEqual(self.reported("python", "-m", "pyspark.daemon"), _ERRORS)

    def test_debug(self) -> None:
        """Whoever looks for a problem sees all."""
        os.environ["LOGBUS_DEBUG"] = "1"
        self.assertFalse(any(map(is_hang_up, _ERRORS)))

    def test_accumulators(self) -> None:
        """The driver's server does not say that a connection has ended, and says all else."""
        said: list[BaseException | None] = []
        server = SimpleNamespace(handle_error=lambda request, address: said.append(sys.exc_info()[1]))
        expect_hang_ups_of_tasks(server)
        for error in (*_ERRORS[:2], EOFError(), ValueError("token")):
            try:
                raise error
            except Exception:
                server.handle_error(None, "")
        self.assertEqual([type(each) for each in said], [ValueError])
        expect_hang_ups_of_tasks(None)


class StartingTests(SynchronousTestCase):
    """A process of Spark's that is still starting, before it has imported anything of this package."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        unset = ("SPARK_", "PYSPARK_", "LOGBUS_DEBUG")
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith(unset)}
        home = lean_home({**self.environ, "XDG_CACHE_HOME": str(self.root)}, "local", {})
        assert home is not None
        self.modules = home / "python" / "lib" / "pyspark.zip"

    def run_python(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a process that finds the home's modules first, and then others of this test."""
        path = os.pathsep.join(filter(None, (str(self.modules), str(self.root), self.environ.get("PYTHONPATH"))))
        return subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**self.environ, "PYTHONPATH": path, **environ},
        )

    def test_java_has_gone(self) -> None:
        """A query that is stopped at once: the process that would plan it ends, and only for debugging says why."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = str(server.getsockname()[1])
        tcp = {"PYTHON_WORKER_FACTORY_PORT": port, "PYTHON_WORKER_FACTORY_SECRET": "x"}
        unix = {"PYTHON_WORKER_FACTORY_SOCK_PATH": str(self.root / "gone.sock")}
        for where in (tcp, unix):
            done = self.run_python("-m", _PLANNER, **where)
            self.assertEqual((done.stderr, done.returncode), ("", 1))
        self.assertIn("CANNOT_OPEN_SOCKET", self.run_python("-m", _PLANNER, **unix, LOGBUS_DEBUG="1").stderr)

    def test_daemon(self) -> None:
        """A worker of a daemon that plans, before it has imported anything of this package."""
        (self.root / "pyspark").mkdir()
        (self.root / "pyspark" / "__init__.py").touch()
        (self.root / "pyspark" / "daemon.py").write_text(
            "import os, traceback\n"
            "for error in (BrokenPipeError(), ValueError('ours')):\n"
            "    if not (worker := os.fork()):\n"
            "        try:\n"
            "            raise error\n"
            "        except BaseException:\n"
            "            traceback.print_exc()\n"
            "            os._exit(1)\n"
            "    os.waitpid(worker, 0)\n"
        )
        for module in ([], ["pyspark.sql.worker.plan_data_source_read"]):
            done = self.run_python("-m", "pyspark.daemon", *module)
            self.assertNotIn("BrokenPipeError", done.stderr)
            self.assertIn("ValueError: ours", done.stderr)

    def test_hidden_module(self) -> None:
        """The user's own module of that name is run as always, as the module that it is."""
        (self.root / "sitecustomize.py").write_text("print('ours')\nknown = 1\n")
        done = self.run_python("-c", "import sitecustomize, sys; print(sitecustomize.known, sys.excepthook.__module__)")
        self.assertEqual((done.stdout, done.stderr), ("ours\n1 sys\n", ""))
