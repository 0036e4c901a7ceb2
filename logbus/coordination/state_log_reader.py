"""
Reads a partition of an internal topic back: its records in order, and the markers of transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from logbus.cluster.replication.replica_manager import Replica
from logbus.errors import ApiError, DecodeError, LogbusError, StorageError
from logbus.net.time_slices import SliceScheduler, TimeSlice
from logbus.records.batch import (
    BatchHeader,
    ControlType,
    Record,
    check_crc,
    decode_batch,
    decode_marker,
    iter_batches,
)

Apply = Callable[[bytes | None, bytes | None], None]
"""Applies one record that was read back; raises DecodeError if it cannot be decoded."""

RECORDS_A_TURN = 500
"""Number of records applied before the reactor gets a turn; they take some milliseconds."""

RECORDS_DECODED, BYTES_READ = 10, 10_000
"""So many records of a batch take about as long to decode as one to apply, and so many bytes to read."""

RECORDS_A_PART = 100
"""Number of records of one batch that are applied between two looks at what is left of the turn."""

RETRY_SECONDS = 0.1
"""Delay before a failed read is retried."""

PATIENCE_SECONDS = 60.0
"""How long a load waits in all until damage is repaired, if another replica may come back that has what is damaged."""

REPAIR_RETRY_SECONDS = 0.5
"""Delay before another repair is tried."""

MAX_LOGGED_PROBLEMS = 20
"""Number of damaged records of one partition that are logged; further ones are only counted."""


class TransactionReplay(Protocol):
    """Applies the records of transactions and their markers, in log order."""

    def record(self, producer_id: int, offset: int, key: bytes | None, value: bytes | None) -> None:
        """
        Apply a record of a producer's open transaction.

        :raise DecodeError: it cannot be decoded.
        """

    def ended(self, producer_id: int, offset: int, committed: bool) -> None:
        """Apply a marker: the producer's open transaction was committed or aborted."""


@define
class LoadSummary:
    """
    The result of a load.

    :ivar records: number of records applied.
    :ivar skipped: number of damaged places skipped: records, or whole batches.
    :ivar complete: whether it reached the end; False if it was cancelled.
    """

    records: int = 0
    skipped: int = 0
    complete: bool = False


class _Suspected(Exception):
    """Damage that may be repaired; ``was_tried``: a repair has failed."""

    def __init__(self, offset: int, was_tried: bool) -> None:
        super().__init__(offset)
        self.offset = offset
        self.was_tried = was_tried


