"""
Repairs damaged segments of a broker's logs from other replicas: one at a time, with the cleaner paused for the log.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.storage.cleaner.log_cleaner import LogCleaner
from logbus.storage.log import Log
from logbus.storage.log_worker import LogWorker
from logbus.storage.repair.damage import Damage, DamageReports
from logbus.storage.repair.segment_refetch import BatchSource, SegmentRefetch, segments_to_refetch
from logbus.storage.segment_replacement import ReplacementAbandoned, ReplacementUnfinished


@define(eq=False, repr=False)
class LogRepairer(LogWorker):
    """
    Replaces damaged segments by what another replica has.

    :ivar reports: the known damage; repairs are recorded there.
    :ivar read_bytes: read from other replicas so far.
    """

    _cleaner: LogCleaner
    reports: DamageReports
    read_bytes: int = field(default=0, init=False)
    _refetch: SegmentRefetch | None = field(default=None, init=False)
    _stopped: bool = field(default=False, init=False)

    def stop(self) -> Deferred[None]:
        """Give up the current repair; fires when none runs. A replacement that has begun is finished first."""
        self._stopped = True
        return self._until_idle()

    def _hurry(self) -> None:
        if self._refetch is not None:
            self._refetch.hurry()

    async def repair(
        self, log: Log, damage: Damage, source: BatchSource, broker_id: int, diverges_at: int | None = None
    ) -> None:
        """
        Replace a damaged segment, together with those that it must be replaced with (:func:`.segments_to_refetch`).

        :param broker_id: of the replica that ``source`` reads from.
        :param diverges_at: the offset from which on that has other records, which is why the log will be cut there.
        :raises LogbusError: as :meth:`.SegmentRefetch.run`; nothing was replaced.
        """
        is_stopped: Callable[[], bool] = lambda: self._stopped or log in self._paused  # noqa: E731
        if self._current or is_stopped():
            raise ReplacementAbandoned(f"{log.partition}: not now")
        with self._working_on(log):
            async with self._cleaner.paused([log]):
                await self._repair(log, damage, source, broker_id, is_stopped, diverges_at)

    async def _repair(
        self,
        log: Log,
        damage: Damage,
        source: BatchSource,
        broker_id: int,
        is_stopped: Callable[[], bool],
        diverges_at: int | None,
    ) -> None:
        segment = next((one for one in log.segments if one.base_offset == damage.base_offset), None)
        if segment is None or log.is_closed:
            raise ReplacementAbandoned(f"{log.partition}: the damaged segment is gone")
        if segment is log.segments[-1]:
            log.close_active_segment()
            if segment is log.segments[-1]:
                raise ReplacementAbandoned(f"{log.partition}: the damaged segment is empty")
        old = segments_to_refetch(log, segment)
        if log.cleaned_end_offset > old[0].base_offset:
            # Before the replacement: the new segments were not compacted together with the ones that stay.
            log.cleaned_end_offset = old[0].base_offset
            await self._checkpoint(log)
        refetch = self._refetch = SegmentRefetch(log, old, source, self._throttler, is_stopped, diverges_at)
        half_done = ""
        try:
            await refetch.run()
        except ReplacementUnfinished as error:
            # The log's content is right; its file names will be after the next start.
            half_done = str(error)
        finally:
            self._refetch = None
            self.read_bytes += refetch.read_bytes
        replaced = {one.base_offset for one in old}
        for known in self.reports.of(log):
            if known.base_offset in replaced:
                self.reports.resolve(log, known, broker_id)
        if half_done:
            self._cleaner.uncleanable[log] = half_done
        else:
            self._cleaner.uncleanable.pop(log, None)
