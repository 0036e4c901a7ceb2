"""
Tells when the garbage collector runs: what is logged then comes from the coroutines of dead processes.

Such coroutines end when they are collected, at any time, and may log failures. These concern no live process, and
differ from run to run, so observers of the log drop them.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

from attrs import define, field


@define(eq=False)
class GarbageCollectorWatch:
    """
    Watches the garbage collector. As a context, it also ignores what coroutines raise that are collected.

    :ivar is_running: whether the collector is running: log messages now come from dead processes.
    """

    is_running: bool = field(default=False, init=False)
    _hook: Any = field(default=None, init=False)

    def __enter__(self) -> GarbageCollectorWatch:
        gc.callbacks.append(self.collecting)
        self._hook, sys.unraisablehook = sys.unraisablehook, lambda unraisable: None
        return self

    def __exit__(self, *_: object) -> None:
        gc.collect()
        sys.unraisablehook = self._hook
        gc.callbacks.remove(self.collecting)

    def collecting(self, phase: str, info: object) -> None:
        """For ``gc.callbacks``."""
        self.is_running = phase == "start"
