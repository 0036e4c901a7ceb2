"""
Counts late events of a query, and fails the query if there are too many. Pure.

A late event belongs to a window that was already written, or comes too late to be joined. Spark drops it silently. A
query that drops more than a given share of its events fails, since its results are wrong.
"""

from __future__ import annotations

from attrs import define

from logbus.pipeline.errors import OptionError, RunFailed
from logbus.pipeline.jobs.durations import readable_duration

DEFAULT_SHARE = 0.01
FEW = 1000
"""A running query is judged as if it had read at least this many events: a late one of the first ten says little."""

_MILLISECOND, _SECOND, _MINUTE, _HOUR, _DAY = 1_000, 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000


class TooManyLate(RunFailed):
    """A query dropped more late events than allowed; its results lack them."""


def check_share(share: float) -> None:
    """
    Check the option ``max_late_share``.

    :raise OptionError: it is not from 0 to 1.
    """
    if not 0 <= share <= 1:
        raise OptionError(f"max_late_share is {share}; it takes a share of the events, from 0 to 1, such as 0.01")


@define
class LateEvents:
    """
    The late events of a run.

    :ivar events: read and parsed;  ``late``: those of them that were dropped.
    :ivar behind: the most microseconds by which an event was late: with a watermark delay that is longer by more than
        this, none would be late.
    """

    events: int = 0
    late: int = 0
    behind: int = 0

    @property
    def share(self) -> float:
        """The share of late events, from 0 to 1."""
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
        :param left: offsets not read yet. A run that reads a backlog in several batches fails as soon as it is certain
            to fail at its end.
        :param is_over: whether the run has read everything.
        """
        return self.late > most * (self.events if is_over else max(self.events + left, FEW))


def late_count(ours: int, dropped: int) -> int:
    """
    The number of late events of a batch.

    :param ours: events older than the watermark that we read from Spark's checkpoint.
    :param dropped: Spark's number of dropped rows. After a partial aggregation, a row stands for several events; but
        it is zero if and only if no event is late. If that does not hold for ``ours``, Spark used another watermark,
        and its own number is used.
    """
    return ours if bool(ours) == bool(dropped) else dropped


def late_events_message(found: LateEvents, most: float, watermark: int, earlier: bool = False) -> str:
    """
    The error message of a run with too many late events.

    :param watermark: the query's watermark delay, in microseconds.
    :param earlier: whether an earlier run of the query failed.
    """
    message = (
        f"{found.late} of the {found.events} events{' that an earlier run has read' if earlier else ''} were late "
        f"({found.share:.1%}), more than max_late_share {most:g} (--max-late-share): they are left out, and what is "
        "written lacks them."
    )
    if found.behind:
        needed = readable_duration(rounded_up(watermark + found.behind + _MILLISECOND))
        message += (
            f" With a watermark of {needed} (--watermark; it is {readable_duration(watermark)}) none of them would be."
        )
    return message + (
        " Start over, with another checkpoint and other outputs: of what is there when a job starts, nothing is late. "
        "Or, to continue without these events, allow a greater share"
    )


def rounded_up(duration: int) -> int:
    """Round microseconds up to whole seconds, or, if they are long, to whole minutes, hours or days."""
    for unit, least in ((_DAY, 30 * _DAY), (_HOUR, 3 * _DAY), (_MINUTE, 3 * _HOUR)):
        if duration >= least:
            return -(-duration // unit) * unit
    return -(-duration // _SECOND) * _SECOND
