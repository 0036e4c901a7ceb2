"""
One cleaning of one log: learn the keys of its dirty part, write anew what stays of it, swap.

Cold data is read in a lane, a megabyte at a time; batches are looked at on the reactor, a few milliseconds at a time.
A batch is not cut: one that takes longer to decompress and read holds the reactor for that long, as it did when it was
produced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field

from logbus.errors import DecodeError
from logbus.records.batch import HEADER_SIZE, BatchHeader, iter_batches, read_header
from logbus.records.checksum import Buffer
from logbus.storage import names
from logbus.storage.aborted import Aborted
from logbus.storage.cleanable import Cleanable, Run
from logbus.storage.compaction import Compaction, learn
from logbus.storage.istorage import Lane
from logbus.storage.keymap import ENTRY_SIZE, KeyMap
from logbus.storage.log import Log
from logbus.storage.pace import Pace
from logbus.storage.segment import Segment
from logbus.storage.swap import Abandoned, check_unchanged, remove, swap
from logbus.storage.transactions import aborted_index, aborted_transactions

CHUNK = 1024 * 1024
"""Bytes read at a time, and written at a time at most."""
SMALL = 64 * 1024
"""Bytes that are read at once if they are in memory."""
_LARGEST = 2**31 - 1
"""Bytes that a segment can have: positions in its index are 32-bit numbers."""
_SMALLEST_RECORD = 8
"""Bytes: how many keys the dirty part can have at the most, unless it is compressed."""
_SMALLEST_MAP = 1024 * 1024


@define(eq=False)
class Cleaning:
    """
    :ivar log: which is cleaned.
    :ivar plan: what of it.
    :ivar map_size: bytes of memory for keys.
    :ivar is_stopped: asked after each pause.
    :ivar end: how far it came: everything below is clean.
    :ivar keys: how many different ones the dirty part had.
    :ivar read_bytes: both passes.
    :ivar written_bytes: of segments that took the place of others.
    """

    log: Log
    plan: Cleanable
    pace: Pace
    map_size: int
    now_ms: int
    is_stopped: Callable[[], bool] = lambda: False
    end: int = field(default=0, init=False)
    keys: int = field(default=0, init=False)
    read_bytes: int = field(default=0, init=False)
    written_bytes: int = field(default=0, init=False)
    compaction: Compaction = field(init=False)

    async def run(self) -> None:
        """
        Clean; :ivar:`end` says how far: less than planned if the keys did not fit into memory.

        :raises Abandoned: the log changed, or is closed, or the cleaner is to stop. What was swapped stays so.
        :raises HalfDone: a swap was not finished; the log must not be cleaned before the next start.
        :raises DecodeError: the log is damaged, or cannot be cleaned.
        :raises ApiError: there is no space; what was begun is removed.
        :raises StorageError: the disk failed, and is offline.
        """
        log, plan = self.log, self.plan
        self.pace.begin()
        segments = tuple(segment for segment in log.segments if segment.base_offset < plan.end)
        check_unchanged(log, segments)
        ends = [*(segment.base_offset for segment in segments[1:]), plan.end]
        keys = await self._learn([s for s, end in zip(segments, ends, strict=True) if end > plan.start])
        self.keys = len(keys)
        self.compaction = Compaction(
            keys,
            self.end,
            self.now_ms,
            log.config.delete_retention_ms,
            {entry.producer_id: entry.last_offset for entry in log.producers if entry.batches},
            {entry.producer_id: entry.epoch for entry in log.producers if not entry.batches},
        )
        reached = [segment for segment in segments if segment.base_offset < self.end]
        following = log.segments[log.segments.index(reached[-1]) + 1].base_offset
        ends = [*(segment.base_offset for segment in reached[1:]), following]
        done = 0
        while done < len(reached):
            done += await self._replace(reached[done:], ends[done:])

    # -- The first pass

    async def _learn(self, dirty: Sequence[Segment]) -> KeyMap:
        plan = self.plan
        size = sum(segment.size for segment in dirty) // _SMALLEST_RECORD * ENTRY_SIZE
        keys = KeyMap(min(self.map_size, max(_SMALLEST_MAP, size)))
        self.end = plan.end
        for segment in dirty:
            position = segment.find(plan.start)
            while position < segment.size:
                data = await self._read(segment, position, dirty)
                batches = list(iter_batches(data))
                aborted = self._aborted(batches)
                for at, header in batches:
                    learnt = learn(keys, data, at, header, plan.start, aborted.of(header) is not None)
                    if learnt < header.next_offset:
                        self.end = learnt
                        return keys
                    position += header.size
                    if self.pace.is_due:
                        await self._rest(dirty)
        return keys

    # -- The second pass

    async def _replace(self, segments: Sequence[Segment], ends: Sequence[int]) -> int:
        """
        Write what stays of the first of these segments into one, and put that in their place, if anything changed.

        :param ends: where each ends.
        :returns: how many these were.
        """
        log, first = self.log, segments[0]
        self._check(segments[:1])
        new = Segment(log.disk, log.files, log.directory, first.base_offset, first.created_ms, names.CLEANED)
        remove(log, new)
        try:
            new.create()
            new.log.pinned = True
            before = self.compaction.changed
            run = await self._thin(segments, ends, new)
            new.seal()
        except BaseException:
            remove(log, new)
            raise
        if (self.compaction.changed > before or len(run) > 1) and any(segment.size for segment in run):
            await swap(log, run, new)
            self.written_bytes += new.size
            self.pace.begin()
        else:
            remove(log, new)
        return len(run)

    async def _thin(self, segments: Sequence[Segment], ends: Sequence[int], new: Segment) -> list[Segment]:
        """Copy what stays of as many segments as have room in the new one; returns these."""
        compaction = self.compaction
        taken: Run[Segment] = Run(self.log.config)
        run = taken.segments
        for segment, end in zip(segments, ends, strict=True):
            if not taken.add(segment, end, new):
                break
            position = 0
            while position < segment.size:
                data = await self._read(segment, position, run)
                out = _Output(new, self.log.config.index_interval_bytes)
                batches = list(iter_batches(data))
                aborted = self._aborted(batches)
                for at, header in batches:
                    left = compaction.left(data, at, header, aborted.of(header))
                    if left is not None:
                        out.add(left)
                    position += header.size
                    if self.pace.is_due:
                        self.pace.moved(out.write())
                        await self._rest(run)
                self.pace.moved(out.write())
        out = _Output(new, self.log.config.index_interval_bytes)
        if (last := compaction.end_of_run()) is not None:
            out.add(last)
        out.write()
        # Of those that ended before nothing is left: nobody need be told of them.
        for segment in run:
            for entry in aborted_index(self.log, segment).ending_from(compaction.end):
                new.aborted.append(entry)
        return run

    # -- Both

    def _aborted(self, batches: Sequence[tuple[int, BatchHeader]]) -> Aborted:
        """Which of these batches belong to transactions that were aborted."""
        if any(header.transactional for _, header in batches):
            return Aborted(aborted_transactions(self.log, batches[0][1].base_offset, batches[-1][1].next_offset))
        return Aborted()

    async def _read(self, segment: Segment, position: int, needed: Sequence[Segment]) -> bytes:
        """
        Whole batches from a position on, at least one, and perhaps a part of the next.

        :raises DecodeError: there is none.
        """
        data = await self._pread(segment, position, CHUNK, needed)
        header = read_header(data)
        if header.size > len(data):
            data = await self._pread(segment, position, header.size, needed)
        if not HEADER_SIZE <= header.size <= len(data):
            raise DecodeError(f"{segment.log.path}: there is no record batch at byte {position}")
        return data

    async def _pread(self, segment: Segment, position: int, size: int, needed: Sequence[Segment]) -> bytes:
        file, length = segment.log.get(), min(size, segment.size - position)
        if length <= SMALL and file.is_cold(position, length) is False:
            # The way to a lane and back costs more than the copy.
            data = file.pread(length, position)
        else:
            asked = self.pace.timers.clock.seconds()
            data = await self.log.disk.submit(Lane.READ, file.pread, length, position)
            self.pace.waited(asked)
        self._check(needed)
        self.read_bytes += len(data)
        self.pace.moved(len(data))
        return data

    async def _rest(self, needed: Sequence[Segment]) -> None:
        await self.pace.rest()
        self._check(needed)

    def _check(self, needed: Sequence[Segment]) -> None:
        if self.is_stopped():
            raise Abandoned(f"{self.log.partition}: the cleaner stops")
        check_unchanged(self.log, needed)


@define(eq=False)
class _Output:
    """
    Batches on their way to the end of a segment, written together.
    """

    segment: Segment
    interval: int
    _batches: list[Buffer] = field(factory=list, init=False)

    def add(self, data: Buffer) -> None:
        """Append a batch."""
        self._batches.append(data)

    def write(self) -> int:
        """
        Write what came; how many bytes it was.

        :raises ApiError: there is no space.
        """
        segment = self.segment
        together = b"".join(self._batches)
        self._batches.clear()
        if not together:
            return 0
        if segment.size + len(together) > _LARGEST:
            raise DecodeError(f"{segment.log.path} would exceed {_LARGEST} bytes; choose a smaller segment.bytes")
        segment.log.get().write(segment.size, (together,))
        for _, header in iter_batches(together):
            segment.appended(header, header.base_offset, self.interval)
        return len(together)
