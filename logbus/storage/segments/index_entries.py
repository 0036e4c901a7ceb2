"""
The index entries of many batches at once, for a segment that is written as a whole. Pure.

``_offset_map.pyx`` has the compiled implementation: a thread that adds an entry for every 4 KB holds the interpreter's
lock meanwhile.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

from logbus.records.batch import iter_batches
from logbus.records.checksum import Buffer
from logbus.storage.segments.indexes import MAX_RELATIVE_OFFSET, TIME_ENTRY


class IndexState(NamedTuple):
    """
    The state that a segment's next index entries depend on.

    :ivar base_offset: the segment's.
    :ivar interval: bytes between entries.
    :ivar indexed: position of the batch that the last entry stands for; 0 without one.
    :ivar first_timestamp: the largest one of the first batch; −1 if unknown.
    :ivar max_timestamp: the largest one so far, −1 without any; ``max_timestamp_offset``: the last offset of the first
        batch that has it.
    :ivar time_indexed: timestamp of the last entry of the time index; −1 without one.
    :ivar end_offset: behind the last batch.
    """

    base_offset: int
    interval: int
    indexed: int
    first_timestamp: int
    max_timestamp: int
    max_timestamp_offset: int
    time_indexed: int
    end_offset: int


class IndexEntries(NamedTuple):
    """
    The entries of some batches.

    :ivar offsets: relative offset and position, pairs of 32-bit numbers in the machine's order.
    :ivar times: those of the time index, as in its file.
    :ivar state: behind these batches.
    """

    offsets: bytes
    times: bytes
    state: IndexState


def index_batches(data: Buffer, start: int, state: IndexState) -> IndexEntries:
    """
    Make the entries of the whole batches in ``data`` (Kafka: LogSegment.append).

    :param start: the position of ``data`` in the segment.
    """
    base, interval, indexed, first, latest, latest_offset, time_indexed, end = state
    offsets, times = array("i"), bytearray()
    for at, header in iter_batches(data):
        position, last = start + at, header.last_offset
        if header.max_timestamp > latest:
            latest, latest_offset = header.max_timestamp, last
        if position - indexed > interval and last - base <= MAX_RELATIVE_OFFSET:
            offsets.extend((last - base, position))
            indexed = position
            if latest > time_indexed:
                times += TIME_ENTRY.pack(latest, latest_offset - base)
                time_indexed = latest
        elif not position:
            first = header.max_timestamp
        end = last + 1
    state = IndexState(base, interval, indexed, first, latest, latest_offset, time_indexed, end)
    return IndexEntries(offsets.tobytes(), bytes(times), state)
