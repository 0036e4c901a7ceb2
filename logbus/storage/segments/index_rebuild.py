"""
Rebuilds the damaged indexes of a segment, a slice at a time.

Scanning a gigabyte takes seconds. So a thread reads a little, and the reactor indexes the headers in it and then does
other work. Reads that need the index meanwhile fail with a retriable error; appends and reads at the log's end do not
need it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.records.batch import HEADER_SIZE, MAGIC, read_header
from logbus.storage.istorage import IOPool

if TYPE_CHECKING:
    from logbus.storage.segments.segment import Segment

SLICE = 128 * 1024
"""Bytes read and indexed in one turn: two thousand of the smallest batches, a few milliseconds."""
INTERVAL = 4096
"""Bytes between index entries."""

_log = Logger()


def rebuild_indexes(segment: Segment, problem: str, progress: Callable[[int, int], None] | None = None) -> IndexRebuild:
    """
    Begin to rebuild both indexes of a segment, unless a rebuild runs already.

    :param problem: the reason, for the log.
    :param progress: called for each slice with its bytes, and the position behind it.
    """
    index_rebuild = segment.index_rebuild
    if index_rebuild is None:
        _log.warn("{path}: index rebuilt: {problem}", path=segment.log.path, problem=problem)
        segment.drop_indexes()
        fresh = type(segment)(segment.disk, segment.files, segment.directory, segment.base_offset, -1, segment.suffix)
        index_rebuild = segment.index_rebuild = IndexRebuild(segment, fresh, progress)
        index_rebuild.start()
    return index_rebuild


@define(eq=False)
class IndexRebuild:
    """
    A rebuild of one segment's indexes.

    :ivar segment: may be appended to meanwhile, but not truncated.
    :ivar fresh: the same segment with empty indexes, which are filled and then handed over.
    :ivar problem: what ended it early: the disk failed, or (the indexes reach up to there then) the segment is damaged.
    """

    segment: Segment
    fresh: Segment
    _progress: Callable[[int, int], None] | None = None
    position: int = field(default=0, init=False)
    problem: StorageError | None = field(default=None, init=False)
    _stopped: bool = field(default=False, init=False)
    _ended: bool = field(default=False, init=False)
    _waiting: list[Deferred[None]] = field(factory=list, init=False)

    def start(self) -> None:
        """Begin; a small segment is done when this returns."""
        Deferred.fromCoroutine(self._run()).addErrback(self._failed).addCallback(self._end)

    def stop(self) -> None:
        """Stop, because the segment is closed."""
        self._stopped = True

    def finished(self) -> Deferred[None]:
        """Fires when the rebuild is over, successful or not."""
        if self._ended:
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
            segment.adopt(self.fresh)

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
        self._ended = True
        if self.segment.index_rebuild is self:
            self.segment.index_rebuild = None
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            waiter.callback(None)
