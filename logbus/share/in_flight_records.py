"""
The records of a share group's partition between its start offset and its end offset, as runs of alike ones. Pure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from enum import IntEnum
from operator import attrgetter

from attrs import define, evolve, field

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

    def cut(self, first: int, last: int) -> list[InFlightRun]:
        """The runs of just the records from one offset to another."""
        begin = self._split(first)
        return self.runs[begin : self._split(last + 1)]

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
            run = self.runs[at]
            rest = evolve(run, first=offset)
            run.last = offset - 1
            self.runs.insert(at + 1, rest)
            return at + 1
        return at
