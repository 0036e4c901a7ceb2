"""Workers of one supervisor, which both may be killed, frozen and started at any time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from attrs import define, field

from logbus.testing.held_ports import HeldPorts
from logbus.testing.settings import Setting

SECONDS = 120.0
COMMAND = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "--nodaemon", "--pidfile=", "logbus"]


@define(eq=False)
class WorkerMachine:
    """
    A machine with workers; it looks like a cluster to :class:`~tests.faults.traffic.Traffic`.

    :ivar count: of the workers.
    :ivar log: what all supervisors have said so far.
    """

    directory: Path
    count: int
    config: dict[str, Setting] = field(factory=dict)
    bootstrap: str = field(init=False)
    _first_port: int = field(init=False)
    supervisor: subprocess.Popen[bytes] = field(init=False)
    _held: HeldPorts = field(factory=HeldPorts, init=False)

    def __attrs_post_init__(self) -> None:
        self.bootstrap = f"127.0.0.1:{self._held.free('127.0.0.1')}"
        # Clients need not look for brokers anew: librdkafka forgets the bootstrap address once it knows them.
        self._first_port = self._held.free_run("127.0.0.1", self.count)

    @property
    def log(self) -> Path:
        return self.directory / "log"

    def start(self) -> None:
        """Start a supervisor, at once, and wait until all workers serve."""
        host, _, port = self.bootstrap.rpartition(":")
        settings = {"workers.first.port": self._first_port, **self.config}
        more = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        listen = ["--listen", f"kafka:tcp:{port}:interface={host}", "--workers", str(self.count)]
        begin = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as output:
            self.supervisor = subprocess.Popen(
                [*COMMAND, "--data-dir", str(self.directory / "data"), *listen, *more], stdout=output, stderr=output
            )

        def ready() -> bool:
            said = self.log.read_bytes()[begin:].decode(errors="replace")
            assert self.supervisor.poll() is None, said[-3000:]
            return f"Supervisor#info] logbus brokers 0 to {self.count - 1} ready" in said

        self.wait_until(ready, "workers that serve")

    def workers(self) -> list[int]:
        """The processes of the workers."""
        return [worker for starter in _children(self.supervisor.pid) for worker in _children(starter)]

    def wait_whole(self, without: int = 0) -> None:
        """Wait until all workers run, and a process is not one of them."""
        self.wait_until(
            lambda: len(found := self.workers()) == self.count and without not in found, f"workers without {without}"
        )

    def kill(self) -> None:
        """End the supervisor, as a crash does."""
        self.supervisor.kill()
        self.supervisor.wait()

    def stop(self) -> None:
        """Stop in order."""
        self.supervisor.send_signal(signal.SIGTERM)
        assert self.supervisor.wait(SECONDS) in (0, -signal.SIGTERM)

    def wait_until(self, condition: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
        deadline = time.monotonic() + max(seconds, SECONDS)
        while not condition():
            assert time.monotonic() < deadline, f"{what}:\n{self.log.read_text(errors='replace')[-5000:]}"
            time.sleep(0.05)

    def __enter__(self) -> WorkerMachine:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.supervisor.poll() is None:
            for worker in self.workers():
                os.kill(worker, signal.SIGCONT)
            self.stop()
        self._held.close()


def _children(process: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except FileNotFoundError:
        return []
