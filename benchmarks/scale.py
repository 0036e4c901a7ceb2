"""
Measures how cost grows with partitions, connections, and the size of a log::

    python -m benchmarks.scale [--partitions 10,1000,10000] [--gigabytes 0]

For each number of partitions: creating them, the time to start again after a clean stop and after a kill, memory, CPU
while idle, and what a small produce costs when it goes to one partition and when it goes to all of them in turn.
With ``--gigabytes`` also how long a log of that size takes to open after a clean stop and after a kill.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.compare.cells import FULL, Cell
from benchmarks.compare.native_programs import Programs, build
from benchmarks.compare.process_cost import cost
from benchmarks.compare.rounds import measure
from benchmarks.compare.systems import Logbus, Running, start
from benchmarks.compare.workloads import Load, prepare
from logbus.interpreter import InterpreterBuild

PER_TOPIC = 100
IDLE_SECONDS = 10.0


def kill(broker: Running) -> None:
    """End a broker as a crash does."""
    broker.process.send_signal(signal.SIGKILL)
    broker.process.wait(10)


def again(directory: Path, system: type[Logbus] = Logbus) -> Running:
    """Start on a directory that has been used; what the harness leaves beside the data is made anew."""
    moved = directory.with_name(directory.name + "+")
    moved.mkdir()
    shutil.move(directory / "data", moved / "data")
    shutil.rmtree(directory)
    moved_data = moved / "data"
    broker_directory = directory

    class Used(system):  # type: ignore[valid-type, misc]
        def prepare(self, directory: Path, port: int, synced: bool | None) -> list[str]:
            shutil.move(moved_data, directory / "data")
            moved.rmdir()
            return list(super().prepare(directory, port, synced))

    return start(Used(), broker_directory, patience=180)


def idle_cpu(broker: Running) -> float:
    """Percent of a core while nobody asks anything."""
    before = cost(broker.pid).cpu
    time.sleep(IDLE_SECONDS)
    return (cost(broker.pid).cpu - before) / IDLE_SECONDS * 100


def partitions(count: int, directory: Path, programs: Programs) -> Iterator[tuple[str, str]]:
    """The figures of one number of partitions."""
    broker = start(Logbus(), directory)
    try:
        began = time.monotonic()
        left = count
        while left:
            now = min(left, PER_TOPIC)
            broker.admin.create_topic(f"many-{left}", now, {})
            left -= now
        yield f"{count} partitions: created in", f"{time.monotonic() - began:.2f} s"
        broker.stop()
        broker = again(directory)
        yield f"{count} partitions: start after a clean stop", f"{broker.start_seconds:.2f} s"
        yield f"{count} partitions: memory", f"{cost(broker.pid).resident / 1e6:.0f} MB resident"
        yield f"{count} partitions: idle", f"{idle_cpu(broker):.2f} % of a core"
        for name, cell in (
            ("small produce to one", Cell("one", "produce", 100, connections=16)),
            ("small produce to 100 in turn", Cell("all", "produce", 100, connections=16, partitions=100)),
        ):
            load: Load = prepare(cell, f"load-{cell.name}", directory / f"load-{cell.name}", programs)
            found = measure(load, [broker], rounds=3, seconds=2, max_bytes=1e9)["logbus"]
            yield f"{count} partitions: {name}", f"{found.cpu_us_per_request:.1f} µs CPU a request"
            shutil.rmtree(directory / f"load-{cell.name}")
        kill(broker)
        broker = again(directory)
        yield f"{count} partitions: start after a kill", f"{broker.start_seconds:.2f} s"
        began = time.monotonic()
        broker.stop()
        yield f"{count} partitions: clean stop", f"{time.monotonic() - began:.2f} s"
    finally:
        if broker.process.poll() is None:
            broker.stop()


def large(gigabytes: int, directory: Path, programs: Programs) -> Iterator[tuple[str, str]]:
    """Measures the time to open a large log."""
    broker = start(Logbus(), directory)
    try:
        broker.admin.create_topic("large", 1, {})
        cell = Cell("large", "produce", 1000, batch=FULL, depth=4)
        load = prepare(cell, "large", directory / "load", programs)
        written, began = 0.0, time.monotonic()
        while written < gigabytes * 1e9:
            command = load.run(broker, 600, gigabytes * 1e9 - written)
            ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=900)
            written += json.loads(ran.stdout)["bytes_out"]
        yield f"{gigabytes} GB: written in", f"{time.monotonic() - began:.0f} s"
        shutil.rmtree(directory / "load")
        broker.stop()
        broker = again(directory)
        yield f"{gigabytes} GB: start after a clean stop", f"{broker.start_seconds:.2f} s"
        kill(broker)
        broker = again(directory)
        yield f"{gigabytes} GB: start after a kill, idle before", f"{broker.start_seconds:.2f} s"
        load = prepare(cell, "large", directory / "load", programs)
        subprocess.run(load.run(broker, 60, 300e6), capture_output=True, check=True, timeout=120)
        shutil.rmtree(directory / "load")
        kill(broker)
        broker = again(directory)
        yield f"{gigabytes} GB: start after a kill, 300 MB written before", f"{broker.start_seconds:.2f} s"
        for line in (directory / "output").read_text().splitlines():
            if "recover" in line or "scann" in line:
                print("    " + line.partition("] ")[2])
    finally:
        if broker.process.poll() is None:
            broker.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", default="10,1000,10000", help="numbers of partitions, with commas between")
    parser.add_argument("--gigabytes", type=int, default=0, help="size of a log to open; 0 leaves it out")
    options = parser.parse_args()
    print(InterpreterBuild.running().name, flush=True)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR"), prefix="logbus-scale-") as name:
        directory = Path(name)
        programs = build(directory)
        for count in [int(text) for text in options.partitions.split(",") if text]:
            for what, figure in partitions(count, directory / f"partitions-{count}", programs):
                print(f"{what:<60} {figure}", flush=True)
        if options.gigabytes:
            for what, figure in large(options.gigabytes, directory / "large", programs):
                print(f"{what:<60} {figure}", flush=True)


if __name__ == "__main__":
    main()