@define(eq=False)
class StateLogReader:
    """
    One read of a log from start to end.

    :param slices: gives turns to all loads of a coordinator, one in each iteration of the reactor.
    :param transactions: applies the records of transactions, instead of ``apply``; None: this log has none.
    :ivar loaded: the result so far.
    """

    replica: Replica
    _clock: IReactorTime
    _slices: SliceScheduler
    _apply: Apply
    _transactions: TransactionReplay | None
    loaded: LoadSummary = field(factory=LoadSummary, init=False)
    _suspected: set[int] = field(factory=set, init=False)
    # Until when repairs are tried again; None: no damage was found yet.
    _patience_ends: float | None = field(default=None, init=False)
    # What is left of the turn, in records; the first turn is yet to come.
    _left: int = field(default=0, init=False)
    _log = Logger()

    async def read(self, slice_bytes: int, wanted: Callable[[], bool]) -> LoadSummary:
        """See :meth:`.StateLog.load`."""
        loaded = self.loaded
        log = self.replica.log
        offset, end = log.log_start_offset, log.log_end_offset
        while offset < end:
            at, skipped = offset, loaded.skipped
            try:
                if not await self._goes_on(0, wanted):
                    return loaded
                data = self._slice(offset, end, slice_bytes)
                self._left -= len(data) // BYTES_READ
                for position, header in self._batches(data, offset):
                    # The CRC does not cover the base offset; reading must go forwards, whatever it is.
                    if not at <= header.last_offset < end:
                        self._damaged(at, f"a batch claims to end at offset {header.last_offset}")
                        continue
                    if not await self._goes_on(1, wanted):
                        return loaded
                    records = self._records(data, position, header)
                    at = header.last_offset + 1
                    self._left -= len(records) // RECORDS_DECODED
                    # A batch may have many thousands of records.
                    for start in range(0, len(records), RECORDS_A_PART):
                        part = records[start : start + RECORDS_A_PART]
                        if not await self._goes_on(len(part), wanted):
                            return loaded
                        self._hand_on(part, header)
                if data and at == offset and loaded.skipped == skipped:
                    # It claims to be longer than all that follows.
                    self._damaged(offset, "no whole batch is there")
            except _Suspected as suspected:
                # If another replica has the data undamaged, it becomes the leader, or the data is copied from it.
                if suspected.was_tried:
                    await deferLater(self._clock, REPAIR_RETRY_SECONDS)
                await self.replica.repair(self.replica, suspected.offset)
                if not wanted():
                    return loaded
                offset = max(at, log.log_start_offset)
                continue
            except ApiError as e:
                # Not damage: an index is being rebuilt.
                self._log.warn("{partition}: the load is retried: {why}", partition=self.replica.topic_partition, why=e)
                await deferLater(self._clock, RETRY_SECONDS)
                if not wanted():
                    return loaded
                offset = max(offset, log.log_start_offset)
                continue
            # After unreadable data, go on at the next segment, where a batch is known to begin.
            offset = (
                at if at > offset else min((s.base_offset for s in log.segments if s.base_offset > at), default=end)
            )
        loaded.complete = True
        if loaded.skipped > MAX_LOGGED_PROBLEMS:
            self._log.error(
                "{partition}: {count} damaged places were skipped in all",
                partition=self.replica.topic_partition,
                count=loaded.skipped,
            )
        return loaded

    async def _goes_on(self, records: int, wanted: Callable[[], bool]) -> bool:
        """Wait for a turn if this one is over; returns whether the load is still wanted, which has so many records."""
        if self._left <= 0:
            await TimeSlice(self._slices).next()
            self._left = RECORDS_A_TURN
            if not wanted():
                return False
        self._left -= records
        return True

    def _slice(self, offset: int, end: int, slice_bytes: int) -> bytes:
        """
        Whole batches from ``offset`` on; empty if there is damage.

        :raise ApiError: it cannot be read now.
        """
        try:
            found = self.replica.log.read(offset, slice_bytes, end).data
            return b"" if found is None else found.read()
        except (StorageError, OSError, EOFError) as e:
            self._damaged(offset, str(e))
            return b""

    def _batches(self, data: bytes, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        expected = offset
        try:
            for position, header in iter_batches(data):
                expected = max(expected, header.next_offset)
                yield position, header
        except DecodeError as e:
            self._damaged(expected, str(e))

    def _records(self, data: bytes, position: int, header: BatchHeader) -> Sequence[Record]:
        """
        A batch's records; none if they are damaged.

        :raises _Suspected: they may be repaired.
        """
        try:
            if not check_crc(data, position, header):
                self._damaged(header.base_offset, "the CRC of the batch does not match")
                return ()
            if header.control and self._transactions is None:
                return ()
            # A control batch whose record was compacted away is empty.
            return decode_batch(data, position, header=header)
        except LogbusError as e:
            self._complain(header.base_offset, str(e))
            return ()

    def _hand_on(self, records: Sequence[Record], header: BatchHeader) -> None:
        for record in records:
            try:
                self._take_in(record, header)
            except DecodeError as e:
                self._complain(record.offset, str(e))
            except Exception as e:
                self._log.failure("{partition}: a record cannot be applied", partition=self.replica.topic_partition)
                self._complain(record.offset, repr(e))

    def _take_in(self, record: Record, header: BatchHeader) -> None:
        transactions = self._transactions
        if transactions is not None and header.control:
            marker = decode_marker(record)
            if marker is not None:
                transactions.ended(header.producer_id, record.offset, marker.type is ControlType.COMMIT)
            return
        if transactions is not None and header.transactional:
            transactions.record(header.producer_id, record.offset, record.key, record.value)
        else:
            self._apply(record.key, record.value)
        self.loaded.records += 1

    def _damaged(self, offset: int, why: str) -> None:
        """
        Note that batches from an offset on are damaged.

        :raises _Suspected: they may be repaired: the first time, and for a while if there are other replicas.
        """
        now = self._clock.seconds()
        if self._patience_ends is None:
            self._patience_ends = now + PATIENCE_SECONDS
        was_tried = offset in self._suspected
        if not was_tried or (len(self.replica.partition.replicas) > 1 and now < self._patience_ends):
            self._suspected.add(offset)
            raise _Suspected(offset, was_tried)
        self._complain(offset, why)

    def _complain(self, offset: int, why: str) -> None:
        self.loaded.skipped += 1
        if self.loaded.skipped <= MAX_LOGGED_PROBLEMS:
            self._log.error(
                "{partition}: skipped damage at offset {offset}, its records are lost: {why}",
                partition=self.replica.topic_partition,
                offset=offset,
                why=why,
            )
