"""
Starts the two brokers, waits until they are ready, and stops them.

Each is one process on loopback with a data directory of its own, started by us and ended by its process id; it may have
others below it.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import attrs

from benchmarks.compare.process_cost import Cost, tree_cost
from benchmarks.compare.wire import Admin
from logbus.testing.held_ports import HeldPorts

#: Housekeeping between cells, for both: a deleted topic's files go after a second rather than a minute.
DELETE_DELAY_MS = 1000

#: Kafka's own start script passes these, and a heap of 1 GB.
KAFKA_JVM = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)

#: What :func:`free_port` gave.  A JVM takes seconds to listen, and whoever else got its port meanwhile would be taken
#: for it.
_PORTS = HeldPorts()


class StartFailure(Exception):
    """A broker did not become ready; the text has the end of its output."""


class System(Protocol):
    """A system to compare: how to run one broker."""

    @property
    def name(self) -> str:
        """As the tables show it."""

    @property
    def brokers(self) -> int:
        """How many there are for clients once it serves."""

    def prepare(self, directory: Path, port: int, synced: bool | None) -> Sequence[str]:
        """
        Make the data directory and return the command that starts the broker on ``127.0.0.1:port``.

        :param synced: acks=all means synced to disk; False: it means written; None: the system's own default.
        """

    def topic_configs(self, synced: bool | None, acks: int) -> dict[str, str]:
        """A topic's settings for the requested durability."""


@attrs.frozen
class Kafka:
    """
    Apache Kafka: one KRaft node that is broker and controller, with its own defaults.

    :ivar jars: Directory of jars.
    """

    jars: Path
    version: str

    @property
    def name(self) -> str:
        return "kafka"

    @property
    def brokers(self) -> int:
        return 1

    def prepare(self, directory: Path, port: int, synced: bool | None) -> Sequence[str]:
        control = free_port()
        properties = directory / "server.properties"
        properties.write_text(
            "process.roles=broker,controller\nnode.id=1\n"
            f"controller.quorum.voters=1@127.0.0.1:{control}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}\n"
            "controller.listener.names=CONTROLLER\n"
            f"log.dirs={directory / 'data'}\n"
            # One broker cannot hold three replicas; Kafka's sample configuration has the same lines.
            "offsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\n"
            "transaction.state.log.min.isr=1\nshare.coordinator.state.topic.replication.factor=1\n"
            "share.coordinator.state.topic.min.isr=1\n"
            f"log.segment.delete.delay.ms={DELETE_DELAY_MS}\n"
        )
        java = ["java", "-cp", f"{self.jars}/*"]
        format_ = [*java, "kafka.tools.StorageTool", "format", "-t", "Y29tcGFyZS1jbHVzdGVyLQ", "-c", str(properties)]
        done = subprocess.run(format_, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise StartFailure(f"formatting Kafka's storage failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return [java[0], *KAFKA_JVM, *java[1:], "kafka.Kafka", str(properties)]

    def topic_configs(self, synced: bool | None, acks: int) -> dict[str, str]:
        return {"flush.messages": "1"} if synced and acks == -1 else {}


@attrs.frozen
class Logbus:
    """
    logbus from this checkout, by ``twistd -n logbus`` with its own defaults.

    :ivar python: The interpreter of the environment it is installed for.
    :ivar workers: Its worker processes; 1: one process that serves.
    :ivar settings: Keys of its configuration, as ``--set`` takes them.
    """

    python: str = sys.executable
    workers: int = 1
    settings: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def name(self) -> str:
        return "logbus"

    @property
    def brokers(self) -> int:
        return self.workers

    def prepare(self, directory: Path, port: int, synced: bool | None) -> Sequence[str]:
        command = [self.python, "-m", "twisted.scripts.twistd"]
        twistd = Path(self.python).parent / "twistd"
        if twistd.exists():
            command = [str(twistd)]
        command += ["-n", "--pidfile=", "logbus", "--data-dir", str(directory / "data")]
        command += ["--listen", f"kafka:tcp:{port}:interface=127.0.0.1"]
        command += ["--listen", "admin:tcp:0:interface=127.0.0.1"]
        command += ["--set", f"log.segment.delete.delay.ms={DELETE_DELAY_MS}"]
        if self.workers > 1:
            command += ["--workers", str(self.workers), "--set", "workers.first.port=0"]
        if synced is not None:
            command += ["--set", f"log.flush.before.ack={str(synced).lower()}"]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        return command

    def topic_configs(self, synced: bool | None, acks: int) -> dict[str, str]:
        return {}


@attrs.define
class Running:
    """
    A system that serves: one broker, or several behind one port.

    :ivar port: Where clients begin.
    :ivar start_seconds: From spawning the process to the first metadata answer that names the broker.
    :ivar sync_count: File with the count of its syncs, when it was started with the counting library.
    """

    system: System
    port: int
    process: subprocess.Popen[bytes]
    start_seconds: float
    synced: bool | None
    sync_count: Path | None

    @property
    def name(self) -> str:
        return self.system.name

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def admin(self) -> Admin:
        return Admin(self.port)

    def cost(self) -> Cost:
        """Of all its processes."""
        return tree_cost(self.pid)

    def syncs(self) -> int:
        """The number of calls of fsync, fdatasync and syncfs; 0 if they are not counted."""
        if self.sync_count is None:
            return 0
        return int(struct.unpack("<Q", self.sync_count.read_bytes())[0])

    def stop(self) -> float:
        """Ask it to end, wait, and return how long that took; past 60 s it is killed."""
        began = time.monotonic()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
        return time.monotonic() - began


def free_port() -> int:
    """A port for a server of ours: while this process lives, nobody who asks the system for any port is given it."""
    return _PORTS.free("127.0.0.1")


def start(
    system: System,
    directory: Path,
    *,
    synced: bool | None = None,
    preload: Path | None = None,
    sync_delay_ms: float = 0.0,
    patience: float = 60.0,
) -> Running:
    """
    Start a broker on an empty directory and wait until it serves.

    :param preload: The counting library; None starts it plain.
    :param sync_delay_ms: What each sync takes longer; needs ``preload``.
    :raise StartFailure: It ended, or did not serve within ``patience`` seconds.
    """
    directory.mkdir(parents=True)
    port = free_port()
    command = system.prepare(directory, port, synced)
    environment: Mapping[str, str] = dict(os.environ)
    count: Path | None = None
    if preload is not None:
        count = directory / "syncs"
        count.write_bytes(bytes(8))
        environment = {
            **environment,
            "LD_PRELOAD": str(preload),
            "BENCH_SYNC_COUNT": str(count),
            "BENCH_SYNC_DELAY_US": str(int(sync_delay_ms * 1000)),
        }
    output = directory / "output"
    with output.open("wb") as sink:
        began = time.monotonic()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, env=environment, cwd=checkout()
        )
    while True:
        if process.poll() is None and _serves(port, system.brokers):
            return Running(system, port, process, time.monotonic() - began, synced, count)
        late = time.monotonic() - began > patience
        if late or process.poll() is not None:
            if process.poll() is None:
                process.kill()
            process.wait(10)
            words = output.read_text(errors="replace")[-2000:]
            raise StartFailure(f"{system.name} {'was not ready in time' if late else 'ended at start'}:\n{words}")
        time.sleep(0.005)


def _serves(port: int, brokers: int) -> bool:
    try:
        return Admin(port, timeout=2.0).brokers() >= brokers
    except OSError:
        return False


def checkout() -> Path:
    """The directory the package logbus lies in."""
    return Path(__file__).parent.parent.parent
