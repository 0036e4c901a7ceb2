"""
Compares the cost of single requests and of bulk with floors, in the same run, and with recorded ratios::

    python -m benchmarks.regression [--rounds 15] [--seconds 0.4] [--allowed 0.25] [--record]

* A lone produce of 100 bytes and a lone fetch of 4 KB, in µs of CPU beyond the same bytes through an epoll echo in C.
  Their ratio is to the time of a piece of Python, since what is beyond is Python.
* Bulk produce, to a bare CRC and write of the same batches; bulk fetch, to a bare sendfile of the same bytes.

Ends with status 1 if a ratio is worse than that in ``benchmarks/regression.json`` by more than the share allowed.
Broker and floor take turns, CPU is compared, and processors are kept from sleeping, so it may run on a machine with
other work; but quiet is better.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
from crc32c import crc32c

from benchmarks.awake_processors import awake
from benchmarks.compare import wire
from benchmarks.compare.cells import FULL, Cell
from benchmarks.compare.native_programs import Programs, build, compile_program
from benchmarks.compare.process_cost import cost
from benchmarks.compare.rounds import run_load, settle
from benchmarks.compare.systems import Logbus, Running, start
from benchmarks.compare.touched_memory import touch
from benchmarks.compare.workloads import Load, prepare
from logbus.interpreter import InterpreterBuild

RECORD: Final = Path(__file__).with_name("regression.json")
#: A round of a producer ends at this much.
MAX_BYTES: Final = 300e6
#: µs of CPU that a lone request is to take beyond the echo.
TARGET_US: Final = 10.0

#: The fetch takes one batch.
LONE: Final = (Cell("lone produce", "produce", 100), Cell("lone fetch", "fetch", 1000, batch=4000, fetch_bytes=4096))
#: Batches to fetch one by one: few, so that the broker does not write them to the disk meanwhile.
LONE_BATCHES: Final = 2000
BULK: Final = (Cell("bulk produce", "produce", 1000, batch=FULL), Cell("bulk fetch", "fetch", 1000, batch=FULL))


@attrs.frozen
class Finding:
    """
    What one cell costs.

    :ivar ratio: To its floor; what is recorded.
    :ivar text: The figures it is made of.
    """

    name: str
    ratio: float
    text: str


@attrs.frozen
class Server:
    """A process to send requests to: the broker, or the echo."""

    port: int
    pid: int


def python_time() -> float:
    """µs for ten times the same piece of Python, such as a request is made of: a call, a slice, numbers of bytes."""
    data, unpack = bytes(range(256)), struct.Struct(">hih").unpack_from
    found = {number: number for number in range(256)}

    def piece(at: int) -> int:
        one, two, three = unpack(data, at)
        total: int = found[at] + len(data[at : at + 8]) + one + two + three
        return total

    times = []
    for _ in range(300):
        begun = time.thread_time_ns()
        for at in range(100):
            piece(at)
        times.append(time.thread_time_ns() - begun)
    return sorted(times)[len(times) // 10] / 1e4


def quarter(values: list[float]) -> float:
    """That below which a quarter is: what else the machine does can only make a request cost more."""
    return sorted(values)[len(values) // 4]


@contextmanager
def echo(program: Path, request: int, answer: Path) -> Iterator[Server]:
    """A process that gives each request of so many bytes the same answer."""
    command = [str(program), str(request), str(answer)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Server(int(process.stdout.readline()), process.pid)
        finally:
            process.kill()


def spent(load: Load, server: Server, seconds: float) -> tuple[float, float]:
    """CPU seconds of the server for a request, and for a byte."""
    if load.cell.writes_much:
        settle()
        touch(load.directory, int(1.3 * MAX_BYTES))
    before = cost(server.pid).cpu
    result = run_load(load.run(server, seconds, MAX_BYTES), seconds + 90)
    cpu = cost(server.pid).cpu - before
    moved = result["bytes_in" if load.cell.kind == "fetch" else "bytes_out"]
    return cpu / result["requests"], cpu / moved


def appended(load: Load) -> float:
    """CPU seconds for a byte of batches that are checked and written, and nothing else."""
    settle()
    touch(load.directory, int(1.3 * MAX_BYTES))
    data, path = load.batch.data, load.directory / "appended"
    body = memoryview(data)[21:]
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        begun, written = time.thread_time(), 0
        while written < MAX_BYTES:
            crc32c(body)
            written += os.write(fd, data)
        return (time.thread_time() - begun) / written
    finally:
        os.close(fd)
        path.unlink()


@contextmanager
def filled(cell: Cell, broker: wire.Admin, server: Server, directory: Path, programs: Programs) -> Iterator[Load]:
    """The cell's load; its topic holds what is to be read."""
    topic = cell.name.replace(" ", "-")
    load = prepare(cell, topic, directory / topic, programs)
    if cell in LONE:
        load = attrs.evolve(load, preload=min(load.preload, LONE_BATCHES))
    broker.create_topic(topic, 1, {})
    try:
        filling = load.fill(server)
        if filling is not None:
            run_load(filling, 180)
        yield load
    finally:
        broker.delete_topic(topic)


