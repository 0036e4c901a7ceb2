"""
What the dead had begun and awaited ends when their memory is taken, at any time, and may log that it failed.

That says nothing about those who live, and differs from process to process: it is not heard.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

from attrs import define, field


@define(eq=False)
class GarbageCollection:
    """
    :ivar is_running: whether memory is being taken just now: what is logged meanwhile was said by the dead.
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
