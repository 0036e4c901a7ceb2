"""
Has the members of sessions that have ended leave their partitions, a time slice at a time: a connection may have had
sessions with very many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.net.time_slices import SliceScheduler, TimeSlice
from logbus.share.share_partition_manager import SharePartitionManager
from logbus.share.share_sessions import SessionKey, SharedPartition, ShareSession

UNITS_TO_LEAVE = 2
"""Units of a time slice for leaving a partition."""


@define(eq=False)
class EndedSessions:
    """Those whose members have not left all of their partitions yet."""

    _manager: SharePartitionManager
    _slices: SliceScheduler
    _left: dict[SessionKey, Iterator[SharedPartition]] = field(factory=dict, init=False)

    def leave(self, sessions: Iterable[ShareSession]) -> None:
        """Begin to leave the partitions of sessions."""
        # Lists of their own: a fetch that is not over yet puts the partitions of its session in another order.
        leaving = {session.key: iter(list(session.partitions)) for session in sessions}
        self._left |= leaving
        Deferred.fromCoroutine(self._leave(leaving))

    async def _leave(self, leaving: dict[SessionKey, Iterator[SharedPartition]]) -> None:
        time_slice = TimeSlice(self._slices)
        for key, partitions in leaving.items():
            async for partition in time_slice.over(partitions, UNITS_TO_LEAVE):
                self._manager.leave(key.group_id, *partition, key.member_id)
            if self._left.get(key) is partitions:
                del self._left[key]

    def finish(self, key: SessionKey) -> None:
        """Have a member leave the rest at once: later it would leave what it gets in another session."""
        for partition in self._left.pop(key, ()):
            self._manager.leave(key.group_id, *partition, key.member_id)
