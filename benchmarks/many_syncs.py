"""
Compares ways to make appends to many files durable, in C, without a broker::

    python -m benchmarks.many_syncs [--files 1,4,16,100] [--rounds 9] [--directory DIRECTORY]

Prints time and processor time (of the whole machine, since the kernel's threads do most of it) for each file, and how
many times faster that is than a plain loop of fdatasync.  Medians; the ways take turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

from benchmarks.compare.native_programs import SOURCES
from logbus.interpreter import InterpreterBuild

WAYS = (
    ("fdatasync", 1),
    ("fdatasync", 2),
    ("fdatasync", 8),
    ("fdatasync", 32),
    ("started", 1),
    ("started", 8),
    ("written", 1),
    ("written", 8),
    ("uring", 0),
    ("syncfs", 0),
    ("journal", 0),
)
SYNCS = 2000
"""Files synced in a round of a way."""


def busy_us() -> float:
    """Microseconds that all cores have worked since the machine started."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:])
    return (user + nice + system + irq + softirq) * 1e6 / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", default="1,4,16,100")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--directory", help="on the disk to measure")
    options = parser.parse_args()
    print(InterpreterBuild.running().name, flush=True)
    with tempfile.TemporaryDirectory(dir=options.directory) as name:
        program = f"{name}/many_syncs"
        subprocess.run(["cc", "-O2", "-o", program, SOURCES / "many_syncs.c", "-lpthread"], check=True)
        for files in map(int, options.files.split(",")):
            times, costs = defaultdict(list), defaultdict(list)
            turns = max(1, SYNCS // files)
            for _ in range(options.rounds):
                for way, threads in WAYS:
                    before = busy_us()
                    command = [program, name, way, str(threads), str(files), str(turns)]
                    done = subprocess.run(command, capture_output=True, text=True, check=False)
                    if done.returncode:
                        continue  # A kernel without io_uring, for instance.
                    times[way, threads].append(float(done.stdout))
                    costs[way, threads].append((busy_us() - before) / turns / files)
            loop = statistics.median(times["fdatasync", 1])
            for (way, threads), found in times.items():
                time, cost = statistics.median(found), statistics.median(costs[way, threads])
                print(
                    f"{files:4} files {way:10} {threads or '':2} {time:8.1f} µs, CPU {cost:7.1f} µs, {loop / time:6.2f}"
                )


if __name__ == "__main__":
    main()
