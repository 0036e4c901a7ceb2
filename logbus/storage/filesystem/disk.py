"""
A log directory on a real disk.

Appends and small reads are plain calls on the reactor thread: they end in the page cache. Work that blocks goes to
threads (:mod:`logbus.storage.filesystem.disk_threads`).

Errors are classified where they occur:

* no space, quota, file size limit, too many open files: the operation is undone and fails with an
  :class:`~logbus.errors.ApiError`; the directory stays in use, since space may return;
* anything else, and anything that cannot be undone: :class:`~logbus.errors.StorageError`, and the directory goes
  offline.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IReactorFromThreads
from twisted.logger import Logger
from zope.interface import implementer

from logbus.errors import ApiError, ConfigError, ErrorCode, StorageError, short_reason
from logbus.portability import sync, sync_data
from logbus.records.checksum import Buffer
from logbus.storage import file_names
from logbus.storage.disk_space import DiskSpace
from logbus.storage.filesystem import native_writes
from logbus.storage.filesystem.directory_lock import lock_directory
from logbus.storage.filesystem.disk_errors import NoSpace, refusal
from logbus.storage.filesystem.disk_threads import DiskThreads
from logbus.storage.filesystem.file import File
from logbus.storage.filesystem.native_writes import NativeWrite
from logbus.storage.filesystem.page_cache import PageCache
from logbus.storage.filesystem.read_ahead import ReadAhead
from logbus.storage.filesystem.slow_writes import SlowWrites
from logbus.storage.flush_times import FlushTimes
from logbus.storage.istorage import IDisk, IFile, IOPool

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def read_boot_id() -> str | None:
    """The kernel's boot id; None if unknown."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip() or None
    except OSError:
        return None


