"""
Decides whether a backlog is read with a held watermark, so that none of its events is late.

A backlog is what is there when a run starts. If it takes several batches, Spark would drop events of the later ones
that are older than those of the earlier ones. So the watermark is held until all of it is read, and then advances to
where one batch would have brought it, by a punctuation (:mod:`~logbus.pipeline.jobs.punctuation`). A file in the
checkpoint says that this has begun, so that the next run goes on with it if this one dies.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from attrs import frozen

from logbus.errors import LogbusError
from logbus.pipeline.errors import PipelineError
from logbus.pipeline.jobs.checkpoint_files import last_planned
from logbus.pipeline.jobs.event_stream import EventStream
from logbus.pipeline.jobs.progress import offset_lines, plan_line
from logbus.pipeline.jobs.record_counts import last_commit
from logbus.pipeline.lake.file_system import FileSystem
from logbus.pipeline.source.offsets_json import PartitionOffsets

BACKLOG_FILE = "logbus-backlog"
"""A file in a checkpoint: a backlog is being read with a held watermark."""


@frozen
class StreamPlan:
    """
    The part of a stream that is to be read now.

    :ivar begun: the batch behind which reading starts; None: it starts where a new query does.
    :ivar is_repeated: whether that batch is not finished, and so is read first.
    """

    stream: EventStream
    starts: PartitionOffsets
    ends: PartitionOffsets
    begun: int | None
    is_repeated: bool

    @property
    def left(self) -> int:
        """The number of offsets to read. A partition without a start is read from the start, which counts as 0."""
        return sum(max(0, end - self.starts.get(each, 0)) for each, end in self.ends.items())

    @property
    def is_long(self) -> bool:
        """Whether it takes several batches."""
        most = self.stream.batch_offsets
        return (most is not None and self.left > most) or (self.is_repeated and self.left > 0)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read, and nothing was read before."""
        return self.left == 0 and (self.begun is None or not any(self.ends.values()))

    def __str__(self) -> str:
        then = "from where a new query begins" if self.begun is None else f"behind batch {self.begun}"
        return plan_line(self.stream.topics, self.starts, self.ends, self.stream.batch_offsets, then)


def empty_side(plans: Sequence[StreamPlan]) -> str:
    """
    The message that one of several streams has nothing to read, so that the watermark, which is that of the slowest,
    stands still; "": there is no such stream, or all are so.
    """
    empty = [plan.stream.topics for plan in plans if plan.is_empty]
    if not empty or len(empty) == len(plans):
        return ""
    return (
        f"{', '.join(empty)}: there is no event yet; until there is, all events of the other side are kept, and those "
        "without a match are not written"
    )


def plans_of(checkpoint: FileSystem, streams: Sequence[EventStream]) -> list[StreamPlan]:
    """
    The parts of a query's streams that are to be read now.

    :raise PipelineError: topics do not exist, or no broker can be reached.
    """
    from logbus.pipeline.jobs.event_source import stream_offset

    last = last_planned(checkpoint)
    known = [] if last < 0 else offset_lines(checkpoint.read(f"offsets/{last}"), len(streams))
    plans = []
    for stream, offset in zip_longest(streams, known):
        try:
            starts, ends = stream.offsets(stream_offset(offset) if offset else None)
        except LogbusError as e:
            raise PipelineError(str(e)) from e
        is_repeated = last > last_commit(checkpoint)
        plans.append(StreamPlan(stream, starts, ends, last if offset else None, is_repeated))
    return plans
