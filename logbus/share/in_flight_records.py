"""
The records of a share group's partition between its start offset and its end offset, as runs of alike ones. Pure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from operator import attrgetter
from typing import TypeVar

from attrs import define, field

T = TypeVar("T")

_FIRST = attrgetter("first")


class RecordState(IntEnum):
    """The state of a record, as records of ``__share_group_state`` have it; acquired ones are not kept there."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_done(self) -> bool:
        """Whether it is not delivered any more."""
        return self in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


AVAILABLE = RecordState.AVAILABLE


@define(eq=False)
class InFlightRun:
    """
    Records from ``first`` to ``last`` that are alike.

    :ivar member_id: who has acquired them, until ``deadline``.
    :ivar is_dirty: whether they have changed since they were kept.
    """

    first: int
    last: int
    state: RecordState
    delivery_count: int
    member_id: str = ""
    deadline: float = 0.0
    is_dirty: bool = False

    @property
    def count(self) -> int:
        """How many they are."""
        return self.last - self.first + 1

    def head(self, end: int) -> InFlightRun:
        """Take off the records before an offset, as a run of their own."""
        # Not by evolve(), which takes several times as long.
        head = InFlightRun(
            self.first, end - 1, self.state, self.delivery_count, self.member_id, self.deadline, self.is_dirty
        )
        self.first = end
        return head

    def is_like(self, other: InFlightRun) -> bool:
        """Whether both could be one run."""
        return (
            self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.member_id == other.member_id
            and self.deadline == other.deadline
            and self.is_dirty == other.is_dirty
        )


@define(eq=False)
class InFlightRecords:
    """
    The runs of a partition: one behind the other, without a gap.

    :ivar start: where the first one begins.
    """

    start: int
    runs: list[InFlightRun] = field(factory=list, init=False)

    @property
    def end(self) -> int:
        """Behind the last one."""
        return self.runs[-1].last + 1 if self.runs else self.start

    def add(self, run: InFlightRun) -> None:
        """Add a run at the end."""
        self.runs.append(run)

    def replace(self, run: InFlightRun) -> None:
        """Put a run in the place of the records that it is about."""
        first = self._split(run.first)
        end = self._split(run.last + 1)
        run.is_dirty = any(each.is_dirty for each in self.runs[first:end])
        self.runs[first:end] = [run]

    def between(self, first: int, last: int) -> Iterator[InFlightRun]:
        """The runs that have records from one offset to another."""
        at = self._index(first)
        while at < len(self.runs) and self.runs[at].first <= last:
            yield self.runs[at]
            at += 1

    def change(self, parts: Iterable[tuple[int, int, T]], change: Callable[[InFlightRun, T], object]) -> None:
        """
        Change runs of just some records.

        :param parts: the first and last offset of each, with what ``change`` gets beside its runs; in order, without
            overlaps, from the start on and before the end.
        """
        # All in one go: there may be thousands of them.
        changed: list[InFlightRun] = []
        rest = iter(self.runs)
        run = next(rest, None)
        for first, last, what in parts:
            while run is not None and run.last < first:
                changed.append(run)
                run = next(rest, None)
            if run is not None and run.first < first:
                changed.append(run.head(first))
            while run is not None and run.first <= last:
                part = run if run.last <= last else run.head(last + 1)
                change(part, what)
                changed.append(part)
                if part is run:
                    run = next(rest, None)
        if run is not None:
            changed.append(run)
        changed += rest
        self.runs = changed

    def drop_before(self, offset: int) -> None:
        """Forget the records before an offset, which may be behind the end."""
        if offset < self.end:
            del self.runs[: self._split(offset)]
        else:
            self.runs.clear()
        self.start = offset

    def drop_from(self, offset: int) -> None:
        """Forget the records from an offset on, which is before the end, and may be before the start."""
        if offset > self.start:
            del self.runs[self._split(offset) :]
        else:
            self.runs.clear()
            self.start = offset

    def join(self) -> None:
        """Make one of neighbours that are alike; those that are done with need not be alike otherwise at the start."""
        joined: list[InFlightRun] = []
        for run in self.runs:
            if joined and (
                joined[-1].is_like(run) or (len(joined) == 1 and joined[0].state.is_done and run.state.is_done)
            ):
                joined[-1].last = run.last
            else:
                joined.append(run)
        self.runs = joined

    def _index(self, offset: int) -> int:
        """Where the run is that has an offset; behind the last one, if that is before it."""
        at = bisect_right(self.runs, offset, key=_FIRST) - 1
        return at + 1 if at >= 0 and self.runs[at].last < offset else max(at, 0)

    def _split(self, offset: int) -> int:
        """Have a run begin at an offset; returns where it is."""
        at = self._index(offset)
        if at < len(self.runs) and self.runs[at].first < offset:
            self.runs.insert(at, self.runs[at].head(offset))
            return at + 1
        return at
