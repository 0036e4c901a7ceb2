"""
Notices when large writes have to wait for the device (Linux: balance_dirty_pages): from then on, for a while, they are
worth a thread. Otherwise they are copies to memory, which whoever has the bytes in its cache does best. Pure.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from attrs import define, field

LARGE = 1 << 18
"""Bytes of a write from which on it is large: a shorter one is over before a thread has begun."""

SLOW = 0.005
"""Seconds of a write from which on others should not have to wait for it; a megabyte takes a twentieth."""

REMEMBERED = 10.0
"""Seconds for which one slow write stands."""


@define(eq=False)
class SlowWrites:
    """The large writes of one log directory."""

    seconds: Callable[[], float] = time.monotonic
    _until: float = field(default=0.0, init=False)

    def __bool__(self) -> bool:
        """Whether one was slow lately."""
        return self._until > 0.0 and self.seconds() < self._until

    def took(self, since: float) -> None:
        """One has ended that began at ``since``, in terms of ``seconds``."""
        now = self.seconds()
        if now - since >= SLOW:
            self._until = now + REMEMBERED
