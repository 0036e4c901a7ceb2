"""Syncs of files: in threads that know no Python, and the plain way where those were not compiled."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import threading
import time
from collections.abc import Sequence
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFDSet, IReadDescriptor
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SkipTest, SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from logbus.errors import ApiError, StorageError
from logbus.storage.filesystem import native_syncs
from logbus.storage.filesystem.disk import Disk
from logbus.storage.filesystem.native_syncs import NativeSyncs, SyncThreads
from logbus.storage.istorage import IFile
from tests.storage.filesystem.test_disk import Mailbox

DEADLINE = 120
PLENTY = 1 << 50


def readable(*readers: Any) -> list[Any]:
    """Those that can be read, when one can. Others may have left no descriptor that select() takes."""
    poll, by_descriptor = select.poll(), {}
    for reader in readers:
        descriptor = reader if isinstance(reader, int) else reader.fileno()
        by_descriptor[descriptor] = reader
        poll.register(descriptor, select.POLLIN)
    return [by_descriptor[descriptor] for descriptor, _ in poll.poll(DEADLINE * 1000)]


def inode(descriptor: int) -> tuple[int, int] | None:
    """Of an open file; None: there is none with this descriptor."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


@implementer(IReactorFDSet)
class FDMailbox(Mailbox):
    """A mailbox that also reads descriptors and has turns; an empty message wakes it for calls of threads."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.callLater = self.clock.callLater
        self.readers: list[Any] = []
        self.wake_read, self.wake_write = os.pipe()

    def addReader(self, reader: Any) -> None:
        self.readers.append(reader)

    def removeReader(self, reader: Any) -> None:
        self.readers.remove(reader)

    def callFromThread(self, callable: Any, *args: Any, **kw: Any) -> None:
        super().callFromThread(callable, *args, **kw)
        os.write(self.wake_write, b"!")

    def addWriter(self, writer: Any) -> None:
        raise AssertionError("nothing is written")

    removeWriter = removeAll = getReaders = getWriters = addWriter

    def run_until(self, deferred: Deferred[Any]) -> Deferred[Any]:
        fired: list[None] = []
        deferred.addBoth(lambda result: (fired.append(None), result)[1])
        while not fired:
            self.clock.advance(0)
            ready = readable(self.wake_read, *self.readers)
            assert ready, "nothing came from the threads"
            for one in ready:
                if one != self.wake_read:
                    one.doRead()
                    continue
                os.read(self.wake_read, 1)
                callable, args, kw = self.calls.pop(0)
                callable(*args, **kw)
        return deferred

    def end(self) -> None:
        os.close(self.wake_read)
        os.close(self.wake_write)


class PlainTests(SynchronousTestCase):
    """A disk syncs files, without the compiled threads."""

    kind: type[SyncThreads] | None = None

    def setUp(self) -> None:
        self.patch(native_syncs, "THREADS", self.kind)
        directory = TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = directory.name
        self.reactor = FDMailbox()
        self.addCleanup(self.reactor.end)
        self.disk = Disk(self.root, self.reactor)
        self.addCleanup(lambda: self.reactor.run_until(self.disk.close()))

    def written(self, count: int) -> Sequence[IFile]:
        files = [self.disk.open(f"f{n}", create=True) for n in range(count)]
        for file in files:
            file.write(0, [b"record"])
        return files

    def unsyncable(self) -> IFile:
        """A file whose sync fails: a pipe."""
        os.mkfifo(f"{self.root}/pipe")
        return self.disk.open("pipe")

    def test_callers(self) -> None:
        """Each of many callers is told when all of its files are synced, again and again."""
        files = self.written(60)
        for _ in range(5):
            waiting = [self.disk.sync(files[n : n + 1 + n % 3]) for n in range(58)]
            for one in waiting:
                self.assertIsNone(self.successResultOf(self.reactor.run_until(one)))

    def test_failure(self) -> None:
        """One failed sync is a failed disk: nothing else is confirmed, and the file is named once."""
        told: list[StorageError] = []
        self.disk.on_failure(told.append)
        first, second = self.written(2)
        failed = self.disk.sync([first, self.unsyncable(), second])
        self.failureResultOf(self.reactor.run_until(failed), StorageError)
        self.failureResultOf(self.disk.sync([first]), StorageError)
        self.assertRaises(StorageError, first.write, 6, [b"x"])
        self.assertEqual(len(told), 1)
        self.assertIn("pipe", str(told[0]))
        self.assertIn(os.strerror(errno.EINVAL), str(told[0]))

    def test_late_confirmation(self) -> None:
        """A sync that ends well after the disk failed is not confirmed."""
        waiting = self.disk.sync(self.written(1))
        self.disk.fail(StorageError("a write failed"))
        self.failureResultOf(self.reactor.run_until(waiting), StorageError)

    def test_held_descriptor(self) -> None:
        """A file that everyone else let go stays open until it is synced: no other one gets its descriptor before."""
        files = list(self.written(1))
        fd = files[0].fileno()
        waiting = self.disk.sync(files)
        files = []
        node = inode(fd)
        self.assertIsNotNone(node)
        self.successResultOf(self.reactor.run_until(waiting))
        del waiting
        # A thread that has told of the end may be about to let the file go; then anybody may get the number.
        deadline = time.monotonic() + DEADLINE
        while inode(fd) == node:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.001)

    def test_close(self) -> None:
        """Closing finishes what was queued; a disk that synced nothing closes, too."""
        self.successResultOf(self.reactor.run_until(Disk(self.root, self.reactor).close()))
        waiting = [self.disk.sync([file]) for file in self.written(20)]
        closed = self.disk.close()
        self.successResultOf(self.reactor.run_until(closed))
        for one in waiting:
            self.successResultOf(one)
        self.assertEqual(self.reactor.readers, [])

    def test_close_by_a_caller(self) -> None:
        """Whoever is told that files are synced may close the disk at once."""
        closed: list[Deferred[None]] = []
        waiting = self.disk.sync(self.written(1)).addCallback(lambda _: closed.append(self.disk.close()))
        self.reactor.run_until(waiting)
        self.reactor.run_until(closed[0])
        self.assertEqual(self.reactor.readers, [])

    def test_unused_descriptors(self) -> None:
        """Syncs and closing leave no descriptor open."""
        before = self.open_files()
        disk = Disk(self.root, self.reactor)
        file = disk.open("other", create=True)
        self.successResultOf(self.reactor.run_until(disk.sync([file])))
        self.successResultOf(self.reactor.run_until(disk.close()))
        del file
        self.assertEqual(self.open_files(), before)

    def open_files(self) -> set[str]:
        """The descriptors of this disk's files, and of eventfds."""
        found = set()
        for descriptor in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                found.add(f"{descriptor} {os.readlink(f'/proc/self/fd/{descriptor}')}")
        return {each for each in found if self.root in each or "eventfd" in each}


