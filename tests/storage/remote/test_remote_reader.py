"""Reads from remote segments, of a store in a directory and of one that is none."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ApiError
from logbus.records.batch import iter_batches
from logbus.storage.istorage import NotCached
from logbus.storage.remote import chunk_table, object_names, segment_upload
from logbus.storage.remote.fsspec_storage import FsspecStorage
from logbus.storage.remote.load_queue import LoadQueue
from logbus.storage.remote.read_ahead import ReadAhead
from logbus.storage.remote.remote_log_segment import RemoteLogSegment
from logbus.storage.remote.remote_reader import RemoteReader
from logbus.storage.remote.window_cache import WindowCache
from tests.storage.builders import batch
from tests.storage.remote.test_remote_log_index import remote

SIZE = 300_000
"""Of a batch: each is a chunk."""
COUNT = 7


class RemoteReaderTests(SynchronousTestCase):
    """A segment of seven chunks, two in a window."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name)
        self.segment: RemoteLogSegment = remote(1, 0, COUNT)
        data = b"".join(batch(bytes([n]) * SIZE, base_offset=n) for n in range(COUNT))
        self.data, self.size = data, len(data) // COUNT
        self.patch(chunk_table, "WINDOW_BYTES", 2 * self.size)
        self.store = FsspecStorage.open(f"file://{directory.name}", {})
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.flush()
            files = segment_upload.SegmentFiles(file, len(data), {})
            segment_upload.upload(self.store, self.segment, files, lambda size: None)

    def reader(self, *, is_local: bool, limit: int = 1 << 30) -> RemoteReader:
        """A reader whose threads are done when they begin."""
        if not is_local:
            self.patch(self.store, "_is_local", False)

        def run(fn: Any, *args: Any) -> Deferred[Any]:
            return maybeDeferred(fn, *args)

        ahead = ReadAhead(limit // 2, lambda: 0.0)
        return RemoteReader(self.store, LoadQueue(run, 2), Clock(), WindowCache(limit), ahead, lambda: 1.0)

    def read(self, reader: RemoteReader, offset: int, max_bytes: int, bound: int = COUNT) -> tuple[bytes, int]:
        """Read as a fetch does: again after what must be loaded."""
        for _ in range(10):
            try:
                found = reader.read(self.segment, offset, max_bytes, bound, True)
                assert found is not None and found[0] is not None
                return found[0].read(), found[1]
            except NotCached as missing:
                missing.load()
        raise AssertionError("it loads for ever")

    def test_all_of_it(self) -> None:
        """One read after the other gets all bytes, whatever fits into one."""
        for is_local in (True, False):
            for most in (1, self.size, self.size + 1, 3 * self.size + 5, 100 * self.size):
                reader, found, offset = self.reader(is_local=is_local), b"", 0
                while offset < COUNT:
                    data, offset = self.read(reader, offset, most)
                    self.assertLessEqual(len(data), max(most, self.size))
                    found += data
                self.assertEqual(found, self.data)

    def test_windows_that_follow_each_other(self) -> None:
        """What is loaded of one file is sent at once; the bound of what may be read holds."""
        reader = self.reader(is_local=True)
        for offset in range(0, COUNT, 2):
            self.read(reader, offset, 1)
        data, end = self.read(reader, 1, 100 * self.size)
        self.assertEqual((data, end), (self.data[self.size :], COUNT))
        data, end = self.read(reader, 1, 100 * self.size, bound=4)
        self.assertEqual(([header.base_offset for _, header in iter_batches(data)], end), ([1, 2, 3], 4))
        data, end = self.read(reader, 1, 4 * self.size + 10)
        self.assertEqual(end, 5)

    def test_damage(self) -> None:
        """A bit that is another one, and bytes that are missing, are found before anything is sent."""
        (path,) = self.path.rglob(f"*{object_names.LOG}")
        with path.open("r+b") as file:
            file.seek(3 * self.size + 100)
            file.write(b"?")
        for is_local in (True, False):
            reader = self.reader(is_local=is_local)
            self.assertEqual(self.read(reader, 0, 1)[1], 1)
            error = self.assertRaises(ApiError, self.read, reader, 2, 1)
            self.assertIn(f"bytes {3 * self.size} to {4 * self.size} does not match (offsets from 3 on)", str(error))
        os.truncate(path, 5 * self.size + 7)
        for is_local in (True, False):
            error = self.assertRaises(ApiError, self.read, self.reader(is_local=is_local), 5, 1)
            self.assertIn(f"it ends at {5 * self.size + 7} of {len(self.data)} bytes", str(error))
        self.flushLoggedErrors()
