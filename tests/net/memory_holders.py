"""A holder of memory, for tests of the budget."""

from __future__ import annotations

from attrs import define, field

from logbus.net.request_budget import RequestBudget


@define(eq=False)
class Connection:
    """A holder that notes what it was granted, and may have something to spare."""

    budget: RequestBudget
    host: str = "10.0.0.1"
    spare: bool = False
    granted: list[int] = field(factory=list)
    received: tuple[int, int] | None = (0, 0)
    evicted: str = ""

    def memory_granted(self, size: int) -> None:
        self.granted.append(size)

    def give_back_memory(self) -> None:
        if self.spare:
            self.budget.release(self)

    def progress(self) -> tuple[int, int] | None:
        return self.received

    def evict(self, why: str) -> None:
        self.evicted = why

    def holds(self, size: int, missing: int = 0) -> bool:
        """Reserve ``size`` bytes for a frame that lacks at least as many; whether they were granted at once."""
        before = len(self.granted)
        self.budget.reserve(self, size, max(size, missing))
        return len(self.granted) > before