def answer_of(load: Load, broker: wire.Admin) -> tuple[int, Path]:
    """The size of the load's request, and a file with the broker's response."""
    request = (load.directory / load.cell.kind).read_bytes()
    response = broker.replay(request)
    path = load.directory / "answer"
    path.write_bytes(struct.pack(">i", len(response)) + response)
    return len(request), path


def lone(load: Load, broker: wire.Admin, server: Server, program: Path, rounds: int, seconds: float) -> Finding:
    """A cell of small requests, one at a time."""
    beyond, floors, ratios = [], [], []
    with echo(program, *answer_of(load, broker)) as bare:
        for turn in range(rounds + 1):
            ours, floor = (spent(load, one, seconds)[0] * 1e6 for one in (server, bare))
            if turn:  # The first one warms.
                beyond.append(ours - floor)
                floors.append(floor)
                ratios.append((ours - floor) / python_time())
    more, floor = quarter(beyond), quarter(floors)
    text = f"{more:.1f} µs beyond the echo's {floor:.1f} (target {TARGET_US:g})"
    return Finding(load.cell.name, quarter(ratios), text)


def bulk(load: Load, broker: wire.Admin, server: Server, program: Path, rounds: int, seconds: float) -> Finding:
    """A cell of large batches."""
    if load.cell.kind == "fetch":
        with echo(program, *answer_of(load, broker)) as bare:
            return _bulk(load, server, lambda: spent(load, bare, seconds)[1], rounds, seconds)
    return _bulk(load, server, lambda: appended(load), rounds, seconds)


def _bulk(load: Load, server: Server, floor: Callable[[], float], rounds: int, seconds: float) -> Finding:
    pairs = [(spent(load, server, seconds)[1] * 1e9, floor() * 1e9) for _ in range(rounds + 1)][1:]
    ours, least = (quarter(list(figures)) for figures in zip(*pairs, strict=True))
    return Finding(load.cell.name, ours / least, f"{ours:.2f} s a GB, at least {least:.2f}")


def worse(findings: list[Finding], recorded: Mapping[str, float], allowed: float) -> list[str]:
    """The names of those that cost more than recorded by more than a share."""
    return [one.name for one in findings if one.ratio > recorded.get(one.name, float("inf")) * (1 + allowed)]


def measure(
    broker: wire.Admin, server: Server, directory: Path, cells: str, rounds: int, seconds: float
) -> Iterator[Finding]:
    """All cells with a text in their names."""
    programs, program = build(directory), directory / "bare-echo"
    compile_program("echo.c", program)
    for one, chosen in ((lone, LONE), (bulk, BULK)):
        for cell in chosen:
            if cells in cell.name:
                with filled(cell, broker, server, directory, programs) as load:
                    yield one(load, broker, server, program, rounds, seconds)


def main() -> int:
    """Measure, print and compare; 1 if something is worse."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.regression", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.4, help="length of a round")
    parser.add_argument("--cells", default="", help="only cells with this in their name")
    parser.add_argument("--allowed", type=float, default=0.25, help="by what share a ratio may be worse (default 0.25)")
    parser.add_argument("--record", action="store_true", help="write the ratios to the file instead of comparing them")
    options = parser.parse_args()
    record: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.exists() else {"ratios": {}}
    recorded: dict[str, float] = record["ratios"]
    print(f"{InterpreterBuild.running().name}; recorded with {record.get('interpreter')}", flush=True)
    findings = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR"), prefix="logbus-regression-") as name:
        running: Running = start(Logbus(), Path(name) / "broker")
        try:
            server = Server(running.port, running.pid)
            with awake():
                for found in measure(running.admin, server, Path(name), options.cells, options.rounds, options.seconds):
                    findings.append(found)
                    then = f"{recorded[found.name]:5.2f}" if found.name in recorded else "  new"
                    print(f"{found.name:14} {found.ratio:5.2f} recorded {then}  {found.text}", flush=True)
        finally:
            running.stop()
    if options.record:
        ratios = recorded | {found.name: round(found.ratio, 2) for found in findings}
        RECORD.write_text(
            json.dumps({"interpreter": InterpreterBuild.running().name, "ratios": ratios}, indent=1) + "\n"
        )
        return 0
    found_worse = worse(findings, recorded, options.allowed)
    if found_worse:
        print(f"worse by more than {options.allowed:.0%}: {', '.join(found_worse)}", file=sys.stderr)
    return int(bool(found_worse))


if __name__ == "__main__":
    sys.exit(main())
