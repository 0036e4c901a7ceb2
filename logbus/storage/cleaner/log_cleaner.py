"""
The log cleaner (Kafka: LogCleaner, LogCleanerManager): chooses the log to compact next, and handles failures.

``log.cleaner.threads`` logs are cleaned at a time, the dirtiest that are due first. The offsets up to which logs are
clean are in ``cleaner-offset-checkpoint``, in Kafka's format. A log that cannot be cleaned is skipped until the next
start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredLock
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.errors import ApiError, DecodeError, LogbusError, StorageError
from logbus.metrics import Family, Registry, Sample, metric
from logbus.storage.cleaner.cleaner_task import CleanerTask
from logbus.storage.cleaner.log_to_clean import LogToClean, cleanable_section
from logbus.storage.log import Log
from logbus.storage.log_worker import LogWorker
from logbus.storage.segment_replacement import ReplacementAbandoned
from logbus.storage.settings import CleanerSettings
from logbus.storage.throttler import Throttler
from logbus.timers import Timer

_SHORTEST_MS = 10
"""Lower bound of the backoff, since a look at every log costs something."""


@define(eq=False, repr=False)
class LogCleaner(LogWorker):
    """
    Compacts the logs of a broker.

    :ivar settings: called before each round.
    :ivar uncleanable: logs that are not cleaned any more, and the reasons.
    :ivar max_dirty_ratio: of the dirtiest log, when last computed.
    :ivar cleanings: finished so far.
    :ivar read_bytes: so far.
    :ivar written_bytes: so far.
    :ivar removed_records: so far.
    """

    _wall_clock: Callable[[], float]
    _high_watermark_of: Callable[[Log], int]
    settings: Callable[[], CleanerSettings] = CleanerSettings
    uncleanable: dict[Log, str] = field(factory=dict, init=False)
    max_dirty_ratio: float = metric(
        "logbus_cleaner_max_dirty_ratio",
        "Share of the dirtiest compacted log that is not compacted, at the last look.",
    )
    cleanings: int = metric("logbus_cleanings_total", "Compactions of a log.")
    read_bytes: int = metric("logbus_cleaner_read_bytes_total", "Bytes read to compact logs.")
    written_bytes: int = metric("logbus_cleaner_written_bytes_total", "Bytes of segments compacted.")
    removed_records: int = metric("logbus_cleaner_removed_records_total", "Records that compaction removed.")
    _running: bool = field(default=False, init=False)
    _choosing: DeferredLock = field(factory=DeferredLock, init=False)
    _throttlers: dict[Log, Throttler] = field(factory=dict, init=False)
    _wake: Timer | None = field(default=None, init=False)
    _log = Logger()

    def register_metrics(self, registry: Registry) -> None:
        """Declare the metrics of the cleaner."""
        registry.add_fields(self)
        registry.gauge(
            "logbus_uncleanable_partitions",
            "Partitions that cannot be compacted, and grow.",
            read=lambda: len(self.uncleanable),
        )
        registry.add_source(lambda: [self._uncleanable_logs()])

    def _uncleanable_logs(self) -> Family:
        """A series for each log that cannot be cleaned, while there is one."""
        name = "logbus_uncleanable_partition"
        logs = [log.partition for log in self.uncleanable]
        samples = (Sample(name, (("topic", topic), ("partition", str(number))), 1) for topic, number in logs)
        return Family(name, "1 for each partition that cannot be compacted.", "gauge", samples)

    # -- Start and stop

    def start(self) -> None:
        """Begin to look for work, if the cleaner is enabled."""
        if self.settings().enable and not self._running:
            self._running = True
            self._schedule()

    def stop(self) -> Deferred[None]:
        """
        Abort the current cleaning; fires when none runs. A replacement of segments that has begun is finished first.
        """
        self._running = False
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        self._hurry()
        return self._until_idle()

    def _hurry(self) -> None:
        for throttler in (self._throttler, *self._throttlers.values()):
            throttler.hurry()

    def _schedule(self) -> None:
        self._wake = self._timers.call_later(max(self.settings().backoff_ms, _SHORTEST_MS) / 1000, self._clean_due)

    def _clean_due(self) -> None:
        self._wake = None

        def failed(failure: Failure) -> None:
            self._log.failure("the cleaner failed, and goes on", failure)

        def done(_: object) -> None:
            if self._running and self._wake is None:
                self._schedule()

        cleaning = Deferred.fromCoroutine(self.clean_all()).addErrback(failed).addCallback(done)
        if not cleaning.called and self.settings().threads > 1:
            # A log may take hours, in which other logs become due.
            self._schedule()

    # -- Work

    async def clean_all(self) -> None:
        """Clean logs, several at a time, the dirtiest first, until none is due or none can be cleaned now."""
        later: set[Log] = set()
        while (free := self.settings().threads - len(self._current)) > 0:
            due = deque(log for _, log in await self._choosing.run(self._look_at_logs, later))
            if not due:
                return
            workers = [Deferred.fromCoroutine(self._work_off(due, later)) for _ in range(min(free, len(due)))]
            for worker in workers:
                await worker
            if not self._running:
                return

    async def _work_off(self, due: deque[Log], later: set[Log]) -> None:
        """Clean one of these logs after the other; those that must wait are added to ``later``."""
        while due and len(self._current) < self.settings().threads:
            log = due.popleft()
            plan = self._plan(log)
            if plan is None or not plan.is_due(log.config):
                continue
            if not await self._clean(log, plan):
                later.add(log)
            if not self._running:
                return

    def _look_at_logs(self, later: Collection[Log]) -> Deferred[list[tuple[float, Log]]]:
        return Deferred.fromCoroutine(self._due_logs(later))

    async def _due_logs(self, later: Collection[Log]) -> list[tuple[float, Log]]:
        """The logs that are due, with their dirty ratios, dirtiest first."""
        due: list[tuple[float, Log]] = []
        dirtiest = 0.0
        logs = [log for directory in self._directories if directory.is_online for log in directory.logs.values()]
        known = set(logs)
        self.uncleanable = {log: why for log, why in self.uncleanable.items() if log in known}
        self._throttler.begin()
        for log in logs:
            plan = self._plan(log) if log.config.compacted else None
            if plan is not None:
                dirtiest = max(dirtiest, plan.ratio)
                if log not in later and plan.is_due(log.config):
                    due.append((plan.ratio, log))
            if self._throttler.is_due:
                await self._throttler.rest()
                if not self._running:
                    return []
        self.max_dirty_ratio = dirtiest
        due.sort(key=lambda found: found[0], reverse=True)
        return due

    def _plan(self, log: Log) -> LogToClean | None:
        """The cleanable section of a log; None if it must not be cleaned."""
        if log.is_closed or log.disk.failure is not None or log in self.uncleanable or log in self._paused:
            return None
        if log in self._current:
            return None
        return cleanable_section(
            log.segments,
            log.config,
            log_start=log.log_start_offset,
            cleaned_end=log.cleaned_end_offset,
            bound=min(log.last_stable_offset(self._high_watermark_of(log)), log.recovery_point),
            now_ms=int(self._wall_clock() * 1000),
        )

    async def _clean(self, log: Log, plan: LogToClean) -> bool:
        """Clean one log; returns whether it may be considered again at once."""
        settings = self.settings()
        throttler = Throttler(self._timers, settings.max_bytes_per_second, lambda: len(self._current))
        cleaning = CleanerTask(
            log,
            plan,
            throttler,
            settings.dedupe_buffer_size // settings.threads,
            int(self._wall_clock() * 1000),
            lambda: not self._running or log in self._paused,
        )
        begun = self._timers.clock.seconds()
        self._throttlers[log] = throttler
        with self._working_on(log):
            try:
                await cleaning.run()
                log.cleaned_end_offset = max(log.cleaned_end_offset, cleaning.end)
                await self._checkpoint(log)
            except ReplacementAbandoned as reason:
                self._log.debug("cleaning given up: {reason}", reason=str(reason))
                return False
            except ApiError as error:
                self._log.warn("{partition} is cleaned later: {error}", partition=log.partition, error=str(error))
                return False
            except StorageError as error:
                if log.disk.failure is None:
                    # The segment's own reader found damage; a failed disk is reported already.
                    self._give_up(log, str(error))
                return False
            except DecodeError as error:
                self._give_up(log, str(error))
                for segment in log.segments[:-1]:
                    log.suspected(segment)
                return False
            except LogbusError as error:
                self._give_up(log, str(error))
                return False
            except Exception:
                self._log.failure("{partition} cannot be cleaned", partition=log.partition)
                self._give_up(log, "of a fault of the cleaner")
                return False
            finally:
                del self._throttlers[log]
                self.read_bytes += cleaning.read_bytes
                self.written_bytes += cleaning.written_bytes
        self._done(log, plan, cleaning, self._timers.clock.seconds() - begun)
        return True

    def _done(self, log: Log, plan: LogToClean, cleaning: CleanerTask, seconds: float) -> None:
        compaction = cleaning.compaction
        self.cleanings += 1
        self.removed_records += compaction.removed
        self._log.info(
            "{partition}: cleaned up to {end} in {seconds:.1f} s: {removed} of {records} records removed, {keys} keys "
            "in {dirty} dirty bytes; {read} bytes read, {written} written",
            partition=log.partition, end=cleaning.end, seconds=seconds,
            removed=compaction.removed, records=compaction.records,
            keys=cleaning.keys, dirty=plan.dirty_bytes, read=cleaning.read_bytes, written=cleaning.written_bytes,
        )  # fmt: skip
        if compaction.keyless:
            self._log.warn(
                "{partition}: {count} records have no key; compaction keeps them all",
                partition=log.partition,
                count=compaction.keyless,
            )

    def _give_up(self, log: Log, why: str) -> None:
        self.uncleanable[log] = why
        self._log.error(
            "{partition} is not cleaned any more until it is repaired, or the broker is restarted, and grows: {why}",
            partition=log.partition,
            why=why,
        )
