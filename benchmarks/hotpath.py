"""
Measures one broker's hot path, beside the machine's limits in the same run::

    python -m benchmarks.hotpath [--seconds 3] [--rounds 3]

Prints a table in reST: what a request and a gigabyte cost, latency, memory with 1000 connections, and the time from
``twistd`` to the first answer.  The echo is an epoll loop in Python that answers 60 bytes to each request and does
nothing else: rates are to be read against it, since machines are noisy; CPU per request and per GB hold better.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.compare import machine_limits, wire
from benchmarks.compare.cells import FULL, Cell
from benchmarks.compare.native_programs import Programs, build
from benchmarks.compare.process_cost import cost
from benchmarks.compare.rounds import Figures, measure
from benchmarks.compare.systems import Logbus, Running, free_port, start
from benchmarks.compare.workloads import prepare
from logbus.interpreter import InterpreterBuild

CELLS = (
    Cell("produce 100 B, 1 connection", "produce", 100),
    Cell("produce 100 B, 16 connections", "produce", 100, connections=16),
    Cell("produce 100 B, 16 in flight", "produce", 100, depth=16),
    Cell("produce 100 B, acks=all", "produce", 100, acks=-1),
    Cell("produce 100 B, acks=all, 16 connections", "produce", 100, acks=-1, connections=16),
    Cell("produce 1 MB batches", "produce", 1000, batch=FULL, depth=2),
    Cell("fetch 1 MB batches", "fetch", 1000, batch=FULL),
    Cell("tail, one record", "tail", 100),
    Cell("latency through librdkafka", "rd-latency", 100),
    Cell("small beside 1 MB batches", "beside-bulk", 100),
)

ECHO = """
import select, socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
poll, peers = select.epoll(), {}
server.setblocking(False)
poll.register(server, select.EPOLLIN)
answer = (56).to_bytes(4, "big") + bytes(56)
size = int(sys.argv[2])
while True:
    for fd, _ in poll.poll():
        if fd == server.fileno():
            peer, _ = server.accept()
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peers[peer.fileno()] = [peer, 0]
            poll.register(peer, select.EPOLLIN)
            continue
        entry = peers[fd]
        try:
            data = entry[0].recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            poll.unregister(fd)
            entry[0].close()
            continue
        whole, entry[1] = divmod(entry[1] + len(data), size)
        if whole:
            entry[0].send(answer * whole)
"""


@contextmanager
def echo(size: int) -> Iterator[tuple[int, int]]:
    """A process that answers requests of ``size`` bytes; gives its port and process id."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", ECHO, str(port), str(size)])
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                if process.poll() is not None:
                    raise RuntimeError("the echo did not start") from None
        yield port, process.pid
    finally:
        process.kill()
        process.wait(10)


def echo_rows(programs: Programs, directory: Path, seconds: float) -> Iterator[tuple[str, str]]:
    """Measures a loop that only answers."""
    frame = wire.produce_request("echo", {0: wire.record_batch(1, 100)}, 1)
    path = directory / "echo"
    path.write_bytes(frame)
    with echo(len(frame)) as (port, pid):
        for name, connections, depth in (("1 connection", 1, 1), ("16 connections", 16, 1), ("16 in flight", 1, 16)):
            before = cost(pid).cpu
            figures = [str(port), str(connections), str(depth), f"{seconds:g}", "1e18", "0", str(path)]
            ran = subprocess.run(
                [str(programs.load), "produce", *figures], capture_output=True, text=True, check=True, timeout=120
            )
            result = json.loads(ran.stdout)
            per_request = (cost(pid).cpu - before) / result["requests"] * 1e6
            rate = result["requests"] / result["seconds"]
            yield f"echo, {name}", f"{rate:,.0f} requests/s, {per_request:.1f} µs CPU, p99 {result['p99_us']:.0f} µs"


def described(cell: Cell, figures: Figures) -> str:
    """One cell's figures in words."""
    latency = f"p50 {figures.p50_us:.0f}, p99 {figures.p99_us:.0f} µs"
    if cell.bulk:
        return f"{figures.mb_per_s:,.0f} MB/s, {figures.cpu_s_per_gb:.2f} s CPU/GB, {latency}"
    return f"{figures.requests_per_s:,.0f} requests/s, {figures.cpu_us_per_request:.1f} µs CPU, {latency}"


def idle_connections(broker: Running, count: int) -> str:
    """Memory with many idle connections that have each asked something."""
    ask = b"\0\0\0\x0e\0\x12\0\0\0\0\0\1\0\4idle"
    peers = []
    try:
        for _ in range(count):
            peer = socket.create_connection(("127.0.0.1", broker.port))
            peers.append(peer)
            peer.sendall(ask)
            peer.recv(4096)
        return f"{cost(broker.pid).anonymous / 1e6:.1f} MB anonymous, {cost(broker.pid).resident / 1e6:.1f} MB resident"
    finally:
        for peer in peers:
            peer.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a round")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts")
    parser.add_argument("--cells", default="", help="only cells with this in their name")
    options = parser.parse_args()
    print(InterpreterBuild.running().name, flush=True)
    rows: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR"), prefix="logbus-hotpath-") as name:
        directory = Path(name)
        programs = build(directory)
        rows += [
            (limit.name, f"{limit.median:.2f} {limit.unit} ({limit.low:.2f} to {limit.high:.2f})")
            for limit in machine_limits.measure(directory)
        ]
        rows += echo_rows(programs, directory, options.seconds)
        starts = []
        for turn in range(5):
            broker = start(Logbus(), directory / f"start-{turn}")
            starts.append(broker.start_seconds)
            broker.stop()
        starts.sort()
        rows.append(("twistd to the first answer", f"{starts[2]:.2f} s ({starts[0]:.2f} to {starts[-1]:.2f})"))
        broker = start(Logbus(), directory / "broker")
        try:
            rows.append(("memory, freshly started", f"{cost(broker.pid).resident / 1e6:.1f} MB resident"))
            rows.append(("memory, 1000 idle connections", idle_connections(broker, 1000)))
            for number, cell in enumerate(CELLS):
                if options.cells in cell.name:
                    load = prepare(cell, f"hot-{number}", directory / f"cell-{number}", programs)
                    found = measure(load, [broker], rounds=options.rounds, seconds=options.seconds, max_bytes=2e9)
                    rows.append((cell.name, described(cell, found["logbus"])))
        finally:
            broker.stop()
    width = max(len(name) for name, _ in rows)
    for name, figure in rows:
        print(f"{name:<{width}}  {figure}")


if __name__ == "__main__":
    main()
