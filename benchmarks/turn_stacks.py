"""
Shows what long turns of a measured broker did: samples of its stack, by the CPU that it uses.

``python -m benchmarks.longest_events --stacks 10`` prints the places of each turn of 10 ms or more to standard error.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections import Counter
from types import FrameType

VARIABLE = "LOGBUS_BENCHMARK_STACKS"
"""The environment variable with which a broker is told the shortest turn to show, in ms."""

SAMPLE_SECONDS = 0.001
DEPTH = 7
"""Frames that are shown, from the innermost outwards."""
SHOWN = 8
"""Stacks of a turn that are shown, the most frequent first."""
_OUTER = ("base.py", "reactor.py", "turn_stacks.py", "epollreactor.py", "defer.py", "time_slices.py")


class TurnStacks:
    """Samples the stack of this thread, and keeps what it has seen in the present turn, garbage collections as well."""

    def __init__(self, shortest: float) -> None:
        self.shortest = shortest
        self._seen: Counter[tuple[str, ...]] = Counter()
        self._collections: list[str] = []
        self._begun = 0.0
        gc.callbacks.append(self._collected)
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, SAMPLE_SECONDS, SAMPLE_SECONDS)

    @classmethod
    def wanted(cls) -> TurnStacks | None:
        """As the environment says; None: nobody wants to see any."""
        told = os.environ.get(VARIABLE)
        return cls(float(told) / 1000) if told else None

    def _sample(self, number: int, frame: FrameType | None) -> None:
        places = []
        while frame is not None and len(places) < DEPTH:
            code = frame.f_code
            file = os.path.basename(code.co_filename)
            if file not in _OUTER:
                places.append(f"{file}:{frame.f_lineno} {code.co_name}")
            frame = frame.f_back
        self._seen[tuple(places)] += 1

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        now = time.thread_time()
        if phase == "start":
            self._begun = now
        else:
            self._collections.append(f"{(now - self._begun) * 1e3:.1f} ms of generation {info['generation']}")

    def ended(self, seconds: float) -> None:
        """A turn ended that took so long."""
        if seconds >= self.shortest:
            print(f"-- a turn of {seconds * 1e3:.1f} ms; collections: {self._collections}", file=sys.__stderr__)
            for places, count in self._seen.most_common(SHOWN):
                print(f"   {count:3}  {' < '.join(places)}", file=sys.__stderr__, flush=True)
        self._seen.clear()
        self._collections.clear()
