"""
Has the records of large batches written by threads while the device is slow, so that nobody else has to wait for it;
and those that get another codec rewritten by threads, for the same reason.

While a log's turn belongs to a large batch, its records are being written where they will be
(:mod:`logbus.storage.segments.batch_ahead`), or are being compressed; then the batch is appended as any other. Other
large batches for the log wait for a turn of their own, in their order; small ones wait only for the current turn. An
append that does not wait is right as well, and merely has the records written, or compressed, again.
"""

from __future__ import annotations

from collections import deque

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.errors import ApiError, StorageError
from logbus.records.checksum import Buffer
from logbus.storage.appends.log_validator import LOG_APPEND_TIME
from logbus.storage.appends.recompression import (
    LEAST_FOR_THREAD,
    PRODUCER,
    is_rewritten,
    recompress_ahead,
)
from logbus.storage.filesystem.slow_writes import LARGE
from logbus.storage.istorage import IOPool
from logbus.storage.log import Log
from logbus.storage.segments.batch_ahead import RecompressedAhead
from logbus.storage.segments.segment import Segment


@define(eq=False)
class _Turns:
    """
    The batches that wait for one log.

    :ivar is_writing: whether the records of one are being written, or rewritten.
    :ivar large: batches that wait for their turns, with what fires then; ``small``: what fires after the current turn.
    """

    is_writing: bool = False
    large: deque[tuple[Buffer, Deferred[None]]] = field(factory=deque)
    small: list[Deferred[None]] = field(factory=list)


@define(eq=False)
class LargeAppends:
    """The turns of all logs."""

    _turns: dict[Log, _Turns] = field(factory=dict, init=False)
    _log = Logger()

    def __bool__(self) -> bool:
        """Whether any log has a turn."""
        return bool(self._turns)

    def is_writing(self, log: Log) -> bool:
        """Whether it is a large batch's turn in a log."""
        turns = self._turns.get(log)
        return turns is not None and turns.is_writing

    def turn(self, log: Log, batch: Buffer) -> Deferred[None] | None:
        """
        Have the records of a batch written or rewritten by a thread; ``batch`` must not change meanwhile.

        :returns: fires when the batch is to be appended, before its callbacks return; may be cancelled. None: it is to
            be appended now.
        """
        turns = self._turns.get(log)
        waiting: Deferred[None] = Deferred()
        if turns is not None:
            turns.large.append((batch, waiting))
            return waiting
        turns = _Turns()
        if not self._begin(log, turns, batch, waiting):
            return None
        self._turns[log] = turns
        return waiting

    def after_turn(self, log: Log) -> Deferred[None] | None:
        """Fires when a small batch can be appended without waiting; may be cancelled. None: now."""
        turns = self._turns.get(log)
        if turns is None or not turns.is_writing:
            return None
        waiting: Deferred[None] = Deferred()
        turns.small.append(waiting)
        return waiting

    def _begin(self, log: Log, turns: _Turns, batch: Buffer, waiting: Deferred[None]) -> bool:
        """Begin a batch's turn; False: its records cannot be written ahead."""
        config, segment = log.config, log.segments[-1]
        if len(batch) >= LEAST_FOR_THREAD and not log.is_closed and is_rewritten(batch, config):
            rewriting = log.disk.submit(
                IOPool.BACKGROUND, recompress_ahead, batch, config, int(log.wall_clock() * 1000)
            )
            turns.is_writing = True
            rewriting.addBoth(self._rewritten, log, turns, waiting)
            return True
        if (
            log.is_closed
            or not log.is_active
            or not log.disk.writes_ahead
            or not LARGE <= len(batch) <= min(config.max_message_bytes, config.segment_bytes - segment.size)
            or config.compression_type != PRODUCER
            or config.message_timestamp_type == LOG_APPEND_TIME
        ):
            return False
        try:
            over = segment.write_ahead(batch)
        except (ApiError, StorageError):
            return False  # The append will report it.
        if over is None:
            return False
        turns.is_writing = True
        over.addCallback(self._written, log, turns, segment, waiting)
        over.addErrback(lambda failure: self._log.failure("a large append to {log} failed", failure, log=log))
        return True

    def _rewritten(
        self, result: RecompressedAhead | Failure | None, log: Log, turns: _Turns, waiting: Deferred[None]
    ) -> None:
        """The batch is rewritten, if that was possible: append it, then those that wait."""
        if isinstance(result, Failure):
            if not result.check(StorageError):
                self._log.failure("compressing a batch for {log} failed", result, log=log)
            result = None
        log.recompressed = result
        _fire(waiting)
        log.recompressed = None
        self._next(log, turns)

    def _written(self, _: None, log: Log, turns: _Turns, segment: Segment, waiting: Deferred[None]) -> None:
        """The records are written: append the batch, then those that wait."""
        _fire(waiting)
        try:
            # If its client has gone, or it was refused.
            segment.drop_ahead()
        except StorageError:
            pass  # The disk is offline, which each append finds.
        self._next(log, turns)

    def _next(self, log: Log, turns: _Turns) -> None:
        turns.is_writing = False
        small, turns.small = turns.small, []
        for one in small:
            _fire(one)
        while turns.large:
            batch, following = turns.large.popleft()
            if following.called:
                continue
            if self._begin(log, turns, batch, following):
                return
            _fire(following)
        del self._turns[log]


def _fire(waiting: Deferred[None]) -> None:
    """Fire a Deferred, unless it was cancelled."""
    if not waiting.called:
        waiting.callback(None)
