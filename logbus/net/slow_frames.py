"""Finds frames that make hardly any progress."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, field

from logbus.net.memory_holder import MemoryHolder

PATIENCE = 3
"""Seconds for which a frame may be slower than it must be."""


@define(eq=False)
class SlowFrames:
    """The progress of frames, looked at once a second while a connection waits for memory."""

    # The progress of each at the last check, and for how many seconds it has been too slow.
    _seen: dict[MemoryHolder, tuple[tuple[int, int], int]] = field(factory=dict, init=False)

    def find_slow(self, holders: Iterable[tuple[MemoryHolder, int]]) -> list[MemoryHolder]:
        """
        Compare the progress of frames with that of a second ago.

        :param holders: with the bytes a second that each must receive.
        :returns: those that were too slow for :data:`PATIENCE` seconds.
        """
        seen, slow = self._seen, []
        self._seen = {}
        for holder, least in holders:
            progress = holder.progress()
            if progress is None:
                continue
            (frames, size), seconds = seen.get(holder, ((-1, 0), 0))
            seconds = seconds + 1 if progress[0] == frames and progress[1] < size + least else 0
            if seconds < PATIENCE:
                self._seen[holder] = (progress, seconds)
            else:
                slow.append(holder)
        return slow

    def clear(self) -> None:
        """Nobody waits any more."""
        self._seen.clear()
