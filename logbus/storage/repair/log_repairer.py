"""
Repairs damaged segments of a broker's logs from other replicas: one at a time, with the cleaner paused for the log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from attrs import define, field
from twisted.internet.defer import Deferred, succeed

from logbus.storage.cleaner.log_cleaner import LogCleaner
from logbus.storage.log import Log
from logbus.storage.log_directory import LogDirectory
from logbus.storage.repair.damage import Damage, DamageReports
from logbus.storage.repair.segment_refetch import BatchSource, SegmentRefetch, segments_to_refetch
from logbus.storage.segment_replacement import ReplacementAbandoned, ReplacementUnfinished
from logbus.storage.throttler import Throttler
from logbus.timers import Timers


@define(eq=False, repr=False)
class LogRepairer:
    """
    Replaces damaged segments by what another replica has.

    :ivar reports: the known damage; repairs are recorded there.
    :ivar read_bytes: read from other replicas so far.
    """

    _directories: Sequence[LogDirectory]
    _timers: Timers
    _cleaner: LogCleaner
    reports: DamageReports
    read_bytes: int = field(default=0, init=False)
    _current: Log | None = field(default=None, init=False)
    _refetch: SegmentRefetch | None = field(default=None, init=False)
    _paused: list[Log] = field(factory=list, init=False)
    _stopped: bool = field(default=False, init=False)
    _idle: list[Deferred[None]] = field(factory=list, init=False)
    _throttler: Throttler = field(init=False)

    @_throttler.default
    def _default_throttler(self) -> Throttler:
        return Throttler(self._timers)

    def stop(self) -> Deferred[None]:
        """Give up the current repair; fires when none runs. A replacement that has begun is finished first."""
        self._stopped = True
        self._hurry()
        return self._until_idle()

    def _hurry(self) -> None:
        if self._refetch is not None:
            self._refetch.hurry()

    def _until_idle(self) -> Deferred[None]:
        if self._current is None:
            return succeed(None)
        idle: Deferred[None] = Deferred()
        self._idle.append(idle)
        return idle

    @contextmanager
    def paused(self, logs: Collection[Log]) -> Iterator[Deferred[None]]:
        """
        Repair none of some logs, which are about to change.

        :returns: a context; its Deferred fires when none of them is being repaired.
        """
        self._paused += logs
        try:
            off: Deferred[None] = succeed(None)
            if self._current in logs:
                off = self._until_idle()
                self._hurry()
            yield off
        finally:
            for log in logs:
                self._paused.remove(log)

    async def repair(self, log: Log, damage: Damage, source: BatchSource, broker_id: int) -> None:
        """
        Replace a damaged segment, together with those that it must be replaced with (:func:`.segments_to_refetch`).

        :param broker_id: of the replica that ``source`` reads from.
        :raises LogbusError: as :meth:`.SegmentRefetch.run`; nothing was replaced.
        """
        is_stopped: Callable[[], bool] = lambda: self._stopped or log in self._paused  # noqa: E731
        if self._current is not None or is_stopped():
            raise ReplacementAbandoned(f"{log.partition}: not now")
        self._current = log
        try:
            with self._cleaner.paused([log]) as off:
                await off
                await self._repair(log, damage, source, broker_id, is_stopped)
        finally:
            self._current = None
            idle, self._idle = self._idle, []
            for waiter in idle:
                waiter.callback(None)

    async def _repair(
        self, log: Log, damage: Damage, source: BatchSource, broker_id: int, is_stopped: Callable[[], bool]
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
            for directory in self._directories:
                if directory.disk is log.disk:
                    await directory.checkpoint_cleaned_offsets()
        refetch = self._refetch = SegmentRefetch(log, old, source, self._throttler, is_stopped)
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
