"""Reads from remote segments, of a store in a directory and of one that is none."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import ANY

from hypothesis import given
from hypothesis import strategies as st
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
from tests.storage.remote.test_window_file import ColdCache

SIZE = 300_000
"""Of a batch: each is a chunk."""
COUNT = 7


class RemoteReaderTests(SynchronousTestCase):
    """A segment of seven chunks, two in a window."""

    def setUp(self) -> None:
        self.fill(COUNT, SIZE)

    def fill(self, count: int, size: int) -> None:
        """Store a segment of so many batches, whose records have so many bytes."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name)
        self.segment: RemoteLogSegment = remote(1, 0, count)
        data = b"".join(batch(bytes([n]) * size, base_offset=n) for n in range(count))
        self.data, self.size = data, len(data) // count
        self.patch(chunk_table, "WINDOW_BYTES", 2 * max(self.size, chunk_table.CHUNK_BYTES))
        self.store = FsspecStorage.open(f"file://{directory.name}", {})
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.flush()
            files = segment_upload.SegmentFiles(file, len(data), {})
            segment_upload.upload(self.store, self.segment, files, lambda size: None)

    def reader(self, *, is_local: bool, limit: int = 1 << 30) -> RemoteReader:
        """A reader whose threads are done when they begin."""
        self.patch(self.store, "_is_local", is_local)

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

    def log_file(self) -> Path:
        """The object with the records."""
        (path,) = self.path.rglob(f"*{object_names.LOG}")
        return path

    def overwrite(self, position: int, data: bytes) -> None:
        """Damage the records."""
        with self.log_file().open("r+b") as file:
            file.seek(position)
            file.write(data)

    def test_damage_behind_a_network(self) -> None:
        """A bit that is another one is found before anything is sent."""
        self.overwrite(3 * self.size + 100, b"?")
        reader = self.reader(is_local=False)
        self.assertEqual(self.read(reader, 0, 1)[1], 1)
        error = self.assertRaises(ApiError, self.read, reader, 2, 1)
        self.assertIn(f"bytes {3 * self.size} to {4 * self.size} does not match (offsets from 3 on)", str(error))
        self.flushLoggedErrors()

    def test_damage_in_a_directory(self) -> None:
        """Records are sent as they are there, as those of local segments: whoever reads them checks the batches."""
        self.overwrite(3 * self.size + 100, b"?")
        reader = self.reader(is_local=True)
        data, end = self.read(reader, 3, 1)
        self.assertEqual((data[:100], data[100:101], end), (self.data[3 * self.size :][:100], b"?", 4))

    def test_no_batch_in_a_directory(self) -> None:
        """Where no batch is, or another one than the table says, nothing is sent."""
        for position, data, problem in (
            (3 * self.size + 16, b"\x07", f"at {3 * self.size}: there is no record batch (magic 7)"),
            (4 * self.size + 7, b"\x09", f"at {4 * self.size} is offset 9 instead of 4"),
        ):
            self.overwrite(position, data)
            reader = self.reader(is_local=True)
            error = self.assertRaises(ApiError, self.read, reader, position // self.size, 1)
            self.assertEqual(
                str(error), f"{self.store.where}/{self.log_file().relative_to(self.path)} is damaged: {problem}"
            )
            self.assertEqual(reader.errors, 1)
            self.assertEqual(self.read(reader, 2, 1)[0], self.data[2 * self.size : 3 * self.size])

    def test_missing_bytes(self) -> None:
        """An object that is too short is found before anything is sent."""
        os.truncate(self.log_file(), 5 * self.size + 7)
        for is_local in (True, False):
            error = self.assertRaises(ApiError, self.read, self.reader(is_local=is_local), 5, 1)
            self.assertIn(f"it ends at {5 * self.size + 7} of {len(self.data)} bytes", str(error))
        self.flushLoggedErrors()

    def test_one_descriptor(self) -> None:
        """All windows of a segment in a directory are sent from one open file, which goes with the last of them."""
        reader = self.reader(is_local=True)
        opened: list[int] = []
        open_file = self.store.open_file

        def opening(name: str) -> int | None:
            found = open_file(name)
            assert found is not None
            opened.append(found)
            return found

        self.patch(FsspecStorage, "open_file", lambda _, name: opening(name))
        for offset in range(0, COUNT, 2):
            self.read(reader, offset, 1)
        self.assertEqual(len(opened), 1)
        reader.drop(self.segment.segment_id)
        self.assertRaises(OSError, os.fstat, opened[0])
        self.read(reader, 0, 1)
        self.assertEqual(len(opened), 2)

    def test_a_file_that_fails(self) -> None:
        """It is opened again by whoever comes next."""
        reader = self.reader(is_local=True)
        self.read(reader, 0, 1)
        (window,) = reader.windows._windows.values()
        with tempfile.TemporaryDirectory() as directory:
            descriptor = os.open(directory, os.O_RDONLY)
            os.dup2(descriptor, window.file.fileno())  # type: ignore[union-attr]
            os.close(descriptor)
        self.assertRaises(ApiError, self.read, reader, 2, 1)
        self.assertEqual(self.read(reader, 2, 1)[1], 3)
        self.flushLoggedErrors()

    def test_what_the_page_cache_has_dropped(self) -> None:
        """It is loaded again before a read looks at it."""
        reader = self.reader(is_local=True)
        cold = ColdCache()
        reader._loads._cache = cold
        self.read(reader, 0, 1)
        self.read(reader, 2, 1)
        cold.cold = 2 * self.size + 5
        self.assertEqual(reader.read(self.segment, 0, 1, COUNT, True), (ANY, 1))
        missing = self.assertRaises(NotCached, reader.read, self.segment, 2, 1, COUNT, True)
        self.successResultOf(missing.load())
        cold.cold = -1
        self.assertEqual(reader.read(self.segment, 2, 1, COUNT, True), (ANY, 3))
        self.assertEqual(reader.fetches, 4)

    @given(st.lists(st.tuples(st.integers(0, 59), st.integers(0, 4_000), st.integers(1, 60))), st.booleans())
    def test_any_reads(self, reads: list[tuple[int, int, int]], is_local: bool) -> None:
        """
        Whole batches from the offset on, below the bound, and no more than fit, but for the first; whoever asks for
        many gets three quarters of what fits at least.
        """
        if self.segment.end_offset == COUNT:
            self.patch(chunk_table, "CHUNK_BYTES", 400)
            self.fill(60, 30)
        self.check(reads, is_local)
        if not is_local:
            return
        reader = self.reader(is_local=True)
        for offset in range(0, 60, 3):
            # All windows are there then.
            self.read(reader, offset, 1, 60)
        for offset, most, _ in reads:
            data, end = self.read(reader, offset, most, 60)
            self.assertTrue(end == 60 or len(data) > 0.75 * most - self.size, (offset, most, end))

    def check(self, reads: list[tuple[int, int, int]], is_local: bool) -> None:
        """Read from offsets, at most so many bytes, up to a bound."""
        reader = self.reader(is_local=is_local)
        for offset, most, bound in reads:
            if offset < bound:
                data, end = self.read(reader, offset, most, bound)
                self.assertEqual(data, self.data[offset * self.size : end * self.size])
                self.assertTrue(offset < end <= bound)
                self.assertLessEqual(len(data), max(most, self.size))
