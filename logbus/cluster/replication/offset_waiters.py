"""
Waits for offsets: producers for the high watermark (Kafka: DelayedProduce), DeleteRecords for the low watermark.
"""

from __future__ import annotations

from collections import OrderedDict

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.errors import LogbusError


@define(eq=False)
class OffsetWaiters:
    """
    Waiting Deferreds, in the order of their offsets.

    A cancelled one is removed at once: while nothing is committed, clients time out and send again.
    """

    _waiting: OrderedDict[Deferred[None], int] = field(factory=OrderedDict, init=False)

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, offset: int) -> Deferred[None]:
        """Return a Deferred that fires once ``offset`` is reached; offsets must not decrease from call to call."""
        waiter: Deferred[None] = Deferred(self._forget)
        self._waiting[waiter] = offset
        return waiter

    def _forget(self, waiter: Deferred[None]) -> None:
        self._waiting.pop(waiter, None)

    def reached(self, offset: int) -> None:
        """Fire the Deferreds up to this offset; their callbacks may wait again."""
        waiting = self._waiting
        while waiting:
            waiter = next(iter(waiting))
            if waiting[waiter] > offset:
                break
            del waiting[waiter]
            waiter.callback(None)

    def fail(self, error: LogbusError) -> None:
        """Fail all of them."""
        failed, self._waiting = self._waiting, OrderedDict()
        for waiter in failed:
            waiter.errback(error)
