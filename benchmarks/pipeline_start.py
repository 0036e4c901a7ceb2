"""
Measures the processor time of starting a pipeline job: ``logbus pipeline load`` of one record, in a process of its own.

The first round starts without an archive of Java's classes, the second one writes it, and the others start from it. The
time is that of all processes: Python, Spark's Java, and Spark's Python workers.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer

from logbus.testing import Broker

TOPIC = "events"
PR_SET_CHILD_SUBREAPER = 36


def children() -> set[int]:
    """The numbers of this process's children, with those whose parents have ended."""
    return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))


def used(command: list[str], environ: dict[str, str]) -> tuple[float, float]:
    """The processor time of a command and of all that it has started, and the time on the clock; in seconds."""
    others = children()
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)
    took = time.perf_counter() - begun
    while left := children() - others:
        os.waitpid(left.pop(), 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, took


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    asked = parser.parse_args()
    # Spark's Java and its Python workers become children of this process when their parents end.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with Broker(in_process=False, controlled=False) as broker, tempfile.TemporaryDirectory() as place:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce(TOPIC, b'{"user": "u"}')
        assert producer.flush(60) == 0
        environ = {**os.environ, "XDG_CACHE_HOME": place}
        for number in range(asked.rounds):
            command = [
                sys.executable,
                "-c",
                "from logbus.cli import main; main()",
                "pipeline",
                "load",
                TOPIC,
                "--quiet",
            ]
            command += ["--table", f"{place}/{number}", "-b", broker.bootstrap, "--master", asked.master]
            command += ["--payload", "json", "--schema", "user STRING", *(["--class-archive"] if number == 1 else [])]
            cpu, took = used(command, environ)
            what = ("without an archive", "writing an archive")[number] if number < 2 else "from an archive"
            print(f"{what:18} {cpu:6.1f} CPU s {took:6.1f} s", flush=True)


if __name__ == "__main__":
    main()
