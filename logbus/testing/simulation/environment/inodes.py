"""
Files and directories with their state in the page cache and on the device, and after a power cut.
"""

from __future__ import annotations

import gc
import os
import random
import resource
from tempfile import TemporaryFile
from typing import Any, ClassVar


class Crashed(BaseException):
    """The machine stops at this point. Not an Exception: nothing may catch it."""


class Inode:
    """
    A file's content, in the page cache and on the device.

    Each holds a file descriptor. Unused disks are freed by the garbage collector, which may run late; here it is run
    before the descriptors are used up.

    :ivar cold_from: the position from which on only the device has the content, for reads of connections.
    :ivar links: its names.
    """

    _living: ClassVar[int] = 0
    _most: ClassVar[int] = 0

    def __init__(self, durable: bytes = b"") -> None:
        if Inode._living >= Inode._most:
            gc.collect()
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            Inode._most = Inode._living + max(64, (limit - Inode._living) // 4)
        Inode._living += 1
        self.cold_from: int | None = None
        self.links = 1
        self.fd = _new_file()
        self._durable = bytearray(durable)
        # Unsynced changes, in order: (position, bytes written), or (size, None) for a truncation.
        self.unsynced: list[tuple[int, bytes | None]] = []
        self.modified_ns = 0
        os.pwrite(self.fd, durable, 0)

    def __del__(self) -> None:
        Inode._living -= 1
        os.close(self.fd)

    def content(self) -> bytes:
        """The content that a reader sees."""
        return os.pread(self.fd, os.fstat(self.fd).st_size, 0)

    @property
    def durable(self) -> bytes:
        """The content that the device certainly has."""
        return bytes(self._durable)

    def write(self, position: int, data: bytes) -> None:
        """Write, to the page cache."""
        os.pwrite(self.fd, data, position)
        self.unsynced.append((position, data))

    def truncate(self, size: int) -> None:
        """Cut or lengthen, in the page cache."""
        os.ftruncate(self.fd, size)
        self.unsynced.append((size, None))

    def sync(self) -> None:
        """Sync: the device has everything now."""
        _apply(self._durable, self.unsynced)
        self.unsynced.clear()

    def flip(self, position: int, bit: int) -> None:
        """
        Flip one bit, in the page cache and on the device, as silent corruption does.

        :param bit: 0 to 7, the least significant first.
        """
        byte = os.pread(self.fd, 1, position)[0] ^ (1 << bit)
        os.pwrite(self.fd, bytes([byte]), position)
        if position < len(self._durable):
            self._durable[position] ^= 1 << bit

    def unlinked(self) -> None:
        """One of its names is gone."""
        self.links -= 1

    def copy(self) -> Inode:
        """A file of the same content, of which the device has the same part."""
        twin = Inode(self.content())
        twin._durable[:] = self._durable
        twin.unsynced = list(self.unsynced)
        twin.cold_from = self.cold_from
        twin.modified_ns = self.modified_ns
        twin.links = self.links
        return twin

    def after_power_cut(self, choose: PowerCutOutcome) -> bytes:
        """The content after a power cut, with the unsynced changes that ``choose`` selects."""
        data = bytearray(self._durable)
        _apply(data, choose.changes(self.unsynced))
        return bytes(data)


def _apply(data: bytearray, changes: list[tuple[int, bytes | None]]) -> None:
    """Apply changes in the order in which they arrived; they may lie behind the end."""
    for position, written in changes:
        if len(data) < position:
            # The length survived, the bytes before it did not.
            data.extend(bytes(position - len(data)))
        if written is None:
            del data[position:]
        else:
            data[position : position + len(written)] = written


class PowerCutOutcome:
    """The unsynced changes that survive a power cut: none, all, or a random part."""

    def __init__(self, mode: str, rng: random.Random | None = None) -> None:
        assert mode in ("lose", "keep", "tear", "reorder")
        self.mode = mode
        self.rng = rng or random.Random(0)

    def changes(self, unsynced: list[tuple[int, bytes | None]]) -> list[tuple[int, bytes | None]]:
        """The changes of a file that survived."""
        if self.mode == "lose":
            return []
        if self.mode == "keep" or not unsynced:
            return unsynced
        if self.mode == "reorder":
            return [change for change in unsynced if self.rng.random() < 0.7]
        # A prefix, the last change of which is torn.
        count = self.rng.randrange(len(unsynced) + 1)
        chosen = unsynced[:count]
        if count < len(unsynced):
            position, written = unsynced[count]
            if written:
                chosen.append((position, written[: self.rng.randrange(len(written))]))
        return chosen

    def names(self, durable: dict[str, Any], volatile: dict[str, Any]) -> dict[str, Any]:
        """The names of a directory that survived."""
        if self.mode == "lose":
            return dict(durable)
        if self.mode == "keep":
            return dict(volatile)
        result = dict(durable)
        for name in sorted(durable.keys() | volatile.keys()):
            if self.rng.random() < 0.5:
                if name in volatile:
                    result[name] = volatile[name]
                else:
                    del result[name]
        # A rename is one step: its file has the old name or the new one.
        before = {entry: name for name, entry in durable.items()}
        for name, entry in volatile.items():
            old = before.get(entry, name)
            if old != name:
                kept, lost = (name, old) if self.rng.random() < 0.5 else (old, name)
                if result.get(lost) is entry:
                    del result[lost]
                result[kept] = entry
        return result


class Directory:
    """
    Names of files, in the page cache and on the device.

    :ivar boot: of the root: the number of the machine's boot.
    """

    def __init__(self) -> None:
        self.boot = 0
        self.entries: dict[str, Inode | Directory] = {}
        self.durable: dict[str, Inode | Directory] = {}
        self.modified_ns = 0

    def unlinked(self) -> None:
        """It is removed, with all that is in it."""
        for entry in self.entries.values():
            entry.unlinked()

    def copy(self, copies: dict[Inode | Directory, Inode | Directory] | None = None) -> Directory:
        """
        The same names for copies of the files.

        :param copies: made so far: a file may have several names.
        """
        copies = {} if copies is None else copies

        def of(names: dict[str, Inode | Directory]) -> dict[str, Inode | Directory]:
            for entry in names.values():
                if entry not in copies:
                    copies[entry] = entry.copy(copies) if isinstance(entry, Directory) else entry.copy()
            return {name: copies[entry] for name, entry in names.items()}

        twin = Directory()
        twin.boot = self.boot
        twin.entries = of(self.entries)
        twin.durable = of(self.durable)
        twin.modified_ns = self.modified_ns
        return twin

    def after_power_cut(self, choose: PowerCutOutcome, copies: dict[Inode, Inode] | None = None) -> Directory:
        """
        The names after a power cut, for copies of the files as they are then.

        :param copies: made so far: a file may have several names.
        """
        copies = {} if copies is None else copies
        survivors = choose.names(self.durable, self.entries)
        twin = Directory()
        for name, entry in sorted(survivors.items()):
            if isinstance(entry, Directory):
                twin.entries[name] = entry.after_power_cut(choose, copies)
            else:
                if entry in copies:
                    copies[entry].links += 1
                else:
                    copies[entry] = Inode(entry.after_power_cut(choose))
                twin.entries[name] = copies[entry]
        twin.durable = dict(twin.entries)
        if survivors == self.entries:
            twin.modified_ns = self.modified_ns
        return twin


def _new_file() -> int:
    """A descriptor of an empty file without a name; in memory where the system can (Linux)."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("inode")
    with TemporaryFile() as file:
        return os.dup(file.fileno())
