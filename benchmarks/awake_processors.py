"""
Keeps processors awake during a measurement, so that a quiet machine and a busy one give the same figures.

A processor without work sleeps, and what wakes it, an interrupt for each lone request, takes processor time that is
counted as the server's: two to three times as much as the request itself where this was measured. A process of the
lowest scheduling class spins on each processor, and makes way for anything else.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SPIN = """
import os, sys
processor, parent = map(int, sys.argv[1:])
os.sched_setaffinity(0, {processor})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
while os.getppid() == parent:
    for _ in range(1000000):
        pass
"""


@contextmanager
def awake() -> Iterator[None]:
    """Have all processors that this process may use spin meanwhile."""
    spinning = [
        subprocess.Popen([sys.executable, "-S", "-c", _SPIN, str(processor), str(os.getpid())])
        for processor in sorted(os.sched_getaffinity(0))
    ]
    try:
        yield
    finally:
        for each in spinning:
            each.kill()
            each.wait()
