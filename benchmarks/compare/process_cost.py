"""Measures the cost of a process, from its CPU clock and ``/proc``."""

from __future__ import annotations

import time
from pathlib import Path

import attrs


@attrs.frozen
class Cost:
    """
    :ivar cpu: User and system seconds of all its threads since it began.
    :ivar resident: VmRSS in bytes: what the process holds in memory, mapped files included.
    :ivar anonymous: RssAnon in bytes: without mapped files.
    """

    cpu: float
    resident: int
    anonymous: int


def cost(pid: int) -> Cost:
    """
    :raise FileNotFoundError: The process is gone.
    """
    status = dict(
        line.split(":", 1)
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith(("Vm", "Rss"))
    )
    # /proc counts in ticks of 10 ms, the process's own clock in nanoseconds: clock_getcpuclockid(3) is this, on Linux.
    cpu = time.clock_gettime((~pid << 3) | 2)
    return Cost(cpu, _bytes(status["VmRSS"]), _bytes(status["RssAnon"]))


def unwritten() -> int:
    """Bytes of dirty pages and of pages under way to the disk, of the whole machine."""
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return _bytes(lines["Dirty"]) + _bytes(lines["Writeback"])


def _bytes(text: str) -> int:
    return int(text.split()[0]) * 1024
