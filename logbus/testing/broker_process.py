"""
``twistd -n logbus`` as a child process: started, watched until it is ready, stopped, killed, frozen.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path

from logbus.testing.control.channel_lines import ENVIRONMENT, ControlAddress
from logbus.testing.errors import BrokerFailed

READY = re.compile(r"logbus brokers? \d+(?: to \d+)? ready: (?P<listeners>.*)")
ADDRESS = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)=(?P<address>\S+:\d+)")

TWISTD = "from twisted.scripts.twistd import run; run()"
CONTROLLED = "from logbus import tap; from logbus.testing.control.controlled_process import run; run(tap)"
"""The same, for a broker that follows its test."""
ENDS_WITH_PARENT = (
    "import os, signal, threading; "
    "end = lambda: (os.read(0, 1), os.kill(os.getpid(), signal.SIGKILL)); "
    "threading.Thread(target=end, daemon=True).start()"
)
"""Waits for the end of standard input, whose other end the parent has and never writes to."""

PROBLEM = "logbus: "
"""The beginning of the line that tells an operator why a broker cannot start or continue."""

KEPT_LINES = 1000
SHOWN_LINES = 50


class BrokerProcess:
    """
    A broker as an operator would run it.

    The constructor returns at once, so that several can start side by side; :meth:`wait_ready` waits.

    :param config: settings by Kafka's names.
    :param listeners: what ``--listen`` takes, each.
    :param advertised: what ``--advertise`` takes, each.
    :param own_group: whether Ctrl-C in a terminal is kept from it.
    :param release: what ``--as-version`` takes.
    :param log: a file to which its output is appended.
    :param control: where it finds its test, whose faults it has: see :mod:`logbus.testing.control`; None: nowhere.
    :param with_parent: whether it ends at once when this process does, also if that is killed.

    :ivar addresses: ``HOST:PORT`` by listener name, once it is ready.
    """

    def __init__(
        self,
        config: Mapping[str, str],
        data_dir: Path,
        listeners: Sequence[str],
        advertised: Sequence[str] = (),
        *,
        own_group: bool = False,
        log: Path | None = None,
        release: str | None = None,
        with_parent: bool = False,
        control: ControlAddress | None = None,
    ) -> None:
        program = TWISTD if control is None else CONTROLLED
        if with_parent:
            program = f"{ENDS_WITH_PARENT}; {program}"
        command = [sys.executable, "-c", program, "-n", "--pidfile="]
        command += ["logbus", "--data-dir", config.get("log.dirs", str(data_dir))]
        if release is not None:
            command += ["--as-version", release]
        for listener in listeners:
            command += ["--listen", listener]
        for address in advertised:
            command += ["--advertise", address]
        for key, value in config.items():
            if key != "log.dirs":
                command += ["--set", f"{key}={value}"]
        self.addresses: Mapping[str, str] = {}
        self._lines: list[str] = []
        self._count = 0
        self._log = None if log is None else log.open("a", encoding="utf-8", buffering=1)
        self._ready: Future[Mapping[str, str]] = Future()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if with_parent else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=own_group,
            env=None if control is None else {**os.environ, ENVIRONMENT: str(control)},
        )
        # Its output is read to the end, or a full pipe would stop it.
        self._reader = threading.Thread(target=self._read, name="logbus-test-broker-log", daemon=True)
        self._reader.start()

    def wait_ready(self, timeout: float) -> Mapping[str, str]:
        """
        Its addresses, once it serves.

        :raise BrokerFailed: it ended, or took longer than ``timeout`` seconds; then it was killed.
        """
        try:
            self.addresses = self._ready.result(timeout)
        except FutureTimeout:
            self.kill()
            raise BrokerFailed(f"the broker was not ready after {timeout:g} s; its log ends:\n{self.output}") from None
        except BrokerFailed:
            self.process.wait()
            self._finish()
            raise
        return self.addresses

    @property
    def is_ready(self) -> bool:
        """Whether it has logged that it is ready."""
        return self._ready.done() and self._ready.exception() is None

    @property
    def output(self) -> str:
        """The last lines of its log."""
        return "\n".join(self._lines[-SHOWN_LINES:])

    @property
    def log_mark(self) -> int:
        """The number of lines that it logged so far."""
        return self._count

    def log_lines(self, since: int) -> list[str]:
        """The last lines of its log, without those before a mark."""
        lines = list(self._lines)
        fresh = max(0, self._count - since)
        return lines[-fresh:] if fresh else []

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.append(line.rstrip("\n"))
            self._count += 1
            del self._lines[:-KEPT_LINES]
            if self._log is not None:
                self._log.write(line)
            # A worker is ready before all are.
            found = None if "[worker " in line else READY.search(line)
            if found and not self._ready.done():
                self._ready.set_result(dict(ADDRESS.findall(found["listeners"])))
        if self._log is not None:
            self._log.close()
        if not self._ready.done():
            self._ready.set_exception(BrokerFailed(self._why_ended()))

    def _why_ended(self) -> str:
        """The line of twistd with the error, or the last lines of the log."""
        for line in reversed(self._lines):
            if line.startswith(PROBLEM):
                return f"the broker did not start: {line.removeprefix(PROBLEM)}"
        return f"the broker ended; its log ends:\n{self.output}"

    def stop(self, timeout: float) -> None:
        """
        Stop in order.

        :raise BrokerFailed: it took longer than ``timeout`` seconds and was killed, or ended in another way.
        """
        self.process.send_signal(signal.SIGTERM)
        self.process.send_signal(signal.SIGCONT)
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerFailed(f"the broker had not stopped after {timeout:g} s:\n{self.output}") from None
        self._finish()
        # twistd stops in order and then ends by the signal that stopped it, as a shell expects.
        if status not in (0, -signal.SIGTERM):
            raise BrokerFailed(f"the broker stopped with status {status}:\n{self.output}")

    def abandon(self) -> None:
        """End it with this process, which ends now."""
        self.kill()

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
        self.process.wait()
        self._finish()

    def freeze(self) -> None:
        """Have it do nothing, with its connections open, until :meth:`thaw`."""
        self.process.send_signal(signal.SIGSTOP)
        # Its threads run on for a moment.
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def thaw(self) -> None:
        """End a :meth:`freeze`."""
        self.process.send_signal(signal.SIGCONT)

    def _finish(self) -> None:
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        if self.process.stdin is not None:
            self.process.stdin.close()


def local_listener(name: str, port: int) -> str:
    """The value of ``--listen`` for a port of 127.0.0.1; its name is that of its protocol."""
    return f"{name}={name}:tcp:{port}:interface=127.0.0.1"
