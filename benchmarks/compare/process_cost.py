"""Measures the cost of a process, or of one and those below it, from their CPU clocks and ``/proc``."""

from __future__ import annotations

import time
from pathlib import Path

import attrs


@attrs.frozen
class Cost:
    """
    :ivar cpu: User and system seconds of all its threads since it began.
    :ivar resident: VmRSS in bytes: what the process holds in memory, mapped files included.  Of several processes the
        sum of their Pss, in which a page that some of them share counts once.
    :ivar anonymous: RssAnon in bytes: without mapped files.
    """

    cpu: float
    resident: int
    anonymous: int


def cost(pid: int) -> Cost:
    """
    :raise FileNotFoundError: The process is gone.
    """
    status = _fields(Path(f"/proc/{pid}/status"))
    # /proc counts in ticks of 10 ms, the process's own clock in nanoseconds: clock_getcpuclockid(3) is this, on Linux.
    cpu = time.clock_gettime((~pid << 3) | 2)
    return Cost(cpu, _bytes(status["VmRSS"]), _bytes(status["RssAnon"]))


def tree_cost(pid: int) -> Cost:
    """
    Of a process and all below it; of a process without others as :func:`cost`.

    :raise FileNotFoundError: A process is gone.
    """
    pids = tree(pid)
    if len(pids) == 1:
        return cost(pid)
    shares = [_fields(Path(f"/proc/{one}/smaps_rollup")) for one in pids]
    return Cost(
        sum(cost(one).cpu for one in pids),
        sum(_bytes(share["Pss"]) for share in shares),
        sum(_bytes(share["Pss_Anon"]) for share in shares),
    )


def tree(pid: int) -> list[int]:
    """The process and all below it: children, theirs, and so on."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, in parentheses, may hold anything.
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(parent, []).append(int(path.parent.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def unwritten() -> int:
    """Bytes of dirty pages and of pages under way to the disk, of the whole machine."""
    lines = _fields(Path("/proc/meminfo"))
    return _bytes(lines["Dirty"]) + _bytes(lines["Writeback"])


def _fields(path: Path) -> dict[str, str]:
    return dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)


def _bytes(text: str) -> int:
    return int(text.split()[0]) * 1024
