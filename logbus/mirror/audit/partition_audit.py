"""Compares one partition with its copy."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define
from twisted.internet.defer import Deferred, gatherResults

from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.mirror.audit.audit_options import AuditOptions
from logbus.mirror.audit.differences import Differences, WindowDifference
from logbus.mirror.audit.partition_report import MirrorVerdict, PartitionReport, WindowReport
from logbus.mirror.audit.range_reader import Side
from logbus.mirror.audit.record_digest import record_digest
from logbus.mirror.audit.window_totals import SideTotals, WindowTotals, differing_windows

MOST = 500_000
"""Different records of one partition that are compared one by one."""

_DIFFERENT, _REORDERED = MirrorVerdict.DIFFERENT, MirrorVerdict.REORDERED


@define(eq=False)
class PartitionAudit:
    """
    The audit of a partition, whose sides have been found.

    :ivar behind: records of the source that were not copied yet, as far as it is known.
    """

    options: AuditOptions
    source: Side
    copy: Side
    behind: int = 0

    async def compare(self) -> PartitionReport:
        """
        Compare all records.

        :raises LogbusError: a side cannot be read.
        """
        source, copy = await gatherResults(
            [Deferred.fromCoroutine(self._counted(side)) for side in (self.source, self.copy)], consumeErrors=True
        )
        surplus = copy.count - source.count
        gone = [0, 0]
        # What one side has deleted are the oldest records of the other one.
        if surplus > 0 and self.source.log_start > 0:
            copy = copy.without(await self._counted(self.copy, surplus))
            gone[0] = surplus
        elif surplus < 0 and self.copy.log_start > 0:
            source = source.without(await self._counted(self.source, -surplus))
            gone[1] = -surplus
        differing = differing_windows(source, copy)
        differences = await self._differences(differing, source, copy) if differing else Differences(0)
        by_window = differences.by_window()
        windows = []
        for start in sorted({*source.windows, *copy.windows}):
            ours, theirs = (side.windows.get(start, WindowTotals()) for side in (source, copy))
            found, verdict = by_window.get(start, WindowDifference()), MirrorVerdict.COMPLETE
            if start in differing:
                verdict = _REORDERED if ours.has_records_of(theirs) else _DIFFERENT
                if differences.is_full and found == WindowDifference():
                    fewer = ours.count - theirs.count
                    found = WindowDifference(missing=max(0, fewer), foreign=max(0, -fewer))
            windows.append(WindowReport(start, ours.count, theirs.count, found, verdict))
        return PartitionReport(
            topic=self.source.partition.topic,
            copy_topic=self.copy.partition.topic,
            partition=self.source.partition.partition,
            windows=tuple(windows),
            behind=self.behind,
            skipped=len(self.source.passed),
            gone_at_source=gone[0],
            gone_at_target=gone[1],
            examples=tuple(differences.examples(self.options.examples)),
        )

    async def _counted(self, side: Side, most: int | None = None) -> SideTotals:
        """The totals of a side: of all its records that count, or of the first ones."""
        options, left = self.options, most
        totals = SideTotals(options.window_ms, options.since_ms, options.until_ms)

        def read(record: ConsumerRecord) -> bool:
            nonlocal left
            window = totals.window_of(record.timestamp)
            if window is None:
                return False
            totals.add(window, record_digest(record), record.offset)
            if left is not None:
                left -= 1
            return left == 0

        await side.read(side.log_start, side.end, read)
        return totals

    async def _differences(self, differing: list[int], source: SideTotals, copy: SideTotals) -> Differences:
        """Read the windows that differ once more."""
        found, wanted = Differences(MOST), set(differing)

        async def again(side: Side, totals: SideTotals, add: Callable[[int, int, int, int], None]) -> None:
            theirs = {start: each for start, each in totals.windows.items() if start in wanted}
            if not theirs:
                return

            def read(record: ConsumerRecord) -> None:
                window = totals.window_of(record.timestamp)
                # A window whose beginning was left out begins behind that.
                if window in theirs and record.offset >= theirs[window].first:
                    add(window, record_digest(record), record.offset, record.timestamp)

            await side.read(
                min(each.first for each in theirs.values()), max(each.last for each in theirs.values()) + 1, read
            )

        # The source first, so that what is repeated is told from what is foreign.
        await again(self.source, source, found.add_source)
        await again(self.copy, copy, found.add_copy)
        return found
