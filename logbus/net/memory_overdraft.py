"""Memory beyond the budget's total, for frames that lack little."""

from __future__ import annotations

from attrs import define, field

from logbus.net.memory_holder import MemoryHolder

BEYOND_SHARE = 16
"""
Frames that lack little may together exceed the total by a sixteenth (16 MB by default). In addition one frame may lack
any number of bytes.
"""


@define(eq=False)
class _Overdrawn:
    """The bytes that a frame may take beyond its connection's share, and those it has taken."""

    promised: int
    used: int = 0


@define(eq=False)
class MemoryOverdraft:
    """
    The frames that may exceed the budget, so that incomplete frames cannot block each other.

    :ivar used: bytes taken beyond the total.
    """

    used: int = field(default=0, init=False)
    _holders: dict[MemoryHolder, _Overdrawn] = field(factory=dict, init=False)
    _promised: int = field(default=0, init=False)
    _largest: MemoryHolder | None = field(default=None, init=False)

    def __contains__(self, holder: MemoryHolder) -> bool:
        return holder in self._holders

    def admit(self, holder: MemoryHolder, missing: int, total: int) -> bool:
        """
        Let a frame exceed the total by the bytes that it lacks, until :meth:`end`.

        :returns: False if there is no room for that.
        """
        if self._promised + missing <= total // BEYOND_SHARE:
            self._promised += missing
            self._holders[holder] = _Overdrawn(missing)
        elif self._largest is None:
            self._largest = holder
            self._holders[holder] = _Overdrawn(0)
        else:
            return False
        return True

    def take(self, holder: MemoryHolder, size: int) -> None:
        """Count bytes that an admitted frame takes."""
        self._holders[holder].used += size
        self.used += size

    def end(self, holder: MemoryHolder) -> int:
        """The frame is complete, or given up; returns the bytes it has taken."""
        overdrawn = self._holders.pop(holder, None)
        if overdrawn is None:
            return 0
        self.used -= overdrawn.used
        self._promised -= overdrawn.promised
        if holder is self._largest:
            self._largest = None
        return overdrawn.used
