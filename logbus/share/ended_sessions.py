"""
Has members leave the partitions that they fetch no more, of sessions that have ended and others, a time slice at a
time: there may be very many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.net.time_slices import SliceScheduler, TimeSlice
from logbus.share.share_partition_manager import SharePartitionManager
from logbus.share.share_sessions import SessionKey, SharedPartition

UNITS_TO_LEAVE = 2
"""Units of a time slice for leaving a partition."""


@define(eq=False)
class EndedSessions:
    """The members that have not left all of these partitions yet."""

    _manager: SharePartitionManager
    _slices: SliceScheduler
    _left: dict[SessionKey, Iterator[SharedPartition]] = field(factory=dict, init=False)

    def leave(self, partitions: Mapping[SessionKey, Iterable[SharedPartition]]) -> None:
        """Begin to leave partitions of some members."""
        # Lists of their own: a fetch that is not over yet puts the partitions of its session in another order.
        leaving = {key: chain(self._left.get(key, ()), list(its)) for key, its in partitions.items()}
        self._left |= leaving
        Deferred.fromCoroutine(self._leave(leaving))

    async def _leave(self, leaving: Mapping[SessionKey, Iterator[SharedPartition]]) -> None:
        time_slice = TimeSlice(self._slices)
        for key, partitions in leaving.items():
            await self._leave_all(key, partitions, time_slice)

    async def finish(self, key: SessionKey, time_slice: TimeSlice) -> None:
        """Have a member leave the rest before it goes on: later it would leave what it gets by then."""
        while key in self._left:
            await self._leave_all(key, self._left[key], time_slice)

    async def _leave_all(self, key: SessionKey, partitions: Iterator[SharedPartition], time_slice: TimeSlice) -> None:
        async for partition in time_slice.over(partitions, UNITS_TO_LEAVE):
            self._manager.leave(key.group_id, *partition, key.member_id)
        if self._left.get(key) is partitions:
            del self._left[key]
