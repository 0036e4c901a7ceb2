"""The report of a query's run, to which each batch that Spark has finished is added."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import asdict, define, field

from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.late_events import LateEvents, late_count


@define
class QueryReport:
    """
    The result of a run.

    :ivar rows_in: rows read, with unreadable ones; ``rows_out``: rows of the result.
    :ivar readable: rows whose value the payload could parse;  ``unreadable``: those that it could not.
    :ivar lost: offsets that were gone before they were read, where that is no error (``failOnDataLoss=false``).
    :ivar late: events that came after one of their windows was written, or too late to be joined: the result lacks
        them.
    :ivar late_share: the share of late events among the readable ones, from 0 to 1.
    :ivar counted: events in the windows that were written;  ``open_before``, ``still_open``: events in open windows
        before the run, and after it. None: not known, or not tumbling windows.
    :ivar stopped: whether the job was asked to stop.
    """

    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    readable: int = 0
    unreadable: int = 0
    lost: int = 0
    late: int = 0
    late_share: float = 0.0
    counted: int | None = None
    open_before: int | None = None
    still_open: int | None = None
    seconds: float = 0.0
    stopped: bool = False
    last_batch: int = field(default=-1, repr=False)
    left: int = field(default=0, repr=False)
    late_events: LateEvents = field(factory=LateEvents, repr=False)
    events_out: dict[int, int] = field(factory=dict, repr=False)

    def as_json(self) -> dict[str, Any]:
        """The report without internal counters."""
        return asdict(self, filter=lambda each, _: each.repr is not False)


def count_batches(report: QueryReport, progress: Sequence[Mapping[str, Any]], watch: JobControl) -> None:
    """Add the progress of new batches to the report. Batches without rows count if they advance the watermark."""
    for each in progress:
        number = each["batchId"]
        if number <= report.last_batch or (not each["numInputRows"] and not each.get("stateOperators")):
            continue
        report.last_batch = number
        report.batches += 1
        observed = (each.get("observedMetrics") or {}).values()
        rows = each["numInputRows"] - sum(of["punctuations"] for of in observed)
        report.rows_in += rows
        unreadable = sum(of["unreadable"] for of in observed)
        dropped = sum(of["numRowsDroppedByWatermark"] for of in each.get("stateOperators", ()))
        late = late_count(sum(of["late"] for of in observed), dropped)
        report.unreadable += unreadable
        report.readable += sum(of["readable"] for of in observed)
        lost = sum(of["lost"] for of in observed)
        report.lost += lost
        if report.counted is not None:
            report.counted += report.events_out.pop(number, 0)
        report.late_events.add(
            rows - unreadable, late, max((of["behind"] for of in observed), default=0) if late else 0
        )
        report.late, report.late_share = report.late_events.late, round(report.late_events.share, 6)
        report.left = sum(offsets_left(of.get("endOffset"), of.get("latestOffset")) for of in each.get("sources", ()))
        message = f"batch {number}: {rows} rows read"
        rate = each.get("processedRowsPerSecond")
        message += f", {rate:,.1f} rows/s" if rate else ""
        message += f", {unreadable} unreadable" if unreadable else ""
        message += f", {lost} offsets lost" if lost else ""
        message += f", {late} late" if late else ""
        message += f"; {report.left} offsets are left" if report.left else ""
        watch.tell_batch(message, rows, report.left)


def offsets_left(end: Any, latest: Any) -> int:
    """
    The number of offsets of a source that are not read yet.

    :param end, latest: the end of a batch and of the topics, in the form of
        :mod:`logbus.pipeline.source.stream_offset`, decoded or as JSON text; None: unknown.
    """
    read, there = (json.loads(each) if isinstance(each, str) else each for each in (end, latest))
    if not read or not there:
        return 0
    return sum(
        max(0, offset - read.get(topic, {}).get(partition, offset))
        for topic, partitions in there.items()
        if not topic.startswith(":")
        for partition, offset in partitions.items()
    )
