"""Compares one partition with its copy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from attrs import define

from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.coroutines import gather
from logbus.mirror.audit.audit_options import AuditOptions
from logbus.mirror.audit.differences import Differences, WindowDifference
from logbus.mirror.audit.partition_report import MirrorVerdict, PartitionReport, WindowReport
from logbus.mirror.audit.range_reader import Side
from logbus.mirror.audit.record_digest import record_digest
from logbus.mirror.audit.window_totals import SideTotals, WindowTotals, differing_windows

MOST = 500_000
"""Different records of one partition that are compared one by one."""

_FIRST = 100
"""Records of a side that are looked for on the other one, to see how many that has before them."""

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
        source, copy = await gather(self._counted(side) for side in (self.source, self.copy))
        gone = [0, 0]
        if differing_windows(source, copy):
            # What one side has deleted are the oldest records of the other one.
            if count := await self._deleted(self.source, source, self.copy, copy):
                copy = copy.without(await self._counted(self.copy, count))
                gone[0] = count
            elif count := await self._deleted(self.copy, copy, self.source, source):
                source = source.without(await self._counted(self.source, count))
                gone[1] = count
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
            is_reordered=not differing and not source.whole.is_like(copy.whole),
        )

    async def _deleted(self, side: Side, totals: SideTotals, other: Side, others: SideTotals) -> int:
        """The number of the other side's oldest records that a side has deleted."""
        if side.log_start == 0:
            return 0
        surplus = max(0, others.count - totals.count)
        if surplus and others.without(await self._counted(other, surplus)).whole.is_like(totals.whole):
            return surplus
        # Others are missing, or were added, so the number does not tell: the places of its first records do.
        first: list[int] = []

        def read_first(window: int, record: ConsumerRecord) -> bool:
            first.append(record_digest(record))
            return len(first) == _FIRST

        await self._read(side, read_first)
        places = {digest: place for place, digest in enumerate(first) if first.count(digest) == 1}
        votes: Counter[int] = Counter()
        place = 0

        def look_for(window: int, record: ConsumerRecord) -> bool:
            nonlocal place
            known = places.pop(record_digest(record), None)
            if known is not None:
                votes[place - known] += 1
            place += 1
            return not places

        if places:
            await self._read(other, look_for)
        return max(0, votes.most_common(1)[0][0]) if votes else surplus

    async def _counted(self, side: Side, most: int | None = None) -> SideTotals:
        """The totals of a side: of all its records that count, or of the first ones."""
        totals = self._no_totals()

        def read(window: int, record: ConsumerRecord) -> bool:
            totals.add(window, record_digest(record), record.offset)
            return totals.count == most

        await self._read(side, read)
        return totals

    async def _read(self, side: Side, read: Callable[[int, ConsumerRecord], bool]) -> None:
        """Call a function with the window and record of all that count on a side, until it returns true."""
        window_of = self._no_totals().window_of

        def read_counting(record: ConsumerRecord) -> bool:
            window = window_of(record.timestamp)
            return window is not None and read(window, record)

        await side.read(side.log_start, side.end, read_counting)

    def _no_totals(self) -> SideTotals:
        return SideTotals(self.options.window_ms, self.options.since_ms, self.options.until_ms)

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
