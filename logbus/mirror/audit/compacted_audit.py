"""Compares the last record of each key of a compacted partition: each side is compacted at a time of its own."""

from __future__ import annotations

from collections.abc import Callable

from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.coroutines import gather
from logbus.mirror.audit.audit_options import AuditOptions
from logbus.mirror.audit.compacted_side import CompactedSide, LastRecord
from logbus.mirror.audit.differences import Differences
from logbus.mirror.audit.partition_report import MirrorVerdict, PartitionReport, WindowReport
from logbus.mirror.audit.range_reader import Side, read_range
from logbus.mirror.audit.window_totals import SideTotals

MOST = 500_000
"""Different records of which it is said what is wrong."""


async def compare_compacted(
    options: AuditOptions, source: Side, copy: Side, source_end: int, behind: int
) -> PartitionReport:
    """
    Compare the last record of each key; a tombstone is as good as no record. Memory grows with the number of keys.

    :param source_end: the end of the source; keys whose last record is behind what was copied are left out.
    :raises LogbusError: a side cannot be read.
    """
    ours, theirs = await gather(_last_records(side) for side in (source, copy))

    def newer(record: ConsumerRecord) -> None:
        ours.forget(record)
        theirs.forget(record)

    await read_range(source.cluster, source.partition, source.end, source_end, newer)
    differences = Differences(MOST)
    totals = SideTotals(options.window_ms, options.since_ms, options.until_ms)
    counts: dict[int, list[int]] = {}
    gone = [0, 0]

    def counting(last: LastRecord | None) -> tuple[int, LastRecord] | None:
        if last is None or last.digest is None or (window := totals.window_of(last.timestamp)) is None:
            return None
        return window, last

    for key in {**ours.last, **theirs.last}:
        our_last, their_last = ours.last.get(key), theirs.last.get(key)
        if options.until_ms is not None and any(
            each is not None and each.timestamp >= options.until_ms for each in (our_last, their_last)
        ):
            # The record before, which would count, may have been removed for this one.
            continue
        original, copied = counting(our_last), counting(their_last)
        # A policy "compact,delete" deletes the oldest records, too.
        if our_last is None and copied is not None and source.log_start > 0:
            gone[0] += 1
            continue
        if their_last is None and original is not None and copy.log_start > 0:
            gone[1] += 1
            continue
        for place, each in enumerate((original, copied)):
            if each is not None:
                counts.setdefault(each[0], [0, 0])[place] += 1
        if original is None or copied is None or original[1].digest != copied[1].digest:
            _note(differences.add_source, original)
            _note(differences.add_copy, copied)
    by_window = differences.by_window()
    return PartitionReport(
        topic=source.partition.topic,
        copy_topic=copy.partition.topic,
        partition=source.partition.partition,
        windows=tuple(
            WindowReport(start, each[0], each[1], by_window[start], MirrorVerdict.DIFFERENT)
            if start in by_window
            else WindowReport(start, each[0], each[1])
            for start, each in sorted(counts.items())
        ),
        behind=behind,
        skipped=len(source.passed),
        gone_at_source=gone[0],
        gone_at_target=gone[1],
        examples=tuple(differences.examples(options.examples)),
        compacted=True,
    )


def _note(add: Callable[[int, int, int, int], None], found: tuple[int, LastRecord] | None) -> None:
    if found is not None:
        window, last = found
        assert last.digest is not None
        add(window, last.digest, last.offset, last.timestamp)


async def _last_records(side: Side) -> CompactedSide:
    found = CompactedSide()
    await side.read(side.log_start, side.end, found.add)
    return found
