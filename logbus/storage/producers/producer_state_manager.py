"""
The state of a log's producers, for deduplication and fencing (KIP-98, KIP-360; Kafka: ProducerStateManager).

For each producer id it has the newest epoch and the last five batches. A batch must continue the sequence. A repetition
of one of the last five is a duplicate, and is answered with its first offset; an older one is a duplicate, too, but its
offset is unknown. An unknown producer id may start anywhere: its state expired, or was lost with the records it
belonged to. Sequence number 0 follows 2**31 - 1.

For transactional producers it also has the first offset of the open transaction, and the epoch of the coordinator that
ended the last one. A marker must not have an old producer epoch, nor come from a replaced coordinator (KIP-98). With
transactions of version 2 it carries the producer's next epoch (KIP-890), which fences late batches of the transaction;
the next transaction begins with sequence 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from attrs import define, field

from logbus.errors import ApiError, ErrorCode
from logbus.records.batch import BatchHeader, ControlType, Marker
from logbus.records.header import CONTROL_BIT, NO_SEQUENCE, TRANSACTIONAL_BIT
from logbus.storage.producers.last_stable_offset import OpenTransactions
from logbus.storage.segments.transaction_index import AbortedTransaction

KEPT_BATCHES = 5
"""Upper bound of a producer's requests in flight (``max.in.flight.requests.per.connection``)."""

MAX_SEQUENCE = 2**31 - 1
_SEQUENCES = 2**31
_NO_EPOCH = -1
_NO_OFFSET = -1
_new_tuple = tuple.__new__
_MARKERS_BUMP = 2
"""From this ``transaction.version`` on a marker carries the producer's next epoch."""


class BatchMetadata(NamedTuple):
    """Sequence numbers and offsets of a batch in the log (Kafka: BatchMetadata)."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


@define
class ProducerStateEntry:
    """
    One producer's state.

    :ivar epoch: the newest epoch in the log.
    :ivar batches: the last batches, oldest first.
    :ivar last_timestamp: of the last batch, ms since 1970; for expiration.
    :ivar coordinator_epoch: that of the last transaction marker, -1 without.
    :ivar open_since: first offset of the open transaction, or None.
    :ivar last_marker_offset: of the last marker since the log was opened, −1 without.
    """

    producer_id: int
    epoch: int
    batches: list[BatchMetadata] = field(factory=list)
    last_timestamp: int = -1
    coordinator_epoch: int = -1
    open_since: int | None = None
    last_marker_offset: int = field(default=_NO_OFFSET, eq=False)

    @property
    def last_sequence(self) -> int:
        """The last batch's last sequence number, -1 without a batch."""
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_offset(self) -> int:
        """The last batch's last offset, -1 without a batch."""
        return self.batches[-1].last_offset if self.batches else _NO_OFFSET


