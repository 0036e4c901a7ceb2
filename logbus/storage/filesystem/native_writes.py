"""
Writes large parts of files in threads that know no Python, if a C compiler was available for them.

While the kernel has whoever writes wait for the device, a megabyte takes up to seconds. The environment variable
``LOGBUS_PURE`` disables these threads.
"""

from __future__ import annotations

import os
from itertools import count
from typing import Any, Protocol

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFDSet, IReadDescriptor
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.extension_modules import extension_module
from logbus.records.checksum import Buffer
from logbus.storage.filesystem.slow_writes import SlowWrites
from logbus.storage.istorage import IFile, IWriteAhead

MOST_THREADS = 2
"""Writes of one log directory at a time: they wait for the same device."""

_REVISION = 1
"""Of the compiled module."""


class WriteThreads(Protocol):
    """The class of the compiled module; see ``_write_threads.pyx``."""

    def __init__(self, most: int) -> None: ...

    def fileno(self) -> int: ...

    def submit(self, ticket: int, fd: int, data: Buffer, position: int) -> None: ...

    def take(self) -> list[tuple[int, int]]: ...

    def wait(self) -> None: ...

    def stop(self) -> None: ...


def compiled_threads() -> type[WriteThreads] | None:
    """The compiled class; None without it, or if it is not wanted."""
    compiled = extension_module("logbus.storage.filesystem._write_threads", _REVISION)
    return None if compiled is None else compiled.WriteThreads


THREADS = compiled_threads()
"""The class of the threads; None: nothing is written ahead."""


@implementer(IWriteAhead)
@define(eq=False)
class NativeWrite:
    """
    One write.

    :ivar file: kept open.
    :ivar begun: when, in terms of :class:`.SlowWrites`.
    :ivar error: the error number; 0: all was written, None: that is not known yet.
    """

    _writes: NativeWrites
    file: IFile
    begun: float
    over: Deferred[None] = field(factory=Deferred, init=False)
    error: int | None = field(default=None, init=False)

    def finish(self) -> bool:
        """Wait until it is over; whether all was written. Blocks."""
        while self.error is None:
            self._writes.wait()
        return self.error == 0


@implementer(IReadDescriptor)
@define(eq=False)
class NativeWrites:
    """The threads in the reactor."""

    _name: str
    _reactor: Any
    _threads: WriteThreads
    _slow: SlowWrites
    _waiting: dict[int, NativeWrite] = field(factory=dict, init=False)
    _over: list[NativeWrite] = field(factory=list, init=False)
    _tickets: count[int] = field(factory=count, init=False)
    _stopped: Deferred[None] | None = field(default=None, init=False)

    @classmethod
    def start(cls, kind: type[WriteThreads], name: str, reactor: IReactorFDSet, slow: SlowWrites) -> NativeWrites:
        """Threads that are started when there is work."""
        writes = cls(name, reactor, kind(MOST_THREADS), slow)
        reactor.addReader(writes)
        return writes

    def begin(self, file: IFile, position: int, data: Buffer) -> NativeWrite:
        """
        Begin to write.

        :raises RuntimeError: no thread can be started.
        """
        ticket, write = next(self._tickets), NativeWrite(self, file, self._slow.seconds())
        self._threads.submit(ticket, file.fileno(), data, position)
        self._waiting[ticket] = write
        return write

    def wait(self) -> None:
        """Wait until a write is over. Blocks. Its Deferred fires in a later turn."""
        self._threads.wait()
        if self._take():
            self._reactor.callLater(0, self.doRead)

    def stop(self) -> Deferred[None]:
        """Finish what is queued, and end the threads."""
        stopped = self._stopped = Deferred()
        self.doRead()
        return stopped

    def fileno(self) -> int:
        """The eventfd."""
        return self._threads.fileno()

    def doRead(self) -> None:
        """Call those whose writes are over."""
        self._take()
        over, self._over = self._over, []
        for write in over:
            write.over.callback(None)
        stopped = self._stopped
        if stopped is not None and not self._waiting and not stopped.called:
            self._reactor.removeReader(self)
            self._threads.stop()
            stopped.callback(None)

    def _take(self) -> bool:
        for ticket, error in self._threads.take():
            write = self._waiting.pop(ticket)
            write.error = error
            self._slow.took(write.begun)
            self._over.append(write)
        return bool(self._over)

    def connectionLost(self, reason: Failure) -> None:
        """The reactor stopped; what is still queued is not waited for."""

    def logPrefix(self) -> str:
        """For the reactor's log."""
        return f"logbus write {os.path.basename(self._name)}"
