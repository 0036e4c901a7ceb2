"""
Who waits for a replica to get past an offset: producers for the high watermark, DeleteRecords for the low one.
"""

from __future__ import annotations

from collections import OrderedDict

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.errors import LogbusError


@define(eq=False)
class OffsetWaiters:
    """
    Waits for offsets, in the order of the offsets.

    A wait that is cancelled is forgotten at once: while nothing is committed, clients time out and come again.
    """

    _waiting: OrderedDict[Deferred[None], int] = field(factory=OrderedDict, init=False)

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, offset: int) -> Deferred[None]:
        """Fires once ``offset`` is reached; it is not below that of any wait before."""
        waiter: Deferred[None] = Deferred(self._forget)
        self._waiting[waiter] = offset
        return waiter

    def _forget(self, waiter: Deferred[None]) -> None:
        self._waiting.pop(waiter, None)

    def reached(self, offset: int) -> None:
        """Fire the waits for offsets up to this one; what they set off may wait again."""
        waiting = self._waiting
        while waiting:
            waiter = next(iter(waiting))
            if waiting[waiter] > offset:
                break
            del waiting[waiter]
            waiter.callback(None)

    def fail(self, error: LogbusError) -> None:
        """All of them wait in vain."""
        failed, self._waiting = self._waiting, OrderedDict()
        for waiter in failed:
            waiter.errback(error)