class ProducerStateManager:
    """
    The producers of one log.

    :ivar end_offset: the state reflects every batch below this offset.
    :ivar transactions: those open, or ended by a marker that is not committed.
    """

    __slots__ = ("_entries", "_listeners", "_looked_at", "end_offset", "transactions")

    def __init__(self, end_offset: int = 0, entries: Iterable[ProducerStateEntry] = ()) -> None:
        self.end_offset = end_offset
        self.transactions = OpenTransactions()
        # The end offset at the last call of expire().
        self._looked_at = 0
        self._listeners: list[Callable[[ProducerStateEntry], object]] = []
        self._entries: dict[int, ProducerStateEntry] = {entry.producer_id: entry for entry in entries}
        for first, producer_id in sorted(
            (entry.open_since, entry.producer_id) for entry in self if entry.open_since is not None
        ):
            self.transactions.began(producer_id, first)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ProducerStateEntry]:
        return iter(self._entries.values())

    def get(self, producer_id: int) -> ProducerStateEntry | None:
        """A producer's state; None if unknown."""
        return self._entries.get(producer_id)

    def when_changed(
        self, listener: Callable[[ProducerStateEntry], object]
    ) -> tuple[dict[int, ProducerStateEntry], Callable[[], None]]:
        """
        Call ``listener`` with each producer's state before it changes, or is removed.

        :returns: the states now, by producer id; and what ends the calls.
        """

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        self._listeners.append(listener)
        return dict(self._entries), end

    def _changes(self, entry: ProducerStateEntry) -> None:
        for listener in self._listeners:
            listener(entry)

    def open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether a producer has a transaction open here, in that epoch."""
        entry = self._entries.get(producer_id)
        return entry is not None and entry.open_since is not None and entry.epoch == producer_epoch

    def last_marker_offset(self, producer_id: int) -> int:
        """
        The offset of a producer's last marker; −1: none since the log was opened. A caller that asked a coordinator
        whether a transaction is open must ask again if this changed meanwhile: the transaction may be over.
        """
        entry = self._entries.get(producer_id)
        return _NO_OFFSET if entry is None else entry.last_marker_offset

    def check(self, header: BatchHeader) -> BatchMetadata | None:
        """
        Check a client's batch. One without a sequence number, which a coordinator writes for its producer, is refused
        only if the producer has a newer epoch.

        :returns: None: it may be appended; the earlier batch in the log that it duplicates, if it does.
        :raises ApiError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER;
            INVALID_TXN_STATE: it belongs to no transaction, while one of its producer is open.
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return None
        batches = entry.batches
        if (
            batches
            and header.base_sequence == batches[-1].last_sequence + 1
            and header.producer_epoch == entry.epoch
            and (entry.open_since is None or header.attributes & TRANSACTIONAL_BIT)
        ):
            # The usual case.
            return None
        self._check_epoch(entry, header.producer_epoch)
        if header.base_sequence != NO_SEQUENCE:
            written = self._check_sequence(entry, header)
            if written is not None:
                return written
        if entry.open_since is not None and not header.transactional:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has a transaction open since offset {entry.open_since}, and writes at "
                f"offset {self.end_offset} outside of it",
            )
        return None

    def _check_epoch(self, entry: ProducerStateEntry, epoch: int) -> None:
        if epoch < entry.epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {entry.producer_id} wrote with epoch {epoch} at offset {self.end_offset}, "
                f"but epoch {entry.epoch} was seen",
            )

    def _check_sequence(self, entry: ProducerStateEntry, header: BatchHeader) -> BatchMetadata | None:
        epoch, sequence = header.producer_epoch, header.base_sequence
        if epoch > entry.epoch:
            if sequence != 0 and entry.epoch != _NO_EPOCH:
                raise ApiError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {header.producer_id} begins epoch {epoch} with sequence {sequence} instead of 0, "
                    f"at offset {self.end_offset}",
                )
            return None
        # Without a batch the epoch comes from a marker, and begins with sequence 0, too.
        last = entry.last_sequence
        if sequence == last + 1 or (sequence == 0 and last == _SEQUENCES - 1):
            return None
        for written in entry.batches:
            if written.first_sequence == sequence and written.last_sequence == header.last_sequence:
                return written
        if entry.batches and _precedes(header.last_sequence, entry.batches[0].first_sequence):
            raise ApiError(
                ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
                f"producer {header.producer_id} sent sequence {sequence} to {header.last_sequence} again; the log is "
                f"at {last}, and the offset is forgotten",
            )
        raise ApiError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id}, epoch {epoch}: sequence {sequence} at offset {self.end_offset} does not "
            f"follow {last}",
        )

    def check_marker(self, producer_id: int, producer_epoch: int, marker: Marker, transaction_version: int) -> None:
        """
        Check a coordinator's marker. One of an unknown producer may be appended, and so may a repeated one while no
        transaction is open.

        :param transaction_version: from 2 on a marker carries the producer's next epoch; one with the epoch of the open
            transaction belongs to the one before it, and is late.
        :raises ApiError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
        """
        entry = self._entries.get(producer_id)
        if entry is None:
            return
        self._check_epoch(entry, producer_epoch)
        if transaction_version >= _MARKERS_BUMP and producer_epoch == entry.epoch and entry.open_since is not None:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"a marker of producer {producer_id} with epoch {producer_epoch}, at offset {self.end_offset}, cannot "
                f"end the transaction that is open since offset {entry.open_since} in the same epoch",
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise ApiError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a coordinator of epoch {marker.coordinator_epoch} ends a transaction of producer {producer_id} at "
                f"offset {self.end_offset}, but one of epoch {entry.coordinator_epoch} was seen",
            )

    def appended(
        self, header: BatchHeader, base_offset: int, marker: Marker | None = None
    ) -> AbortedTransaction | None:
        """
        Record a batch in the log, written by a client or copied from another replica.

        :param base_offset: its offset, which may differ from the header's.
        :param marker: the marker in a control batch; None if compaction removed it.
        :returns: the transaction that it aborted, if it did.
        """
        producer_id = header.producer_id
        if producer_id < 0:
            return None
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerStateEntry(producer_id, header.producer_epoch)
        else:
            if self._listeners:
                self._changes(entry)
            if header.producer_epoch != entry.epoch:
                # Also downwards: the log is authoritative.
                entry.epoch = header.producer_epoch
                entry.batches = []
        entry.last_timestamp = header.max_timestamp
        attributes = header.attributes
        if attributes & CONTROL_BIT:
            return None if marker is None else self._ended(entry, marker, base_offset)
        batches = entry.batches
        if len(batches) >= KEPT_BATCHES:
            del batches[0]
        last_offset = base_offset + header.last_offset_delta
        batches.append(
            BatchMetadata(header.base_sequence, header.last_sequence, base_offset, last_offset, header.max_timestamp)
        )
        # The transaction of a batch that compaction emptied is over, and its marker may be gone.
        if attributes & TRANSACTIONAL_BIT and entry.open_since is None and header.record_count:
            entry.open_since = base_offset
            self.transactions.began(producer_id, base_offset)
        return None

    def append_consecutive(self, headers: Sequence[BatchHeader], end_offset: int) -> None:
        """
        Record consecutive batches of one producer, outside of transactions or in one that was open before.

        :param end_offset: the offset after the last record.
        """
        last = headers[-1]
        entry = self._entries.get(last.producer_id)
        if entry is None:
            entry = self._entries[last.producer_id] = ProducerStateEntry(last.producer_id, last.producer_epoch)
        else:
            if self._listeners:
                self._changes(entry)
            if last.producer_epoch != entry.epoch:
                entry.epoch = last.producer_epoch
                entry.batches = []
        batches = []
        for header in reversed(headers[-KEPT_BATCHES:]):
            first, delta = header.base_sequence, header.last_offset_delta
            end_offset -= delta + 1
            sequence, offset = (first + delta) & MAX_SEQUENCE, end_offset + delta
            batches.append(_new_tuple(BatchMetadata, (first, sequence, end_offset, offset, header.max_timestamp)))
        missing = KEPT_BATCHES - len(batches)
        entry.batches = (entry.batches[-missing:] if missing else []) + batches[::-1]
        entry.last_timestamp = last.max_timestamp

    def _ended(self, entry: ProducerStateEntry, marker: Marker, offset: int) -> AbortedTransaction | None:
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_marker_offset = offset
        first = entry.open_since
        if first is None:
            return None
        entry.open_since = None
        transactions = self.transactions
        transactions.ended(entry.producer_id, offset)
        if marker.type is not ControlType.ABORT:
            return None
        stable = transactions.first_offset
        return AbortedTransaction(entry.producer_id, first, offset, offset + 1 if stable is None else stable)

    def expire(self, before_ms: int) -> int:
        """
        Remove producers without an open transaction whose last batch is older than ``before_ms``, and was there at the
        last call already: records that a producer copies may be old, and it may be about to send them again.

        :returns: their number.
        """
        settled, self._looked_at = self._looked_at, self.end_offset
        old = [
            entry.producer_id
            for entry in self._entries.values()
            if entry.last_timestamp < before_ms and entry.open_since is None and entry.last_offset < settled
        ]
        for producer_id in old:
            self._changes(self._entries.pop(producer_id))
        return len(old)


def _precedes(sequence: int, other: int) -> bool:
    """Whether ``sequence`` lies before ``other``, on a circle of 2**31 numbers."""
    return 0 < (other - sequence) % _SEQUENCES < _SEQUENCES // 2
