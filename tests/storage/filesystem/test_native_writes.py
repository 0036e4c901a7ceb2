"""Writes ahead, in threads that know no Python."""

from __future__ import annotations

import errno
import mmap
import os
from tempfile import TemporaryDirectory
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase
from zope.interface.verify import verifyObject

from logbus.errors import StorageError
from logbus.storage.filesystem import native_writes
from logbus.storage.filesystem.disk import Disk
from logbus.storage.filesystem.native_writes import NativeWrite
from logbus.storage.filesystem.slow_writes import LARGE
from logbus.storage.istorage import IWriteAhead
from tests.storage.filesystem.test_disk import Mailbox
from tests.storage.filesystem.test_native_syncs import FDMailbox

CONTENT = bytes(range(256)) * 5000


class NativeWritesTests(SynchronousTestCase):
    def setUp(self) -> None:
        if native_writes.THREADS is None:
            raise SkipTest("not compiled")
        directory = TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.reactor = FDMailbox()
        self.addCleanup(self.reactor.end)
        self.disk = Disk(directory.name, self.reactor)
        self.addCleanup(lambda: self.reactor.run_until(self.disk.close()))

    def begin(self, name: str, position: int, data: Any = CONTENT) -> NativeWrite:
        write = self.disk.write_ahead(self.disk.open(name, create=True), position, data)
        assert write is not None
        return write

    def test_several(self) -> None:
        """Each arrives whole, where it belongs, and is told of."""
        writes = [self.begin(f"f{n}", n) for n in range(7)]
        for n, write in enumerate(writes):
            self.assertTrue(verifyObject(IWriteAhead, write))
            self.successResultOf(self.reactor.run_until(write.over))
            self.assertTrue(write.finish())
            self.assertEqual(self.disk.read(f"f{n}"), bytes(n) + CONTENT)

    def test_finish(self) -> None:
        """Waiting for one has it written; its Deferred fires in a turn of its own, once."""
        first, second = self.begin("first", 0), self.begin("second", 0)
        self.assertTrue(second.finish())
        self.assertEqual(self.disk.read("second"), CONTENT)
        self.assertTrue(first.finish())
        self.assertNoResult(first.over)
        self.assertNoResult(second.over)
        self.reactor.clock.advance(0)
        self.successResultOf(first.over)
        self.successResultOf(second.over)

    def test_memory(self) -> None:
        """The memory of a receive buffer cannot be freed while it is read, and can afterwards."""
        memory = mmap.mmap(-1, 1 << 20)
        write = self.begin("f", 0, memoryview(memory)[1:])
        self.assertRaises(BufferError, memory.close)
        self.successResultOf(self.reactor.run_until(write.over))
        memory.close()

    def test_failure(self) -> None:
        """A failed write is told, and no more: whoever writes the same again gets the error."""
        os.mkfifo(f"{self.disk.root}/pipe")
        write = self.begin("pipe", 0)
        self.successResultOf(self.reactor.run_until(write.over))
        self.assertFalse(write.finish())
        self.assertEqual(write.error, errno.ESPIPE)
        self.assertIsNone(self.disk.failure)

    def test_none(self) -> None:
        """A failed disk, a reactor without descriptors, a module that is not compiled: nothing is written ahead."""
        other = Disk(self.disk.root, Mailbox())
        file = self.disk.open("f", create=True)
        self.assertIsNone(other.write_ahead(file, 0, CONTENT))
        self.disk.fail(StorageError("a write failed"))
        self.assertIsNone(self.disk.write_ahead(file, 0, CONTENT))
        self.patch(native_writes, "THREADS", None)
        self.assertIsNone(Disk(self.disk.root, self.reactor).write_ahead(file, 0, CONTENT))

    def test_close(self) -> None:
        """Closing finishes what was begun, and leaves no descriptor."""
        writes = [self.begin(f"f{n}", 0) for n in range(9)]
        self.successResultOf(self.reactor.run_until(self.disk.close()))
        self.assertTrue(all(write.finish() for write in writes))
        self.assertEqual(self.reactor.readers, [])

    def test_when_it_is_worth_it(self) -> None:
        """Large writes that take long are noticed: plain ones, and those of threads; small ones are not looked at."""
        times = iter(range(100))
        slow = self.disk.slow_writes
        slow.seconds = lambda: float(next(times))
        file = self.disk.open("f", create=True)
        file.write(0, [bytes(LARGE - 1)])
        self.assertFalse(self.disk.writes_ahead)
        file.write(0, [b"prefix", bytes(LARGE)])
        self.assertTrue(self.disk.writes_ahead)
        slow.seconds = lambda: 1000.0
        for _ in range(100):
            file.write(0, [bytes(LARGE)])
        self.assertFalse(self.disk.writes_ahead)
        write = self.begin("g", 0)
        slow.seconds = lambda: 1001.0
        self.successResultOf(self.reactor.run_until(write.over))
        self.assertTrue(self.disk.writes_ahead)
        self.patch(native_writes, "THREADS", None)
        self.assertFalse(self.disk.writes_ahead)
