"""
The processors that a process may use, and the processor time that its control group lets it have: the limit of a
container, or of a service of systemd.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from math import ceil
from pathlib import Path, PurePosixPath

UNIFIED = ("sys/fs/cgroup", "sys/fs/cgroup/unified")
"""Where the second version of control groups is mounted, also beside the first."""

CONTROLLER = ("sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct")
"""Where the first version's controller of processors is."""


def processors() -> int:
    """
    The number of processors that this process may use, as many as its limit of processor time is worth at most; where
    the system does not tell, those of the machine.
    """
    number = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota()
    return number if quota is None else max(1, min(number, ceil(quota)))


def cpu_quota(root: Path = Path("/")) -> float | None:
    """
    Return how many processors' time this process may have; None: any.

    The least of the limits of its group and of the groups around it, as far as they can be seen: a container sees its
    own group as the root, or that of the machine by a path that it does not have.

    :param root: of the file system.
    """
    return min(_quotas(root), default=None)


def _quotas(root: Path) -> Iterator[float]:
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except (OSError, ValueError):  # not Linux
        return
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        files: tuple[str, ...]
        if number == "0":
            mounts, files = UNIFIED, ("cpu.max",)
        elif "cpu" in controllers.split(","):
            mounts, files = CONTROLLER, ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        else:
            continue
        within = PurePosixPath("/", group)
        for directory in {mount + str(one) for mount in mounts for one in (within, *within.parents)}:
            with suppress(OSError, ValueError, ZeroDivisionError):
                quota, period = " ".join((root / directory / name).read_text() for name in files).split()
                if quota not in ("max", "-1"):
                    yield int(quota) / int(period)
