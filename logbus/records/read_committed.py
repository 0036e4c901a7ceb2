"""
Filters fetched batches for ``isolation.level=read_committed`` (KIP-98): skips markers and aborted transactions.

The broker sends stored batches unchanged: it ends a response at the last stable offset, and names the aborted
transactions in it. The consumer skips their batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from operator import itemgetter

from logbus.records.batch import decode_batch, iter_batches
from logbus.records.checksum import Buffer
from logbus.records.control_records import ControlType, decode_control_key
from logbus.records.header import BatchHeader, require_crc
from logbus.records.record import Record

AbortedTransaction = tuple[int, int]
"""The producer id, and the first offset of the transaction in the partition."""

_FIRST_OFFSET = itemgetter(1)


class CommittedFilter:
    """
    Tells which batches are hidden. Must be called for all batches of one response, in order.

    :param aborted: the aborted transactions named in the response.
    """

    __slots__ = ("_aborting", "_to_come")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._to_come = deque(sorted(aborted, key=_FIRST_OFFSET))
        self._aborting: set[int] = set()

    def hides(self, buf: Buffer, pos: int, header: BatchHeader) -> bool:
        """
        Whether the batch at ``pos`` is hidden from applications.

        :raises DecodeError: it is a control batch without a control record.
        """
        while self._to_come and self._to_come[0][1] <= header.last_offset:
            self._aborting.add(self._to_come.popleft()[0])
        if header.control:
            if header.producer_id in self._aborting:
                records = decode_batch(buf, pos, header=header)
                # Compaction may have removed the marker; then no more of its transaction follows.
                if not records or decode_control_key(records[0].key) is ControlType.ABORT:
                    self._aborting.discard(header.producer_id)
            return True
        return header.transactional and header.producer_id in self._aborting


def committed_records(buf: Buffer, aborted: Iterable[AbortedTransaction]) -> Iterator[Record]:
    """
    The records of all whole batches in ``buf`` that are not in an aborted transaction, in order.

    :raises DecodeError: a batch is malformed, or its CRC does not match.
    :raises ApiError: from decompression, as in :func:`decode_batch`.
    """
    hidden = CommittedFilter(aborted)
    for pos, header in iter_batches(buf):
        require_crc(buf, pos, header)
        if not hidden.hides(buf, pos, header):
            yield from decode_batch(buf, pos, header=header)
