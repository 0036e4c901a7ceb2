"""
Periodic work on logs (Kafka: LogManager's background tasks), on one timer for all of them.

An idle log costs a glance at each retention check; all other work is requested by a log when it is written to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain, islice
from operator import length_hint

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.errors import ApiError, StorageError
from logbus.storage.istorage import IDeletePolicy, IDisk, IOPool
from logbus.storage.log import Log
from logbus.storage.log_directory import LogDirectory
from logbus.storage.remote.remote_log import RemoteLog
from logbus.storage.segments.segment import Segment
from logbus.storage.settings import StorageSettings
from logbus.storage.truncation import delete_expired
from logbus.timers import Timers

_LOGS_PER_TURN = 500
"""Logs processed in one turn of the reactor, at most, and"""
_SECONDS_PER_TURN = 0.005
"""the time after which others have their turn: an idle log costs a glance, one with expired segments a new file."""
_SECONDS_WHILE_CROWDED = 0.02
"""Delay after a log that lost segments while more files are open than should be: syncs are to catch up."""
_SEGMENTS_PER_TURN = 100
"""Segments of one log that are deleted in one turn: the files of each are renamed."""
_FILES_PER_OPERATION = 100
"""Files that the background thread removes before others have their turn."""
_TREES_PER_TURN = 200
"""Directories whose removal is begun in one turn."""
_PRODUCERS_A_TURN = 20_000
"""Producers that are looked at in one turn, rounded up to those of whole logs."""
_CHECKPOINT_DELAY_MS = 1000
"""Delay after which recovery points are checkpointed together."""
_NEVER = 2**62


@define(eq=False, repr=False)
class Housekeeping:
    """
    Retention, checkpoints, expiration of producers, flushes by time, delayed deletion; the owner of managed logs.

    :ivar timers: shared with the cleaner and the scrubber: all of them wait on one timer.
    :ivar remote_log_of: gives the remote part of a log; None: there is no remote storage.
    :ivar remove_strays: removes stray logs that are expired.
    :ivar suspicion: called with segments that may be damaged.
    """

    _directories: Sequence[LogDirectory]
    _clock: IReactorTime
    _wall_clock: Callable[[], float]
    settings: StorageSettings = field(kw_only=True)
    _policy: IDeletePolicy = field(kw_only=True)
    _high_watermark_of: Callable[[Log], int] = field(kw_only=True)
    _measure_space: Callable[[], None] = field(default=lambda: None, kw_only=True)
    timers: Timers = field(init=False)
    suspicion: Callable[[Log, Segment], object] = field(default=lambda log, segment: None, init=False)
    remove_strays: Callable[[], None] = field(default=lambda: None, init=False)
    remote_log_of: Callable[[Log], RemoteLog | None] = field(default=lambda log: None, init=False)
    _touched: set[Log] = field(factory=set, init=False)
    _points_due: set[IDisk] = field(factory=set, init=False)
    _believed_ms: float = field(init=False)
    _believed_at: float = field(init=False)
    _stepped: bool = field(default=False, init=False)
    _refused: set[str] = field(factory=set, init=False)
    _running: bool = field(default=False, init=False)
    _log = Logger()

    def __attrs_post_init__(self) -> None:
        self.timers = Timers(self._clock)
        self._believed_ms, self._believed_at = self._wall_clock() * 1000, self._clock.seconds()

    def start(self) -> None:
        """Begin the periodic work."""
        self._running = True
        settings = self.settings
        self._every(settings.retention_check_interval_ms, self.check_retention)
        self._every(settings.recovery_checkpoint_interval_ms, self.checkpoint)
        self._every(settings.high_watermark_checkpoint_interval_ms, self.checkpoint_high_watermarks)
        self._every(settings.producer_id_check_interval_ms, self.expire_producers)
        self.remove_strays()
        self._every(settings.retention_check_interval_ms, self.remove_strays)
        self._measure_space()
        self._every(settings.space_check_interval_ms, self._measure_space)

    def stop(self) -> None:
        """End it. Files that were to be removed later are removed at the next start."""
        self._running = False
        self.timers.close()

    def _every(self, interval_ms: int, work: Callable[[], None]) -> None:
        def turn() -> None:
            try:
                work()
            finally:
                self.timers.call_later(interval_ms / 1000, turn)

        self.timers.call_later(interval_ms / 1000, turn)

    # -- Calls of logs

    def touched(self, log: Log) -> None:
        """Note that a log was written to: its high watermark will move."""
        self._touched.add(log)

    def dirtied(self, log: Log) -> None:
        """Flush the log after ``flush.ms``, if its topic asks for that."""
        flush_ms = log.config.flush_ms
        if flush_ms < _NEVER:
            self.timers.call_later(flush_ms / 1000, lambda: self._flush(log))

    def _flush(self, log: Log) -> None:
        if log.is_active and log.flushed_end_offset < log.log_end_offset:
            log.flusher.request()

    def written_back(self, log: Log) -> None:
        """Checkpoint its recovery point soon, together with others."""
        if not self._points_due:
            self.timers.call_later(_CHECKPOINT_DELAY_MS / 1000, self._checkpoint_recovery_points)
        self._points_due.add(log.disk)

    def _checkpoint_recovery_points(self) -> None:
        due = self._points_due
        self._points_due = set()
        for directory in self._directories:
            if directory.disk in due and directory.is_online:
                self._watch(directory.checkpoint_recovery_points(), "recovery points")

    def suspected(self, log: Log, segment: Segment) -> None:
        """Have a segment checked."""
        self.suspicion(log, segment)

    def remove_later(self, log: Log, paths: list[str]) -> None:
        """Remove files after ``file.delete.delay.ms``."""
        self.timers.call_later(log.config.file_delete_delay_ms / 1000, lambda: self._remove(log.disk, paths))

    def _remove(self, disk: IDisk, paths: list[str]) -> None:
        for begin in range(0, len(paths), _FILES_PER_OPERATION):
            if disk.failure is None:
                removed = paths[begin : begin + _FILES_PER_OPERATION]
                self._watch(disk.submit(IOPool.BACKGROUND, _unlink_all, disk, removed), "deletion")

    def remove_trees_later(self, disk: IDisk, paths: list[str], delay_ms: int) -> None:
        """Remove whole directories after a while."""
        self.timers.call_later(delay_ms / 1000, lambda: self.remove_trees(disk, paths))

    def remove_trees(self, disk: IDisk, paths: list[str]) -> None:
        """Remove whole directories in the background."""
        for path in paths[:_TREES_PER_TURN]:
            if disk.failure is None:
                self._watch(disk.submit(IOPool.BACKGROUND, disk.remove_tree, path), "deletion")
        if len(paths) > _TREES_PER_TURN:
            self.timers.call_later(0, lambda: self.remove_trees(disk, paths[_TREES_PER_TURN:]))

    def remote_log(self, log: Log) -> RemoteLog | None:
        """The remote part of a log."""
        return self.remote_log_of(log)

    # -- Periodic work

    def checkpoint(self) -> None:
        """Checkpoint recovery points and log start offsets, where logs were written to."""
        for directory in self._directories:
            if directory.is_online and any(
                log.recovery_point != log.checkpointed_recovery_point for log in directory.logs.values()
            ):
                self._watch(directory.checkpoint_recovery_points(), "recovery points")
        # Each of them takes some milliseconds with ten thousand logs.
        self.timers.call_later(0, self._checkpoint_start_offsets)

    def _checkpoint_start_offsets(self) -> None:
        for directory in self._directories:
            if directory.is_online and directory.starts_moved():
                self._watch(directory.checkpoint_start_offsets(), "start offsets")

    def checkpoint_high_watermarks(self) -> None:
        """Checkpoint high watermarks, where logs were written to."""
        if not self._touched:
            return
        touched, self._touched = self._touched, set()
        disks = set()
        for log in touched:
            if log.is_closed:
                # Deleted, so that its high watermark never reaches its end, or on its way to another log directory.
                log.is_touched = False
                continue
            disks.add(log.disk)
            log.high_watermark = self._high_watermark_of(log)
            if log.high_watermark < log.log_end_offset:
                # It has not reached the log's end yet.
                self._touched.add(log)
            else:
                log.is_touched = False
        for directory in self._directories:
            if directory.disk in disks and directory.is_online:
                self._watch(directory.checkpoint_high_watermarks(), "high watermarks")

    def check_retention(self) -> None:
        """Delete the segments that the policy selects, a number of logs a turn."""
        now_ms = self.steady_now_ms()
        logs = [log for directory in self._directories if directory.is_online for log in directory.logs.values()]
        turns = iter(logs)
        unfinished: list[Log] = []

        def turn() -> None:
            ends, delay = self._clock.seconds() + _SECONDS_PER_TURN, 0.0
            for log in chain((unfinished.pop(),) if unfinished else (), islice(turns, _LOGS_PER_TURN)):
                count = self._delete_expired(log, now_ms)
                if count == _SEGMENTS_PER_TURN:
                    unfinished.append(log)
                if count and log.files.is_crowded:
                    delay = _SECONDS_WHILE_CROWDED
                    break
                if unfinished or self._clock.seconds() > ends:
                    break
            if self._running and (unfinished or length_hint(turns)):
                self.timers.call_later(delay, turn)

        turn()

    def _delete_expired(self, log: Log, now_ms: int) -> int:
        """Returns the number of segments that were deleted."""
        if log.is_closed or log.disk.failure is not None:
            return 0
        try:
            log.high_watermark = self._high_watermark_of(log)
            return delete_expired(log, self._policy, now_ms, _SEGMENTS_PER_TURN)
        except (ApiError, StorageError) as error:
            self._log.warn("{partition}: retention failed: {error}", partition=log.partition, error=str(error))
        except Exception:
            # A policy may be anybody's; the logs behind this one have their turn all the same.
            self._log.failure(
                "{partition}: retention by the policy {policy} failed",
                partition=log.partition,
                policy=self._policy.name,
            )
        return 0

    def steady_now_ms(self) -> int:
        """
        The wall clock, unless it jumped ahead since the last call: then it continues from the old time. A clock that is
        a month ahead must not delete a month of data.
        """
        wall_ms, at = self._wall_clock() * 1000, self._clock.seconds()
        expected = self._believed_ms + (at - self._believed_at) * 1000
        if wall_ms - expected > self.settings.max_clock_step_ms:
            if not self._stepped:
                self._log.critical(
                    "the clock jumped ahead by {seconds:.0f} s; retention goes by the old time until it is set right, "
                    "or the broker is restarted",
                    seconds=(wall_ms - expected) / 1000,
                )
            self._stepped = True
            return int(expected)
        self._stepped = False
        self._believed_ms, self._believed_at = wall_ms, at
        return int(wall_ms)

    def expire_producers(self) -> None:
        """Remove idempotent producers that have not written for long: of some logs at once, of the others soon."""
        before_ms = int(self._wall_clock() * 1000) - self.settings.producer_id_expiration_ms
        self._expire_producers(deque(log for each in self._directories for log in each.logs.values()), before_ms)

    def _expire_producers(self, logs: deque[Log], before_ms: int) -> None:
        """Remove those of some logs; the others have a turn of the reactor of their own."""
        looked_at = 0
        while logs and looked_at < _PRODUCERS_A_TURN:
            producers = logs.popleft().producers_in_memory
            looked_at += 1
            if producers is not None:
                looked_at += len(producers)
                producers.expire(before_ms)
        if logs:
            self.timers.call_later(0, lambda: self._expire_producers(logs, before_ms))

    def _watch(self, work: Deferred[None], what: str) -> None:
        """
        Handle errors of background work: a failed disk is reported already; a lack of space is logged once, until the
        work succeeds again; other errors are logged.
        """

        def failed(failure: Failure) -> None:
            if failure.check(ApiError):
                if what not in self._refused:
                    self._log.warn("{what}: not possible for now: {error}", what=what, error=str(failure.value))
                self._refused.add(what)
            elif failure.check(StorageError) is None:
                self._log.failure("{what} failed", failure, what=what)

        def done(_: None) -> None:
            self._refused.discard(what)

        work.addCallbacks(done, failed)


def _unlink_all(disk: IDisk, paths: Sequence[str]) -> None:
    """Remove files. Runs in an I/O thread; those that are left after an error are removed at the next start."""
    for path in paths:
        disk.unlink(path)
