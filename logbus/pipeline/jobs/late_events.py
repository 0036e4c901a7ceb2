"""
Late events: how many a query may leave out, and what to say when there are more. Pure.

A late event belongs to a window that was written already, or comes too late to be joined. Spark drops it, and goes on.
A query that drops more than a share of its events has wrong results: it fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define

from logbus.pipeline.errors import OptionError, PipelineError
from logbus.pipeline.jobs.durations import in_words

DEFAULT_SHARE = 0.01
FEW = 1000
"""A run that is not over is judged as if it had read so many events: one late event of the first ten says little."""

_MILLISECOND, _SECOND, _MINUTE, _HOUR, _DAY = 1_000, 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000


class TooManyLate(PipelineError):
    """
    A query left out more events than it may; what it has written lacks them.

    :ivar report: what the run has done, as JSON has it.
    """

    def __init__(self, problem: str, report: Mapping[str, Any]) -> None:
        super().__init__(problem, report)
        self.problem, self.report = problem, report

    def __str__(self) -> str:
        return self.problem


def check_share(share: float) -> None:
    """
    :raise OptionError: it is no share.
    """
    if not 0 <= share <= 1:
        raise OptionError(f"max_late_share is {share}; it takes a share of the events, from 0 to 1, such as 0.01")


@define
class LateEvents:
    """
    The count of a run.

    :ivar events: read and readable;  ``late``: those of them that were dropped.
    :ivar behind: microseconds by which the watermark was beyond what the latest of them would have needed: with one
        that is longer by more, none would be late.
    """

    events: int = 0
    late: int = 0
    behind: int = 0

    @property
    def share(self) -> float:
        """Of the events, how many were late; from 0 to 1."""
        return self.late / self.events if self.events else 0.0

    def add(self, events: int, late: int, behind: int) -> None:
        """Add a batch."""
        self.events += events
        self.late += late
        self.behind = max(self.behind, behind)

    def are_too_many(self, most: float, left: int, is_over: bool) -> bool:
        """
        Whether a run has to fail.

        :param most: the share that may be late.
        :param left: offsets that are there and not read yet. A run that reads a backlog in several batches fails as
            soon as it is sure to fail at its end.
        :param is_over: whether all is read that was to be.
        """
        return self.late > most * (self.events if is_over else max(self.events + left, FEW))


def counted(ours: int, dropped: int) -> int:
    """
    The late events of a batch.

    :param ours: events older than the watermark that Spark is known to use.
    :param dropped: rows that Spark says to have dropped. These are sums of events where it adds up before it looks at
        the watermark; there are none if and only if there are no late events. If that does not hold, Spark uses another
        watermark than we know of, and its own number is the better one.
    """
    return ours if bool(ours) == bool(dropped) else dropped


def explained(found: LateEvents, most: float, watermark: int, is_limited: bool, earlier: bool = False) -> str:
    """
    The error of a run.

    :param watermark: microseconds: what the query has now.
    :param is_limited: whether ``maxOffsetsPerTrigger`` cuts a backlog into batches.
    :param earlier: whether it was an earlier run of the query that failed.
    """
    told = (
        f"{found.late} of the {found.events} events{' that an earlier run has read' if earlier else ''} were late "
        f"({found.share:.1%}), more than max_late_share {most:g} (--max-late-share): they are left out, and what is "
        "written lacks them."
    )
    if found.behind:
        needed = in_words(rounded_up(watermark + found.behind + _MILLISECOND))
        told += f" With a watermark of {needed} (--watermark; it is {in_words(watermark)}) none of them would be."
    if is_limited:
        told += " Without maxOffsetsPerTrigger what is there is one batch, in which no event is late."
    return told + (
        " Begin anew with that, with another checkpoint and other outputs; or, to go on without these events, allow "
        "a greater share"
    )


def rounded_up(duration: int) -> int:
    """Microseconds, as whole days, hours, minutes or seconds: at least as long, and by a fraction longer at most."""
    for unit, least in ((_DAY, 30 * _DAY), (_HOUR, 3 * _DAY), (_MINUTE, 3 * _HOUR)):
        if duration >= least:
            return -(-duration // unit) * unit
    return -(-duration // _SECOND) * _SECOND
