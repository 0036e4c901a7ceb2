"""
Compares this checkout with another one, in alternating rounds::

    git worktree add /tmp/before v1.0
    python -m benchmarks.compare_checkouts /tmp/before [--cells 'produce.100B.*'] [--rounds 20] [--seconds 0.25]

Both brokers stay up, and each round of one is followed by one of the other, so that what else the machine does falls on
both.  CPU a request (or a GB) is what to compare; beside it are the ratios of the medians of rate and 99th percentile.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import attrs

from benchmarks.compare.cells import CELLS, Cell
from benchmarks.compare.native_programs import build
from benchmarks.compare.rounds import Figures, measure
from benchmarks.compare.systems import Logbus, checkout, start
from benchmarks.compare.workloads import prepare
from logbus.interpreter import InterpreterBuild


@attrs.frozen
class Checkout(Logbus):
    """
    logbus from some checkout.

    :ivar tree: its directory.
    """

    tree: Path = attrs.field(factory=checkout, kw_only=True)
    label: str = attrs.field(kw_only=True)

    @property
    def name(self) -> str:
        return self.label

    def prepare(self, directory: Path, port: int, synced: bool | None) -> Sequence[str]:
        return ["env", f"PYTHONPATH={self.tree.resolve()}", *super().prepare(directory, port, synced)]


def cost(figures: Figures, bulk: bool) -> float:
    """The cost to compare: CPU per GB for bulk loads, else per request."""
    return figures.cpu_s_per_gb if bulk else figures.cpu_us_per_request


def line(cell: Cell, before: Figures, now: Figures) -> str:
    """A line of the table: the costs, and the ratios of cost, rate and 99th percentile."""
    costs = cost(before, cell.bulk), cost(now, cell.bulk)
    unit = "s/GB" if cell.bulk else "µs"
    rate, p99 = now.requests_per_s / before.requests_per_s, now.p99_us / before.p99_us
    return (
        f"{cell.name:34} {costs[0]:8.2f} {costs[1]:8.2f} {unit:5} {costs[1] / costs[0]:5.2f}"
        f"   rate {rate:5.2f}   p99 {p99:5.2f}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path, help="the other checkout")
    parser.add_argument("--cells", default="produce.100B.*", help="patterns of names, separated by commas")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.25, help="length of a round")
    options = parser.parse_args()
    print(InterpreterBuild.running().name, flush=True)
    wanted = [cell for cell in CELLS if any(fnmatchcase(cell.name, text) for text in options.cells.split(","))]
    systems = [Checkout(tree=options.before, label="before"), Checkout(label="now")]
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR"), prefix="logbus-pairs-") as name:
        directory = Path(name)
        programs = build(directory)
        brokers = [start(system, directory / system.name) for system in systems]
        try:
            for number, cell in enumerate(wanted):
                load = prepare(cell, f"pairs-{number}", directory / f"cell-{number}", programs)
                found = measure(load, brokers, rounds=options.rounds, seconds=options.seconds, max_bytes=1e9)
                print(line(cell, *(found[system.name] for system in systems)), flush=True)
        finally:
            for broker in brokers:
                broker.stop()


if __name__ == "__main__":
    main()
