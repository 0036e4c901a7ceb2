"""
The scrubber reads all closed segments periodically, to find damage before a consumer does.

A thread reads a chunk, the reactor checks it and then does other work. The work is limited to a byte rate, and to a
fourth of the reactor's time. Segments in which a read met invalid data are checked first, without waiting for a round.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.errors import ApiError, StorageError
from logbus.metrics import metric
from logbus.model import NO_EPOCH
from logbus.records.batch import HEADER_SIZE, MAGIC, BatchHeader, read_header
from logbus.records.checksum import crc32c
from logbus.records.header import ATTRIBUTES_AT
from logbus.storage.istorage import IFile, IOPool
from logbus.storage.log import Log
from logbus.storage.log_directory import LogDirectory
from logbus.storage.repair.damage import BatchChecker, Damage, DamageReports, latest_epoch
from logbus.storage.segments.segment import Segment
from logbus.storage.settings import ScrubSettings
from logbus.storage.throttler import Throttler
from logbus.timers import Timer, Timers

CHUNK = 256 * 1024
"""Bytes read at a time."""
FIRST_ROUND_S = 60.0
"""Seconds from the start to the first round: recovery and catching up of followers come first."""
CHECK_S = 60.0
"""Seconds between checks of the settings: a round may be due, or the interval have changed."""
LOOK_AGAIN_S = 60.0
"""Seconds for which a segment that was found undamaged is not checked again."""


@define(eq=False)
class SegmentCheck:
    """
    A check of one segment.

    :ivar read_bytes: so far.
    """

    log: Log
    segment: Segment
    throttler: Throttler
    is_stopped: Callable[[], bool]
    read_bytes: int = field(default=0, init=False)

    async def run(self, offset: int | None = None, length: int = 1 << 62) -> Damage | None:
        """
        Check batches; a segment that leaves the log meanwhile counts as undamaged.

        :param offset: of the first record to check; None: from the segment's start.
        :param length: bytes to check, at least.
        :returns: the first damage.
        :raises StorageError: the disk failed.
        :raises ApiError: the indexes cannot be used now, or there are too many open files.
        """
        log, segment = self.log, self.segment
        if self._is_gone():
            return None
        file = segment.log.get()
        begun = position = 0 if offset is None else segment.find(offset)
        end = segment.size
        segments = log.segments
        at = segments.index(segment)
        end_offset = segments[at + 1].base_offset if at + 1 < len(segments) else log.log_end_offset
        checker = BatchChecker(
            segment.base_offset if offset is None else max(offset, segment.base_offset),
            end_offset, NO_EPOCH, latest_epoch(log),
        )  # fmt: skip
        if offset is not None and position < end:
            # The batch may begin before the offset.
            checker.next_offset = segment.base_offset
        self.throttler.begin()
        while position < min(end, begun + length):
            asked = self.throttler.timers.clock.seconds()
            data: bytes = await log.disk.submit(IOPool.READ, file.pread, min(CHUNK, end - position), position)
            if self._is_gone():
                return None
            self.throttler.waited(asked)
            self.throttler.moved(len(data))
            self.read_bytes += len(data)
            at = 0
            while len(data) - at >= HEADER_SIZE:
                header = read_header(data, at)
                problem = None
                if at + header.size <= len(data) or header.magic != MAGIC or header.size > end - position - at:
                    problem = checker.problem(data, at, header)
                elif at:
                    break  # The next read begins with it.
                else:
                    problem = await self._large(file, position, header) or checker.misplaced(header)
                    if self._is_gone():
                        return None
                if problem is not None:
                    return self._damage(checker, position + at, end_offset, problem)
                at += header.size
                if self.throttler.is_due:
                    await self.throttler.rest()
                    if self._is_gone():
                        return None
            if not at:
                return self._damage(checker, position, end_offset, "the file ends in the middle of a batch header")
            position += at
            if self.throttler.is_due:
                await self.throttler.rest()
                if self._is_gone():
                    return None
        return None

    async def _large(self, file: IFile, position: int, header: BatchHeader) -> str | None:
        """Check the CRC of a batch that is larger than a chunk: a thread reads all of it."""
        asked = self.throttler.timers.clock.seconds()
        computed = await self.log.disk.submit(
            IOPool.READ, checksum, file, position + ATTRIBUTES_AT, header.size - ATTRIBUTES_AT
        )
        self.throttler.waited(asked)
        self.throttler.moved(header.size)
        self.read_bytes += header.size
        return None if computed == header.crc else f"CRC is {header.crc:#010x}, computed {computed:#010x}"

    def _damage(self, checker: BatchChecker, position: int, end_offset: int, problem: str) -> Damage:
        log, segment = self.log, self.segment
        return Damage(
            log.partition, f"{log.disk.root}/{segment.log.path}", segment.base_offset, end_offset,
            checker.next_offset, position, problem,
        )  # fmt: skip

    def _is_gone(self) -> bool:
        log = self.log
        return self.is_stopped() or log.is_closed or log.disk.failure is not None or self.segment not in log.segments


def checksum(file: IFile, position: int, length: int) -> int:
    """Runs in an I/O thread: the CRC-32C of a part of a file, up to its end."""
    crc, end = 0, position + length
    while position < end and (data := file.pread(min(CHUNK, end - position), position)):
        crc = crc32c(data, crc)
        position += len(data)
    return crc


@define(eq=False, repr=False)
class LogScrubber:
    """
    Checks the logs of a broker.

    :ivar settings: called for each use: all of them may change.
    :ivar reports: where damage is recorded.
    :ivar read_bytes: so far; ``rounds``: those completed.
    """

    _directories: Sequence[LogDirectory]
    _timers: Timers
    reports: DamageReports
    _random: random.Random
    settings: Callable[[], ScrubSettings] = ScrubSettings
    read_bytes: int = metric("logbus_scrub_read_bytes_total", "Bytes of segments checked for damage.")
    rounds: int = metric("logbus_scrub_rounds_total", "Completed checks of all closed segments.")
    _throttler: Throttler = field(init=False)
    _urgent_pace: Throttler = field(init=False)
    _running: bool = field(default=False, init=False)
    _stopped: bool = field(default=False, init=False)
    _due: float = field(default=0.0, init=False)
    _wake: Timer | None = field(default=None, init=False)
    _suspects: deque[tuple[Log, Segment, int | None, Deferred[None]]] = field(factory=deque, init=False)
    _whole: dict[tuple[Segment, int | None], float] = field(factory=dict, init=False)
    _checking: bool = field(default=False, init=False)
    _in_round: bool = field(default=False, init=False)
    _idle: list[Deferred[None]] = field(factory=list, init=False)
    _log = Logger()

    def __attrs_post_init__(self) -> None:
        self._throttler, self._urgent_pace = Throttler(self._timers), Throttler(self._timers)

    # -- Start and stop

    def start(self) -> None:
        """Begin; the first round comes a little later."""
        if not self._running:
            self._running = True
            self._due = self._timers.clock.seconds() + FIRST_ROUND_S
            self._schedule()

    def stop(self) -> Deferred[None]:
        """Give up the current check; fires when none runs."""
        self._running, self._stopped = False, True
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        self._throttler.hurry()
        self._urgent_pace.hurry()
        if not (self._checking or self._in_round):
            return succeed(None)
        idle: Deferred[None] = Deferred()
        self._idle.append(idle)
        return idle

    def _ended(self) -> None:
        if not (self._checking or self._in_round):
            idle, self._idle = self._idle, []
            for waiter in idle:
                waiter.callback(None)

    # -- Rounds

    def _schedule(self) -> None:
        if self._running:
            self._wake = self._timers.call_later(CHECK_S, self._begin_round_if_due)

    def _begin_round_if_due(self) -> None:
        self._wake = None
        interval = self.settings().interval_ms
        if interval < 0 or self._timers.clock.seconds() < self._due:
            if interval >= 0:
                # It may be shorter now.
                self._due = min(self._due, self._timers.clock.seconds() + max(interval / 1000, FIRST_ROUND_S))
            self._schedule()
            return
        self._in_round = True

        def failed(failure: Failure) -> None:
            self._log.failure("the scrubber failed, and goes on", failure)

        def done(_: object) -> None:
            self._in_round = False
            self._due = self._timers.clock.seconds() + max(self.settings().interval_ms / 1000, 0.0)
            self._ended()
            self._schedule()

        Deferred.fromCoroutine(self.scrub_all()).addErrback(failed).addCallback(done)

    async def scrub_all(self) -> None:
        """
        Check each closed segment once, logs in random order, so that a round cut short by a stop begins elsewhere next
        time.
        """
        logs = [log for directory in self._directories if directory.is_online for log in directory.logs.values()]
        self._random.shuffle(logs)
        for log in logs:
            for segment in log.segments[:-1]:
                if self._stopped or self.settings().interval_ms < 0:
                    return
                if not self.reports.is_known(log, segment):
                    await self._check(log, segment, None, self._throttler)
        self.rounds += 1
        self._log.info("all closed segments were checked: {count} logs", count=len(logs))

    # -- Suspected segments

    def suspect(self, log: Log, segment: Segment, offset: int | None = None) -> Deferred[None]:
        """
        Check a segment in which a read found something that is not a batch, at an offset if it is known.

        :param offset: check one chunk from there on; None: the whole segment.
        :returns: fires when it was checked; :attr:`reports` has the result.
        """
        now = self._timers.clock.seconds()
        if self._stopped or self.reports.is_known(log, segment) or now < self._whole.get((segment, offset), 0.0):
            return succeed(None)
        for _, queued, at, done in self._suspects:
            if queued is segment and at == offset:
                another: Deferred[None] = Deferred()
                done.addCallback(another.callback)
                return another
        waiting: Deferred[None] = Deferred()
        self._suspects.append((log, segment, offset, waiting))
        if not self._checking:
            self._checking = True
            # Not at once: the caller is in the middle of something.
            self._timers.call_later(0, self._start_suspect_checks)
        return waiting

    def _start_suspect_checks(self) -> None:
        def failed(failure: Failure) -> None:
            self._log.failure("a suspected segment cannot be checked", failure)

        def done(_: object) -> None:
            self._checking = False
            self._ended()

        Deferred.fromCoroutine(self._check_suspects()).addErrback(failed).addCallback(done)

    async def _check_suspects(self) -> None:
        while self._suspects:
            log, segment, offset, done = self._suspects[0]
            try:
                if not self.reports.is_known(log, segment):
                    await self._check(log, segment, offset, self._urgent_pace)
                    if not self.reports.is_known(log, segment):
                        self._remember(segment, offset)
            finally:
                self._suspects.popleft()
                done.callback(None)

    def _remember(self, segment: Segment, offset: int | None) -> None:
        now = self._timers.clock.seconds()
        self._whole = {one: until for one, until in self._whole.items() if until > now}
        self._whole[segment, offset] = now + LOOK_AGAIN_S

    async def _check(self, log: Log, segment: Segment, offset: int | None, throttler: Throttler) -> None:
        check = SegmentCheck(log, segment, throttler, lambda: self._stopped)
        if throttler is self._throttler:
            throttler.bytes_per_second = self.settings().max_bytes_per_second
        try:
            found = await (check.run() if offset is None else check.run(offset, CHUNK))
            if found is not None:
                # Once more from the start: the log may have been truncated, or written to, while it was read.
                found = await check.run()
        except (ApiError, StorageError, OSError) as error:
            # A failed disk is reported already. Without file descriptors, or an index, wait for the next round.
            self._log.debug("{path} is checked later: {error}", path=segment.log.path, error=str(error))
            return
        finally:
            self.read_bytes += check.read_bytes
        if found is not None:
            self.reports.add(log, found)
