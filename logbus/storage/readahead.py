"""
Cold data: read by a thread before a connection sends it, so that only those wait for the device who want what is there.

Whoever sends a file asks, a chunk at a time, whether it may. Hot chunks may be sent at once. A cold one is read in the
read lane first, and the one behind it is begun; from then on the file is kept a chunk ahead of its reader, so that the
next one is there when it is wanted, and so is the batch header that the next fetch looks for.

A few reads of a directory are under way at a time, whatever the number of readers; the others wait here, and who hangs
up gives up his place.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import define, field
from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure

from logbus.errors import StorageError
from logbus.storage.istorage import IDisk, IFile, Lane

CHUNK = 1 << 20
"""Bytes begun behind those that are waited for."""
HOT = 1 << 20
"""So many bytes before the place that was last written to are taken for hot without asking."""
AT_A_TIME = 4
"""Reads of one directory that are under way together."""

_Wanted: TypeAlias = tuple[IFile, int, int, int]


@define(eq=False)
class ReadAhead:
    """
    The cold reads of one log directory.

    :ivar running: those under way.
    """

    _disk: IDisk
    running: int = field(default=0, init=False)
    _waiting: dict[Deferred[None], _Wanted] = field(factory=dict, init=False)
    _starting: bool = field(default=False, init=False)
    _closed: bool = field(default=False, init=False)

    def __len__(self) -> int:
        """Reads that wait for others."""
        return len(self._waiting)

    def want(self, file: IFile, position: int, length: int) -> Deferred[None] | None:
        """
        Ask whether bytes of a file can be sent without waiting for the device.

        :param length: at most :data:`CHUNK` for a bound that makes sense.
        :returns: None if they can; else what fires when they can. Cancelling it gives up the read, if it is not under
            way yet.
        :raises StorageError: (as a failure) they cannot be read; the directory is offline.
        """
        cold = file.is_cold(position, length)
        if cold is None:
            # Nobody can say. What was read ahead of this reader a moment ago is there, the rest may not be.
            cold = not file.ahead - 2 * CHUNK <= position <= file.ahead - length
        if not cold:
            if position <= file.ahead < position + length + CHUNK:
                self._go_ahead(file)
            return None
        file.ahead = position + length + CHUNK
        return self._read(file, position, length, CHUNK)

    def _go_ahead(self, file: IFile) -> None:
        """A reader of what was read ahead for it comes near the end of that: begin another chunk."""
        position = file.ahead
        file.ahead += CHUNK
        if file.is_cold(position, CHUNK) is not False:
            # The disk itself says so if it fails.
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
        # One that ends within submit() must not start the next from there: a long queue would be a deep recursion.
        self._starting = True
        while self._waiting and self.running < AT_A_TIME:
            done, (file, position, length, beyond) = next(iter(self._waiting.items()))
            del self._waiting[done]
            self.running += 1
            self._disk.submit(Lane.READ, file.make_resident, position, length, beyond).addBoth(self._ended, done)
        self._starting = False

    def _ended(self, result: Failure | None, done: Deferred[None]) -> None:
        self.running -= 1
        if not done.called:
            done.callback(result)
        self._start()

    def close(self) -> None:
        """Begin no more reads; who waits for one is told that the directory is closed."""
        self._closed = True
        waiting, self._waiting = self._waiting, {}
        for done in waiting:
            done.errback(self._was_closed())

    def _was_closed(self) -> StorageError:
        return StorageError(f"log directory {self._disk.root} was closed")