@implementer(IDisk)
@define(eq=False)
class Disk:
    """
    A log directory.

    :ivar root: absolute path of the directory, which exists.
    :ivar failure: why it is offline, or None.
    :ivar cached_only: the thread in which reads raise NotCached rather than wait; 0: none.
    :ivar boot_id: the kernel's, of the machine's current run.
    :ivar page_cache: the page cache, as far as its files are concerned.
    :ivar reads: its cold reads.
    :ivar flush_times: how long it takes until records are on stable storage.
    :ivar slow_writes: whether large writes wait for the device.
    """

    root: str
    _reactor: IReactorFromThreads
    failure: StorageError | None = field(default=None, init=False)
    cached_only: int = field(default=0, init=False)
    boot_id: str | None = field(factory=read_boot_id, init=False)
    page_cache: PageCache = field(factory=PageCache, init=False)
    reads: ReadAhead = field(init=False)
    slow_writes: SlowWrites = field(factory=SlowWrites, init=False)
    flush_times: FlushTimes = field(factory=FlushTimes, init=False)
    _listeners: list[Callable[[StorageError], None]] = field(factory=list, init=False)
    _space_listeners: list[Callable[[ApiError], None]] = field(factory=list, init=False)
    _threads: DiskThreads = field(init=False)
    _lock_fd: int | None = field(default=None, init=False)
    _root_fd: int | None = field(default=None, init=False)
    _log = Logger()

    def __attrs_post_init__(self) -> None:
        self.reads = ReadAhead(self)
        self._threads = DiskThreads(self.root, self._reactor, self._settle, self.slow_writes)

    def on_failure(self, listener: Callable[[StorageError], None]) -> None:
        """Call ``listener`` when the directory goes offline."""
        self._listeners.append(listener)

    def on_no_space(self, listener: Callable[[ApiError], None]) -> None:
        """Call ``listener`` for each operation that fails for lack of space."""
        self._space_listeners.append(listener)

    def report_no_space(self, error: BaseException | None) -> None:
        """
        Call the listeners if ``error`` is a lack of space. For an operation in a thread that happens when its result
        arrives on the reactor thread.
        """
        if isinstance(error, NoSpace) and not self._threads.is_current():
            for listener in self._space_listeners:
                listener(error)

    def fail(self, error: StorageError) -> StorageError:
        """Take the directory offline; only the first error counts. Reactor thread only."""
        if self.failure is None:
            self.failure = error
            self._log.critical("log directory {root} goes offline: {error}", root=self.root, error=str(error))
            for listener in self._listeners:
                listener(error)
        return self.failure

    def offline(self) -> StorageError:
        """A new error with the reason why the directory is offline."""
        return StorageError(f"log directory {self.root} is offline: {self.failure}")

    def submit(self, pool: IOPool, op: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """Run ``op`` in an I/O thread."""
        if self.failure is not None:
            return fail(self.offline())
        return self._threads.submit(pool, op, *args)

    def sync(self, files: Sequence[IFile]) -> Deferred[None]:
        """Sync files in threads."""
        if self.failure is not None:
            return fail(self.offline())
        return self._threads.sync(files)

    @property
    def writes_ahead(self) -> bool:
        """Whether large writes had to wait for the device lately, and there are threads for them."""
        return bool(self.slow_writes) and native_writes.THREADS is not None

    def write_ahead(self, file: IFile, position: int, data: Buffer) -> NativeWrite | None:
        """Begin to write in a thread that knows no Python; None: there is none."""
        if self.failure is not None:
            return None
        return self._threads.write_ahead(file, position, data)

    def _settle(self, error: BaseException | None) -> BaseException | None:
        """
        On the reactor thread: the result that an operation's caller gets. A failed directory confirms nothing more.
        """
        if isinstance(error, StorageError):
            self.fail(error)
        self.report_no_space(error)
        return error if self.failure is None else self.offline()

    def _at(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def broken(self, error: OSError, what: str) -> StorageError:
        """
        The error to raise when ``what`` failed permanently. Takes the directory offline, at once on the reactor thread;
        from an I/O thread, when the operation's result arrives there.
        """
        problem = StorageError(f"{self.root}: cannot {what}: {error}")
        if not self._threads.is_current():
            self.fail(problem)
        return problem

    def _refused_or_broken(self, error: OSError, what: str) -> ApiError | StorageError:
        refused = refusal(error, what)
        self.report_no_space(refused)
        return refused or self.broken(error, what)

    @contextmanager
    def _doing(self, what: str, expected: type[OSError] | tuple[()] = ()) -> Iterator[None]:
        """Classify the errors of a system call, except those that are expected."""
        try:
            yield
        except expected:
            raise
        except OSError as error:
            raise self._refused_or_broken(error, what) from error

    def space(self) -> DiskSpace | None:
        """The space of the file system, for this process's user."""
        try:
            found = os.statvfs(self.root)
        except OSError:
            # Errors are ignored here: the next important operation meets them, too.
            return None
        return DiskSpace(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)

    def open(self, path: str, create: bool = False) -> File:
        """Open a file to read and append."""
        try:
            fd = os.open(self._at(path), _FLAGS | os.O_CREAT if create else _FLAGS, 0o644)
        except FileNotFoundError:
            if not create:
                raise
            raise self.broken(FileNotFoundError(errno.ENOENT, "its directory is gone"), f"create {path}") from None
        except OSError as error:
            raise self._refused_or_broken(error, f"open {path}") from error
        return self.file(path, fd)

    def file(self, path: str, fd: int) -> File:
        """What stands for an open file."""
        return File(self, path, fd)

    def names(self, path: str) -> list[str]:
        """The names in a directory."""
        with suppress(FileNotFoundError), self._doing(f"list {path or 'it'}", FileNotFoundError):
            return os.listdir(self._at(path))
        return []

    def exists(self, path: str) -> bool:
        """Whether a file or directory of that name exists."""
        return os.path.lexists(self._at(path))

    def size(self, path: str) -> int:
        """Bytes in a file."""
        return self._stat(path).st_size

    def modified_ns(self, path: str) -> int:
        """Time of the last write."""
        return self._stat(path).st_mtime_ns

    def _stat(self, path: str) -> os.stat_result:
        with self._doing(f"stat {path}", FileNotFoundError):
            return os.stat(self._at(path))

    def read(self, path: str) -> bytes:
        """A small file's content."""
        with self._doing(f"read {path}", FileNotFoundError), open(self._at(path), "rb") as file:
            return file.read()

    def replace(self, path: str, data: bytes, sync: bool = True, sync_name: bool = True, private: bool = False) -> None:
        """Replace a file atomically."""
        if self.failure is not None:
            raise self.offline()
        temporary = self._at(path) + ".tmp"
        with self._doing(f"write {path}"):
            with open(temporary, "wb", opener=_open_private if private else None) as file:
                file.write(data)
                if sync:
                    file.flush()
                    sync_data(file.fileno())
            os.replace(temporary, self._at(path))
        if sync and sync_name:
            self.sync_directory(os.path.dirname(path))

    def make_directory(self, path: str) -> None:
        """Create a directory."""
        with self._doing(f"create {path}"):
            os.makedirs(self._at(path), exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory."""
        with self._doing(f"rename {old}"):
            os.rename(self._at(old), self._at(new))

    def link(self, path: str, new: str) -> None:
        """Give a file another name."""
        try:
            os.link(self._at(path), self._at(new))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path} cannot get another name: {error}") from error

    def is_shared(self, path: str) -> bool:
        """Whether a file has other names."""
        try:
            return self._stat(path).st_nlink > 1
        except FileNotFoundError:
            return False

    def unshare(self, path: str) -> None:
        """Replace a file that has other names by a copy."""
        if self.failure is not None:
            raise self.offline()
        temporary = self._at(path) + file_names.TEMPORARY
        with self._doing(f"copy {path}"):
            try:
                shutil.copy2(self._at(path), temporary)
                with open(temporary, "rb+") as file:
                    sync_data(file.fileno())
                os.replace(temporary, self._at(path))
            except OSError:
                with suppress(OSError):
                    os.unlink(temporary)
                raise
        self.sync_directory(os.path.dirname(path))

    def take(self, path: str, new: str) -> None:
        """Rename a directory of another log directory."""
        try:
            os.rename(path, self._at(new))
        except OSError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path} cannot be taken over: {error}") from error
        self.sync_directory("")
        try:
            fd = os.open(os.path.dirname(path), _DIRECTORY)
            try:
                sync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            # That it has left the other directory is for that one to know.
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path} cannot be taken over: {error}") from error

    def unlink(self, path: str) -> None:
        """Remove a file."""
        with suppress(FileNotFoundError), self._doing(f"remove {path}", FileNotFoundError):
            os.unlink(self._at(path))

    def remove_tree(self, path: str) -> None:
        """Remove a directory with its contents."""
        with suppress(FileNotFoundError), self._doing(f"remove {path}", FileNotFoundError):
            shutil.rmtree(self._at(path))

    def sync_directory(self, path: str) -> None:
        """Sync a directory's entries."""
        if not path and self._root_fd is not None:
            self._sync_directory(self._root_fd, ".")
            return
        # Without a descriptor nothing was lost: the caller tries again.
        with self._doing(f"sync directory {path or '.'}"):
            fd = os.open(self._at(path), _DIRECTORY)
        try:
            self._sync_directory(fd, path)
        finally:
            os.close(fd)

    def _sync_directory(self, fd: int, path: str) -> None:
        try:
            sync(fd)
        except OSError as error:
            raise self.broken(error, f"sync directory {path}") from error

    def lock(self) -> None:
        """
        Lock the directory by its ``.lock`` file; a missing one is created: not before, so that a broker whose
        configuration is refused leaves nothing.

        :raises ConfigError: it is locked, not writable, not a directory, or cannot be created.
        """
        try:
            os.makedirs(self.root, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"the log directory {self.root} cannot be created: {short_reason(error)}") from error
        self._lock_fd = lock_directory(self.root)
        # A log's directory that was renamed, and then not synced for want of a descriptor, would be in neither place.
        with self._doing("open it"):
            self._root_fd = os.open(self.root, _DIRECTORY)

    def close(self) -> Deferred[None]:
        """End the threads, then release the lock."""
        self.reads.close()

        def unlock(_: object) -> None:
            for fd in (self._lock_fd, self._root_fd):
                if fd is not None:
                    os.close(fd)
            self._lock_fd = self._root_fd = None

        return self._threads.stop().addCallback(unlock)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def disks_at(
    paths: Sequence[str],
    reactor: IReactorFromThreads,
    make: Callable[[str, IReactorFromThreads], Disk] = Disk,
) -> list[Disk]:
    """
    A disk for each log directory, which may be missing: see :meth:`Disk.lock`.

    :param make: makes a disk, given its root and the reactor.
    """
    return [make(os.path.realpath(path), reactor) for path in paths]
