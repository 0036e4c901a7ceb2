"""
A fetch of a member of a share group, as one of those that wait for records of the same partitions (Kafka:
DelayedShareFetch).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from logbus.cluster.replication.purgatory import DelayedOperation, Purgatory
from logbus.share.led_share_partition import LedSharePartition


class _Wait(DelayedOperation[None]):
    """The wait of a fetch, from one look at its partitions to the next one."""

    __slots__ = ("is_over",)

    def __init__(self, purgatory: Purgatory) -> None:
        super().__init__(purgatory)
        self.is_over = False

    def is_ready(self) -> bool:
        return self.is_over

    def answer(self) -> None:
        return None

    def leave(self) -> None:
        """Its partitions are watched on, until the fetch is over."""


@define(eq=False)
class DelayedShareFetch:
    """A fetch among others that want the same records."""

    _purgatory: Purgatory
    _led: dict[LedSharePartition, None] = field(factory=dict, init=False)
    _told: bool = field(default=False, init=False)
    _wait: _Wait | None = field(default=None, init=False)

    def available(self) -> None:
        """See :class:`.AvailabilityWatcher`."""
        self._told = True
        if self._wait is not None:
            self._wait.is_over = True
            self._purgatory.wake(self._wait)

    def begin(self) -> None:
        """It is about to look at its partitions."""
        self._told = False

    def watch(self, led: Sequence[LedSharePartition]) -> None:
        """These it looks at."""
        before, self._led = self._led, dict.fromkeys(led)
        for each in led:
            each.watch(self)
        for each in before.keys() - self._led.keys():
            each.unwatch(self)

    def looked(self) -> None:
        """It has looked."""
        for each in self._led:
            each.looked(self)

    async def wait(self, clock: IReactorTime, seconds: float) -> None:
        """Wait until something has happened since :meth:`begin`, for some time at most."""
        if self._told:
            await later(clock)
            return
        self._wait = _Wait(self._purgatory)
        try:
            await self._purgatory.wait(self._wait, max(1, ceil(1000 * seconds)))
        finally:
            self._wait = None

    def leave(self) -> None:
        """The fetch is over."""
        for each in self._led:
            each.unwatch(self)


async def later(clock: IReactorTime) -> None:
    """Let others have a turn."""
    turn: Deferred[None] = Deferred()
    clock.callLater(0, turn.callback, None)
    await turn
