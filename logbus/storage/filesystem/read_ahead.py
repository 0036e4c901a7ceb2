"""
Reads cold data in a thread before a connection sends it, so that only connections that need the disk wait for it.

The sender asks before each chunk. Chunks in the page cache are sent at once. A cold chunk is read by the read threads
first, together with the next one; from then on the file is read one chunk ahead of its reader, so that the next chunk,
and the batch header that the next fetch looks for, are in memory when needed.

A log directory runs a few such reads at a time; the others queue here. A connection that closes leaves the queue.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import define, field
from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure

from logbus.errors import ApiError, StorageError
from logbus.storage.istorage import IDisk, IFile, IOPool

CHUNK = 1 << 20
"""Bytes read ahead behind those that are waited for."""
HOT = 1 << 20
"""Bytes before the last write position that are taken for cached without asking."""
MAX_CONCURRENT_READS = 4
"""Upper bound of concurrent reads of one directory."""

_Wanted: TypeAlias = tuple[IFile, int, int, int]


@define(eq=False)
class ReadAhead:
    """
    The cold reads of one log directory.

    :ivar running: reads in progress.
    """

    _disk: IDisk
    running: int = field(default=0, init=False)
    _waiting: dict[Deferred[None], _Wanted] = field(factory=dict, init=False)
    _starting: bool = field(default=False, init=False)
    _closed: bool = field(default=False, init=False)

    def __len__(self) -> int:
        """Reads in the queue."""
        return len(self._waiting)

    def want(self, file: IFile, position: int, length: int) -> Deferred[None] | None:
        """
        Check that bytes of a file can be sent without waiting for the disk.

        :param length: at most :data:`CHUNK` for a useful bound.
        :returns: None if they can; else a Deferred that fires when they can. Cancelling it gives up a read that has not
            begun.
        :raises StorageError: (as a failure) they cannot be read; the directory is offline.
        """
        cold = file.is_cold(position, length)
        if cold is None:
            # Unknown. What was just read ahead of this reader is cached, the rest may not be.
            cold = not file.ahead - 2 * CHUNK <= position <= file.ahead - length
        if not cold:
            if position <= file.ahead < position + length + CHUNK:
                self._go_ahead(file)
            return None
        file.ahead = position + length + CHUNK
        return self._read(file, position, length, CHUNK)

    def load(self, file: IFile, position: int, length: int) -> Deferred[None]:
        """
        Load bytes of a file that are known to be cold, and nothing behind them; as :meth:`want` otherwise.

        :returns: fires when they can be read without waiting for the disk.
        """
        return self._read(file, position, length, 0)

    def _go_ahead(self, file: IFile) -> None:
        """Begin another chunk: a reader comes near the end of what was read ahead for it."""
        position = file.ahead
        file.ahead += CHUNK
        if file.is_cold(position, CHUNK) is not False:
            # The disk itself reports a failure.
            self._read(file, position, 0, CHUNK).addErrback(lambda failure: failure.trap(StorageError))

    def _read(self, file: IFile, position: int, length: int, beyond: int) -> Deferred[None]:
        if self._closed:
            return fail(self._was_closed())
        done: Deferred[None] = Deferred(self._give_up)
        self._waiting[done] = (file, position, length, beyond)
        self._start()
        return done

    def _give_up(self, done: Deferred[None]) -> None:
        self._waiting.pop(done, None)

    def _start(self) -> None:
        if self._starting or self._closed:
            return
        # A read that ends within submit() must not start the next from there: a long queue would recurse deeply.
        self._starting = True
        while self._waiting and self.running < MAX_CONCURRENT_READS:
            done, (file, position, length, beyond) = next(iter(self._waiting.items()))
            del self._waiting[done]
            self.running += 1
            self._disk.submit(IOPool.READ, file.make_resident, position, length, beyond).addBoth(self._ended, done)
        self._starting = False

    def _ended(self, result: Failure | None, done: Deferred[None]) -> None:
        self.running -= 1
        if result is not None and result.check(ApiError):
            # There is no thread: who wants the bytes waits for the device.
            result = None
        if not done.called:
            done.callback(result)
        self._start()

    def close(self) -> None:
        """Begin no more reads; those in the queue fail."""
        self._closed = True
        waiting, self._waiting = self._waiting, {}
        for done in waiting:
            done.errback(self._was_closed())

    def _was_closed(self) -> StorageError:
        return StorageError(f"log directory {self._disk.root} was closed")
