"""Measures startup and idling: time to serve on an empty directory, memory and processor use, time to stop."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import attrs

from benchmarks.compare.systems import System, start

IDLE_SECONDS = 3.0


@attrs.frozen
class Presence:
    """
    Medians over the starts.

    :ivar idle_cpu_percent: Of one core, over the first idle seconds.
    """

    start_s: float
    resident_mb: float
    idle_cpu_percent: float
    stop_s: float


def measure(systems: Sequence[System], directory: Path, times: int = 3) -> dict[str, Presence]:
    """Start, watch and stop each system ``times`` times, by turns."""
    taken: dict[str, list[Presence]] = {system.name: [] for system in systems}
    for turn in range(times):
        for system in systems if turn % 2 == 0 else systems[::-1]:
            broker = start(system, directory / f"start-{system.name}-{turn}")
            try:
                time.sleep(2.0)
                before = broker.cost()
                time.sleep(IDLE_SECONDS)
                after = broker.cost()
            finally:
                stopped = broker.stop()
            idle = (after.cpu - before.cpu) / IDLE_SECONDS * 100
            taken[system.name].append(Presence(broker.start_seconds, after.resident / 1e6, idle, stopped))
    return {
        name: Presence(*(statistics.median(getattr(p, field.name) for p in found) for field in attrs.fields(Presence)))
        for name, found in taken.items()
    }
