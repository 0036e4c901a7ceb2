"""
The threads of a log directory, for work that blocks.

Groups of I/O threads run system calls that release the interpreter lock, for syncs, for cold reads and for background
work; those that clean logs take it now and then. Syncs of records, and large appends to a slow device, have threads
that know no Python, if they are compiled (:mod:`logbus.storage.filesystem.native_syncs`,
:mod:`~logbus.storage.filesystem.native_writes`). All are started at their first use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, cast

from attrs import define, field
from twisted.internet.defer import Deferred, fail, gatherResults
from twisted.internet.interfaces import IReactorFDSet, IReactorFromThreads
from twisted.logger import Logger

from logbus.records.checksum import Buffer
from logbus.storage.filesystem import native_syncs, native_writes
from logbus.storage.filesystem.disk_errors import no_thread
from logbus.storage.filesystem.io_threads import IOThreads, Settle
from logbus.storage.filesystem.native_syncs import NativeSyncs
from logbus.storage.filesystem.native_writes import NativeWrite, NativeWrites
from logbus.storage.filesystem.read_ahead import MAX_CONCURRENT_READS
from logbus.storage.filesystem.slow_writes import SlowWrites
from logbus.storage.istorage import IFile, IOPool

SYNCS = 8
"""Logs flushed at a time: devices and file system journals serve several syncs together."""
_CLEANS = 64
"""More than log.cleaner.threads can usefully be: the cleaner itself keeps to that."""
_THREADS = {IOPool.SYNC: SYNCS, IOPool.READ: MAX_CONCURRENT_READS, IOPool.BACKGROUND: 1, IOPool.CLEAN: _CLEANS}
_NICENESS = {IOPool.CLEAN: 5}
"""Added to the process's. Not more: while such a thread has the interpreter's lock, the reactor waits for it."""


def sync_each(files: Sequence[IFile]) -> None:
    """Sync one file after the other. Blocks: for I/O threads."""
    for file in files:
        file.sync()


@define(eq=False)
class DiskThreads:
    """
    The threads of one log directory.

    :param root: the directory.
    :param settle: makes a caller's result of an error or None; see :mod:`logbus.storage.filesystem.io_threads`.
    :param slow_writes: is told how long writes take.
    """

    _root: str
    _reactor: IReactorFromThreads
    _settle: Settle
    _slow_writes: SlowWrites
    _pools: dict[IOPool, IOThreads] = field(factory=dict, init=False)
    _syncs: NativeSyncs | None = field(default=None, init=False)
    _writes: NativeWrites | None = field(default=None, init=False)
    _lacks_threads: bool = field(default=False, init=False)
    _log = Logger()

    def submit(self, pool: IOPool, op: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """Run ``op`` in an I/O thread."""
        threads = self._pools.get(pool)
        if threads is None:
            name = f"logbus {pool.value} {os.path.basename(self._root)}"
            threads = self._pools[pool] = IOThreads(
                name, self._reactor, self._settle, _THREADS[pool], _NICENESS.get(pool, 0)
            )
        try:
            done = threads.submit(op, *args)
        except RuntimeError as error:
            return self._refused(error)
        self._lacks_threads = False
        return done

    def sync(self, files: Sequence[IFile]) -> Deferred[None]:
        """Sync files in threads that know no Python, if there are any, else in I/O threads."""
        threads = native_syncs.THREADS
        if threads is None or not IReactorFDSet.providedBy(self._reactor):
            return self.submit(IOPool.SYNC, sync_each, files)
        try:
            if self._syncs is None:
                reactor = cast(IReactorFDSet, self._reactor)
                self._syncs = NativeSyncs.start(threads, self._root, reactor, self._settle, SYNCS)
            done = self._syncs.sync(files)
        except (OSError, RuntimeError) as error:
            return self._refused(error)
        self._lacks_threads = False
        return done

    def _refused(self, error: Exception) -> Deferred[Any]:
        """Fail work that cannot begin, as the process has too many threads or descriptors; one line says so."""
        refused = no_thread(error)
        if not self._lacks_threads:
            self._lacks_threads = True
            self._log.error("log directory {root}: {error}", root=self._root, error=refused.message)
        return fail(refused)

    def write_ahead(self, file: IFile, position: int, data: Buffer) -> NativeWrite | None:
        """Begin to write in a thread that knows no Python; None: there is none."""
        threads = native_writes.THREADS
        if threads is None:
            return None
        try:
            if self._writes is None:
                if not IReactorFDSet.providedBy(self._reactor):
                    return None
                self._writes = NativeWrites.start(
                    threads, self._root, cast(IReactorFDSet, self._reactor), self._slow_writes
                )
            return self._writes.begin(file, position, data)
        except (OSError, RuntimeError):
            # The process has too many threads or descriptors: the write that follows needs neither.
            return None

    def is_current(self) -> bool:
        """Whether the caller runs in one of the I/O threads."""
        return any(pool.is_current() for pool in self._pools.values())

    def stop(self) -> Deferred[Any]:
        """End the threads, after what they have to do; fires when they have ended."""
        ending = [pool.stop() for pool in self._pools.values()]
        if self._syncs is not None:
            ending.append(self._syncs.stop())
        if self._writes is not None:
            ending.append(self._writes.stop())
        self._pools, self._syncs, self._writes = {}, None, None
        return gatherResults(ending)
