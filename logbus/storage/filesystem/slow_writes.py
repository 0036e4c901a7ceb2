"""
Notices when large writes have to wait for the device (Linux: balance_dirty_pages): then they are worth a thread.
Otherwise they are copies to memory, which whoever has the bytes in its cache does best. Pure.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from attrs import define, field

LARGE = 1 << 18
"""Bytes of a write from which on it is large: a shorter one is over before a thread has begun."""

SLOW = 0.002
"""Seconds that large writes take on average when they are slow; the copy of a megabyte takes an eighth of that."""

WEIGHT = 1 / 8
"""Of the last write in the average: one that is slow alone, as some are, does not stand for long."""


@define(eq=False)
class SlowWrites:
    """The large writes of one log directory."""

    seconds: Callable[[], float] = time.monotonic
    _average: float = field(default=0.0, init=False)

    def __bool__(self) -> bool:
        """Whether they are slow."""
        return self._average >= SLOW

    def took(self, since: float) -> None:
        """One has ended that began at ``since``, in terms of ``seconds``."""
        self._average += (self.seconds() - since - self._average) * WEIGHT
