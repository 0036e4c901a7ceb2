"""A standalone Spark of several processes: a master, workers and drivers, which can be killed one by one."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

SECONDS = 240
_SMALL = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
WORKER = re.compile(r"Successfully registered with master")

SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "700m",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""What a small driver is told."""


class NotStarted(Exception):
    """A part of Spark did not come up; its last words follow."""


class Part:
    """
    A process of Spark's, and what it says.

    :param host: its own address.
    :param within: a command that runs it, such as in a network namespace.
    """

    def __init__(
        self,
        name: str,
        *arguments: str,
        directory: str,
        memory: str = "256m",
        host: str = "127.0.0.1",
        within: Sequence[str] = (),
    ) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        command = [*within, str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
        environ = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_DAEMON_MEMORY": memory,
            "SPARK_DAEMON_JAVA_OPTS": _SMALL,
            "SPARK_LOCAL_IP": host,
            "SPARK_LOCAL_DIRS": directory,
            "PYSPARK_PYTHON": sys.executable,
        }
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._last: list[str] = []
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environ, start_new_session=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._last = [*self._last[-40:], line]
            self._lines.put(line)
        self._lines.put(None)

    def wait_for(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """
        The first line with a pattern.

        :raise NotStarted: it does not come.
        """
        while True:
            try:
                line = self._lines.get(timeout=SECONDS)
            except queue.Empty:
                line = None
            if line is None:
                raise NotStarted("".join(self._last))
            if found := pattern.search(line):
                return found

    def kill(self) -> None:
        """It and all that it started, at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join(SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()


class Standalone:
    """
    A master and workers on 127.0.0.1; a context manager.

    :param workers: how many.
    :param cores: of each.
    :param memory: of each, for its executors.

    :ivar url: ``spark://127.0.0.1:PORT``, the master.
    """

    def __init__(self, workers: int = 2, cores: int = 1, memory: str = "1g") -> None:
        self.url = ""
        self._count, self._cores, self._memory = workers, cores, memory
        self._directory = tempfile.mkdtemp(prefix="logbus-spark-")
        self._parts: list[Part] = []

    def __enter__(self) -> Standalone:
        try:
            where = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
            self._parts.append(Part("master.Master", *where, directory=self._directory))
            self.url = self._parts[0].wait_for(MASTER)[1]
            for number in range(self._count):
                room = ("--cores", str(self._cores), "--memory", self._memory)
                work = ("--work-dir", f"{self._directory}/worker-{number}")
                self._parts.append(Part("worker.Worker", *where, *room, *work, self.url, directory=self._directory))
            for part in self._parts[1:]:
                part.wait_for(WORKER)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill all of it, what workers started last."""
        executors = self.executors()
        for part in reversed(self._parts):
            part.kill()
        self._parts.clear()
        for pid in executors:
            kill(pid)
        shutil.rmtree(self._directory, ignore_errors=True)

    def executors(self) -> list[int]:
        """The Java processes that run tasks, over all workers."""
        return [
            pid
            for part in self._parts[1:]
            for pid in descendants(part.process.pid)
            if b"CoarseGrainedExecutorBackend" in _command(pid)
        ]

    def python_workers(self) -> list[int]:
        """The Python processes in which tasks run: each was forked from an executor's one."""
        return [
            pid
            for executor in self.executors()
            for parent in descendants(executor)
            if b"pyspark" in _command(parent)
            for pid in descendants(parent)
        ]


def kill(pid: int) -> None:
    """End a process at once, if it has not ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> Iterator[int]:
    """All processes that one started, and those that these did."""
    children: list[str] = []
    with contextlib.suppress(OSError):
        # A process is listed with the thread that started it.
        for thread in Path(f"/proc/{pid}/task").iterdir():
            children += (thread / "children").read_text().split()
    for child in map(int, children):
        yield child
        yield from descendants(child)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def driver(module: str, *arguments: str, environ: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """
    A driver in a process group of its own: ``python -m MODULE ARGUMENTS``; what it says comes on standard output.
    """
    command: Sequence[str] = [sys.executable, "-m", module, *arguments]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", **(environ or {})},
        start_new_session=True,
    )


def end(process: subprocess.Popen[str]) -> None:
    """End a driver and all that it started, at once, if it has not ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
