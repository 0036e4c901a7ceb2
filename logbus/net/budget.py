"""
Memory for requests, shared by all connections of a broker.

A frame larger than a connection's first buffer has its length reserved here before the buffer grows. When memory is
short, connections wait in the order in which they asked, and what others keep for their next large frame is called in.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from attrs import define, field

from logbus.net.metrics import NetMetrics


class Holder(Protocol):
    """A connection, as the budget sees it."""

    def memory_granted(self, size: int) -> None:
        """The ``size`` bytes that were waited for are reserved now."""

    def give_back_memory(self) -> None:
        """Release what is held without need."""


@define(eq=False)
class RequestBudget:
    """
    Bytes that all frames being received may take together.

    Even a frame larger than all of ``total`` is admitted when nothing else is reserved: one request always gets
    through.

    :ivar total: bytes (``queued.max.request.bytes``).
    """

    total: int
    metrics: NetMetrics = field(factory=NetMetrics)
    _used: int = field(default=0, init=False)
    _held: dict[Holder, int] = field(factory=dict, init=False)
    _waiting: deque[tuple[Holder, int]] = field(factory=deque, init=False)
    _granting: bool = field(default=False, init=False)

    @property
    def used(self) -> int:
        """Bytes reserved."""
        return self._used

    @property
    def short(self) -> bool:
        """Whether someone waits; then nobody keeps more than it needs."""
        return bool(self._waiting)

    def reserve(self, holder: Holder, size: int) -> None:
        """
        Reserve ``size`` more bytes; ``holder`` hears of it by ``memory_granted``, at once if they are free.
        """
        if not self._waiting and self._take(holder, size):
            holder.memory_granted(size)
            return
        self._waiting.append((holder, size))
        # What connections keep for their next frame may be enough.
        for other in list(self._held):
            other.give_back_memory()
        self._grant()

    def try_reserve(self, holder: Holder, size: int) -> bool:
        """Reserve ``size`` more bytes if they are free; do not wait."""
        return not self._waiting and self._take(holder, size)

    def release(self, holder: Holder) -> None:
        """Take back everything ``holder`` reserved, and wake those it is enough for, first come first served."""
        size = self._held.pop(holder, 0)
        if size:
            self._used -= size
            self.metrics.request_memory = self._used
            self._grant()

    def forget(self, holder: Holder) -> None:
        """A connection is gone: what it held is free and what it waited for is not wanted any more."""
        if self._waiting:
            self._waiting = deque(entry for entry in self._waiting if entry[0] is not holder)
        if holder in self._held:
            self.release(holder)
        else:
            self._grant()

    def _take(self, holder: Holder, size: int) -> bool:
        if self._used and self._used + size > self.total:
            return False
        self._put(holder, size)
        return True

    def _put(self, holder: Holder, size: int) -> None:
        self._used += size
        self._held[holder] = self._held.get(holder, 0) + size
        self.metrics.request_memory = self._used

    def _grant(self) -> None:
        # A grant may make its holder release something, which comes back here; the outer loop sees to it.
        if self._granting:
            return
        self._granting = True
        try:
            while self._waiting:
                holder, size = self._waiting[0]
                if not self._take(holder, size):
                    # Invariant: someone makes progress. When all that is reserved belongs to those who wait for
                    # more, nobody would ever release anything.
                    if self._held.keys() - {waiting for waiting, _ in self._waiting}:
                        return
                    self._put(holder, size)
                self._waiting.popleft()
                holder.memory_granted(size)
        finally:
            self._granting = False
