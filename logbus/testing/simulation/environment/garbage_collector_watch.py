"""
Ignores log messages that the garbage collector causes when it frees a dead process's coroutines.

Such coroutines end when they are collected, at any time, and may log failures. These concern no live process, and
differ from run to run.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

from attrs import define, field


@define(eq=False)
class GarbageCollection:
    """
    :ivar is_taken: whether the collector is running: log messages now come from dead processes.
    """

    is_running: bool = field(default=False, init=False)
    _hook: Any = field(default=None, init=False)

    def __enter__(self) -> GarbageCollection:
        gc.callbacks.append(self.taking)
        self._hook, sys.unraisablehook = sys.unraisablehook, lambda unraisable: None
        return self

    def __exit__(self, *_: object) -> None:
        gc.collect()
        sys.unraisablehook = self._hook
        gc.callbacks.remove(self.taking)

    def taking(self, phase: str, info: object) -> None:
        """For ``gc.callbacks``."""
        self.is_running = phase == "start"
