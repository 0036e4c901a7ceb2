"""
Syncs the files of a disk in threads that know no Python, if a C compiler was available for them.

A sync in a Python thread passes the interpreter's lock to it and back. These threads take descriptors from a queue and
tell the reactor by an eventfd. The environment variable ``LOGBUS_PURE`` disables them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import count
from typing import Any, Protocol

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFDSet, IReadDescriptor
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.errors import StorageError
from logbus.extension_modules import extension_module
from logbus.storage.filesystem.file_systems import open_for_syncfs
from logbus.storage.filesystem.io_threads import Settle
from logbus.storage.istorage import IFile

_REVISION = 2
"""Of the compiled module."""


class SyncThreads(Protocol):
    """The class of the compiled module; see ``_sync_threads.pyx``."""

    together: int

    def __init__(self, most: int, file_system: int) -> None: ...

    def fileno(self) -> int: ...

    def submit(self, wanted: Sequence[tuple[int, int]]) -> None: ...

    def take(self) -> list[tuple[int, int]]: ...

    def stop(self) -> None: ...


def compiled_threads() -> type[SyncThreads] | None:
    """The compiled class; None without it, or if it is not wanted."""
    compiled = extension_module("logbus.storage.filesystem._sync_threads", _REVISION)
    return None if compiled is None else compiled.SyncThreads


THREADS = compiled_threads()
"""The class of the threads; None: disks have I/O threads only."""


@define(eq=False)
class _Sync:
    """
    A caller that waits.

    :ivar files: kept, so that no other file gets their descriptors while they are synced.
    :ivar left: how many of them are not done.
    :ivar error: the first error.
    """

    files: Sequence[IFile]
    left: int
    done: Deferred[None]
    error: StorageError | None = None


@implementer(IReadDescriptor)
@define(eq=False)
class NativeSyncs:
    """
    The threads in the reactor.

    :ivar root: the directory of the disk.
    :ivar _reactor: IReactorFDSet and IReactorTime.
    :ivar _held: tickets and descriptors that are submitted at the end of the reactor's turn.
    :ivar _settle: makes a caller's result of an error or None; see :mod:`logbus.storage.filesystem.io_threads`.
    """

    root: str
    _reactor: Any
    _settle: Settle
    threads: SyncThreads
    _file_system: int
    _waiting: dict[int, _Sync] = field(factory=dict, init=False)
    _held: list[tuple[int, int]] = field(factory=list, init=False)
    _tickets: count[int] = field(factory=count, init=False)
    _stopped: Deferred[None] | None = field(default=None, init=False)

    @classmethod
    def start(
        cls, kind: type[SyncThreads], root: str, reactor: IReactorFDSet, settle: Settle, most: int
    ) -> NativeSyncs:
        """
        Threads for the files under ``root``.

        :param most: upper bound of threads.
        :raises OSError: there are too many descriptors.
        """
        file_system = open_for_syncfs(root)
        try:
            threads = kind(most, file_system)
        except OSError:
            if file_system >= 0:
                os.close(file_system)
            raise
        syncs = cls(root, reactor, settle, threads, file_system)
        reactor.addReader(syncs)
        return syncs

    def sync(self, files: Sequence[IFile]) -> Deferred[None]:
        """
        Fires when all of these are on the device.

        While other callers wait, the sync begins at the end of the reactor's turn: what the turn asks for can be served
        together, and no thread takes the processor from the reactor for each file.

        :raises RuntimeError: no thread can be started.
        """
        done: Deferred[None] = Deferred()
        ticket = next(self._tickets)
        wanted = [(ticket, file.fileno()) for file in files]
        if not self._waiting:
            self.threads.submit(wanted)
        else:
            if not self._held:
                self._reactor.callLater(0, self._submit_held)
            self._held += wanted
        self._waiting[ticket] = _Sync(files, len(files), done)
        return done

    def _submit_held(self) -> None:
        held, self._held = self._held, []
        try:
            # It starts no first thread, since others waited, so it does not fail for want of one.
            self.threads.submit(held)
        except Exception:
            failure = Failure()
            for sync in [self._waiting.pop(ticket) for ticket in dict(held)]:
                sync.done.errback(failure)
            self._end_if_stopped()

    def stop(self) -> Deferred[None]:
        """Finish what is queued and end the threads."""
        self._stopped = Deferred()
        stopped = self._stopped
        self._end_if_stopped()
        return stopped

    def _end_if_stopped(self) -> None:
        stopped = self._stopped
        # One of the callers may have stopped them.
        if stopped is None or stopped.called or self._waiting:
            return
        self._reactor.removeReader(self)
        self.threads.stop()
        if self._file_system >= 0:
            os.close(self._file_system)
        stopped.callback(None)

    def fileno(self) -> int:
        """The eventfd."""
        return self.threads.fileno()

    def doRead(self) -> None:
        """Tell the callers whose files are synced."""
        over = []
        for ticket, number in self.threads.take():
            sync = self._waiting[ticket]
            sync.left -= 1
            if number and sync.error is None:
                names = ", ".join(file.path for file in sync.files)
                problem = OSError(number, os.strerror(number))
                sync.error = StorageError(f"{self.root}: cannot sync {names}: {problem}")
            if not sync.left:
                over.append(self._waiting.pop(ticket))
        for sync in over:
            shown = self._settle(sync.error)
            if shown is None:
                sync.done.callback(None)
            else:
                sync.done.errback(Failure(shown))
        self._end_if_stopped()

    def connectionLost(self, reason: Failure) -> None:
        """The reactor stopped; what is still queued is not waited for."""

    def logPrefix(self) -> str:
        """For the reactor's log."""
        return f"logbus sync {os.path.basename(self.root)}"
