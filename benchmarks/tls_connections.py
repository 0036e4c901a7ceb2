"""
Measures the memory of idle connections, with and without TLS::

    python -m benchmarks.tls_connections [--connections 1000]

Each connection has made one request, as a client's does when it connects, and is idle then.  Figures are the growth of
the broker's resident memory by connection, and the CPU of the broker for each.  The certificate is made anew, with an
elliptic curve's key.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import resource
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from logbus.interpreter import InterpreterBuild
from tests.certificates import Authority

TWISTD = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile=", "logbus"]
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
SETTLING_SECONDS = 12.0
"""In this time the broker has checked each connection twice, and given back the memory of those that are idle."""


@contextlib.contextmanager
def running(directory: Path, connections: int) -> Iterator[tuple[int, int, int]]:
    """A broker; its process, its plain port and its TLS port."""
    authority = Authority.new()
    store = Authority.new("CN=Middle", authority).issue().write(directory / "server.pem")
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "admin.listeners": "",
        "ssl.keystore.location": store,
        "max.connections": 2 * connections + 10,
        "log.dirs": directory / "data",
    }
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    process = subprocess.Popen([*TWISTD, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if ready := re.search(r"ready: PLAINTEXT=\S+:(\d+) SSL=\S+:(\d+)", line):
                yield process.pid, int(ready[1]), int(ready[2])
                return
        raise RuntimeError("the broker did not start")
    finally:
        process.kill()
        process.wait(30)
        process.stdout.close()


def resident(pid: int) -> int:
    """The resident memory of a process, in bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def cpu(pid: int) -> float:
    """The CPU that a process has used, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def connected(port: int, context: ssl.SSLContext | None) -> socket.socket:
    """A connection that has had its first response."""
    connection = socket.create_connection(("127.0.0.1", port), 60)
    if context is not None:
        connection = context.wrap_socket(connection)
    connection.sendall(API_VERSIONS)
    connection.recv(1 << 16)
    return connection


def measure(pid: int, port: int, connections: int, context: ssl.SSLContext | None) -> tuple[float, float]:
    """Bytes of memory, and milliseconds of CPU, by connection."""
    warm = [connected(port, context) for _ in range(20)]
    time.sleep(1)
    memory, busy = resident(pid), cpu(pid)
    opened = [connected(port, context) for _ in range(connections)]
    busy = cpu(pid) - busy
    time.sleep(SETTLING_SECONDS)
    grown = resident(pid) - memory
    for connection in opened + warm:
        connection.close()
    return grown / connections, busy / connections * 1000


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=1000)
    connections = parser.parse_args().connections
    print(InterpreterBuild.running().name, flush=True)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    secure = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    secure.check_hostname = False
    secure.verify_mode = ssl.CERT_NONE
    for name, context in (("PLAINTEXT", None), ("SSL", secure)):
        with tempfile.TemporaryDirectory() as directory, running(Path(directory), connections) as (pid, plain, tls):
            memory, busy = measure(pid, plain if context is None else tls, connections, context)
            print(f"{name:9} {connections} idle connections: {memory:8.0f} bytes, {busy:.2f} ms of CPU each")


if __name__ == "__main__":
    main()
