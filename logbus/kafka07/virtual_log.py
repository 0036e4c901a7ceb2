"""
A partition's records as the messages of a 0.7 log, which are addressed by byte positions.

Each committed record is a message of magic 1 whose payload is the record's value; a position is the sum of the sizes of
all messages before it. Positions do not depend on how records are compressed, batched or stored: they are counted from
the records, and the index (:mod:`.position_index`) remembers every so many. Keys, headers and timestamps have no place
in 0.7; transactions that were aborted, and their markers, take no bytes.

Counting goes forward from the index's last entry, its *tail*. Where it cannot, since retention has removed records that
nobody had counted, positions go on far behind, where no other leader of the partition has any (:func:`.base_of`): never
the same for different records.
"""

from __future__ import annotations

from collections import OrderedDict
from uuid import UUID

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from logbus.coroutines import sleep
from logbus.errors import ApiError, ErrorCode
from logbus.ilogbus import Fetched, IBroker, IPluginFile
from logbus.kafka07.message_sets import OVERHEAD, encode_message
from logbus.kafka07.position_index import JUMP, SPAN, Entry, PositionIndex, base_of, encode_entry
from logbus.records.record import Record

SLICE = 256 * 1024
"""Bytes of stored records that are decoded in one turn of the reactor."""

_MOST_KNOWN = 256
"""Positions that are remembered, of the ends of reads: where consumers go on."""

_KEPT_DROPPED = 64
"""Entries that are dropped from the index before its file is written anew."""


