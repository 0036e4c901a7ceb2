"""The faults of a run: a line for each, whether it had an effect, and when it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from attrs import define, field

from logbus.testing.simulation.environment.virtual_clock import VirtualClock


@define(eq=False)
class FaultLog:
    """
    Notes faults, and ends them.

    :ivar trace: called with each line.
    :ivar effects: faults with an observed effect, by kind.
    :ivar moot: faults without one, since the broker was down already, or nothing noticed them.
    :ivar told: every fault and recovery, as lines.
    :ivar ended: whether all faults have ended.
    :ivar origin: the time that lines count from.
    """

    clock: VirtualClock
    trace: Callable[[str], None]
    effects: Counter[str] = field(factory=Counter, init=False)
    moot: Counter[str] = field(factory=Counter, init=False)
    told: list[str] = field(factory=list, init=False)
    ended: bool = field(default=False, init=False)
    origin: float = field(default=0.0, init=False)
    _mends: dict[int, Callable[[], None]] = field(factory=dict, init=False)
    _number: int = field(default=0, init=False)

    def tell(self, what: str) -> None:
        """Note what happens now."""
        line = f"{self.clock.now - self.origin:.3f} {what}"
        self.told.append(line)
        self.trace(line)

    def count(self, kind: str, effect: bool) -> None:
        """Count a fault."""
        (self.effects if effect else self.moot)[kind] += 1

    def end_after(self, seconds: float, mend: Callable[[], None], what: str) -> None:
        """Undo a fault after a while, or when all faults end."""
        self._number += 1
        number = self._number
        self._mends[number] = mend

        def over() -> None:
            if self._mends.pop(number, None) is not None:
                self.tell(f"end of {what}")
                mend()

        self.clock.at(self.clock.now + seconds, None, over)

    def end_all(self) -> None:
        """Undo all faults."""
        self.tell("mend")
        self.ended = True
        for mend in list(self._mends.values()):
            mend()
        self._mends.clear()
