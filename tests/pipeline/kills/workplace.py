"""The environment of jobs that are killed: a broker, a Spark, a directory, and drivers in processes of their own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from attrs import define, field

from logbus.testing import Broker
from tests.pipeline.kills.hold_points import VARIABLE, Orders
from tests.pipeline.standalone import Standalone

PATIENCE = 240.0
_QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For Java processes that do not live long."""

SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": _QUICK,
    "spark.executor.extraJavaOptions": _QUICK,
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@define(eq=False)
class Driver:
    """
    A job in a process of its own.

    :ivar last: the last line that it said.
    """

    process: subprocess.Popen[str]
    master: str
    last: str = ""
    _reader: threading.Thread | None = None

    @classmethod
    def start(cls, module: str, asked: Mapping[str, Any]) -> Driver:
        process = subprocess.Popen(
            [sys.executable, "-m", module, json.dumps(asked)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self = cls(process, asked["master"])
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()
        return self

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.last = line.strip() or self.last

    @property
    def has_ended(self) -> bool:
        """Whether it has, by itself or not."""
        return self.process.poll() is not None

    def kill(self) -> None:
        """Its Python and Java; what they started notices."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def finish(self) -> bool:
        """Let it take what is left; False: it failed."""
        assert self.process.stdin is not None and self._reader is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        status = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return status == 0


@define(eq=False)
class Workplace:
    """
    What a job needs to be killed; a context manager.

    :param spark: of several processes, if there is one already.

    :ivar directory: of the job's own files;  ``orders``: for its processes.
    :ivar settings: of Spark, which tell these where orders are, and where our modules.
    """

    spark: Standalone = field(factory=Standalone)
    directory: Path = field(init=False)
    orders: Orders = field(init=False)
    broker: Broker = field(factory=lambda: Broker(in_process=False), init=False)
    settings: dict[str, str] = field(init=False)
    _stack: contextlib.ExitStack = field(factory=contextlib.ExitStack, init=False)

    def __enter__(self) -> Workplace:
        with contextlib.ExitStack() as stack:
            self.directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="logbus-kills-")))
            points = self.directory / "points"
            points.mkdir()
            self.orders = Orders(points)
            needed = {VARIABLE: str(points), "PYTHONPATH": str(Path(__file__).parents[2])}
            self.settings = {
                **SETTINGS,
                "spark.local.dir": str(self.directory / "spark"),
                **{f"spark.executorEnv.{name}": each for name, each in needed.items()},
            }
            stack.enter_context(mock.patch.dict(os.environ, {**needed, "SPARK_LOCAL_IP": "127.0.0.1"}))
            stack.enter_context(self.broker)
            if not self.spark.url:
                stack.enter_context(self.spark)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
