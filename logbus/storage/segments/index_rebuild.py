"""
Rebuilds the damaged indexes of a segment, a slice at a time.

Scanning a gigabyte takes seconds. So a thread reads a little, and the reactor indexes the headers in it and then does
other work. Reads that need the index meanwhile fail with a retriable error; appends and reads at the log's end do not
need it.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.records.batch import HEADER_SIZE, MAGIC, read_header
from logbus.storage.istorage import IOPool
from logbus.storage.segments.indexed_file import IndexedFile

SLICE = 128 * 1024
"""Bytes read and indexed in one turn: two thousand of the smallest batches, a few milliseconds."""
INTERVAL = 4096
"""Bytes between index entries."""

_log = Logger()


@define(eq=False)
class IndexRebuild:
    """
    A rebuild of one segment's indexes.

    :ivar segment: may be appended to meanwhile, but not truncated.
    :ivar fresh: the same file with empty indexes, which are filled and then handed over.
    :ivar _adopt: called with ``fresh`` when they are complete.
    :ivar _ended: called when the rebuild is over, successful or not.
    :ivar _progress: called for each slice with its bytes, and the position behind it.
    :ivar problem: what ended it early: the disk failed, or (the indexes reach up to there then) the segment is damaged.
    """

    segment: IndexedFile
    fresh: IndexedFile
    _adopt: Callable[[IndexedFile], object]
    _ended: Callable[[], object]
    _progress: Callable[[int, int], None] | None = None
    position: int = field(default=0, init=False)
    problem: StorageError | None = field(default=None, init=False)
    _stopped: bool = field(default=False, init=False)
    _is_over: bool = field(default=False, init=False)
    _waiting: list[Deferred[None]] = field(factory=list, init=False)

    def start(self, problem: str) -> None:
        """
        Begin; a small segment is done when this returns.

        :param problem: the reason, for the log.
        """
        if self.segment.size:
            # An empty one has no index files: nothing is wrong, and there is nothing to do.
            _log.warn("{path}: index rebuilt: {problem}", path=self.segment.log.path, problem=problem)
        Deferred.fromCoroutine(self._run()).addErrback(self._failed).addCallback(self._end)

    def stop(self) -> None:
        """Stop, because the segment is closed."""
        self._stopped = True

    def finished(self) -> Deferred[None]:
        """Fires when the rebuild is over, successful or not."""
        if self._is_over:
            return succeed(None)
        waiter: Deferred[None] = Deferred()
        self._waiting.append(waiter)
        return waiter

    def refusal(self) -> ApiError:
        """The error for reads that need the indexes now."""
        return ApiError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"the index of {self.segment.log.path} is being rebuilt ({self.position} of {self.segment.size} bytes); "
            "try again",
        )

    async def _run(self) -> None:
        segment = self.segment
        disk, file = segment.disk, segment.log.get()
        self.fresh.begin_rebuild()
        try:
            # Batches appended meanwhile are indexed, too: at the end none is missing.
            while self.position < segment.size and not self._stopped:
                begun, left = self.position, segment.size - self.position
                if left <= SLICE:
                    data = file.pread(left, begun)
                else:
                    data = await disk.submit(IOPool.READ, file.pread, SLICE, begun)
                if not self._stopped:
                    self._walk(data)
                    if self._progress is not None:
                        self._progress(self.position - begun, self.position)
        except StorageError as problem:
            self.problem = problem
            _log.error("{path}: {problem}", path=segment.log.path, problem=str(problem))
        if not self._stopped and disk.failure is None:
            self._adopt(self.fresh)

    def _walk(self, data: bytes) -> None:
        """Index the batches whose headers are in ``data``, which begins at :attr:`position`."""
        at, begun = 0, self.position
        while len(data) - at >= HEADER_SIZE:
            header = read_header(data, at)
            if header.magic != MAGIC or header.size < HEADER_SIZE:
                raise self.segment.damaged(begun + at, f"there is no record batch (magic {header.magic})")
            self.fresh.index(header, begun + at, INTERVAL)
            at += header.size
            self.position = begun + at
        if not at:
            raise self.segment.damaged(begun, "the file ends in the middle of a batch header")

    def _failed(self, failure: Failure) -> None:
        # No space for the new files, for example: the next read that needs them tries again.
        _log.error("{path}: index not rebuilt: {error}", path=self.segment.log.path, error=str(failure.value))

    def _end(self, _: None) -> None:
        self._is_over = True
        self._ended()
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            waiter.callback(None)
