"""
A disk in memory that distinguishes synced from unsynced data, fails on request, and survives power cuts as a real one.

Unsynced writes may be there after a power cut, or not, or in part: :meth:`MemoryDisk.after_power_cut` returns a disk in
one of the states in which a real one could be. A file's new name, too, is safe only once its directory was synced.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, MutableSequence, Sequence
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer

from logbus.errors import ApiError, ConfigError, ErrorCode, StorageError
from logbus.records.checksum import Buffer
from logbus.storage.disk_space import DiskSpace
from logbus.storage.filesystem.disk_errors import NoSpace, refusal
from logbus.storage.filesystem.disk_threads import sync_each
from logbus.storage.filesystem.read_ahead import ReadAhead
from logbus.storage.flush_times import FlushTimes
from logbus.storage.istorage import IDisk, IFile, IOPool
from logbus.testing.simulation.environment.inodes import Crashed, Directory, Inode, PowerCutOutcome
from logbus.testing.simulation.environment.memory_file import MemoryFile, MemoryWriteAhead


@implementer(IDisk)
class MemoryDisk:
    """
    A disk in memory.

    :ivar steps: operations so far between which a crash is possible: writes, truncations, syncs, changes of names.
    :ivar crash_at: the step before which the machine stops; None: never.
    :ivar crashed: it has stopped; nothing is written any more.
    :ivar on_crash: called when it stops.
    :ivar faults: called before each step; may return an error and, for writes, the portion written before it.
    :ivar held: pools whose operations wait for :meth:`release`.
    :ivar ahead: writes behind the ends of files that :meth:`release_ahead` carries out; None: there are none.
    :ivar free: the result of :meth:`space`; writes do not change it.
    :ivar loads: read-aheads: path, position, bytes waited for, bytes begun behind them.
    :ivar above: the disk that this one is a directory of, as a worker's is; None: none.
    :ivar has_workers: others are directories of this one.
    """

    def __init__(self, root: str = "/memory", tree: Directory | None = None, above: MemoryDisk | None = None) -> None:
        self.root = root
        self.above = above
        self.has_workers = False
        self.failure: StorageError | None = None
        self.cached_only = 0
        self.tree = tree or Directory()
        self.steps = 0
        self.crash_at: int | None = None
        self.crashed = False
        self.on_crash: Callable[[], object] = lambda: None
        self.faults: Callable[[str, str], tuple[OSError, float] | OSError | None] = lambda op, path: None
        self.held: set[IOPool] = set()
        self.ahead: list[MemoryWriteAhead] | None = None
        self.loads: MutableSequence[tuple[str, int, int, int]] = []
        self.reads = ReadAhead(self)
        self.flush_times = FlushTimes(lambda: 0.0)
        self.open_files = 0
        self.done: MutableSequence[tuple[str, str]] = []
        self.locked = False
        self._waiting: list[tuple[IOPool, Callable[..., Any], tuple[Any, ...], Deferred[Any]]] = []
        self.free: DiskSpace | None = DiskSpace(1 << 40, 1 << 40)
        self._listeners: list[Callable[[StorageError], None]] = []
        self._space_listeners: list[Callable[[ApiError], None]] = []
        self._time = 0

    # -- Faults

    def tick(self) -> int:
        self._time += 1
        return self._time * 1_000_000

    def step(self, op: str, path: str) -> tuple[OSError, float] | None:
        """Count one step, before which the machine may stop."""
        if op != "read":
            if self.crashed or (self.crash_at is not None and self.steps >= self.crash_at):
                if not self.crashed:
                    self.crashed = True
                    self.on_crash()
                raise Crashed(f"{op} {path}")
            self.steps += 1
            self.done.append((op, path))
        fault = self.faults(op, path)
        return (fault, 0.5) if isinstance(fault, OSError) else fault

    def plain_step(self, op: str, path: str) -> None:
        fault = self.step(op, path)
        if fault is not None:
            error = refusal(fault[0], f"{op} {path}") if op in ("create", "replace", "make", "open") else None
            raise error or self.fail(StorageError(f"{self.root}: {op} {path}: {fault[0]}"))

    def check(self) -> None:
        if self.failure is not None:
            raise self.offline()

    def after_power_cut(self, choice: PowerCutOutcome) -> MemoryDisk:
        """A disk in a possible state after a power cut."""
        tree = self.tree.after_power_cut(choice)
        tree.boot = self.tree.boot + 1
        return MemoryDisk(self.root, tree)

    def after_kill(self) -> MemoryDisk:
        """
        The disk after the process died and the machine did not: everything written is there.

        It is a copy. What a test leaves of the dead process may still be called, by a clock that both share, and must
        not write into the files of the one that comes after it. Workers of one machine have files together, which
        cannot be copied for one of them: there the disk of the dead process fails.
        """
        if self.above is not None or self.has_workers:
            self.crashed = True
            return MemoryDisk(self.root, self.tree, self.above)
        return MemoryDisk(self.root, self.tree.copy())

    def evict(self, path: str) -> None:
        """Drop a file from the page cache."""
        inode = self._find(path)
        assert isinstance(inode, Inode)
        inode.cold_from = 0

    def flip(self, path: str, position: int, bit: int) -> int:
        """Turn one bit of a file over, in the page cache and on the device; returns the byte as it is now."""
        inode = self._find(path)
        assert isinstance(inode, Inode)
        inode.flip(position, bit)
        return inode.content()[position]

    # -- IDisk

    @property
    def boot_id(self) -> str | None:
        return f"boot {self.tree.boot}"

    def on_failure(self, listener: Callable[[StorageError], None]) -> None:
        self._listeners.append(listener)

    def on_no_space(self, listener: Callable[[ApiError], None]) -> None:
        self._space_listeners.append(listener)

    def report_no_space(self, error: BaseException | None) -> None:
        """Call the listeners if ``error`` is a lack of space."""
        if isinstance(error, NoSpace):
            for listener in self._space_listeners:
                listener(error)

    def space(self) -> DiskSpace | None:
        return self.free

    def fail(self, error: StorageError) -> StorageError:
        if self.failure is None:
            self.failure = error
            for listener in self._listeners:
                listener(error)
        return self.failure

    def offline(self) -> StorageError:
        return StorageError(f"{self.root} is offline: {self.failure}")

    def submit(self, pool: IOPool, op: Callable[..., Any], *args: Any) -> Deferred[Any]:
        if self.failure is not None:
            return fail(self.offline())
        done: Deferred[Any] = Deferred()
        self._waiting.append((pool, op, args, done))
        if pool not in self.held:
            self.release(pool)
        return done

    def sync(self, files: Sequence[IFile]) -> Deferred[None]:
        return self.submit(IOPool.SYNC, sync_each, files)

    @property
    def writes_ahead(self) -> bool:
        return self.ahead is not None

    def write_ahead(self, file: IFile, position: int, data: Buffer) -> MemoryWriteAhead | None:
        if self.ahead is None or self.failure is not None:
            return None
        assert isinstance(file, MemoryFile)
        self.ahead.append(MemoryWriteAhead(file, position, data))
        return self.ahead[-1]

    def release_ahead(self) -> bool:
        """Carry out the oldest write ahead, and call who waits for it; whether there was one."""
        if not self.ahead:
            return False
        write = self.ahead.pop(0)
        write.finish()
        write.over.callback(None)
        return True

    def release(self, pool: IOPool, count: int = 1_000_000) -> int:
        """Run up to ``count`` waiting operations of a pool, oldest first; return how many ran."""
        ran = 0
        while ran < count:
            job = next((job for job in self._waiting if job[0] is pool), None)
            if job is None:
                break
            self._waiting.remove(job)
            ran += 1
            _, op, args, done = job
            try:
                value, error = op(*args), None
            except Crashed:
                # A stopped machine never answers.
                return ran
            except Exception as raised:
                value, error = None, raised
                self.report_no_space(raised)
            if self.failure is not None:
                done.errback(self.offline())
            elif error is not None:
                done.errback(error)
            else:
                done.callback(value)
        return ran

    def _find(self, path: str) -> Inode | Directory | None:
        entry: Inode | Directory | None = self.tree
        for name in path.split("/") if path else ():
            if not isinstance(entry, Directory):
                return None
            entry = entry.entries.get(name)
        return entry

    def _parent(self, path: str) -> tuple[Directory, str]:
        directory, _, name = path.rpartition("/")
        parent = self._find(directory)
        if not isinstance(parent, Directory):
            raise self.fail(StorageError(f"{self.root}: there is no directory {directory}"))
        return parent, name

    def open(self, path: str, create: bool = False) -> MemoryFile:
        inode = self._find(path)
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, path)
            self.plain_step("create", path)
            parent, name = self._parent(path)
            inode = parent.entries[name] = Inode()
            parent.modified_ns = self.tick()
        else:
            fault = self.faults("open", path)
            if isinstance(fault, OSError):
                raise refusal(fault, f"open {path}") or self.fail(StorageError(str(fault)))
        assert isinstance(inode, Inode)
        return MemoryFile(self, path, inode)

    def names(self, path: str) -> list[str]:
        entry = self._find(path)
        return list(entry.entries) if isinstance(entry, Directory) else []

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def size(self, path: str) -> int:
        return len(self.read(path))

    def modified_ns(self, path: str) -> int:
        entry = self._find(path)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, path)
        return entry.modified_ns

    def read(self, path: str) -> bytes:
        entry = self._find(path)
        if not isinstance(entry, Inode):
            raise FileNotFoundError(errno.ENOENT, path)
        return entry.content()

    def replace(self, path: str, data: bytes, sync: bool = True, sync_name: bool = True, private: bool = False) -> None:
        self.check()
        self.plain_step("replace", path)
        parent, name = self._parent(path)
        inode = Inode()
        inode.write(0, data)
        if sync:
            self.plain_step("sync", path)
            inode.sync()
        if name in parent.entries:
            parent.entries[name].unlinked()
        parent.entries[name] = inode
        parent.modified_ns = self.tick()
        if sync and sync_name:
            self.sync_directory(path.rpartition("/")[0])

    def make_directory(self, path: str) -> None:
        parent, name = self._parent(path)
        if name not in parent.entries:
            self.plain_step("make", path)
            parent.entries[name] = Directory()
            parent.modified_ns = self.tick()

    def rename(self, old: str, new: str) -> None:
        self.plain_step("rename", old)
        source, name = self._parent(old)
        target, new_name = self._parent(new)
        target.entries[new_name] = source.entries.pop(name)
        source.modified_ns = target.modified_ns = self.tick()

    def below(self, path: str) -> MemoryDisk:
        """The log directory in a directory of this one; made if it is missing."""
        tree = self.tree
        for name in path.split("/"):
            entry = tree.entries.setdefault(name, Directory())
            tree.durable.setdefault(name, entry)
            assert isinstance(entry, Directory)
            tree = entry
        tree.boot = self.tree.boot
        self.has_workers = True
        return MemoryDisk(f"{self.root}/{path}", tree, self)

    def link(self, path: str, new: str) -> None:
        inode = self._find(path)
        if not isinstance(inode, Inode):
            raise FileNotFoundError(errno.ENOENT, path)
        self.plain_step("link", path)
        parent, name = self._parent(new)
        parent.entries[name] = inode
        inode.links += 1
        parent.modified_ns = self.tick()

    def is_shared(self, path: str) -> bool:
        inode = self._find(path)
        return isinstance(inode, Inode) and inode.links > 1

    def unshare(self, path: str) -> None:
        inode = self._find(path)
        assert isinstance(inode, Inode)
        modified_ns = inode.modified_ns
        self.replace(path, inode.content())
        inode = self._find(path)
        assert isinstance(inode, Inode)
        inode.modified_ns = modified_ns

    def take(self, path: str, new: str) -> None:
        top = self
        while top.above is not None:
            top = top.above
        found = top._find(path.removeprefix(f"{top.root}/")) if path.startswith(f"{top.root}/") else None
        if not isinstance(found, Directory):
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path} cannot be taken over: there is none")
        self.plain_step("take", path)
        source, name = top._parent(path.removeprefix(f"{top.root}/"))
        self.tree.entries[new] = source.entries.pop(name)
        self.tree.modified_ns = source.modified_ns = self.tick()
        self.sync_directory("")
        self.plain_step("sync-directory", path)
        source.durable = dict(source.entries)

    def unlink(self, path: str) -> None:
        entry = self._find(path)
        if entry is not None:
            self.plain_step("unlink", path)
            parent, name = self._parent(path)
            entry.unlinked()
            del parent.entries[name]
            parent.modified_ns = self.tick()

    def remove_tree(self, path: str) -> None:
        self.unlink(path)

    def sync_directory(self, path: str) -> None:
        self.plain_step("sync-directory", path)
        directory = self._find(path)
        if not isinstance(directory, Directory):
            raise self.fail(StorageError(f"{self.root}: there is no directory {path}"))
        directory.durable = dict(directory.entries)

    def lock(self) -> None:
        if self.locked:
            raise ConfigError(f"{self.root} is in use")
        self.locked = True

    def close(self) -> Deferred[None]:
        self.locked = False
        return succeed(None)


def no_space() -> OSError:
    """The error of a full disk."""
    return OSError(errno.ENOSPC, "No space left on device")


def no_files() -> OSError:
    """The error of a process that has too many files open."""
    return OSError(errno.EMFILE, "Too many open files")


def broken() -> OSError:
    """The error of a failing disk."""
    return OSError(errno.EIO, "Input/output error")


__all__ = [
    "PowerCutOutcome",
    "Crashed",
    "Directory",
    "Inode",
    "IOPool",
    "MemoryDisk",
    "broken",
    "no_space",
]
