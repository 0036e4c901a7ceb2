"""The definition of a query: its computation and its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from logbus.pipeline.errors import OptionError
from logbus.pipeline.jobs.event_stream import EventStream
from logbus.pipeline.jobs.late_events import DEFAULT_SHARE, LateEvents, TooManyLate, check_share, late_events_message
from logbus.pipeline.jobs.late_watermark import LateWatermark
from logbus.pipeline.jobs.open_state import OpenState
from logbus.pipeline.lake.file_system import FileSystem, check_store, local_path
from logbus.pipeline.lake.local_directory import check_writable
from logbus.pipeline.lake.reachability import check_namenode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@frozen
class QuerySettings:
    """
    The settings of a query.

    :ivar checkpoint: a directory or URL for this query only, from which it continues after a restart.
    :ivar every: seconds between batches; None: process the available records, and end.
    :ivar max_late_share: the share of events that may be late; with more the query fails.
    :ivar close_open: at the end, also write what is still open, as if later events had come.
    :raise OptionError: a setting is wrong.
    """

    checkpoint: str
    every: float | None = None
    max_late_share: float = DEFAULT_SHARE
    close_open: bool = False

    def __attrs_post_init__(self) -> None:
        check_share(self.max_late_share)
        if not self.checkpoint:
            raise OptionError("a query needs a checkpoint: a directory of its own, where it remembers how far it is")
        if self.every is not None and not 0 <= self.every < float("inf"):
            raise OptionError(f"every is {self.every}; it takes seconds")
        if self.close_open and self.every is not None:
            raise OptionError("what is open can be closed at the end of a run that has one: without every (--every)")

    @property
    def is_new(self) -> bool:
        """Whether it is certain, without Spark, that nothing was read yet: the checkpoint is local, and empty."""
        local = local_path(self.checkpoint)
        return local is not None and not (local / "offsets").exists()

    def check(self) -> None:
        """
        Check what can be checked of the checkpoint before Spark is started.

        :raise LakeError: it is on a store that is not allowed, or cannot be written to, or its namenode cannot be
            reached.
        """
        check_store(self.checkpoint)
        check_writable(self.checkpoint)
        check_namenode(self.checkpoint)


def _as_it_is(batch: DataFrame) -> DataFrame:
    return batch


def itself(micros: int) -> int:
    """The watermark that closes an event of this time, where nothing waits longer: the time itself."""
    return micros


@frozen(kw_only=True)
class QueryDefinition:
    """
    The definition of a query.

    :ivar name: of the job.
    :ivar rows: a streaming DataFrame in output mode append.
    :ivar identity: the settings that must not change while a checkpoint exists, by names for messages.
    :ivar each: computes the rows to write from a batch of ``rows``.
    :ivar columns: of the rows to write.
    :ivar streams: the streams read.
    :ivar late: gets the watermark of each batch, to count late events; None: events cannot be late, and nothing is
        kept for later batches.
    :ivar held: makes ``rows`` of streams whose watermark is held.
    :ivar names: of the streams among the observed metrics.
    :ivar open_state: reads what is open from the checkpoint.
    :ivar closed_at: maps the time of the latest event that is open to the watermark that closes it, in microseconds.
    :ivar hidden: columns of ``rows`` that are not written; ``events``: the one of them with the number of events in a
        row. "": events are not counted in the result.
    """

    name: str
    rows: DataFrame
    identity: Mapping[str, str]
    columns: Sequence[str]
    each: Callable[[DataFrame], DataFrame] = _as_it_is
    streams: Sequence[EventStream] = ()
    late: LateWatermark | None = None
    held: Callable[[], DataFrame] | None = None
    names: Sequence[str] = ("rows",)
    open_state: Callable[[SparkSession, FileSystem], OpenState] | None = None
    closed_at: Callable[[int], int] = itself
    hidden: Sequence[str] = ()
    events: str = ""

    def too_many_late(self, found: LateEvents, most: float, report: Mapping[str, Any], *, earlier: bool) -> TooManyLate:
        """The error of a run with too many late events; ``earlier``: of the previous run."""
        watermark = max((each.delay for each in self.streams), default=0)
        return TooManyLate(late_events_message(found, most, watermark, earlier), report)
