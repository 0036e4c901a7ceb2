"""
Classifies how full a log directory is: enough space, low or full. Pure.

A directory is *full* when the system refused a write for lack of space, whatever the reason (the device, a quota, a
limit on file sizes), or refused a test write, which is made when hardly any space is left. It stays full until a test
write succeeds and no write was refused meanwhile. It is *low* while more than a given share of it is used.
"""

from __future__ import annotations

from enum import Enum

from attrs import define, frozen

HYSTERESIS = 0.01
"""A low directory returns to normal when its used share is below the limit by this much."""


class SpaceLevel(Enum):
    """The fill level of a log directory."""

    ENOUGH = "enough"
    LOW = "low"
    FULL = "full"


@frozen
class DiskSpace:
    """
    The space of the file system that a log directory is on (KIP-827).

    :ivar usable_bytes: free for this process's user.
    :ivar total_bytes: of the file system.
    """

    usable_bytes: int
    total_bytes: int

    @property
    def used_ratio(self) -> float:
        """The share in use, from 0 to 1; reserved blocks count as used."""
        return 1 - self.usable_bytes / self.total_bytes if self.total_bytes > 0 else 0.0

    def __str__(self) -> str:
        return f"{self.usable_bytes} of {self.total_bytes} bytes are free"


@define(eq=False)
class SpaceState:
    """
    The level of one log directory.

    :ivar space: as last measured; None: unknown.
    """

    level: SpaceLevel = SpaceLevel.ENOUGH
    space: DiskSpace | None = None
    _refused: bool = False

    def refused(self) -> bool:
        """Record a write refused for lack of space; returns whether the level changed."""
        self._refused = True
        return self._become(SpaceLevel.FULL)

    def measured(self, space: DiskSpace | None, is_writable: bool, warn_ratio: float) -> bool:
        """
        Record a measurement.

        :param space: None: unknown.
        :param is_writable: False if a test write was refused.
        :param warn_ratio: the used share from which on the directory is low.
        :returns: whether the level changed.
        """
        self.space = space
        refused, self._refused = self._refused, False
        if not is_writable:
            return self._become(SpaceLevel.FULL)
        if self.level is SpaceLevel.FULL and refused:
            return False
        limit = warn_ratio - (HYSTERESIS if self.level is SpaceLevel.LOW else 0)
        low = space is not None and warn_ratio < 1 and space.used_ratio >= limit
        return self._become(SpaceLevel.LOW if low else SpaceLevel.ENOUGH)

    def _become(self, level: SpaceLevel) -> bool:
        changed, self.level = level is not self.level, level
        return changed
