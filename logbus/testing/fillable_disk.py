"""Log directories that refuse writes for lack of space when a test says so, as the system does (ENOSPC)."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.interfaces import IReactorFromThreads

from logbus.records.checksum import Buffer
from logbus.storage.disk_space import DiskSpace
from logbus.storage.filesystem.disk import Disk
from logbus.storage.filesystem.file import File
from logbus.storage.filesystem.native_writes import NativeWrite
from logbus.storage.istorage import IFile
from logbus.testing.disk_filling import DiskFilling


class FillableFile(File):
    """A file on a disk that may be full."""

    __slots__ = ("_filling",)

    def __init__(self, disk: Disk, path: str, fd: int, filling: DiskFilling) -> None:
        super().__init__(disk, path, fd)
        self._filling = filling

    def write(self, position: int, parts: Sequence[Buffer]) -> None:
        try:
            self._filling.refuse()
        except OSError as error:
            raise self._not_written(error, position) from error
        super().write(position, parts)


class FillableDisk(Disk):
    """A log directory on a disk that may be full."""

    __slots__ = ("_filling",)

    def __init__(self, root: str, reactor: IReactorFromThreads, filling: DiskFilling) -> None:
        Disk.__init__(self, root, reactor)
        self._filling = filling

    def file(self, path: str, fd: int) -> File:
        return FillableFile(self, path, fd, self._filling)

    def open(self, path: str, create: bool = False) -> File:
        if create and not self.exists(path):
            with self._doing(f"open {path}"):
                self._filling.refuse()
        return super().open(path, create)

    def replace(self, path: str, data: bytes, sync: bool = True, sync_name: bool = True, private: bool = False) -> None:
        with self._doing(f"write {path}"):
            self._filling.refuse()
        super().replace(path, data, sync, sync_name, private)

    def make_directory(self, path: str) -> None:
        if not self.exists(path):
            with self._doing(f"create {path}"):
                self._filling.refuse()
        super().make_directory(path)

    def write_ahead(self, file: IFile, position: int, data: Buffer) -> NativeWrite | None:
        return None if self._filling.is_full else super().write_ahead(file, position, data)

    def space(self) -> DiskSpace | None:
        found = super().space()
        return DiskSpace(0, found.total_bytes) if found is not None and self._filling.is_full else found
