"""
Compares the clients for Twisted and asyncio with aiokafka (with its compiled extension) and kafka-python, on one
broker::

    python -m benchmarks.clients [--rounds 3] [--records 100000] [--sizes 100,1000] [--jobs produce,consume,latency]
        [--rate 1000] [--linger 0.005]

The libraries take turns, each in a process of its own; ratios are between medians of one run. Beside records a second
the CPU time that a record costs the client is told: it does not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.client_drivers import DRIVERS, LINGER, WARMING
from benchmarks.compare.systems import Logbus, Running, start
from logbus.interpreter import InterpreterBuild

OURS = "logbus"
Figures = dict[str, float]


def drive(library: str, job: str, broker: Running, topic: str, *numbers: float) -> Figures:
    """Run one library."""
    command = [sys.executable, "-m", "benchmarks.client_drivers", library, job, f"127.0.0.1:{broker.port}", topic]
    done = subprocess.run(
        [*command, *(f"{number:g}" if isinstance(number, float) else str(number) for number in numbers)],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode:
        raise SystemExit(f"{library} cannot {job}:\n{done.stderr}")
    found: Figures = json.loads(done.stdout.splitlines()[-1])
    return found


def say(what: str, figures: dict[str, list[Figures]], name: str, best: str) -> None:
    """Print the medians, and what the others have for each of ours."""
    medians = {library: median(each[name] for each in found) for library, found in figures.items()}
    ours = medians[OURS]
    ratios = [
        f"{ours / theirs if best == 'high' else theirs / ours:.2f}x {library}"
        for library, theirs in medians.items()
        if library != OURS
    ]
    told = ", ".join(f"{library} {value:,.2f}" for library, value in medians.items())
    print(f"{what:<24}{told};  {' and '.join(ratios)}", flush=True)


def measure(broker: Running, libraries: Sequence[str], job: str, size: int, options: argparse.Namespace) -> None:
    """All libraries do a job by turns."""
    records, rate = options.records, options.rate
    figures: dict[str, list[Figures]] = {library: [] for library in libraries}
    shared = f"shared-{size}"
    if job == "consume":
        broker.admin.create_topic(shared, 1, {})
        drive(OURS, "produce", broker, shared, records, size)
    for n in range(options.rounds):
        for library in libraries:
            topic = shared
            if job != "consume":
                topic = f"{job}-{size}-{library}-{n}"
                broker.admin.create_topic(topic, 1, {})
                time.sleep(0.2)
            if job == "latency":
                found = drive(library, job, broker, topic, int(5 * rate), size, rate, options.linger)
            else:
                found = drive(library, job, broker, topic, records - (WARMING if job == "consume" else 0), size)
            figures[library].append(found)
    print(f"{job}, {size} B" + (f", {rate:g} a second, linger {options.linger:g} s" if job == "latency" else ""))
    if job == "latency":
        say("  p50, ms", figures, "p50_ms", "low")
        say("  p99, ms", figures, "p99_ms", "low")
    else:
        say("  records/s", figures, "rate", "high")
    say("  µs CPU a record", figures, "cpu_us", "low")
    say("  peak MB", figures, "peak_mb", "low")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--sizes", default="100,1000")
    parser.add_argument("--jobs", default="produce,consume,latency")
    parser.add_argument("--rate", type=float, default=1000, help="of latency: records a second")
    parser.add_argument("--linger", type=float, default=LINGER, help="of latency: seconds")
    parser.add_argument("--libraries", default=",".join(DRIVERS))
    options = parser.parse_args()
    print(InterpreterBuild.running().name, flush=True)
    with tempfile.TemporaryDirectory(prefix="logbus-clients-") as name:
        broker = start(Logbus(), Path(name) / "broker", synced=False)
        try:
            for job in options.jobs.split(","):
                for size in map(int, options.sizes.split(",")):
                    measure(broker, options.libraries.split(","), job, size, options)
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
