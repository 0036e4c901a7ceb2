"""
Reads batches from remote storage, through a bounded cache, in threads (Kafka: RemoteLogReader, RemoteIndexCache).

A look-up works on what is in memory. What is not, it reports by :class:`NotFetched`, as look-ups in files do with what
is not in the page cache: whoever serves the request waits until it is loaded, and looks again.

Behind what a reader gets, the next windows are loaded ahead, several at a time, so that a sequential reader waits for
none: the store and the connection are both busy then.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, TypeVar
from uuid import UUID
from weakref import WeakValueDictionary

from attrs import Factory, define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.errors import ApiError, DecodeError, ErrorCode, StorageError
from logbus.metrics import metric
from logbus.records.file_slice import FileSlice
from logbus.storage.istorage import NotCached
from logbus.storage.remote import object_names
from logbus.storage.remote.chunk_table import ChunkTable
from logbus.storage.remote.iremote_storage import ObjectCorrupt, ObjectMissing, RemoteStorage, RemoteStorageError
from logbus.storage.remote.load_queue import LoadQueue
from logbus.storage.remote.read_ahead import ReadAhead
from logbus.storage.remote.remote_log_segment import RemoteLogSegment
from logbus.storage.remote.window_cache import Window, WindowCache, WindowKey
from logbus.storage.remote.window_file import WindowFile, WindowLoads

T = TypeVar("T")

MOST_SMALL = 2000
"""Tables and indexes that are kept."""


ENOUGH = 0.75
"""
Of the bytes that are asked for: a read of whole chunks that has so many ends with them. To look for more batches would
take longer than they do, and where the next read begins is known then.
"""


class NotFetched(NotCached):
    """
    Something that is in remote storage must be loaded first.

    :ivar start: begins that, or joins it; the Deferred fires when it is over, successful or not.
    """

    def __init__(self, what: str, start: Callable[[], Deferred[None]]) -> None:
        Exception.__init__(self, what)
        self._start = start

    def of_whole_file(self) -> NotFetched:
        return self

    def load(self) -> Deferred[None]:
        return self._start()


@define(eq=False)
class RemoteReader:
    """
    The remote segments that readers of this broker use.

    :ivar queue: runs functions in threads; its keys are those of what is loaded.
    :ivar ahead: how far is read ahead of whom.
    :ivar max_wait: seconds that a fetch waits for the store, before it is answered without records.
    :ivar trouble: called with the error of each read that failed, and with None after one that did not.
    """

    _storage: RemoteStorage
    _queue: LoadQueue
    _clock: IReactorTime
    windows: WindowCache
    ahead: ReadAhead
    max_wait: Callable[[], float]
    trouble: Callable[[RemoteStorageError | None], object] = lambda error: None
    fetches: int = metric("logbus_remote_fetch_requests_total", "Reads of objects in remote storage.")
    bytes_read: int = metric("logbus_remote_fetch_bytes_total", "Bytes read from remote storage.")
    errors: int = metric("logbus_remote_fetch_errors_total", "Reads of objects in remote storage that failed.")
    _small: OrderedDict[Hashable, Any] = field(factory=OrderedDict, init=False)
    # Open segments of a store in a directory, while a window or a response has them.
    _files: WeakValueDictionary[UUID, WindowFile] = field(factory=WeakValueDictionary, init=False)
    _loads: WindowLoads = field(default=Factory(lambda self: WindowLoads(self._queue), takes_self=True), init=False)
    _loading: dict[Hashable, list[Deferred[None]]] = field(factory=dict, init=False)
    _failed: dict[Hashable, RemoteStorageError] = field(factory=dict, init=False)
    _wanted: set[Hashable] = field(factory=set, init=False)
    _late: set[Hashable] = field(factory=set, init=False)
    _log = Logger()

    # Batches.

    def read(
        self, segment: RemoteLogSegment, offset: int, max_bytes: int, bound: int, min_one: bool
    ) -> tuple[FileSlice | None, int] | None:
        """
        Whole batches of a segment, beginning with the one that has ``offset`` or the next existing offset.

        :param max_bytes: at most that many bytes, unless the first batch alone is larger and ``min_one`` is true.
        :param bound: nothing at or above this offset.
        :return: the batches, or None behind the last one, and the offset after them; None: nothing fits, or the store
            is slow.
        :raise NotFetched: something must be loaded first.
        :raise ApiError: KAFKA_STORAGE_ERROR: it cannot be loaded.
        """
        table = self.table(segment)
        chunk = 0 if table is None else table.chunk_of(offset)
        while table is not None and chunk < len(table):
            window = self.window(segment, table, chunk)
            if window is None:
                return None
            try:
                start = _start(table, window, chunk, offset)
                if start is None:
                    # The offset is in a gap behind this window's last batch.
                    chunk = table.window_of(chunk).stop
                    continue
                found = self._fitting(segment, table, window, start, offset, max_bytes, bound, min_one)
            except StorageError as problem:
                self.errors += 1
                name = object_names.name_of(segment, object_names.LOG)
                damage = f"{self._storage.where}/{name} is damaged: {problem}"
                self._log.error("{damage}", damage=damage)
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, damage) from problem
            return None if found is None else (window.slice(start, found[0]), found[1])
        return None if table is None else (None, segment.end_offset)

    def _fitting(
        self,
        segment: RemoteLogSegment,
        table: ChunkTable,
        window: Window,
        start: int,
        offset: int,
        max_bytes: int,
        bound: int,
        min_one: bool,
    ) -> tuple[int, int] | None:
        """Where the batches from ``start`` on end that may be read, and the offset after them; None: none may."""
        limit = self.windows.loaded_end(segment.segment_id, window, min(start + max_bytes, table.size))
        end, next_offset = start, offset
        # As many whole chunks as fit: nothing of the segment is looked at for that.
        if limit == table.size <= start + max_bytes and segment.end_offset <= bound:
            return limit, segment.end_offset
        last = min(table.chunk_at(min(start + max_bytes, limit)), table.chunk_of(bound))
        if table.positions[last] > start:
            end, next_offset = table.positions[last], table.base_offsets[last]
            if end == limit or end - start >= max_bytes * ENOUGH:
                return end, next_offset
        for at, after, header in window.batches(end, limit):
            if header.next_offset > bound or (after - start > max_bytes and not (min_one and at == start)):
                break
            end, next_offset = after, header.next_offset
            if end - start >= max_bytes:
                break
        return None if end == start else (end, next_offset)

    def table(self, segment: RemoteLogSegment) -> ChunkTable | None:
        """A segment's table of chunks; raises as :meth:`read`."""
        return self._kept(segment, object_names.CHUNKS, ChunkTable.decode)

    def window(self, segment: RemoteLogSegment, table: ChunkTable, chunk: int) -> Window | None:
        """The window that has a chunk; raises as :meth:`read`."""
        chunks = table.window_of(chunk)
        key = WindowKey(segment.segment_id, table.positions[chunks.start])
        window = self.windows.get(key)
        if window is not None and window.is_cold(table.positions[chunk]):
            self.windows.remove(key)
            window = None
        if window is None and not self._is_late(key):
            raise NotFetched(
                f"{segment.partition} at {table.base_offsets[chunks.start]}",
                lambda: self._wait(key, lambda: self._begin_window(key, segment, table, chunks)),
            )
        return window

    def load_ahead(self, segment: RemoteLogSegment, offset: int, size: int) -> int:
        """
        Begin to load windows of a segment that a reader is about to reach, if they are not loaded.

        :param offset: in the first of them.
        :param size: bytes; a window of which that many reach a part is loaded whole.
        :return: how many bytes are left for the next segment.
        """
        table: ChunkTable | None = self._small.get((segment.segment_id, object_names.CHUNKS))
        if table is None:
            self._begin_small(segment, object_names.CHUNKS, ChunkTable.decode)
            return max(0, size - segment.size)
        chunk = table.chunk_of(offset)
        while size > 0 and chunk < len(table):
            chunks = table.window_of(chunk)
            key = WindowKey(segment.segment_id, table.positions[chunks.start])
            self._begin_window(key, segment, table, chunks)
            chunk = chunks.stop
            size -= table.end(chunk - 1) - key.position
        return max(0, size)

    def _begin_window(self, key: WindowKey, segment: RemoteLogSegment, table: ChunkTable, chunks: range) -> None:
        if key not in self.windows:
            file = self._files.get(segment.segment_id)
            self._begin(key, partial(self._take_window, key), self._read_window, segment, table, chunks, file)

    def _take_window(self, key: WindowKey, window: Window) -> None:
        self.bytes_read += window.size
        if window.file is not None:
            # Several may have been opened at a time.
            window.file = self._files.setdefault(key.segment_id, window.file)
        self.windows.add(key, window)

    def _read_window(
        self, segment: RemoteLogSegment, table: ChunkTable, chunks: range, file: WindowFile | None
    ) -> Window:
        """Runs in a thread."""
        name = object_names.name_of(segment, object_names.LOG)
        start, end = table.positions[chunks.start], table.end(chunks.stop - 1)
        where = f"{self._storage.where}/{name}"
        if file is None and (descriptor := self._storage.open_file(name)) is not None:
            file = WindowFile(descriptor, self._loads)
        if file is not None:
            if (size := file.load(start, end)) < end:
                raise _too_short(where, size, table)
            return Window.of_segment(file, start, end - start)
        whole = self._storage.read(name, start, end)
        view = memoryview(whole)
        for i in chunks:
            _check(table, i, view[table.positions[i] - start : table.end(i) - start], where)
        return Window.of(start, whole)

    # Indexes.

    def small(self, segment: RemoteLogSegment, suffix: str, decode: Callable[[bytes], T]) -> T | None:
        """
        One of a segment's small objects, decoded.

        :param decode: may raise DecodeError.
        :return: None: the store is slow.
        :raise NotFetched: it must be loaded first.
        :raise ApiError: KAFKA_STORAGE_ERROR: it cannot be loaded.
        """
        return self._kept(segment, suffix, decode)

    def _kept(self, segment: RemoteLogSegment, suffix: str, decode: Callable[[bytes], T]) -> T | None:
        key = (segment.segment_id, suffix)
        found: T | None = self._small.get(key)
        if found is not None:
            self._small.move_to_end(key)
        elif not self._is_late(key):
            raise NotFetched(
                f"{segment.partition}{suffix}",
                lambda: self._wait(key, lambda: self._begin_small(segment, suffix, decode)),
            )
        return found

    def _begin_small(self, segment: RemoteLogSegment, suffix: str, decode: Callable[[bytes], Any]) -> None:
        key = (segment.segment_id, suffix)
        self._begin(
            key, partial(self._take_small, key), self._read_small, object_names.name_of(segment, suffix), decode
        )

    def _take_small(self, key: Hashable, found: Any) -> None:
        self._small[key] = found
        while len(self._small) > MOST_SMALL:
            self._small.popitem(last=False)

    def _read_small(self, name: str, decode: Callable[[bytes], Any]) -> Any:
        """Runs in a thread."""
        try:
            return decode(self._storage.read(name))
        except DecodeError as problem:
            raise ObjectCorrupt(f"{self._storage.where}/{name} is damaged: {problem}") from problem

    def drop(self, segment_id: UUID) -> None:
        """Forget a segment that is deleted."""
        self.windows.drop(segment_id)
        for suffix in object_names.ALL:
            self._small.pop((segment_id, suffix), None)

    # Loading.

    def _is_late(self, key: Hashable) -> bool:
        """
        Whether somebody has just waited for it in vain: he gets nothing now.

        :raise ApiError: it cannot be loaded.
        """
        error = self._failed.pop(key, None)
        if error is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        if key in self._late:
            self._late.discard(key)
            return True
        return False

    def _wait(self, key: Hashable, begin: Callable[[], None]) -> Deferred[None]:
        """Fires when it is loaded, or cannot be, or after ``max_wait`` seconds. Concurrent callers share a load."""
        mine: Deferred[None] = Deferred()
        self._wanted.add(key)
        begin()
        self._queue.hurry(key)
        waiting = self._loading.get(key)
        if waiting is None:
            self._wanted.discard(key)
            return succeed(None)
        waiting.append(mine)
        late = self._clock.callLater(self.max_wait(), self._waited, key, mine)
        return mine.addBoth(_cancel, late)

    def _begin(self, key: Hashable, take: Callable[[Any], None], read: Callable[..., Any], *args: Any) -> None:
        if key not in self._loading:
            self._loading[key] = []
            self.fetches += 1
            loading = self._queue.add(key, read, *args)
            loading.addCallbacks(take, self._failure, errbackArgs=(key,)).addBoth(self._loaded, key)

    def _failure(self, failure: Failure, key: Hashable) -> None:
        self.errors += 1
        if isinstance(key, WindowKey):
            # It may be of no more use, as after a restart of a file server.
            self._files.pop(key.segment_id, None)
        error = failure.value
        if not isinstance(error, RemoteStorageError):
            self._log.failure("reading from remote storage", failure)
            error = RemoteStorageError(repr(error))
        if isinstance(error, (ObjectCorrupt, ObjectMissing)):
            self._log.error("{error}", error=error)
        else:
            self.trouble(error)
        self._failed[key] = error

    def _loaded(self, result: object, key: Hashable) -> None:
        waiting = self._loading.pop(key)
        if isinstance(result, Failure):
            self._log.failure("reading from remote storage", result)
        elif key not in self._failed:
            self.trouble(None)
        left = [one for one in waiting if not one.called]
        if key not in self._wanted:
            # It was read ahead: whoever comes for it tries again.
            self._failed.pop(key, None)
        self._wanted.discard(key)
        for one in left:
            one.callback(None)

    def _waited(self, key: Hashable, mine: Deferred[None]) -> None:
        if not mine.called:
            self._late.add(key)
            mine.callback(None)