class NativeTests(PlainTests):
    """The same in the compiled threads."""

    def setUp(self) -> None:
        self.kind = native_syncs.THREADS
        if self.kind is None:
            raise SkipTest("not compiled")
        super().setUp()

    def test_no_threads_of_python(self) -> None:
        """Python knows nothing of the threads."""
        before = threading.active_count()
        self.successResultOf(self.reactor.run_until(self.disk.sync(self.written(30))))
        self.assertEqual(threading.active_count(), before)


class SlowThreads:
    """Threads whose syncs end when the test says so."""

    together = 0

    def __init__(self, most: int, file_system: int) -> None:
        self.begun: list[tuple[int, int]] = []
        self.calls = 0
        self.over: list[tuple[int, int]] = []
        self.stopped = False

    def fileno(self) -> int:
        return -1

    def submit(self, wanted: Sequence[tuple[int, int]]) -> None:
        self.begun.extend(wanted)
        self.calls += 1

    def take(self) -> list[tuple[int, int]]:
        taken, self.over = self.over, []
        return taken

    def stop(self) -> None:
        self.stopped = True


class SlowTests(SynchronousTestCase):
    """Syncs that take as long as they like."""

    def setUp(self) -> None:
        self.patch(native_syncs, "THREADS", SlowThreads)
        directory = TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.reactor = FDMailbox()
        self.addCleanup(self.reactor.end)
        self.disk = Disk(directory.name, self.reactor)
        self.files = [self.disk.open(name, create=True) for name in "abc"]

    def end(self, *which: int, error: int = 0) -> None:
        """Have a turn end, and let some of the syncs that began end."""
        self.reactor.clock.advance(0)
        [reader] = self.reactor.readers
        reader.threads.over = [(reader.threads.begun[n][0], error) for n in which]
        reader.doRead()

    def test_order(self) -> None:
        """Callers are told in the order in which their syncs end, each after the last of its files."""
        one, two = self.disk.sync(self.files[:2]), self.disk.sync(self.files[2:])
        [reader] = self.reactor.readers
        self.assertTrue(verifyObject(IReadDescriptor, reader))
        self.end(2)
        self.assertIsNone(self.successResultOf(two))
        self.end(0)
        self.assertNoResult(one)
        self.end(1)
        self.assertIsNone(self.successResultOf(one))
        self.end()

    def test_turns(self) -> None:
        """A sync begins at once if none runs, else with all others of the reactor's turn, at its end."""
        one, two, three = (self.disk.sync([file]) for file in self.files)
        [reader] = self.reactor.readers
        threads, clock = reader.threads, self.reactor.clock
        self.assertEqual([fd for _, fd in threads.begun], [self.files[0].fileno()])
        clock.advance(0)
        self.assertEqual([fd for _, fd in threads.begun], [file.fileno() for file in self.files])
        self.assertEqual(threads.calls, 2)
        self.end(0, 1, 2)
        for each in one, two, three:
            self.assertIsNone(self.successResultOf(each))
        self.disk.sync(self.files)
        self.assertEqual(threads.calls, 3)
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_what_cannot_begin(self) -> None:
        """Those that a turn asked for fail, if there is no memory for them; a disk that is closed does not wait."""
        one, two, three = (self.disk.sync([file]) for file in self.files)
        [reader] = self.reactor.readers

        def refuse(wanted: Sequence[tuple[int, int]]) -> None:
            raise MemoryError

        self.patch(reader.threads, "submit", refuse)
        closed = self.disk.close()
        reader.threads.over = [(reader.threads.begun[0][0], 0)]
        reader.doRead()
        self.assertIsNone(self.successResultOf(one))
        self.assertNoResult(closed)
        self.reactor.clock.advance(0)
        for each in two, three:
            self.failureResultOf(each, MemoryError)
        self.assertIsNone(self.successResultOf(closed))

    def test_no_thread_can_be_started(self) -> None:
        """The sync fails, as one without space does: the directory stays in use, and the next one is tried."""

        def refuse(wanted: Sequence[tuple[int, int]]) -> None:
            raise RuntimeError("can't start new thread")

        first = self.disk.sync(self.files)
        self.end(0, 1, 2)
        self.assertIsNone(self.successResultOf(first))
        [reader] = self.reactor.readers
        with patch.object(reader.threads, "submit", refuse):
            failed = self.failureResultOf(self.disk.sync(self.files), ApiError)
        self.assertIn("can't start new thread", failed.getErrorMessage())
        synced = self.disk.sync(self.files[:1])
        self.end(3)
        self.assertIsNone(self.successResultOf(synced))

    def test_close_in_turn(self) -> None:
        """A disk that is closed in a turn still syncs what the turn asked for."""
        one, two = self.disk.sync(self.files[:1]), self.disk.sync(self.files[1:])
        closed = self.disk.close()
        [reader] = self.reactor.readers
        reader.threads.over = [(ticket, 0) for ticket, _ in reader.threads.begun]
        reader.doRead()
        self.assertIsNone(self.successResultOf(one))
        self.assertNoResult(closed)
        self.end(1, 2)
        self.assertIsNone(self.successResultOf(two))
        self.assertIsNone(self.successResultOf(closed))

    def test_close_waits(self) -> None:
        """A disk is closed when its last sync ended, also if that failed."""
        waiting = self.disk.sync(self.files)
        closed = self.disk.close()
        [reader] = self.reactor.readers
        self.end(0, 1)
        self.assertNoResult(closed)
        self.assertFalse(reader.threads.stopped)
        self.end(2, error=errno.EIO)
        self.failureResultOf(waiting, StorageError)
        self.assertIsNone(self.successResultOf(closed))
        self.assertTrue(reader.threads.stopped)

    def test_lost_reactor(self) -> None:
        """A reactor that ends without closing the disk leaves its callers waiting, and breaks nothing."""
        waiting = self.disk.sync(self.files)
        [reader] = self.reactor.readers
        assert isinstance(reader, NativeSyncs)
        reader.connectionLost(Failure(RuntimeError()))
        self.assertIn("sync", reader.logPrefix())
        self.assertNoResult(waiting)


