"""
Decides which records and batches compaction keeps (Kafka: Cleaner's RecordFilter). Pure; bytes in, bytes out.

The last record of each key below a bound stays. Offsets and order never change. A batch keeps its range of offsets and
its producer fields, whatever records it loses. A batch without remaining records is dropped, except in two cases, where
its header stays: the last batch of a known producer (its sequence continues from there), and the last batch of a group
of merged segments (the new segment must show how far it reaches).

Tombstones stay for ``delete.retention.ms`` after they were first cleaned, so that a consumer that began before sees
them. That time, the delete horizon, is written into the batch (KIP-534): a bit in the attributes, and the time in the
place of the base timestamp.

Records of a committed transaction are like any others; those of an aborted one are removed once its marker is below the
bound, too. A marker stays until no record of its transaction is left, and then for as long as tombstones do: a consumer
or follower that has some of the records must still learn the outcome.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping

from attrs import define, field

from logbus.errors import ApiError, DecodeError
from logbus.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    Record,
    decode_batch,
    iter_batches,
    read_header,
    replace_records,
    rewrite_batch,
)
from logbus.records.checksum import Buffer
from logbus.records.compression import Codec, decompress
from logbus.records.header import require_crc
from logbus.storage.cleaner.implementations import OffsetMap
from logbus.storage.cleaner.record_filter import FilteredFile, FilteredRun, Kept, Section
from logbus.storage.istorage import IFile
from logbus.storage.segments.index_entries import IndexState
from logbus.storage.segments.transaction_index import AbortedTransaction, AbortedTransactionSet


def add_keys(
    keys: OffsetMap, data: Buffer, position: int, header: BatchHeader, start: int = 0, aborted: bool = False
) -> int:
    """
    Add the keys of a batch to the offset map.

    :param start: records before this offset are skipped: they were added before.
    :param aborted: the batch belongs to an aborted transaction: its records replace no others.
    :returns: the offset up to which keys were added: the batch's end, or less if the map is full.
    :raises DecodeError: the batch is damaged.
    """
    if not header.control and not aborted:
        full = keys.put_records(_section(data, position, header), start)
        if full >= 0:
            return full
    return header.next_offset


def add_batches(
    keys: OffsetMap, data: Buffer, position: int, start: int, aborted: AbortedTransactionSet
) -> tuple[int, int, bool]:
    """
    Add the keys of all whole batches in ``data``, from a position on.

    :returns: the position behind them, the offset up to which keys were added, −1 without a whole batch, and whether
        the map is full, and keys are missing.
    :raises DecodeError: a batch is damaged.
    """
    end = -1
    while True:
        position, reached = keys.put_batches(data, position, start)
        end = end if reached < 0 else reached
        # What is left there takes some Python: one batch, then the compiled loop goes on.
        left = next(iter_batches(data, position), None)
        if left is None:
            return position, end, False
        header = left[1]
        end = add_keys(keys, data, position, header, start, aborted.of(header) is not None)
        if end < header.next_offset:
            return position, end, True
        position += header.size


@define(eq=False)
class Compaction:
    """
    One pass over a log, batch by batch in order.

    :ivar keys: the last offset of each key below :ivar:`end`.
    :ivar end: records from this offset on all stay.
    :ivar now_ms: compared with delete horizons, ms since 1970.
    :ivar delete_retention_ms: how long tombstones stay.
    :ivar last_of_producers: last offset of each known producer, by its id.
    :ivar bare_epochs: epochs of producers known only by a marker, by their ids.
    :ivar records: number of records read.
    :ivar removed: number of records removed.
    :ivar changed: number of batches removed or rewritten.
    :ivar keyless: number of records without a key; they stay. A compacted topic accepts none.
    """

    keys: OffsetMap
    end: int
    now_ms: int
    delete_retention_ms: int
    last_of_producers: Mapping[int, int] = field(factory=dict)
    bare_epochs: Mapping[int, int] = field(factory=dict)
    records: int = field(default=0, init=False)
    removed: int = field(default=0, init=False)
    changed: int = field(default=0, init=False)
    keyless: int = field(default=0, init=False)
    _dropped: BatchHeader | None = field(default=None, init=False)
    _last_offsets: bytes = field(init=False)
    _in_transaction: set[int] = field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        self._last_offsets = array("q", sorted(self.last_of_producers.values())).tobytes()

    def retained_of_all(self, data: Buffer, position: int, aborted: AbortedTransactionSet) -> tuple[int, list[Buffer]]:
        """
        What stays of all whole batches in ``data``, from a position on, as of :meth:`retained`.

        :returns: the position behind them, and the bytes that stay, in pieces of whole batches.
        :raises DecodeError: a batch is damaged.
        """
        pieces: list[Buffer] = []
        while True:
            run = self.keys.filter_batches(data, position, self.end, self._last_offsets)
            if run.position > position:
                position = run.position
                self._count(run)
                self._dropped = read_header(data, run.dropped) if run.dropped >= 0 else None
                if run.data:
                    pieces.append(run.data)
            # What is left there takes some Python: one batch, then the compiled loop goes on.
            left = next(iter_batches(data, position), None)
            if left is None:
                return position, pieces
            header = left[1]
            kept = self.retained(data, position, header, aborted.of(header))
            if kept is not None:
                pieces.append(kept)
            position += header.size

    def retained_of_file(
        self, file: IFile, position: int, size: int, most: int, pause_ratio: float, out: IFile, written: int,
        state: IndexState,
    ) -> FilteredFile:  # fmt: skip
        """
        Write what stays of a file's batches to another file; see :meth:`.OffsetMap.filter_file`. What is left there is
        for :meth:`retained_of_all`.
        """
        run = self.keys.filter_file(
            file.fileno(), position, size, most, pause_ratio, self.end, self._last_offsets,
            out.fileno(), written, state,
        )  # fmt: skip
        if run.position > position:
            self._count(run)
            self._dropped = None if run.dropped is None else read_header(run.dropped)
        return run

    def _count(self, run: FilteredRun | FilteredFile) -> None:
        self.records += run.records
        self.removed += run.removed
        self.changed += run.changed
        self.keyless += run.keyless

    def retained(
        self, data: Buffer, position: int, header: BatchHeader, aborted: AbortedTransaction | None = None
    ) -> Buffer | None:
        """
        The batch with the records that stay: its own bytes if nothing changed; None if it is removed.

        :param aborted: the aborted transaction that it belongs to, if any.
        :raises DecodeError: the batch is damaged.
        """
        self._dropped = None
        whole = memoryview(data)[position : position + header.size]
        if header.base_offset >= self.end:
            return whole
        if header.control:
            if not header.has_producer_id:
                return whole
            return self._left_of_marker(data, position, header, whole)
        if aborted is not None and aborted.last_offset >= self.end:
            self._in_transaction.add(header.producer_id)
            return whole
        section = _section(data, position, header)
        kept = _NOTHING if aborted is not None else self._kept(section, header.delete_horizon)
        self.records += section.record_count
        self.removed += section.record_count - kept.record_count
        self.keyless += kept.keyless
        if kept.record_count and header.transactional:
            self._in_transaction.add(header.producer_id)
        if not kept.record_count:
            if self.last_of_producers.get(header.producer_id) != header.last_offset:
                self._dropped = header
                self.changed += 1
                return None
            if not section.record_count:
                return whole
            self.changed += 1
            return rewrite_batch(header, ())
        horizon = self._horizon(header, kept)
        if horizon is None and kept.data is None:
            return whole
        self.changed += 1
        left = section if kept.data is None else section._replace(data=kept.data, record_count=kept.record_count)
        if horizon is not None:
            # It takes the place of the base timestamp, from which all others are counted.
            return rewrite_batch(header, left.decode(), delete_horizon=horizon)
        return replace_records(header, left.data, left.record_count, kept.max_timestamp)

    def _left_of_marker(self, data: Buffer, position: int, header: BatchHeader, whole: memoryview) -> Buffer | None:
        producer_id, horizon = header.producer_id, header.delete_horizon
        if producer_id in self._in_transaction:
            self._in_transaction.remove(producer_id)
            return whole
        if header.record_count and horizon is None:
            self.changed += 1
            horizon = self.now_ms + self.delete_retention_ms
            return rewrite_batch(header, _records(data, position, header), delete_horizon=horizon)
        if header.record_count and horizon is not None and self.now_ms < horizon:
            return whole
        if self.bare_epochs.get(producer_id) == header.producer_epoch:
            # Nothing else records the epoch that fences this producer.
            return whole
        self.removed += header.record_count
        self._dropped = header
        self.changed += 1
        return None

    def end_of_group(self) -> bytes | None:
        """
        An empty batch in place of the last batch, if that was removed: to be written at the end of each group of merged
        segments.
        """
        dropped, self._dropped = self._dropped, None
        if dropped is None:
            return None
        if not dropped.record_count:
            # It is such an empty batch already, and stays.
            self.changed -= 1
        return rewrite_batch(dropped, ())

    def _kept(self, section: Section, horizon: int | None) -> Kept:
        return self.keys.keep_records(section, self.end, horizon is not None and self.now_ms >= horizon)

    def _horizon(self, header: BatchHeader, kept: Kept) -> int | None:
        """The delete horizon of a batch's tombstones, if it is to be set now."""
        if header.delete_horizon is not None or header.last_offset >= self.end:
            # Beyond the end, older records of their keys remain: a consumer that begins now reads them.
            return None
        if kept.tombstones:
            return self.now_ms + self.delete_retention_ms
        return None


_NOTHING = Kept(b"", 0, 0, False, -1)


def _section(data: Buffer, position: int, header: BatchHeader) -> Section:
    """
    The records of a batch, decompressed.

    :raises DecodeError: the batch is damaged.
    """
    # A rewritten batch gets a new CRC, which must not hide that the bytes were damaged.
    require_crc(data, position, header)
    body: Buffer = memoryview(data)[position + HEADER_SIZE : position + header.size]
    if header.codec != Codec.NONE and (header.record_count or len(body)):
        try:
            body = decompress(header.codec, body)
        except ApiError as error:
            raise DecodeError(f"the batch at offset {header.base_offset} cannot be read: {error}") from error
    return Section(body, header.record_count, header.base_offset, header.last_offset_delta, header.base_timestamp)


def _records(data: Buffer, position: int, header: BatchHeader) -> list[Record]:
    # A rewritten batch gets a new CRC, which must not hide that the bytes were damaged.
    require_crc(data, position, header)
    try:
        return decode_batch(data, position, header=header)
    except (ApiError, DecodeError) as error:
        raise DecodeError(f"the batch at offset {header.base_offset} cannot be read: {error}") from error