def _start(table: ChunkTable, window: Window, chunk: int, offset: int) -> int | None:
    """
    Where the first batch from a chunk on begins that ends behind an offset; None: it is not in the window.

    :raise StorageError: what is there is not what the table says.
    """
    begin = table.positions[chunk]
    for at, _, header in window.batches(begin):
        if at == begin and header.base_offset != table.base_offsets[chunk]:
            raise StorageError(f"at {at} is offset {header.base_offset} instead of {table.base_offsets[chunk]}")
        if header.next_offset > offset:
            return at
    return None


def _cancel(result: Any, late: Any) -> Any:
    if late.active():
        late.cancel()
    return result


def _check(table: ChunkTable, i: int, data: memoryview, where: str) -> None:
    """:raise ObjectCorrupt: a chunk is not what was written."""
    position, end = table.positions[i], table.end(i)
    if len(data) < end - position:
        raise _too_short(where, position + len(data), table)
    if not table.is_intact(i, data):
        raise ObjectCorrupt(
            f"{where} is damaged: the CRC of its bytes {position} to {end} does not match (offsets from "
            f"{table.base_offsets[i]} on)"
        )


def _too_short(where: str, end: int, table: ChunkTable) -> ObjectCorrupt:
    return ObjectCorrupt(f"{where} is damaged: it ends at {end} of {table.size} bytes")
