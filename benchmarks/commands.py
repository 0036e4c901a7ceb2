"""
Measures the commands of the command line that people use most: the processor time of each, and the time on the clock::

    git worktree add /tmp/before v1.0
    python -m benchmarks.commands [/tmp/before] [--rounds 10]

With another checkout, the two run by turns against the same broker.  Compare the CPU: the seconds depend on what else
the machine does.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from logbus.testing import Broker

HERE = Path(__file__).parent.parent
COMMANDS = (
    "--help",
    "topics --help",
    "topics list",
    "groups list",
    "produce t",
    "consume t --from-beginning --exit-at-end",
)
PROGRAM = "from logbus.cli import main; main()"


def run(checkout: Path, cache: Path, command: str, bootstrap: str) -> tuple[float, float]:
    """Return the CPU seconds of a command, and its seconds on the clock."""
    words = command.split()
    if "--help" not in words:
        words += ["--bootstrap", bootstrap]
    environment = os.environ | {"PYTHONPATH": str(checkout), "PYTHONPYCACHEPREFIX": str(cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=checkout,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    began = time.monotonic()
    assert process.stdin is not None
    assert process.stderr is not None
    try:
        process.stdin.write(b"hello\n" * 10)
        process.stdin.close()
    except BrokenPipeError:
        pass  # it does not read
    said = process.stderr.read()
    process.stderr.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command}: {said.decode()}")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", nargs="?", type=Path, help="another checkout")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    checkouts = [HERE, *([options.other.absolute()] if options.other else [])]
    found: dict[tuple[str, Path], list[tuple[float, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as directory, Broker() as broker:
        run(HERE, Path(directory) / "0", "topics create t", broker.bootstrap)
        for number in range(options.rounds + 1):
            for command in COMMANDS:
                for n, checkout in enumerate(checkouts):
                    cost = run(checkout, Path(directory) / str(n), command, broker.bootstrap)
                    # The first round compiles.
                    if number:
                        found[command, checkout].append(cost)
    print(f"{'command':42} {'checkout':24} {'CPU least':>10} {'median':>8} {'clock median':>13}")
    for (command, checkout), costs in found.items():
        cpu, clock = zip(*costs, strict=True)
        figures = (min(cpu), statistics.median(cpu), statistics.median(clock))
        text = [f"{1000 * each:.0f} ms" for each in figures]
        print(f"{command:42} {checkout.name:24} {text[0]:>10} {text[1]:>8} {text[2]:>13}")


if __name__ == "__main__":
    main()
