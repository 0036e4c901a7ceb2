"""
Measures how cost grows with workers, by CPU::

    python -m benchmarks.scaling [--workers 1,2] [--rounds 8] [--seconds 0.5] [--grow 1,2,4,8]

The machine may have no core left for the load, so rates say little: what counts is the CPU a request takes in all
processes of the broker, and how many requests that makes for a second of CPU.  If it stays as it is with more workers,
they serve as many times more where there are cores.  Each worker is pinned to a core of its own, as far as there are
cores; the load is not.

``--grow`` starts so many workers that nothing is asked of, and then has topics created: start, memory, CPU while idle,
CPU for a partition in all processes, and in the supervisor alone, which has the metadata store.  Empty leaves it out.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.compare.cells import FULL, JAVA, Cell
from benchmarks.compare.native_programs import build
from benchmarks.compare.process_cost import cost, tree
from benchmarks.compare.rounds import Figures, measure
from benchmarks.compare.systems import Logbus, Running, start
from benchmarks.compare.workloads import prepare
from benchmarks.compare_checkouts import Checkout
from logbus.interpreter import InterpreterBuild

CELLS = (
    Cell("produce.100B.one.acks1.c16.p16", "produce", 100, connections=16, partitions=16),
    Cell("produce.100B.one.all.c16.p16", "produce", 100, acks=-1, connections=16, partitions=16),
    Cell("produce.1KB.java.acks1.c16.p16", "produce", 1000, JAVA, connections=16, partitions=16),
    Cell("produce.1KB.spread.acks1.c16.p16", "produce", 1000, 10_000, connections=16, partitions=16, spread=True),
    Cell("fetch.1KB.java.c16.p16", "fetch", 1000, JAVA, connections=16, partitions=16),
    Cell("fetch.1KB.full.c16.p16", "fetch", 1000, FULL, connections=16, partitions=16),
    Cell("tail.1KB.c16.p16", "tail", 1000, connections=16, partitions=16),
)
IDLE_SECONDS = 5.0
TOPICS, PARTITIONS = 10, 20


def workers_of(pid: int) -> list[int]:
    """The processes that serve: those below which there are none."""
    return [one for one in tree(pid) if tree(one) == [one]]


def pin(pids: Sequence[int], cores: Sequence[int]) -> None:
    """Give each process a core, with all its threads."""
    for number, pid in enumerate(pids):
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), {cores[number % len(cores)]})


def unit_cost(cell: Cell, figures: Figures) -> float:
    """CPU µs for a MB where bytes are moved, else for a request: requests that go to several leaders are split."""
    return figures.cpu_s_per_gb * 1e3 if cell.bulk else figures.cpu_us_per_request


def serving(counts: Sequence[int], cells: str, rounds: int, seconds: float, directory: Path) -> Iterator[str]:
    """The cost of each cell with so many workers."""
    programs, cores = build(directory), sorted(os.sched_getaffinity(0))
    brokers: list[Running] = []
    try:
        for count in counts:
            broker = start(Checkout(workers=count, label=str(count)), directory / f"broker-{count}")
            brokers.append(broker)
            pin(workers_of(broker.pid), cores)
        yield f"{'cell':34} workers   rate/s  CPU each  a CPU second  to {counts[0]}"
        for number, cell in enumerate(cell for cell in CELLS if cells in cell.name):
            load = prepare(cell, f"scaling-{number}", directory / f"cell-{number}", programs)
            found = measure(load, brokers, rounds=rounds, seconds=seconds, max_bytes=300e6)
            first = unit_cost(cell, found[brokers[0].name])
            for broker in brokers:
                figures = found[broker.name]
                each, rate = unit_cost(cell, figures), figures.mb_per_s if cell.bulk else figures.requests_per_s
                row = (
                    f"{rate:9,.0f} {each:7.1f} µs {1e6 / each:10,.0f} {'MB' if cell.bulk else '  '} {first / each:5.2f}"
                )
                yield f"{cell.name:34} {broker.name:>7} {row}"
    finally:
        for broker in brokers:
            broker.stop()


def growing(count: int, directory: Path) -> str:
    """What so many workers cost of which nothing is asked, and for new partitions."""
    broker = start(Logbus(workers=count), directory, patience=120)
    try:
        time.sleep(2.0)
        root = broker.pid
        before = broker.cost()
        time.sleep(IDLE_SECONDS)
        after = broker.cost()
        central = cost(root).cpu
        times = []
        for number in range(TOPICS):
            began = time.monotonic()
            broker.admin.create_topic(f"topic-{number}", PARTITIONS, {})
            times.append(time.monotonic() - began)
        made = TOPICS * PARTITIONS
        total, supervisor = (broker.cost().cpu - after.cpu) / made * 1e6, (cost(root).cpu - central) / made * 1e6
        own = f"{supervisor:6.0f}" if count > 1 else "     -"
        idle = (after.cpu - before.cpu) / IDLE_SECONDS * 100
        return (
            f"{count:7} {broker.start_seconds:7.2f} {after.resident / 1e6:6.0f} {idle:6.1f} "
            f"{statistics.median(times) * 1e3:9.0f} {total:8.0f} {own}"
        )
    finally:
        broker.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--workers", default="1,2", help="numbers of workers, with commas between")
    parser.add_argument("--cells", default="", help="only cells with this in their name")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a round")
    parser.add_argument("--grow", default="1,2,4,8", help="numbers of workers that nothing is asked of")
    options = parser.parse_args()
    print(InterpreterBuild.running().name, flush=True)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR"), prefix="logbus-scaling-") as name:
        counts = [int(text) for text in options.workers.split(",") if text]
        if counts:
            for line in serving(counts, options.cells, options.rounds, options.seconds, Path(name)):
                print(line, flush=True)
        grown = [int(text) for text in options.grow.split(",") if text]
        if grown:
            print(f"workers start s     MB idle %  {PARTITIONS} new ms each µs supervisor", flush=True)
        for count in grown:
            print(growing(count, Path(name) / f"grow-{count}"), flush=True)


if __name__ == "__main__":
    main()
