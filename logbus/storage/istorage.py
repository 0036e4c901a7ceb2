"""
The interfaces of the storage package: disks, files, and policies of deletion.

Everything above :mod:`logbus.storage.filesystem.disk` uses only :class:`IDisk` and :class:`IFile`, so that tests can
run on a disk in memory that fails, fills up, and loses unsynced data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol, runtime_checkable

from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError, StorageError
from logbus.records.checksum import Buffer
from logbus.storage.disk_space import DiskSpace


class IOPool(Enum):
    """The groups of I/O threads of one log directory; each has its own queue, so none waits for another."""

    SYNC = "sync"
    """Flushes with a waiting caller; those of several logs run at a time."""
    READ = "read"
    """Reads of cold data; several run at a time."""
    BACKGROUND = "background"
    """Work without a waiting request: write-back, checkpoints, deletion, and opening logs. Runs in order."""
    CLEAN = "clean"
    """Compaction: one operation at a time of each log that is being cleaned, at a lower priority."""


class NotCached(Exception):
    """
    A read would have waited for the device: load the bytes, and begin again. Only within :class:`.CachedOnly`.

    :ivar position: of the bytes in the file; ``length``: their number.
    """

    def __init__(self, file: IFile, position: int, length: int) -> None:
        super().__init__(f"{length} bytes at {position} are not cached")
        self.file = file
        self.position = position
        self.length = length

    def of_whole_file(self) -> NotCached:
        """The same for a file of which more will be read at once."""
        return NotCached(self.file, 0, self.file.size())

    def load(self) -> Deferred[None]:
        """Fires when the bytes are cached; see :meth:`IFile.load`."""
        return self.file.load(self.position, self.length)


class IFile(Interface):
    """
    An open file of a log directory. It closes with the last reference to it: a holder of a slice can still read after
    the file was renamed or unlinked.
    """

    path: str = Attribute("Name relative to the directory of the disk, as it was opened.")
    ahead: int = Attribute("How far it was read ahead for a reader of cold data; see ReadAhead.")
    is_plain: bool = Attribute("Whether to write to the descriptor is the same as to call write().")

    def fileno() -> int:
        """A descriptor for ``sendfile`` and ``pread``."""

    def size() -> int:
        """Bytes in the file."""

    def write(position: int, parts: Sequence[Buffer]) -> None:
        """
        Write all parts, one after the other, at ``position``, which is the end of the file.

        :raises ApiError: KAFKA_STORAGE_ERROR: there is no space; the file is unchanged, the disk stays in use.
        :raises StorageError: the write failed otherwise, or could not be undone; the disk is offline.
        """

    def pread(length: int, position: int) -> bytes:
        """
        Read up to ``length`` bytes; fewer at the end of the file.

        :raises NotCached: that would wait for the device, and must not: see :class:`.CachedOnly`.
        :raises StorageError: the read failed; the disk is offline.
        """

    def is_cold(position: int, length: int) -> bool | None:
        """Whether reading these bytes would wait for the device; None if unknown. Does not wait."""

    def make_resident(position: int, length: int, beyond: int) -> None:
        """
        Load these bytes into the page cache, and begin to load ``beyond`` bytes behind them. Blocks: for I/O threads.

        :raises StorageError: they cannot be read; the disk is offline.
        """

    def read_ahead(position: int, length: int) -> Deferred[None] | None:
        """None if these bytes can be sent without waiting for the device; else a Deferred that fires when they can."""

    def load(position: int, length: int) -> Deferred[None]:
        """
        Load bytes that are not cached, in an I/O thread; cancelling it gives up a read that has not begun.

        :raises StorageError: (as a failure) they cannot be read; the disk is offline.
        """

    def truncate(size: int) -> None:
        """
        Truncate the file to ``size`` bytes.

        :raises StorageError: it failed; the disk is offline.
        """

    def sync() -> None:
        """
        Force written data to stable storage (fdatasync). Blocks: for I/O threads.

        :raises StorageError: it failed. Data written since the last success may be lost, and a retry would only hide
            that (the kernel drops the pages); the disk is offline.
        """


@runtime_checkable
class MayBeCold(Protocol):
    """A file whose bytes may have to be loaded first: an :class:`IFile`, or one of windows of remote segments."""

    def is_cold(self, position: int, length: int) -> bool | None:
        """See :meth:`.IFile.is_cold`."""

    def read_ahead(self, position: int, length: int) -> Deferred[None] | None:
        """See :meth:`.IFile.read_ahead`."""


class IWriteAhead(Interface):
    """Bytes that are being written, or were, behind the end of a file."""

    over: Deferred[None] = Attribute(
        "Fires on the reactor thread when nothing writes them any more, whatever became of them."
    )

    def finish() -> bool:
        """Wait until nothing writes them any more; whether all of them are in the file. May block."""


class IDisk(Interface):
    """
    One log directory. Paths are relative to it.

    Methods that only use the page cache may be called on the reactor thread; :meth:`sync_directory`,
    :meth:`replace` with ``sync`` and :meth:`remove_tree` block, and belong in an I/O thread. After a failure every
        method that writes raises :class:`~logbus.errors.StorageError`.
    """

    root: str = Attribute("The directory's absolute path.")
    failure: StorageError | None = Attribute("Why the directory is offline; None while it is not.")
    writes_ahead: bool = Attribute("Whether a large write is likely to block, and worth :meth:`write_ahead`.")
    cached_only: int = Attribute(
        "The thread in which reads raise NotCached rather than wait for the device; 0: none. See CachedOnly."
    )
    boot_id: str | None = Attribute(
        "Tells one run of the machine from the next: what was not synced in another one is gone. None: not known."
    )

    flush_times: Any = Attribute("How long syncs take: a :class:`.FlushTimes`.")

    def on_failure(listener: Callable[[StorageError], None]) -> None:
        """Call ``listener`` once, on the reactor thread, when the directory goes offline."""

    def on_no_space(listener: Callable[[ApiError], None]) -> None:
        """Call ``listener``, on the reactor thread, with the error of each operation that fails for lack of space."""

    def space() -> DiskSpace | None:
        """The space of the file system; None if unknown. Blocks: for I/O threads."""

    def fail(error: StorageError) -> StorageError:
        """Take the directory offline for ``error``, unless it is already; returns the error that did."""

    def offline() -> StorageError:
        """A new error with the reason why the directory is offline."""

    def submit(pool: IOPool, op: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """
        Run ``op(*args)`` in an I/O thread; :attr:`IOPool.BACKGROUND` keeps the order, in the others several run at a
        time.

        :param op: blocks in system calls that release the interpreter lock; no loops over records.
        :returns: fires on the reactor thread with the result. A StorageError takes the directory offline.
        """

    def sync(files: Sequence[IFile]) -> Deferred[None]:
        """
        Force written data of files, at least one, to stable storage; several calls run at a time. Reactor thread only.

        :returns: fires on the reactor thread; with a StorageError if one failed, which takes the directory offline.
        """

    def write_ahead(file: IFile, position: int, data: Buffer) -> IWriteAhead | None:
        """
        Begin to write ``data`` behind the end of a file, at ``position``, without waiting for that. Nothing may be
        written to the file, nor may it be truncated, nor ``data`` change, until it is over. Errors are not reported:
        whoever writes the same bytes by :meth:`IFile.write` gets them. Reactor thread only.

        :returns: None: this disk does not, or cannot now.
        """

    def open(path: str, create: bool = False) -> IFile:
        """
        Open a file for reading and appending.

        :raises FileNotFoundError: it does not exist and ``create`` is false.
        :raises ApiError: KAFKA_STORAGE_ERROR: too many open files, or no space to create one.
        :raises StorageError: any other failure.
        """

    def names(path: str) -> list[str]:
        """The names in a directory, in no particular order; empty if there is no such directory."""

    def exists(path: str) -> bool:
        """Whether a file or directory of that name exists."""

    def size(path: str) -> int:
        """
        Bytes in a file.

        :raises FileNotFoundError: it does not exist.
        """

    def modified_ns(path: str) -> int:
        """
        Time of the last write to a file, or of the last change of a directory's entries; ns since 1970.

        :raises FileNotFoundError: it does not exist.
        """

    def read(path: str) -> bytes:
        """
        A small file's content.

        :raises FileNotFoundError: it does not exist.
        """

    def replace(path: str, data: bytes, sync: bool = True, sync_name: bool = True, private: bool = False) -> None:
        """
        Replace a file by ``data`` atomically: after a crash there is the old content or the new.

        :param sync: sync the content before it gets the name.
        :param sync_name: with ``sync``, sync the name, too, before returning.
        :param private: only the broker's user may read it.
        """

    def make_directory(path: str) -> None:
        """Create a directory, unless it exists."""

    def rename(old: str, new: str) -> None:
        """Rename a file or directory."""

    def link(path: str, new: str) -> None:
        """
        Give a file another name: neither may be written to any more, see :meth:`is_shared`.

        :raises FileNotFoundError: it does not exist.
        :raises ApiError: KAFKA_STORAGE_ERROR: the file system cannot do that. The directory stays in use.
        """

    def is_shared(path: str) -> bool:
        """Whether a file has other names, under which another log may have it; False for a missing one."""

    def unshare(path: str) -> None:
        """
        Replace a file that has other names by a copy, which may be written to. Blocks: for I/O threads.

        :raises ApiError: KAFKA_STORAGE_ERROR: there is no space.
        """

    def take(path: str, new: str) -> None:
        """
        Rename a directory of another log directory, which is the only one that may be there, and sync that. Blocks:
        for I/O threads.

        :param path: absolute.
        :raises ApiError: KAFKA_STORAGE_ERROR: it is gone, or on another file system. The directory stays in use.
        """

    def unlink(path: str) -> None:
        """Remove a file, if it exists."""

    def remove_tree(path: str) -> None:
        """Remove a directory and everything in it, if it exists."""

    def sync_directory(path: str) -> None:
        """Force a directory's entries to stable storage."""

    def lock() -> None:
        """
        Lock the directory against other processes until :meth:`close`.

        :raises ConfigError: another process holds it.
        """

    def close() -> Deferred[None]:
        """Finish submitted work, end the threads, release the lock."""


class SegmentView(Protocol):
    """A segment, as policies see it."""

    @property
    def base_offset(self) -> int:
        """Its first offset."""

    @property
    def size(self) -> int:
        """Its bytes."""

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of its records, ms since 1970; −1 if none has one."""

    def modified_ms(self) -> int:
        """Time of the last write, ms since 1970."""


class LogView(Protocol):
    """A log, as policies see it."""

    @property
    def config(self) -> TopicConfig:
        """The topic's settings."""

    @property
    def segments(self) -> Sequence[SegmentView]:
        """Oldest first; the last one is active."""

    @property
    def log_start_offset(self) -> int:
        """Records before it are deleted."""

    @property
    def log_end_offset(self) -> int:
        """The next record's offset."""

    @property
    def high_watermark(self) -> int:
        """Nothing at or above it may be deleted."""


class IDeletePolicy(Interface):
    """
    Selects the oldest segments of a log that may be deleted. Policies are found by name; see
    :mod:`logbus.storage.retention`.
    """

    name: str = Attribute("What the policy is called in logs.")

    def expired(log: LogView, now_ms: int) -> Sequence[SegmentView]:
        """
        The segments to delete: the oldest ones, possibly none. The log itself makes sure that nothing at or above the
        high watermark goes.
        """
