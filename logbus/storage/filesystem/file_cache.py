"""
Opens the files of logs on demand, and closes unused ones.

A broker with 10,000 partitions has tens of thousands of files. A :class:`LazyFile` opens its file when it is needed; a
:class:`FileCache` closes the least recently used ones when too many are open.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

from attrs import Factory, define, field

from logbus.errors import StorageError
from logbus.storage.istorage import IDisk, IFile

_WALK = 64
"""Open files examined to find one to close."""


@define(eq=False)
class LazyFile:
    """
    A file that is opened on demand.

    :ivar file: the open file, or None.
    :ivar pinned: must stay open, because it has unsynced data: a descriptor opened later may not report a failed
        write-back.
    """

    _cache: FileCache
    _disk: IDisk
    path: str
    _recently_used: bool = field(default=False, init=False)
    file: IFile | None = field(default=None, init=False)
    pinned: bool = field(default=False, init=False)

    def get(self) -> IFile:
        """
        The file, opened if necessary.

        :raises FileNotFoundError: it does not exist.
        """
        self._recently_used = True
        file = self.file
        if file is None:
            file = self._disk.open(self.path)
            self._adopt(file)
        return file

    def create(self) -> IFile:
        """The file, opened, and created if it does not exist."""
        self._recently_used = True
        file = self.file
        if file is None:
            file = self._disk.open(self.path, True)
            self._adopt(file)
        return file

    def _adopt(self, file: IFile) -> None:
        self.file = file
        self._cache.opened(self)

    def close(self) -> None:
        """Close the file; readers with a reference keep it open."""
        if self.file is not None:
            self.file = None
            self._cache.closed(self)

    def close_if_unused(self) -> bool:
        """Close, unless pinned or used since the last call; returns whether it is closed."""
        if self.pinned or self._recently_used:
            self._recently_used = False
            return False
        self.file = None
        return True

    def sync_and_close(self) -> None:
        """Close in any case, after a sync that waits for the device, if there is unsynced data."""
        file, self.file = self.file, None
        if self.pinned and file is not None:
            # If that fails, the disk is offline, and confirms nothing more.
            with suppress(StorageError):
                file.sync()


@define(eq=False)
class FileCache:
    """
    Keeps at most about ``capacity`` files open, by the second-chance ("clock") algorithm: using a file sets one
    attribute.

    :ivar capacity: number of files. Exceeded while more than that have unsynced data.
    :ivar most: number of files that is not exceeded even then: whoever opens another one waits until one is synced.
    :ivar _on_full: called the first time that happens.
    """

    capacity: int
    most: int = field(default=Factory(lambda self: 2 * self.capacity, takes_self=True))
    _on_full: Callable[[], object] = lambda: None
    _open: OrderedDict[LazyFile, None] = field(factory=OrderedDict, init=False)
    _was_full: bool = field(default=False, init=False)

    def __len__(self) -> int:
        return len(self._open)

    @property
    def is_crowded(self) -> bool:
        """Whether more files are open than should be, as they have unsynced data."""
        return len(self._open) > self.capacity

    def opened(self, file: LazyFile) -> None:
        """Record an opened file, and close others if there are too many."""
        files = self._open
        files[file] = None
        # A bounded walk, so that no single call pays for thousands of pinned files. The first round clears the marks
        # of recent use, the second finds the file to close.
        for _ in range(min(_WALK, 2 * len(files))):
            if len(files) <= self.capacity:
                break
            candidate = next(iter(files))
            if candidate is not file and candidate.close_if_unused():
                del files[candidate]
            else:
                files.move_to_end(candidate)
        while len(files) > max(self.most, 1):
            if not self._was_full:
                self._was_full = True
                self._on_full()
            candidate = next(iter(files))
            if candidate is file:
                files.move_to_end(candidate)
                continue
            candidate.sync_and_close()
            del files[candidate]

    def closed(self, file: LazyFile) -> None:
        """Record that a file was closed by its owner."""
        self._open.pop(file, None)