@define(eq=False)
class VirtualLog:
    """
    The messages of one partition that this broker leads.

    :param file: of the index.
    :ivar topic_id: of the topic; another one with its name has other positions.
    """

    topic: str
    partition: int
    topic_id: UUID
    _broker: IBroker
    _clock: IReactorTime
    _file: IPluginFile
    _index: PositionIndex = field(init=False)
    _tail: Entry = field(init=False)
    _first: tuple[int, int] = field(init=False, default=(-1, -1))
    # Offsets at positions where reads ended, those used last at the end.
    _known: OrderedDict[int, int] = field(factory=OrderedDict, init=False)
    _counting: DeferredLock = field(factory=DeferredLock, init=False)
    _dropped: int = field(default=0, init=False)
    _log = Logger()

    async def open(self) -> None:
        """
        Read the index, or begin one.

        :raises ApiError: this broker does not lead the partition, or its log directory is offline.
        """
        start, data = self._start_offset(), self._file.read()
        index, more = PositionIndex.decode_some(data, self.topic_id)
        while index is not None and more:
            await sleep(self._clock, 0)
            more = index.add_encoded(data)
        if index is None:
            # From the beginning on all leaders count the same.
            self._index = PositionIndex(Entry(start, self._base() if start else 0, -1))
            self._tail = self._index.last
            await self._rewrite()
        else:
            self._index, self._tail = index, index.last

    def close(self) -> None:
        """Remember how far positions were counted, so that the next start need not count that again."""
        if self._tail.offset > self._index.last.offset:
            self._add(self._tail)

    # -- Reading

    async def earliest(self) -> int:
        """Return the position of the first record that there is."""
        await self._catch_up(self._start_offset())
        return await self._earliest()

    async def read(self, position: int, max_bytes: int, *, cut: bool = True) -> bytes:
        """
        Return the whole messages from a position on, as many as fit into ``max_bytes``; empty at the end.

        :param cut: if the first one does not fit, return its beginning: a client takes that for a message that is
            larger than its fetch size; False: return nothing.
        :raises ApiError: OFFSET_OUT_OF_RANGE: no message begins at ``position``.
        """
        offset = await self._offset_of(position)
        parts: list[bytes] = []
        size = 0
        while size < max_bytes:
            if offset == self._tail.offset and position + size != self._tail.position:
                if parts:
                    break
                await self._restart()
                raise self._out_of_range(position, "records before it were removed")
            fetched = self._fetch(offset, min(SLICE, max_bytes - size))
            if fetched.next_offset == offset:
                break
            if offset <= self._tail.offset:
                self._count(fetched)
            for record in fetched.records:
                message = encode_message(record.value or b"")
                if size + len(message) > max_bytes:
                    if not parts and cut:
                        return message[:max_bytes]
                    self._remember(position + size, record.offset)
                    return b"".join(parts)
                parts.append(message)
                size += len(message)
            offset = fetched.next_offset
            await sleep(self._clock, 0)
        self._remember(position + size, offset)
        return b"".join(parts)

    async def positions_before(self, time: int | None, most: int) -> list[int]:
        """
        Return positions at which messages begin, the latest first.

        :param time: all messages before them are no later than this, in ms since 1970; None: the end, and before.
        :param most: how many, at most; the earliest is among them if there is room.
        """
        await self._catch_up()
        earliest, index = await self._earliest(), self._index
        found: list[int] = []
        if time is None or self._tail.timestamp <= time:
            found.append(self._tail.position)
        at = len(index) - 1 if time is None else index.before_time(time)
        while at >= 0 and len(found) < most and (position := index[at].position) > earliest:
            if not found or position < found[-1]:
                found.append(position)
            at -= 1
        if len(found) < most and (not found or found[-1] > earliest):
            found.append(earliest)
        return found[: max(0, most)]

    # -- Positions

    async def _offset_of(self, position: int) -> int:
        """
        Return the offset to read from at a position.

        :raises ApiError: OFFSET_OUT_OF_RANGE.
        """
        start = self._start_offset()
        if start > self._tail.offset or position > self._tail.position:
            await self._catch_up()
            start = self._start_offset()
        known = self._known.get(position)
        if known is not None and known >= start:
            self._known.move_to_end(position)
            return known
        if position == self._tail.position:
            return self._tail.offset
        earliest = await self._earliest()
        if not earliest <= position < self._tail.position:
            raise self._out_of_range(position, f"it has positions {earliest} to {self._tail.position}")
        at = max(self._index.at_position(position), 0)
        offset, counted, _ = self._index[at]
        if offset < start:
            offset, counted = start, earliest
        end = self._index[at + 1] if at + 1 < len(self._index) else self._tail
        while offset < end.offset and counted <= position:
            fetched = self._fetch(offset)
            if fetched.next_offset == offset:
                break
            for record in fetched.records:
                if record.offset >= end.offset:
                    break
                if counted == position:
                    self._remember(position, record.offset)
                    return record.offset
                counted += OVERHEAD + len(record.value or b"")
                if counted > position:
                    raise self._out_of_range(position, f"messages begin before it, and at {counted}")
            offset = fetched.next_offset
            await sleep(self._clock, 0)
        await self._restart()
        raise self._out_of_range(position, "records before it were removed")

    async def _earliest(self) -> int:
        """The position of the first record; the tail is at or behind it."""
        start = self._start_offset()
        if self._first[0] == start:
            return self._first[1]
        index = self._index
        at = index.at_offset(start)
        if at >= 0 and index[at].offset == start:
            position = index[at].position
        elif start == self._tail.offset:
            position = self._tail.position
        else:
            end = index[at + 1] if at + 1 < len(index) else self._tail
            position = end.position - await self._bytes_between(start, end.offset)
            if start != self._start_offset() or index is not self._index or self._first[0] == start:
                # Another request has counted, too, and trimmed the index or begun a new one.
                return await self._earliest()
        self._first = (start, position)
        if at > 0:
            self._trim(Entry(start, position, index[at].timestamp))
        return position

    async def _bytes_between(self, offset: int, end: int) -> int:
        total = 0
        while offset < end:
            fetched = self._fetch(offset)
            if fetched.next_offset == offset:
                break
            total += sum(_size(record) for record in fetched.records if record.offset < end)
            offset = fetched.next_offset
            await sleep(self._clock, 0)
        return total

    async def _catch_up(self, until: int | None = None) -> None:
        """
        Count the records that are new, a slice in each turn of the reactor.

        :param until: an offset that is enough; None: the end.
        """
        await self._counting.acquire()
        try:
            while until is None or self._tail.offset < until:
                try:
                    fetched = self._fetch(self._tail.offset)
                except ApiError as error:
                    if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                        raise
                    await self._lost_tail()
                    continue
                if fetched.next_offset == self._tail.offset:
                    return
                self._count(fetched)
                await sleep(self._clock, 0)
        finally:
            self._counting.release()

    def _count(self, fetched: Fetched) -> None:
        """Count what is behind the tail, if anything is, and move the tail there."""
        offset, position, timestamp = self._tail
        if fetched.next_offset <= offset:
            return
        for record in fetched.records:
            if record.offset < offset:
                continue
            if position - self._index.last.position >= SPAN:
                self._add(Entry(record.offset, position, timestamp))
            position += _size(record)
            timestamp = max(timestamp, record.timestamp)
        self._tail = Entry(fetched.next_offset, position, timestamp)

    async def _lost_tail(self) -> None:
        """The log has no records at the tail: it begins behind it, or ends before."""
        start, tail = self._start_offset(), self._tail
        if start > tail.offset:
            self._log.info(
                "{topic}-{partition}: records from offset {tail} to {start} were removed before their bytes were "
                "counted; positions of Kafka 0.7 go on at {position}",
                topic=self.topic, partition=self.partition, tail=tail.offset, start=start, position=self._behind(),
            )  # fmt: skip
            self._tail = Entry(start, self._behind(), tail.timestamp)
            self._add(self._tail)
            self._known.clear()
            await self._rewrite()
        else:
            self._log.warn(
                "{topic}-{partition}: the log lost records before offset {tail}, and so do positions of Kafka 0.7",
                topic=self.topic, partition=self.partition, tail=tail.offset,
            )  # fmt: skip
            await self._restart()

    async def _restart(self) -> None:
        """Have all records at positions behind all that were given out: the log is not what was counted."""
        start = self._start_offset()
        entry = Entry(start, self._behind(), -1)
        self._log.warn(
            "{topic}-{partition} is not what was counted (it was compacted, or lost records): positions of Kafka 0.7 "
            "begin anew at {position}",
            topic=self.topic, partition=self.partition, position=entry.position,
        )  # fmt: skip
        self._index = PositionIndex(entry)
        self._tail = entry
        self._first = (-1, -1)
        self._known.clear()
        await self._rewrite()

    def _behind(self) -> int:
        """A position behind all that were given out, here or by another leader."""
        return max(self._tail.position + JUMP, self._base())

    # -- The broker and the file

    def _base(self) -> int:
        return base_of(self._broker.leadership(self.topic, self.partition).epoch)

    def _fetch(self, offset: int, max_bytes: int = SLICE) -> Fetched:
        return self._broker.fetch(self.topic, self.partition, offset, max_bytes)

    def _start_offset(self) -> int:
        return self._broker.log_start_offset(self.topic, self.partition)

    def _add(self, entry: Entry) -> None:
        self._index.add(entry)
        self._file.append(encode_entry(entry))

    def _trim(self, first: Entry) -> None:
        """Drop the entries of removed records; the file is written anew now and then."""
        self._dropped += self._index.begin_at(first)
        if self._dropped >= max(_KEPT_DROPPED, len(self._index)):
            self._dropped = 0
            # Until it is written, the old content is as good.
            self._rewrite().addErrback(lambda failure: self._log.failure("an index was not written", failure))

    def _rewrite(self) -> Deferred[None]:
        return self._file.replace(self._index.encode(self.topic_id))

    def _remember(self, position: int, offset: int) -> None:
        self._known[position] = offset
        self._known.move_to_end(position)
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)

    def _out_of_range(self, position: int, why: str) -> ApiError:
        return ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"no message of {self.topic}-{self.partition} begins at position {position}: {why}",
        )


def _size(record: Record) -> int:
    return OVERHEAD + len(record.value or b"")