class ThreadTests(SynchronousTestCase):
    """The compiled threads by themselves."""

    def setUp(self) -> None:
        if native_syncs.THREADS is None:
            raise SkipTest("not compiled")
        self.kind: Any = native_syncs.THREADS
        directory = TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = directory.name
        self.fds = [os.open(f"{self.root}/{n}", os.O_RDWR | os.O_CREAT) for n in range(40)]
        for fd in self.fds:
            os.write(fd, b"record")
            self.addCleanup(os.close, fd)

    def wanted(self, ticket: int) -> list[tuple[int, int]]:
        return [(ticket, fd) for fd in self.fds]

    def taken(self, threads: Any, count: int) -> list[tuple[int, int]]:
        """Wait until so many syncs ended."""
        found: list[tuple[int, int]] = []
        while len(found) < count:
            assert readable(threads), "nothing came from the threads"
            found += threads.take()
        assert len(found) == count
        return found

    def test_each_file(self) -> None:
        """Each file comes back with its ticket, and a file that cannot be synced with its error."""
        threads = self.kind(3)
        self.addCleanup(threads.stop)
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        self.addCleanup(os.close, writer)
        for ticket, fd in enumerate(self.fds):
            threads.submit([(ticket, fd)])
        threads.submit([(1 << 40, writer), (1 << 40, self.fds[0])])
        threads.submit([])
        found = sorted(self.taken(threads, 42))
        self.assertEqual(found, [*((n, 0) for n in range(40)), (1 << 40, 0), (1 << 40, errno.EINVAL)])
        self.assertEqual((threads.take(), threads.together), ([], 0))

    def test_together(self) -> None:
        """Files that wait together are served by one call if little is unsynced, else each by itself."""
        there = os.open(self.root, os.O_RDONLY)
        self.addCleanup(os.close, there)
        for little, calls in ((PLENTY, 1), (-1, 0)):
            threads = self.kind(1, there, little)
            self.addCleanup(threads.stop)
            threads.submit(self.wanted(7))
            self.assertEqual(self.taken(threads, 40), [(7, 0)] * 40)
            self.assertEqual(threads.together, calls)

    def test_failure_of_all(self) -> None:
        """If the one call fails, it fails for all its files; one of another file system is synced by itself."""
        there = os.open(self.root, os.O_PATH)
        self.addCleanup(os.close, there)
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        self.addCleanup(os.close, writer)
        threads = self.kind(1, there, PLENTY)
        self.addCleanup(threads.stop)
        threads.submit([*self.wanted(7), (7, writer)])
        self.assertEqual(self.taken(threads, 41), [(7, errno.EBADF)] * 40 + [(7, errno.EINVAL)])

    def test_more_threads_when_much_is_unsynced(self) -> None:
        """All threads are used where one call would not do, and the files all come back."""
        there = os.open(self.root, os.O_RDONLY)
        self.addCleanup(os.close, there)
        threads = self.kind(8, there, -1)
        self.addCleanup(threads.stop)
        for ticket in range(20):
            threads.submit(self.wanted(ticket))
        self.assertEqual(sorted(self.taken(threads, 800)), [(n, 0) for n in range(20) for _ in self.fds])

    def wait_for_tasks(self, count: int) -> None:
        deadline = time.monotonic() + DEADLINE
        while len(os.listdir("/proc/self/task")) > count:
            assert time.monotonic() < deadline, "threads are left"
            os.sched_yield()

    def test_end(self) -> None:
        """Threads end when they are stopped, after what was queued, or with the object; then nothing is taken in."""
        before = len(os.listdir("/proc/self/task"))
        threads = self.kind(4)
        threads.submit(self.wanted(0))
        threads.stop()
        threads.stop()
        self.wait_for_tasks(before)
        self.assertRaises(RuntimeError, threads.submit, self.wanted(0))
        self.assertEqual((threads.take(), threads.fileno()), ([], -1))
        dropped = self.kind(4)
        dropped.submit(self.wanted(0))
        del dropped
        self.wait_for_tasks(before)

    def test_fork(self) -> None:
        """In a child of the process they take nothing, and their end does not wait for threads that are not there."""
        threads = self.kind(2)
        self.addCleanup(threads.stop)
        threads.submit(self.wanted(0))
        child = os.fork()
        if child == 0:
            try:
                threads.submit(self.wanted(1))
            except RuntimeError:
                threads.stop()
                del threads
                os._exit(7)
            os._exit(1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
        self.assertEqual(self.taken(threads, 40), [(0, 0)] * 40)
