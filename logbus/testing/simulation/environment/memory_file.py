"""An open file of a disk in memory, and writes behind its end."""

from __future__ import annotations

import os
from collections.abc import MutableSequence, Sequence
from typing import Protocol

from twisted.internet.defer import Deferred
from zope.interface import implementer

from logbus.errors import StorageError
from logbus.records.checksum import Buffer
from logbus.storage.filesystem.disk_errors import refusal
from logbus.storage.filesystem.read_ahead import ReadAhead
from logbus.storage.istorage import IFile, IWriteAhead, NotCached
from logbus.testing.simulation.environment.inodes import Inode


class OwnDisk(Protocol):
    """What a file needs of its :class:`~logbus.testing.simulation.environment.memory_disk.MemoryDisk`."""

    root: str
    cached_only: int
    reads: ReadAhead
    open_files: int
    loads: MutableSequence[tuple[str, int, int, int]]

    def check(self) -> None: ...

    def tick(self) -> int: ...

    def step(self, op: str, path: str) -> tuple[OSError, float] | None: ...

    def plain_step(self, op: str, path: str) -> None: ...

    def fail(self, error: StorageError) -> StorageError: ...

    def report_no_space(self, error: BaseException | None) -> None: ...


@implementer(IFile)
class MemoryFile:
    """An open file."""

    is_plain = False

    def __init__(self, disk: OwnDisk, path: str, inode: Inode) -> None:
        self._disk = disk
        self._inode = inode
        self.path = path
        self.ahead = -1
        disk.open_files += 1

    def __del__(self) -> None:
        self._disk.open_files -= 1

    def fileno(self) -> int:
        return self._inode.fd

    def size(self) -> int:
        return os.fstat(self._inode.fd).st_size

    def write(self, position: int, parts: Sequence[Buffer]) -> None:
        disk = self._disk
        disk.check()
        data = b"".join(parts)
        fault = disk.step("write", self.path)
        if fault is None:
            self._inode.write(position, data)
            self._inode.modified_ns = disk.tick()
            return
        error, portion = fault
        # A part may have been written before the error.
        self._inode.write(position, data[: int(len(data) * portion)])
        refused = refusal(error, f"append to {self.path}")
        if refused is None:
            raise disk.fail(StorageError(f"{disk.root}: writing {self.path} failed: {error}"))
        self.truncate(position)
        disk.report_no_space(refused)
        raise refused

    def write_ahead(self, position: int, data: Buffer) -> bool:
        """Write behind the end, and report no error; whether all was written."""
        fault = self._disk.step("write ahead", self.path)
        portion = 1.0 if fault is None else fault[1]
        self._inode.write(position, bytes(data)[: int(len(data) * portion)])
        return fault is None

    def load(self, position: int, length: int) -> Deferred[None]:
        return self._disk.reads.load(self, position, length)

    def pread(self, length: int, position: int) -> bytes:
        if self._disk.cached_only and self.is_cold(position, length):
            raise NotCached(self, position, length)
        self._disk.plain_step("read", self.path)
        return os.pread(self._inode.fd, length, position)

    def is_cold(self, position: int, length: int) -> bool | None:
        cold_from = self._inode.cold_from
        return cold_from is not None and cold_from < min(position + length, self.size())

    def make_resident(self, position: int, length: int, beyond: int) -> None:
        self._disk.plain_step("read", self.path)
        self._disk.loads.append((self.path, position, length, beyond))
        if self._inode.cold_from is not None:
            self._inode.cold_from = max(self._inode.cold_from, position + length + beyond)

    def read_ahead(self, position: int, length: int) -> Deferred[None] | None:
        return self._disk.reads.want(self, position, length)

    def truncate(self, size: int) -> None:
        self._disk.check()
        self._disk.plain_step("truncate", self.path)
        self._inode.truncate(size)
        self._inode.modified_ns = self._disk.tick()

    def sync(self) -> None:
        self._disk.plain_step("sync", self.path)
        self._inode.sync()


@implementer(IWriteAhead)
class MemoryWriteAhead:
    """A write behind the end of a file, which is carried out when it is released, or waited for."""

    def __init__(self, file: MemoryFile, position: int, data: Buffer) -> None:
        self.over: Deferred[None] = Deferred()
        self._file = file
        self._position = position
        self._data = data
        self._whole: bool | None = None

    def finish(self) -> bool:
        if self._whole is None:
            self._whole = self._file.write_ahead(self._position, self._data)
        return self._whole
