"""
Measures what a broker costs a test: processor time of the first of a process, of each further one, of clusters, and
their memory::

    python -m benchmarks.test_brokers [--rounds 5]

Each round is a new process, with bytecode from a cache, as that of an installed package has it.  The least of the
rounds is what counts: other work on the machine makes all of them more.  The first line is the time of Twisted's
reactor alone in the same rounds, in a process of its own, by which figures of different machines and moments can be
compared.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TWISTED = """
import json, time
start = time.process_time()
from twisted.internet import epollreactor
print(json.dumps({"Twisted's reactor, imported": (time.process_time() - start) * 1000}))
"""

PROGRAM = """
import json, os, resource, time

def cpu():
    return time.process_time() * 1000

def resident():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) / 1024

start = cpu()
from logbus.testing import Broker
first = Broker().start()
found = {"first broker of a process": cpu() - start}
start = cpu()
first.close()
found["its stop"] = cpu() - start
Broker().start().close()
start = cpu()
for _ in range(10):
    Broker().start().close()
found["each further one, with its stop"] = (cpu() - start) / 10
before = resident()
brokers = [Broker().start() for _ in range(10)]
found["memory of a further broker (MB)"] = (resident() - before) / 10
for broker in brokers:
    broker.close()
from logbus.testing import LocalCluster
start = cpu()
cluster = LocalCluster().start()
found["first cluster of three"] = cpu() - start
cluster.close()
start, before = cpu(), resident()
cluster = LocalCluster().start()
found["each further cluster"] = cpu() - start
found["memory of its brokers (MB)"] = resident() - before
start = cpu()
cluster.close()
found["its stop "] = cpu() - start
print(json.dumps(found))
"""


def measure(cache: Path) -> dict[str, float]:
    """The figures of one round: milliseconds of processor time, megabytes."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(cache)
    found: dict[str, float] = {}
    for program in (TWISTED, PROGRAM):
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        found |= json.loads(done.stdout)
    return found


def main() -> None:
    """Measure, and print the least of all rounds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as cache:
        # The first one compiles.
        measure(Path(cache))
        results = [measure(Path(cache)) for _ in range(rounds)]
    for name in results[0]:
        least = min(result[name] for result in results)
        print(f"{name.strip():36} {least:8.1f}{'' if 'MB' in name else ' ms'}")


if __name__ == "__main__":
    main()
