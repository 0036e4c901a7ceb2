"""
Measures a broker's start: from exec to the first answer, the processor time of it, and the memory when idle::

    git worktree add /tmp/before v1.0
    python -m benchmarks.start [/tmp/before] [--rounds 10] [--workers 1]

With another checkout, the two start by turns.  Compare the CPU: the seconds depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from benchmarks.compare.process_cost import cost
from benchmarks.compare.systems import checkout, start
from benchmarks.compare_checkouts import Checkout


@attrs.frozen
class Start:
    """
    One start, or the medians of several; the memory is that of the idle broker.

    :ivar seconds: from exec to the first metadata response.
    :ivar cpu_ms: of the process that was started, until that response.
    :ivar later_cpu_ms: of the same process, from the response until the memory was measured.
    :ivar resident_mb: of the process that was started: RSS, mapped files included.
    :ivar proportional_mb: of all its processes together: PSS, in which a shared page counts once.
    :ivar private_mb: pages that no other process has, of the one that serves, or the mean of the workers.
    """

    seconds: float
    cpu_ms: float
    later_cpu_ms: float
    resident_mb: float
    proportional_mb: float
    private_mb: float


@attrs.frozen
class Workers(Checkout):
    """
    logbus from some checkout, with a number of worker processes.

    :ivar count: the number; None leaves it to the checkout, which may not know the option.
    :ivar cache: where its bytecode is kept, as that of an installed package is beside it.
    """

    count: int | None = attrs.field(default=None, kw_only=True)
    cache: Path = attrs.field(kw_only=True)

    def prepare(self, directory: Path, port: int, synced: bool | None) -> Sequence[str]:
        command = ["env", "-u", "PYTHONDONTWRITEBYTECODE", f"PYTHONPYCACHEPREFIX={self.cache}"]
        command += super().prepare(directory, port, synced)
        return command if self.count is None else [*command, "--workers", str(self.count)]


def children(pid: int) -> list[int]:
    """The children of a process."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def processes(pid: int) -> Iterator[int]:
    """The process, and all that descend from it."""
    yield pid
    for child in children(pid):
        yield from processes(child)


def memory(pid: int) -> dict[str, int]:
    """The sums over a process's mappings in bytes, by the names of ``/proc/PID/smaps_rollup``."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {name: int(size.split()[0]) * 1024 for name, size in (line.split(":", 1) for line in lines)}


def measure(system: Workers, directory: Path, idle_s: float) -> Start:
    """Start a broker on an empty directory, let it idle, and stop it."""
    broker = start(system, directory)
    try:
        served = cost(broker.pid)
        time.sleep(idle_s)
        idle = cost(broker.pid)
        found = [memory(pid) for pid in processes(broker.pid)]
        serving = [memory(pid) for pid in processes(broker.pid) if not children(pid)]
    finally:
        broker.stop()
    private = statistics.mean(each["Private_Clean"] + each["Private_Dirty"] for each in serving)
    return Start(
        broker.start_seconds,
        served.cpu * 1e3,
        (idle.cpu - served.cpu) * 1e3,
        idle.resident / 1e6,
        sum(each["Pss"] for each in found) / 1e6,
        private / 1e6,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path, nargs="?", help="another checkout")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--idle", type=float, default=2.0, help="seconds before the memory is measured")
    parser.add_argument("--workers", type=int, help="processes that serve")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR"), prefix="logbus-start-") as name:
        scratch = Path(name)
        checkouts = {"before": options.before, "now": checkout()} if options.before else {"now": checkout()}
        systems = [
            Workers(tree=tree, label=label, count=options.workers, cache=scratch / f"cache-{label}")
            for label, tree in checkouts.items()
        ]
        starts: dict[str, list[Start]] = {system.name: [] for system in systems}
        for system in systems:
            measure(system, scratch / f"{system.name}-first", 0)  # writes the bytecode
        for turn in range(options.rounds):
            for system in systems if turn % 2 == 0 else systems[::-1]:
                starts[system.name].append(measure(system, scratch / f"{system.name}-{turn}", options.idle))
    fields = attrs.fields(Start)
    print(f"{'median (least)':16}" + "".join(f"{field.name:>18}" for field in fields))
    for label, taken in starts.items():
        values = [[getattr(each, field.name) for each in taken] for field in fields]
        print(f"{label:16}" + "".join(f"{f'{statistics.median(v):.2f} ({min(v):.2f})':>18}" for v in values))


if __name__ == "__main__":
    main()
