"""Cold reads: the check of the page cache, waiting readers, and concurrency."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import resource
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logbus.errors import StorageError
from logbus.storage.filesystem import page_cache as residency_module
from logbus.storage.filesystem.cached_only import CachedOnly
from logbus.storage.filesystem.disk import Disk
from logbus.storage.filesystem.file import File
from logbus.storage.filesystem.page_cache import STRETCH, PageCache
from logbus.storage.filesystem.read_ahead import CHUNK, HOT, MAX_CONCURRENT_READS
from logbus.storage.istorage import IOPool, NotCached
from logbus.testing.simulation.environment.memory_disk import MemoryDisk, broken
from logbus.testing.simulation.environment.memory_file import MemoryFile
from tests.storage.filesystem.test_disk import Mailbox

SIZE = 6 * CHUNK

MAX_EVICTIONS = 100
"""A page that another processor has just put into the cache is dropped by a later attempt only."""


def cached(fd: int, position: int, length: int = 1) -> bool:
    """Whether all these bytes are in the page cache."""
    buffer = bytearray(length)
    try:
        return os.preadv(fd, [buffer], position, os.RWF_NOWAIT) == length
    except BlockingIOError:
        return False


def resident_pages(fd: int) -> int:
    """How many pages of a file are in the page cache; unlike a read, the question has none read."""
    size = os.fstat(fd).st_size
    with mmap.mmap(fd, size, access=mmap.ACCESS_COPY) as mapped:
        start = ctypes.c_char.from_buffer(mapped)
        pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        failed = ctypes.CDLL(None, use_errno=True).mincore(
            ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size), pages
        )
        del start  # else the map cannot be closed
    if failed:
        raise OSError(ctypes.get_errno(), "mincore")
    return sum(page & 1 for page in pages)


def evict(fd: int) -> None:
    """
    Drop a file from the page cache.

    :raises SkipTest: the file system does not let go, or does not tell.
    """
    try:
        # Of a file that was just written, this has nothing read.
        cached(fd, 0)
    except OSError as error:
        raise SkipTest(f"the file system does not say what is cached: {error}") from error
    os.fdatasync(fd)
    for _ in range(MAX_EVICTIONS):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        if not resident_pages(fd):
            return
    raise SkipTest("the file system keeps what it was told to drop")


class QueueTests(SynchronousTestCase):
    """On a disk in memory whose reads are held."""

    def setUp(self) -> None:
        self.disk = MemoryDisk()
        self.disk.held.add(IOPool.READ)
        self.file = self.a_file("log")

    def a_file(self, name: str) -> MemoryFile:
        file = self.disk.open(name, True)
        file.write(0, [bytes(SIZE if name == "log" else 1)])
        self.disk.evict(name)
        return file

    def want(self, position: int, length: int = CHUNK) -> Deferred[None] | None:
        return self.file.read_ahead(position, length)

    def test_hot(self) -> None:
        """
        Cached data is not waited for.
        """
        file = self.disk.open("hot", True)
        file.write(0, [bytes(SIZE)])
        self.assertIsNone(file.read_ahead(0, CHUNK))
        self.assertEqual(self.disk.release(IOPool.READ), 0)

    def test_cold(self) -> None:
        """
        A cold chunk is waited for, and the one behind it is begun with it.
        """
        done = self.want(0)
        assert done is not None
        self.assertNoResult(done)
        self.disk.release(IOPool.READ)
        self.successResultOf(done)
        self.assertEqual(self.disk.loads, [("log", 0, CHUNK, CHUNK)])

    def test_a_reader_is_kept_ahead_of(self) -> None:
        """
        After one cold chunk the file is read a chunk ahead of its reader, which does not wait again.
        """
        self.disk.held.clear()
        waits = [self.want(position) for position in range(0, SIZE, CHUNK)]
        self.assertEqual([wait is not None for wait in waits], [True] + 5 * [False])
        ahead = [(position, length) for _, position, length, _ in self.disk.loads[1:]]
        self.assertEqual(ahead, [(position, 0) for position in range(2 * CHUNK, SIZE, CHUNK)])

    def test_a_reader_of_little_at_a_time(self) -> None:
        """
        However small the pieces are, each chunk is begun once.
        """
        self.disk.held.clear()
        waits = [self.want(position, STRETCH // 2) for position in range(0, SIZE, STRETCH // 2)]
        self.assertEqual(sum(wait is not None for wait in waits), 1)
        self.assertEqual(len(self.disk.loads), 6)

    def test_a_few_at_a_time(self) -> None:
        """
        Only a few reads run at a time; the others follow in order.
        """
        files = [self.a_file(f"log{n}") for n in range(MAX_CONCURRENT_READS + 3)]
        waits = [file.read_ahead(0, CHUNK) for file in files]
        self.assertEqual((self.disk.reads.running, len(self.disk.reads)), (MAX_CONCURRENT_READS, 3))
        self.assertEqual(self.disk.release(IOPool.READ, 1), 1)
        self.assertEqual((self.disk.reads.running, len(self.disk.reads)), (MAX_CONCURRENT_READS, 2))
        self.disk.release(IOPool.READ)
        for wait in waits:
            assert wait is not None
            self.successResultOf(wait)
        self.assertEqual([path for path, *_ in self.disk.loads], [file.path for file in files])
        self.assertEqual((self.disk.reads.running, len(self.disk.reads)), (0, 0))

    def test_giving_up(self) -> None:
        """
        A cancelled read fails, and is not begun; one that runs is forgotten when it ends.
        """
        waits = [self.a_file(f"log{n}").read_ahead(0, CHUNK) for n in range(MAX_CONCURRENT_READS + 2)]
        for wait in waits:
            assert wait is not None
            wait.cancel()
            self.failureResultOf(wait, CancelledError)
        self.assertEqual((self.disk.reads.running, len(self.disk.reads)), (MAX_CONCURRENT_READS, 0))
        self.disk.release(IOPool.READ)
        self.assertEqual(len(self.disk.loads), MAX_CONCURRENT_READS)
        self.assertEqual(self.disk.open_files, 1)

    def test_failing_disk(self) -> None:
        """
        An error takes the directory offline, and fails all waiting reads.
        """
        waits = [self.want(0) for _ in range(2000)]
        self.disk.faults = lambda op, path: broken() if op == "read" else None
        self.disk.release(IOPool.READ)
        for wait in waits:
            assert wait is not None
            self.failureResultOf(wait, StorageError)
        self.assertIsNotNone(self.disk.failure)

    def test_error_while_reading_ahead(self) -> None:
        """An error while reading ahead takes the directory offline, even if no reader waits for the data."""
        self.want(0)
        self.disk.release(IOPool.READ)
        self.disk.faults = lambda op, path: broken() if op == "read" else None
        self.assertIsNone(self.want(CHUNK))
        self.disk.release(IOPool.READ)
        self.assertIsNotNone(self.disk.failure)
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_closing(self) -> None:
        """
        After the directory is closed no more reads begin; waiting and later ones fail.
        """
        waits = [self.a_file(f"log{n}").read_ahead(0, CHUNK) for n in range(MAX_CONCURRENT_READS + 1)]
        self.disk.reads.close()
        for wait in (waits[-1], self.a_file("late").read_ahead(0, CHUNK)):
            assert wait is not None
            self.failureResultOf(wait, StorageError)
        self.disk.release(IOPool.READ)
        self.assertEqual(len(self.disk.loads), MAX_CONCURRENT_READS)

    def test_unknown_cache_state(self) -> None:
        """
        Where the page cache cannot be queried, a thread reads everything first that was not read ahead just before.
        """
        self.disk.held.clear()
        self.patch(MemoryFile, "is_cold", lambda *_: None)
        waits = [self.want(position) for position in range(0, SIZE, CHUNK)]
        self.assertEqual([wait is not None for wait in waits], [True] + 5 * [False])
        self.assertIsNotNone(self.want(0))


class RealFileTests(SynchronousTestCase):
    """A file that was really dropped from the page cache."""

    def setUp(self) -> None:
        directory = TemporaryDirectory(dir=os.environ.get("TMPDIR"))
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        self.mailbox = Mailbox()
        self.disk = Disk(str(self.root), self.mailbox)
        self.addCleanup(self.close)
        self.file = self.disk.open("log", True)
        self.file.write(0, [os.urandom(SIZE)])
        self.fd = self.file.fileno()

    def close(self) -> None:
        self.mailbox.run_until(self.disk.close())

    def reopen(self) -> File:
        """The file as it is for a process that did not write it."""
        self.file = self.disk.open("log")
        self.fd = self.file.fileno()
        return self.file

    def test_recent_writes_are_cached(self) -> None:
        """The end of a file that is written to counts as cached without a query; positions further back are queried."""
        asked: list[int] = []
        self.patch(PageCache, "is_cold", lambda self, fd, position, length: asked.append(position))
        self.file.write(SIZE, [b"more"])
        self.assertIsNone(self.file.read_ahead(SIZE - HOT, HOT))
        self.assertEqual(asked, [])
        self.file.read_ahead(SIZE - HOT - 1, HOT)
        self.assertEqual(asked[:1], [SIZE - HOT - 1])

    def test_cold_becomes_hot(self) -> None:
        """
        A cold chunk is recognized, and is completely in the page cache when the wait for it ends.
        """
        file = self.reopen()
        done = None
        for _ in range(MAX_EVICTIONS):
            evict(self.fd)
            done = file.read_ahead(0, CHUNK)
            if done is not None:  # else the device was quick enough for the question itself to have read all of it
                break
        assert done is not None
        self.successResultOf(self.mailbox.run_until(done))
        self.assertTrue(cached(self.fd, 0, CHUNK))
        self.assertIsNone(file.read_ahead(0, CHUNK))

    def test_a_hole(self) -> None:
        """
        A cached beginning of a chunk does not count: the search for the batch has just read it.
        """
        file = self.reopen()
        evict(self.fd)
        # The kernel shall read no more than it is asked for.
        os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(self.fd, 16 * 1024, 0)
        before = resident_pages(self.fd)
        # Now and then the device is quick enough for the question itself to have read what it asks for.
        self.assertTrue(file.is_cold(0, STRETCH) or resident_pages(self.fd) > before)

    def test_asking_does_not_wait(self) -> None:
        """
        To ask reads little: most of the file is as cold as before.
        """
        file = self.reopen()

        def asked() -> bool:
            evict(self.fd)
            return file.is_cold(0, SIZE) is True and resident_pages(self.fd) < SIZE // mmap.PAGESIZE // 2

        # Once is enough: a quick device reads whole stretches before the question is answered.
        self.assertTrue(any(asked() for _ in range(MAX_EVICTIONS)))

    def test_reads_that_do_not_wait(self) -> None:
        """
        In its context, in its thread, a read of cold bytes tells what is to be loaded; afterwards it returns them.
        """
        file = self.reopen()
        cold = None
        for _ in range(MAX_EVICTIONS):
            evict(self.fd)
            try:
                with CachedOnly(self.disk):
                    file.pread(CHUNK, CHUNK)
            except NotCached as problem:
                cold = problem
                break
        assert cold is not None
        self.assertEqual((cold.file, cold.position, cold.length), (file, CHUNK, CHUNK))
        self.successResultOf(self.mailbox.run_until(cold.load()))
        expected = os.pread(self.fd, SIZE, 0)
        with CachedOnly(self.disk):
            self.assertEqual(file.pread(CHUNK, CHUNK), expected[CHUNK : 2 * CHUNK])
            self.assertEqual(file.pread(CHUNK, SIZE - 10), expected[-10:])
            self.assertEqual(file.pread(CHUNK, SIZE), b"")
            evict(self.fd)
            with CachedOnly(self.disk, on=False):
                self.assertEqual(file.pread(CHUNK, 0), expected[:CHUNK])
            self.patch(PageCache, "read", lambda *_: None)
            in_thread = self.disk.submit(IOPool.READ, file.pread, CHUNK, 0)
            self.assertEqual(self.successResultOf(self.mailbox.run_until(in_thread)), expected[:CHUNK])
            self.assertRaises(NotCached, file.pread, CHUNK, 0)
        self.assertEqual(file.pread(CHUNK, 0), expected[:CHUNK])

    def test_reads_of_a_file_system_without_nowait(self) -> None:
        """Where nothing is known, reads wait as ever."""
        self.patch(self.disk.page_cache, "can_tell", False)
        file = self.reopen()
        evict(self.fd)
        with CachedOnly(self.disk):
            self.assertEqual(len(file.pread(CHUNK, CHUNK)), CHUNK)

    def test_file_system_without_nowait(self) -> None:
        """A file system without non-blocking reads is asked once; from then on everything counts as unknown."""
        calls: list[Any] = []

        def refuse(*args: Any) -> int:
            calls.append(args)
            raise OSError(errno.EOPNOTSUPP, "not here")

        self.patch(os, "preadv", refuse)
        self.patch(residency_module, "is_resident", lambda: None)
        page_cache = PageCache()
        self.assertEqual([page_cache.is_cold(self.fd, 0, CHUNK) for _ in range(3)], [None, None, None])
        self.assertEqual(len(calls), 1)

    def test_pages_that_are_in_memory(self) -> None:
        """Where the file system does not tell, the pages are asked for: all of them, but those of other bytes."""
        resident = residency_module.is_resident()
        if resident is None:
            raise SkipTest("the module that asks for pages is not compiled")
        page_cache, page = PageCache(can_tell=False), mmap.PAGESIZE
        self.assertFalse(page_cache.is_cold(self.fd, 0, SIZE))
        self.assertFalse(page_cache.is_cold(self.fd, SIZE - 1, 1))
        os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_RANDOM)  # No page is read ahead.
        evict(self.fd)
        self.assertIsNone(page_cache.is_cold(self.fd, 0, SIZE))
        os.pread(self.fd, 3 * page, 5 * page)
        for position, length, expected in (
            (5 * page, 3 * page, True),
            (6 * page + 7, 10, True),
            (5 * page - 1, 2, False),
            (8 * page - 1, 1, True),
            (8 * page - 1, 2, False),
            (0, SIZE, False),
            (5 * page, 0, True),
        ):
            self.assertEqual(resident(self.fd, position, length), expected, (position, length))
        self.assertFalse(resident(-1, 0, 1))

    def test_platform_without_nowait(self) -> None:
        """
        Without RWF_NOWAIT and a compiler all is unknown, and is read by a thread first.
        """
        self.patch(residency_module, "is_resident", lambda: None)
        self.disk.page_cache.can_tell = False
        file = self.reopen()
        done = file.read_ahead(0, CHUNK)
        assert done is not None
        self.successResultOf(self.mailbox.run_until(done))

    def test_files_in_memory(self) -> None:
        """
        A file of a memory file system is never cold, whatever the file system says.
        """
        fd = os.memfd_create("file", os.MFD_ALLOW_SEALING)
        self.addCleanup(os.close, fd)
        os.pwrite(fd, bytes(CHUNK), 0)
        self.assertFalse(PageCache(can_tell=False).is_cold(fd, 0, CHUNK))
        self.assertFalse(PageCache().is_cold(fd, 0, CHUNK))

    def test_only_sockets_can_be_sent_to(self) -> None:
        """
        Where a file cannot be sent to nowhere it is read.
        """

        def refuse(*args: Any) -> int:
            raise OSError(errno.ENOTSOCK, "not a socket")

        self.patch(os, "sendfile", refuse)
        file = self.reopen()
        evict(self.fd)
        residency_module.make_resident(self.fd, 0, CHUNK, 0)
        self.assertTrue(cached(self.fd, 0, CHUNK))
        del file

    def test_an_error_of_the_device(self) -> None:
        """
        A chunk that cannot be read takes the directory offline.
        """

        def fail(*args: Any) -> int:
            raise OSError(errno.EIO, "bad sector")

        file = self.reopen()
        self.patch(PageCache, "is_cold", lambda *args: True)
        self.patch(os, "sendfile", fail)
        done = file.read_ahead(0, CHUNK)
        assert done is not None
        self.failureResultOf(self.mailbox.run_until(done), StorageError)
        self.assertIn("bad sector", str(self.disk.failure))

    def test_no_descriptor_is_left(self) -> None:
        """Cold data is read while the process can open no more files: its directory stays in use."""
        file = self.reopen()
        self.patch(PageCache, "is_cold", lambda *args: True)
        spare, limits = os.dup(self.fd), resource.getrlimit(resource.RLIMIT_NOFILE)
        os.close(spare)
        resource.setrlimit(resource.RLIMIT_NOFILE, (spare, limits[1]))
        try:
            self.assertRaises(OSError, os.dup, self.fd)
            done = file.read_ahead(0, CHUNK)
            assert done is not None
            self.successResultOf(self.mailbox.run_until(done))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        self.assertIsNone(self.disk.failure)

    def test_no_thread_can_be_started(self) -> None:
        """Without a thread cold data is not waited for, but sent as what is cached: it is no error of a connection."""

        def refuse(thread: Thread) -> None:
            raise RuntimeError("can't start new thread")

        file = self.reopen()
        self.patch(PageCache, "is_cold", lambda *args: True)
        self.patch(Thread, "start", refuse)
        done = file.read_ahead(0, CHUNK)
        assert done is not None
        self.assertIsNone(self.successResultOf(done))
        self.assertEqual(self.disk.reads.running, 0)

    def test_behind_the_end(self) -> None:
        """
        There is nothing to wait for behind the end of a file.
        """
        self.assertIsNone(self.reopen().read_ahead(SIZE, CHUNK))
        residency_module.make_resident(self.fd, SIZE, CHUNK, CHUNK)
