"""The real disk: files, I/O threads, errors of the operating system, the lock."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

import logbus
from logbus.errors import ApiError, ConfigError, ErrorCode, StorageError
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.filesystem import disk as disk_module
from logbus.storage.filesystem import file as file_module
from logbus.storage.filesystem.disk import Disk, disks_at
from logbus.storage.filesystem.disk_threads import SYNCS
from logbus.storage.istorage import IDisk, IFile, IOPool
from logbus.storage.log_directory import rename_for_good
from logbus.testing.simulation.environment.memory_disk import MemoryDisk
from tests.storage.builders import a_log, batch, read_all


@implementer(IReactorFromThreads)
@define
class Mailbox:
    """Keeps what threads hand to the reactor until the test takes it."""

    calls: list[Any] = field(factory=list)
    arrived: threading.Condition = field(factory=threading.Condition)

    def callFromThread(self, callable: Any, *args: Any, **kw: Any) -> None:
        with self.arrived:
            self.calls.append((callable, args, kw))
            self.arrived.notify()

    def callInThread(self, callable: Any, *args: Any, **kw: Any) -> None:
        raise AssertionError("pools have threads of their own")

    getThreadPool = suggestThreadPoolSize = callInThread

    def run_until(self, deferred: Deferred[Any]) -> Deferred[Any]:
        """Do what threads ask for until ``deferred`` fires."""
        fired: list[None] = []
        deferred.addBoth(lambda result: (fired.append(None), result)[1])
        while not fired:
            with self.arrived:
                assert self.arrived.wait_for(lambda: self.calls, 10), "nothing came from the threads"
                callable, args, kw = self.calls.pop(0)
            callable(*args, **kw)
        return deferred


class DiskTests(SynchronousTestCase):
    """A directory of the file system."""

    def setUp(self) -> None:
        directory = TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = directory.name
        self.reactor = Mailbox()
        self.disk = Disk(self.root, self.reactor)
        self.addCleanup(lambda: self.reactor.run_until(self.disk.close()))

    def wait(self, deferred: Deferred[Any]) -> Any:
        return self.successResultOf(self.reactor.run_until(deferred))

    def test_interfaces(self) -> None:
        """The real disk and the one in memory are what storage asks for."""
        for disk in (self.disk, MemoryDisk()):
            self.assertTrue(verifyObject(IDisk, disk))
            self.assertTrue(verifyObject(IFile, disk.open("f", create=True)))

    def test_files(self) -> None:
        """What is written is read; the descriptor closes with the last reference."""
        self.disk.make_directory("d")
        file = self.disk.open("d/f", create=True)
        file.write(0, [b"abc", memoryview(b"def")])
        file.write(6, [bytearray(b"ghi")])
        file.sync()
        self.assertEqual((file.pread(100, 2), file.size(), self.disk.size("d/f")), (b"cdefghi", 9, 9))
        file.truncate(4)
        self.disk.rename("d/f", "d/g")
        self.disk.unlink("d/g")
        self.assertEqual((file.pread(100, 0), self.disk.names("d"), self.disk.exists("d/g")), (b"abcd", [], False))
        fd = file.fileno()
        del file
        self.assertRaises(OSError, os.fstat, fd)
        self.disk.remove_tree("d")
        self.disk.remove_tree("d")
        self.assertEqual(self.disk.names(""), [])
        for absent in (self.disk.open, self.disk.size, self.disk.read, self.disk.modified_ns):
            self.assertRaises(FileNotFoundError, absent, "none")
        self.disk.unlink("none")

    def test_several_names(self) -> None:
        """A file with several names is known to have them, until it is copied, or the others are gone."""
        self.disk.replace("one", b"content")
        self.assertFalse(self.disk.is_shared("one") or self.disk.is_shared("none"))
        for name in ("two", "three"):
            self.disk.link("one", name)
        self.assertTrue(self.disk.is_shared("one"))
        modified = self.disk.modified_ns("one")
        self.disk.unshare("one")
        self.disk.open("one").truncate(3)
        self.assertEqual([self.disk.read(name) for name in ("one", "two", "three")], [b"con", b"content", b"content"])
        self.assertEqual(self.disk.modified_ns("two"), modified)
        self.assertFalse(self.disk.is_shared("one"))
        self.disk.unlink("two")
        self.assertFalse(self.disk.is_shared("three"))
        self.assertRaises(FileNotFoundError, self.disk.link, "none", "four")
        self.assertRaises(ApiError, self.disk.link, "one", "three")
        self.assertIsNone(self.disk.failure)

    def test_taken_over(self) -> None:
        """A directory of another log directory is taken once; if it is not there, nothing is broken."""
        self.disk.make_directory("workers/1")
        other = Disk(f"{self.root}/workers/1", self.reactor)
        self.disk.make_directory("log")
        self.disk.replace("log/f", b"content")
        other.take(f"{self.root}/log", "mine")
        self.assertEqual((other.read("mine/f"), self.disk.exists("log")), (b"content", False))
        self.assertRaises(ApiError, other.take, f"{self.root}/log", "again")
        self.assertIsNone(other.failure)

    def test_replace(self) -> None:
        """A file is replaced whole, and nothing is left beside it."""
        for data in (b"one", b"two"):
            self.disk.replace("f", data)
            self.assertEqual(self.disk.read("f"), data)
        self.assertEqual(self.disk.names(""), ["f"])

    def test_symbolic_links(self) -> None:
        """A log file that is a link is not followed."""
        os.symlink("/etc/passwd", f"{self.root}/f")
        self.assertRaises(StorageError, self.disk.open, "f")

    def test_lanes(self) -> None:
        """Each pool runs in order in its own thread; one that is busy does not hold up another."""
        gate = threading.Event()
        slow = self.disk.submit(IOPool.BACKGROUND, gate.wait, 10)
        behind = self.disk.submit(IOPool.BACKGROUND, threading.get_ident)
        other = self.wait(self.disk.submit(IOPool.READ, threading.get_ident))
        self.assertNoResult(behind)
        gate.set()
        self.assertTrue(self.wait(slow))
        self.assertEqual(len({self.wait(behind), other, threading.get_ident()}), 3)

    def test_renamed_without_a_descriptor(self) -> None:
        """
        A directory is renamed for good also while no more files can be opened: it would have its new name, and who
        renamed it an error that says that it has not.
        """
        self.disk.lock()
        self.disk.make_directory("old")
        spare, (soft, hard) = os.dup(0), resource.getrlimit(resource.RLIMIT_NOFILE)
        os.close(spare)
        resource.setrlimit(resource.RLIMIT_NOFILE, (spare, hard))
        try:
            self.assertRaises(OSError, os.dup, 0)
            rename_for_good(self.disk, "old", "new")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        self.assertEqual(sorted(self.disk.names("")), [".lock", "new"])
        before = len(os.listdir("/proc/self/fd"))
        self.wait(self.disk.close())
        self.assertEqual(len(os.listdir("/proc/self/fd")), before - 2)

    def test_no_thread_can_be_started(self) -> None:
        """Work fails while there is no thread for it, and is done when there is; the directory stays in use."""

        def refuse(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with patch.object(threading.Thread, "start", refuse), capturedLogs() as captured:
            for pool in IOPool:
                failed = self.failureResultOf(self.disk.submit(pool, threading.get_ident), ApiError)
                self.assertIs(failed.value.code, ErrorCode.KAFKA_STORAGE_ERROR)
        (line,) = map(formatEvent, captured)
        self.assertIn(f"{self.root}: no thread for the disk: can't start new thread; raise the limits", line)
        gate = threading.Event()
        busy = self.disk.submit(IOPool.SYNC, gate.wait, 10)
        with patch.object(threading.Thread, "start", refuse):
            behind = self.disk.submit(IOPool.SYNC, threading.get_ident)
        gate.set()
        self.assertTrue(self.wait(busy))
        self.assertTrue(self.wait(behind))
        self.assertIsNone(self.disk.failure)
        self.wait(self.disk.close())

    def test_syncs_of_several_logs(self) -> None:
        """Flushes run at a time, as many as there are threads for them; the next waits for one to end."""
        together = threading.Barrier(SYNCS)
        waits = [self.disk.submit(IOPool.SYNC, together.wait, 10) for _ in range(SYNCS)]
        self.assertEqual(sorted(self.wait(one) for one in waits), list(range(SYNCS)))
        gate = threading.Event()
        busy = [self.disk.submit(IOPool.SYNC, gate.wait, 10) for _ in range(SYNCS)]
        behind = self.disk.submit(IOPool.SYNC, gate.is_set)
        self.wait(self.disk.submit(IOPool.READ, gate.is_set))
        self.assertNoResult(behind)
        gate.set()
        self.assertTrue(self.wait(behind))
        self.assertEqual([self.wait(one) for one in busy], [True] * SYNCS)

    def test_errors_from_lanes(self) -> None:
        """An operation's error reaches its caller, and the disk stays online if it is not the disk's."""
        self.failureResultOf(self.reactor.run_until(self.disk.submit(IOPool.READ, int, "x")), ValueError)
        self.assertIsNone(self.disk.failure)

    def test_short_writes(self) -> None:
        """A write that the kernel takes in pieces goes on where it stopped."""
        self.patch(disk_module.os, "pwritev", lambda fd, parts, at: os.pwrite(fd, b"".join(parts)[:3], at))
        real = os.pwrite
        self.patch(disk_module.os, "pwrite", lambda fd, data, at: real(fd, bytes(data)[:3], at))
        file = self.disk.open("f", create=True)
        file.write(0, [b"abcd", b"efghij"])
        self.assertEqual(file.pread(100, 0), b"abcdefghij")

    def test_file_size_limit(self) -> None:
        """A log at the process's limit refuses appends, keeps no torn batch, and goes on when the limit is gone."""
        self.disk.make_directory("orders-0")
        log = a_log(self.disk)
        append_as_leader(log, batch(b"a"), 0)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (log.size + 50, hard))
            error = self.assertRaises(ApiError, append_as_leader, log, batch(b"b"), 0)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, before)
        self.assertEqual(error.code, ErrorCode.KAFKA_STORAGE_ERROR)
        self.assertEqual(self.disk.size("orders-0/00000000000000000000.log"), log.size)
        append_as_leader(log, batch(b"c"), 0)
        self.assertEqual(read_all(log), [(0, b"a"), (1, b"c")])

    def test_full_device(self) -> None:
        """ENOSPC is refused, but a truncation that fails after it takes the directory offline."""
        os.symlink("/dev/full", f"{self.root}/full")
        self.patch(disk_module, "_FLAGS", os.O_RDWR)
        file = self.disk.open("full")
        self.assertRaises(StorageError, file.write, 0, [b"x"])
        self.assertIn("truncate", str(self.disk.failure))

    def test_full_disk_listeners(self) -> None:
        """Listeners are called for operations that fail for lack of space, directly or when a pool's result arrives."""

        def refuse(*args: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        told: list[str] = []
        self.disk.on_no_space(lambda error: told.append(error.message))
        file = self.disk.open("f", True)
        self.patch(file_module, "write_fully", refuse)
        self.assertRaises(ApiError, file.write, 0, [b"x"])
        self.assertEqual(told, [f"no space to append to f: {os.strerror(errno.ENOSPC)}"])
        self.patch(disk_module.os, "replace", refuse)
        failed = self.disk.submit(IOPool.BACKGROUND, self.disk.replace, "g", b"x")
        self.failureResultOf(self.reactor.run_until(failed), ApiError)
        self.assertEqual(told[1:], [f"no space to write g: {os.strerror(errno.ENOSPC)}"])

    def test_space(self) -> None:
        """The space of the file system, as this user may have it."""
        space, found = self.disk.space(), os.statvfs(self.root)
        assert space is not None
        self.assertEqual(space.total_bytes, found.f_blocks * found.f_frsize)
        self.assertTrue(0 < space.usable_bytes <= space.total_bytes)
        self.patch(disk_module.os, "statvfs", lambda path: os.stat(path + "/missing"))
        self.assertIsNone(self.disk.space())

    def test_file_closes_after_a_failed_write(self) -> None:
        """A file whose last write was refused closes with its last reference, without the garbage collector."""

        def refuse(*args: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        file = self.disk.open("f", True)
        fd = file.fileno()
        self.patch(file_module, "write_fully", refuse)
        gc.disable()
        self.addCleanup(gc.enable)
        with contextlib.suppress(ApiError):
            file.write(0, [b"x"])
        del file
        self.assertRaises(OSError, os.fstat, fd)

    def test_too_many_open_files(self) -> None:
        """Without descriptors an operation is refused with a hint; the directory stays in use."""

        def refuse(*args: object) -> int:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        with self.subTest():
            self.patch(disk_module.os, "open", refuse)
            error = self.assertRaises(ApiError, self.disk.open, "f", True)
            self.assertIn("ulimit -n", error.message)
            self.assertIsNone(self.disk.failure)
            self.assertIn("ulimit -n", self.assertRaises(ApiError, self.disk.sync_directory, "").message)
            self.assertIsNone(self.disk.failure)

    def test_failed_sync(self) -> None:
        """A failed fdatasync in a pool takes the directory offline, for all that comes and all that is queued."""

        def fail(fd: int) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        told: list[StorageError] = []
        self.disk.on_failure(told.append)
        file = self.disk.open("f", create=True)
        self.patch(file_module, "sync_data", fail)
        first, second = self.disk.submit(IOPool.SYNC, file.sync), self.disk.submit(IOPool.SYNC, int)
        self.failureResultOf(self.reactor.run_until(first), StorageError)
        self.failureResultOf(self.reactor.run_until(second), StorageError)
        self.failureResultOf(self.disk.submit(IOPool.READ, int), StorageError)
        self.assertRaises(StorageError, file.write, 0, [b"x"])
        self.assertRaises(StorageError, self.disk.replace, "g", b"")
        self.assertEqual(len(told), 1)

    def test_lock(self) -> None:
        """A second broker on the directory is refused, in this process or another, until the first lets go."""
        self.disk.lock()
        other = Disk(self.root, self.reactor)
        message = str(self.assertRaises(ConfigError, other.lock))
        self.assertIn(f"process {os.getpid()}", message)
        script = (
            "import sys; from logbus.storage.filesystem.disk import Disk; from logbus.errors import ConfigError\n"
            "try: Disk(sys.argv[1], None).lock()\n"
            "except ConfigError: sys.exit(7)"
        )
        env = {**os.environ, "PYTHONPATH": str(Path(logbus.__file__).parent.parent)}
        self.assertEqual(subprocess.run([sys.executable, "-c", script, self.root], env=env, check=False).returncode, 7)
        self.wait(self.disk.close())
        other.lock()
        self.wait(other.close())

    def test_threads_end(self) -> None:
        """Closing ends the pools' threads, after what was queued."""
        before = threading.active_count()
        work = [self.disk.submit(pool, int) for pool in IOPool]
        self.wait(self.disk.close())
        for done in work:
            self.successResultOf(done)
        self.assertEqual(threading.active_count(), before)

    def test_directories(self) -> None:
        """Log directories are created when they are locked, not before; what cannot be one is refused by name."""
        self.disk.replace("file", b"")
        first, second = disks_at([f"{self.root}/a/b", f"{self.root}/file"], self.reactor)
        self.assertEqual((first.root, os.path.exists(first.root)), (f"{self.root}/a/b", False))
        first.lock()
        self.assertTrue(os.path.isdir(first.root))
        message = str(self.assertRaises(ConfigError, second.lock))
        self.assertIn(f"{self.root}/file", message)
        for disk in (first, second):
            self.wait(disk.close())
