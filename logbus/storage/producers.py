"""
What a log remembers of idempotent producers, so that a batch sent twice is written once (KIP-98, KIP-360).

For each producer id the newest epoch and the last five batches. A batch must continue the sequence; one of the last
five is a duplicate and is answered with the offset it got the first time; an older one is a duplicate, too, but its
offset is forgotten. A producer id that is not known may start anywhere: its state expired, or was lost with the records
it belonged to. Sequence numbers go from 2**31 - 1 to 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from attrs import define, field

from logbus.errors import ApiError, ErrorCode
from logbus.records.batch import NO_SEQUENCE, BatchHeader

KEPT_BATCHES = 5
"""As many as a producer may have in flight (``max.in.flight.requests.per.connection``)."""

_SEQUENCES = 2**31
_NO_EPOCH = -1
_NO_OFFSET = -1


class WrittenBatch(NamedTuple):
    """A batch in the log, as its producer counts."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


@define
class ProducerEntry:
    """
    One producer's state.

    :ivar epoch: the newest epoch written with.
    :ivar batches: the last batches, oldest first.
    :ivar last_timestamp: of the last batch; ms since 1970. Decides over expiry.
    :ivar coordinator_epoch: that of the last transaction marker, -1 without.
    :ivar open_since: first offset of the open transaction, or None.
    """

    producer_id: int
    epoch: int
    batches: list[WrittenBatch] = field(factory=list)
    last_timestamp: int = -1
    coordinator_epoch: int = -1
    open_since: int | None = None

    @property
    def last_sequence(self) -> int:
        """The last batch's last sequence number, -1 without a batch."""
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_offset(self) -> int:
        """The last batch's last offset, -1 without a batch."""
        return self.batches[-1].last_offset if self.batches else _NO_OFFSET


class Producers:
    """
    The producers of one log.

    :ivar end_offset: the state reflects every batch below this offset.
    """

    __slots__ = ("_entries", "end_offset")

    def __init__(self, end_offset: int = 0) -> None:
        self.end_offset = end_offset
        self._entries: dict[int, ProducerEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._entries.values())

    def get(self, producer_id: int) -> ProducerEntry | None:
        """A producer's state, if it is known."""
        return self._entries.get(producer_id)

    def put(self, entry: ProducerEntry) -> None:
        """Set a producer's state."""
        self._entries[entry.producer_id] = entry

    def check(self, header: BatchHeader) -> WrittenBatch | None:
        """
        May this batch, from a client, be appended? One without a sequence number, which a coordinator writes for its
        producer, may unless the producer has a newer epoch.

        :returns: None if it may; the batch in the log that it is a duplicate of, if its producer sent it before.
        :raises ApiError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER.
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return None
        epoch, sequence = header.producer_epoch, header.base_sequence
        if epoch < entry.epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} wrote with epoch {epoch} at offset {self.end_offset}, "
                f"but epoch {entry.epoch} was seen",
            )
        if sequence == NO_SEQUENCE:
            return None
        if epoch > entry.epoch:
            if sequence != 0 and entry.epoch != _NO_EPOCH:
                raise ApiError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {header.producer_id} begins epoch {epoch} with sequence {sequence} instead of 0, "
                    f"at offset {self.end_offset}",
                )
            return None
        batches = entry.batches
        if not batches:
            return None
        last = batches[-1].last_sequence
        if sequence == last + 1 or (sequence == 0 and last == _SEQUENCES - 1):
            return None
        for written in batches:
            if written.first_sequence == sequence and written.last_sequence == header.last_sequence:
                return written
        if _precedes(header.last_sequence, batches[0].first_sequence):
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

    def appended(self, header: BatchHeader, base_offset: int) -> None:
        """
        Take note of a batch in the log, written by a client or by another replica.

        :param base_offset: the offset it has, which may differ from the header's.
        """
        producer_id = header.producer_id
        if producer_id < 0:
            return
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerEntry(producer_id, header.producer_epoch)
        elif header.producer_epoch != entry.epoch:
            # Also downwards: what is in the log is the truth.
            entry.epoch = header.producer_epoch
            entry.batches = []
        entry.last_timestamp = header.max_timestamp
        if header.control:
            # A marker ends the transaction; it has no sequence number.
            entry.open_since = None
            return
        batches = entry.batches
        if len(batches) >= KEPT_BATCHES:
            del batches[0]
        last_offset = base_offset + header.last_offset_delta
        batches.append(
            WrittenBatch(header.base_sequence, header.last_sequence, base_offset, last_offset, header.max_timestamp)
        )
        if header.transactional and entry.open_since is None:
            entry.open_since = base_offset

    def expire(self, before_ms: int) -> int:
        """
        Forget producers whose last batch is older than ``before_ms`` and who have no transaction open.

        :returns: how many.
        """
        old = [
            entry.producer_id
            for entry in self._entries.values()
            if entry.last_timestamp < before_ms and entry.open_since is None
        ]
        for producer_id in old:
            del self._entries[producer_id]
        return len(old)


def _precedes(sequence: int, other: int) -> bool:
    """Whether ``sequence`` lies before ``other``, on a circle of 2**31 numbers."""
    return 0 < (other - sequence) % _SEQUENCES < _SEQUENCES // 2
