"""
The seams of the storage package: what may be put in place of the real disk, and what decides over deletion.

Everything above :mod:`logbus.storage.disk` speaks to :class:`IDisk` and :class:`IFile` only, so that tests can run it
on a disk in memory that fails, fills up, and forgets what was not synced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from zope.interface import Attribute, Interface

from logbus.errors import ApiError, StorageError

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from logbus.records.checksum import Buffer
    from logbus.storage.retention import LogView, SegmentView
    from logbus.storage.space import DiskSpace


class Lane(Enum):
    """The queues of blocking work of one log directory; each has its own threads, so none waits for another."""

    SYNC = "sync"
    """Flushes that somebody waits for; those of several logs run at a time."""
    READ = "read"
    """Reads of cold data; several run at a time."""
    BACKGROUND = "background"
    """What nobody waits for: write-back, checkpoints, deletion, and the opening of logs."""


class IFile(Interface):
    """
    An open file of a log directory. It closes when the last reference to it goes: whoever holds a slice of it can
    still read after the file was renamed or unlinked.
    """

    path: str = Attribute("Name relative to the directory of the disk, as it was opened.")
    ahead: int = Attribute("How far it was read ahead for a reader of cold data; see ReadAhead.")

    def fileno() -> int:
        """A descriptor that ``sendfile`` and ``pread`` can use."""

    def size() -> int:
        """Bytes in the file."""

    def write(position: int, parts: Sequence[Buffer]) -> None:
        """
        Write all parts, one after the other, at ``position``, which is the end of the file.

        :raises ApiError: KAFKA_STORAGE_ERROR: there is no space; the file is as it was before, the disk stays in use.
        :raises StorageError: the write failed otherwise, or could not be undone; the disk is offline.
        """

    def pread(length: int, position: int) -> bytes:
        """
        Read up to ``length`` bytes; fewer at the end of the file.

        :raises StorageError: the read failed; the disk is offline.
        """

    def is_cold(position: int, length: int) -> bool | None:
        """Whether reading these bytes would wait for the device; None if that cannot be known. Does not wait."""

    def make_resident(position: int, length: int, beyond: int) -> None:
        """
        Wait until these bytes are in memory, and begin to read as many as ``beyond`` behind them. Blocks: for lanes.

        :raises StorageError: they cannot be read; the disk is offline.
        """

    def read_ahead(position: int, length: int) -> Deferred[None] | None:
        """None if these bytes can be sent without waiting for the device, or what fires when they can be."""

    def truncate(size: int) -> None:
        """
        Cut the file to ``size`` bytes.

        :raises StorageError: it failed; the disk is offline.
        """

    def sync() -> None:
        """
        Force what was written to stable storage (fdatasync). Blocks: for lanes.

        :raises StorageError: it failed. What was written since the last success may be lost, and trying again would
            only hide that (the kernel forgets the pages); the disk is offline.
        """


class IDisk(Interface):
    """
    One log directory. Paths are relative to it.

    Methods that only touch the page cache may be called on the reactor thread; :meth:`sync_directory`,
    :meth:`replace` with ``sync`` and :meth:`remove_tree` block and belong into a lane. After a failure every method
    that writes raises :class:`~logbus.errors.StorageError`.
    """

    root: str = Attribute("The directory's absolute path.")
    failure: StorageError | None = Attribute("Why the directory is offline; None while it is not.")
    boot_id: str | None = Attribute(
        "Tells one run of the machine from the next: what was not synced in another one is gone. None: not known."
    )

    def on_failure(listener: Callable[[StorageError], None]) -> None:
        """Have ``listener`` called once, on the reactor thread, when the directory goes offline."""

    def on_no_space(listener: Callable[[ApiError], None]) -> None:
        """
        Have ``listener`` called, on the reactor thread, with the error of each operation that is refused for want of
        space.
        """

    def space() -> DiskSpace | None:
        """The space of the file system; None if the system does not say. Blocks: for lanes."""

    def fail(error: StorageError) -> StorageError:
        """Take the directory offline for ``error``, unless it is already; returns the error that did it."""

    def offline() -> StorageError:
        """A fresh error that says why the directory is offline."""

    def submit(lane: Lane, op: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """
        Run ``op(*args)`` in a lane; in order in :attr:`Lane.BACKGROUND`; in the others several run at a time.

        :param op: blocks in system calls that let go of the interpreter lock; no loops over records.
        :returns: fires on the reactor thread with the result. A StorageError takes the directory offline.
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
        """Whether there is a file or directory of that name."""

    def size(path: str) -> int:
        """
        Bytes in a file.

        :raises FileNotFoundError: there is none.
        """

    def modified_ns(path: str) -> int:
        """
        When a file was last written to, or a directory last had a name added or removed; ns since 1970.

        :raises FileNotFoundError: there is none.
        """

    def read(path: str) -> bytes:
        """
        A small file's content.

        :raises FileNotFoundError: there is none.
        """

    def replace(path: str, data: bytes, sync: bool = True, sync_name: bool = True) -> None:
        """
        Put ``data`` in the place of the file in one step: after a crash there is the old content or the new.

        :param sync: force the content to stable storage before it takes the name.
        :param sync_name: with ``sync``, force the name, too, before returning.
        """

    def make_directory(path: str) -> None:
        """Create a directory, if there is none yet."""

    def rename(old: str, new: str) -> None:
        """Rename a file or directory."""

    def unlink(path: str) -> None:
        """Remove a file; nothing happens if there is none."""

    def remove_tree(path: str) -> None:
        """Remove a directory and everything in it; nothing happens if there is none."""

    def sync_directory(path: str) -> None:
        """Force the names in a directory to stable storage."""

    def lock() -> None:
        """
        Keep other processes off the directory until :meth:`close`.

        :raises ConfigError: another process holds it.
        """

    def close() -> Deferred[None]:
        """Finish what was submitted, end the threads, let go of the lock."""


class IDeletePolicy(Interface):
    """
    Decides which of a log's oldest segments may go. Policies are found by name; see :mod:`logbus.storage.retention`.
    """

    name: str = Attribute("What the policy is called in logs.")

    def expired(log: LogView, now_ms: int) -> Sequence[SegmentView]:
        """
        The segments to delete: a run from the oldest on, possibly empty. The log itself makes sure that nothing at or
        above the high watermark goes.
        """
