"""Tests of ``logbus cluster start``: the cluster starts, restarts a killed broker, and stops in order."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from logbus.testing.cluster_roles import known_brokers
from logbus.testing.held_ports import HeldPorts
from tests.cli.command_line import COMMAND, run

SECONDS = 120


class Started:
    """The running command."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def until(self, pattern: str) -> re.Match[str]:
        """Read what it says up to a line."""
        assert self.process.stdout is not None
        seen = []
        for line in self.process.stdout:
            seen.append(line)
            found = re.search(pattern, line)
            if found:
                return found
        raise AssertionError(f"{pattern!r} did not come:\n{''.join(seen)}")


@contextmanager
def started(data_dir: Path, *options: str) -> Iterator[Started]:
    """Start the command, and stop it at the end."""
    command = [*COMMAND, "cluster", "start", "--port", "0", "--admin-port", "0", "--data-dir", str(data_dir), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield Started(process)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=SECONDS)


def pids_in(data_dir: Path) -> dict[int, int]:
    """The processes of the brokers, by number."""
    return {int(lock.parent.name[-1]): int(lock.read_text()) for lock in data_dir.glob("broker-?/.lock")}


def zookeeper_of(supervisor: int) -> int:
    """The process of the ZooKeeper that a supervisor has started."""
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    (found,) = (int(pid) for pid in children if "QuorumPeerMain" in Path(f"/proc/{pid}/cmdline").read_text())
    return found


def test_whole_run(tmp_path: Path) -> None:
    """Three brokers start, what is killed is restarted, Ctrl-C stops all, and the topic is there at the next start."""
    data = tmp_path / "cluster"
    with started(data, "--restart-after", "0") as cluster:
        bootstrap = cluster.until(r"cluster ready: --bootstrap (\S+)")[1]
        addresses = bootstrap.split(",")
        assert len(addresses) == 3
        made = run("topics", "create", "kept", "--partitions", "3", "--bootstrap", bootstrap)
        assert made.status == 0, made.err
        second = run("cluster", "start", "--data-dir", str(data))
        assert (second.status, "runs in" in second.err) == (1, True)
        killed = pids_in(data)[1]
        subprocess.run(["kill", "-KILL", str(killed)], check=True)
        cluster.until(r"broker 1 was killed \(SIGKILL\); it is started again in 0 s")
        cluster.until("broker 1 is started again")
        os.kill(zookeeper_of(cluster.process.pid), signal.SIGKILL)
        cluster.until("ZooKeeper has ended; it is started again in 0 s")
        cluster.until("ZooKeeper is started again")
        cluster.process.send_signal(signal.SIGINT)
        cluster.until("^stopped")
        assert cluster.process.wait(SECONDS) == 0
    assert (data / "broker-2.log").exists()
    with started(data) as cluster:
        bootstrap = cluster.until(r"cluster ready: --bootstrap (\S+)")[1]
        assert run("topics", "list", "--bootstrap", bootstrap).out == "kept\n"
        subprocess.run(["kill", "-TERM", str(pids_in(data)[2])], check=True)
        cluster.until("broker 2 was stopped; it stays down")


def test_start_failures(tmp_path: Path) -> None:
    """A port in use and an invalid setting are named in one line, and nothing is left running."""
    with closing(HeldPorts()) as held:
        number = held.free("127.0.0.1")
        port = str(number)
        with socket.create_server(("127.0.0.1", number)):
            done = run("cluster", "start", "-n", "1", "-d", str(tmp_path / "a"), "--port", port, "--admin-port", "0")
        assert done.status == 1
        assert port in done.err and "in use" in done.err
        assert known_brokers(f"127.0.0.1:{port}") == 0
    done = run("cluster", "start", "-n", "1", "-d", str(tmp_path / "b"), "--port", "0", "--set", "num.partition=1")
    assert (done.status, "did you mean num.partitions" in done.err) == (1, True)
    done = run("cluster", "start", "-n", "2", "-d", str(tmp_path / "c"), "--port", "0", "--set", "broker.id=4")
    assert (done.status, "numbered from 0" in done.err, (tmp_path / "c").exists()) == (2, True, False)
