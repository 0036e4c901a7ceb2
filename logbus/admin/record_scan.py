"""
Goes through fetched batches for the records that a client of HTTP sees, in steps. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

from attrs import field, frozen, mutable

from logbus.admin.record_json import record_json
from logbus.records.batch import iter_batches
from logbus.records.header import HEADER_SIZE, BatchHeader, require_crc
from logbus.records.read_committed import AbortedTransaction, CommittedFilter
from logbus.records.record import Record
from logbus.records.record_stream import decompressed_pieces, records_from

SHOWN_BYTES = 1 << 20
"""Bytes of JSON after which a page ends."""


@frozen
class RecordFilter:
    """
    Which records a client wants: those that contain all of these.

    :ivar header: in the name or the value of a header.
    """

    key: bytes | None = None
    value: bytes | None = None
    header: bytes | None = None
    _needles: tuple[bytes, ...] = field(init=False)

    @_needles.default
    def _find_needles(self) -> tuple[bytes, ...]:
        return tuple(needle for needle in (self.key, self.value, self.header) if needle)

    def accepts(self, record: Record) -> bool:
        """Whether a record is wanted."""
        return (
            (self.key is None or (record.key is not None and self.key in record.key))
            and (self.value is None or (record.value is not None and self.value in record.value))
            and (self.header is None or self._in_headers(record))
        )

    def _in_headers(self, record: Record) -> bool:
        needle = self.header
        assert needle is not None
        return any(
            needle in name.encode("utf-8", "surrogateescape") or (content is not None and needle in content)
            for name, content in record.headers
        )

    def rules_out(self, data: memoryview, header: BatchHeader) -> Iterator[bool]:
        """
        Look for what is wanted in the bytes of a whole batch, which is far cheaper than to read its records.

        :returns: a value for each piece of the batch; the last one is whether no record of it can be wanted.
        """
        missing = set(self._needles)
        if missing:
            longest = max(map(len, missing))
            end = b""
            for piece in decompressed_pieces(header.codec, data):
                joint = end + bytes(piece)
                missing -= {needle for needle in missing if needle in joint}
                if not missing:
                    break
                end = joint[-longest + 1 :] if longest > 1 else b""
                yield False
        yield bool(missing)


EVERYTHING = RecordFilter()


@mutable
class Found:
    """
    The result of a scan.

    :ivar items: records as JSON.
    :ivar next_offset: where to continue.
    :ivar scanned: records gone through, or ruled out with their batch.
    :ivar is_full: whether it ended before the end of the batches.
    :ivar room: bytes of JSON that may follow, about.
    """

    next_offset: int
    items: list[dict[str, Any]] = field(factory=list)
    scanned: int = 0
    is_full: bool = False
    room: int = SHOWN_BYTES


def scan(
    data: bytes,
    partition: int,
    start: int,
    *,
    limit: int,
    shown: int,
    room: int = SHOWN_BYTES,
    wanted: RecordFilter = EVERYTHING,
    aborted: Iterable[AbortedTransaction] | None = None,
    end: int | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> Generator[None, None, Found]:
    """
    Go through the whole batches of a response, and return the wanted records.

    :param start: of the records; a batch may begin before it. ``end``: the offset before which to stop.
    :param limit: of the number of records; ``room``: of their bytes of JSON, beyond which the last one may go.
    :param shown: bytes of a key, value or header that are shown.
    :param is_over: whether the time is over; the scan ends then, if it has moved on at all.
    :param aborted: the aborted transactions, whose records are hidden; None: nothing is hidden but markers.
    :raise DecodeError: a batch is malformed, or its CRC does not match.
    :raise ApiError: from decompression.
    """
    found = Found(start, room=room)
    hidden = CommittedFilter(aborted or ())
    for position, header in iter_batches(data):
        is_hidden = hidden.hides(data, position, header)
        if header.last_offset < start:
            continue
        if end is not None and header.base_offset >= end:
            break
        if found.next_offset > start and is_over():
            found.is_full = True
            return found
        require_crc(data, position, header)
        yield
        batch = memoryview(data)[position : position + header.size]
        is_ruled_out = header.control or (is_hidden and aborted is not None)
        if not is_ruled_out:
            for is_ruled_out in wanted.rules_out(batch[HEADER_SIZE:], header):  # noqa: B007
                yield
            if is_ruled_out:
                found.scanned += header.record_count
        if not is_ruled_out:
            for record in records_from(batch, header, start):
                yield
                if record is None:
                    continue
                if end is not None and record.offset >= end:
                    break
                is_late = found.scanned % 64 == 63 and found.next_offset > start and is_over()
                if len(found.items) >= limit or found.room <= 0 or is_late:
                    found.is_full = True
                    return found
                found.scanned += 1
                if wanted.accepts(record):
                    told, size = record_json(partition, record, shown)
                    found.items.append(told)
                    found.room -= size
                found.next_offset = record.offset + 1
        found.next_offset = header.last_offset + 1
    if end is not None:
        found.next_offset = min(found.next_offset, end)
    return found
