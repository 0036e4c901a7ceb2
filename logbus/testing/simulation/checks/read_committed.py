"""
Drops aborted records from a fetch answer, as consumers with ``read_committed`` do. Pure.

Written for the simulation only, so that a defect of the product's own consumer cannot hide one of the brokers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from attrs import frozen

from logbus.records.batch import ControlType, Record, decode_batch, decode_marker
from logbus.records.checksum import Buffer
from logbus.records.header import iter_batches


@frozen
class CommittedRecords:
    """
    The committed records of an answer.

    :ivar records: those that the application gets.
    :ivar next_offset: behind the last batch; None: there was none.
    :ivar hidden: the number of records of aborted transactions.
    """

    records: list[Record]
    next_offset: int | None
    hidden: int = 0


def committed_records(data: Buffer, aborted: Iterable[tuple[int, int]]) -> CommittedRecords:
    """
    Leave out the records of aborted transactions.

    From the first offset of an aborted transaction its producer's transactional batches are hidden, up to its abort
    marker.

    :param aborted: producer id and first offset of each aborted transaction, as the broker's answer has them, in the
        order of first offsets: readers rely on it.
    :raise DecodeError: the data are not batches.
    """
    ahead = deque(aborted)
    hiding: set[int] = set()
    records: list[Record] = []
    hidden, end = 0, None
    for position, header in iter_batches(data):
        end = header.next_offset
        while ahead and ahead[0][1] <= header.last_offset:
            hiding.add(ahead.popleft()[0])
        if header.control:
            content = decode_batch(data, position, header=header)
            marker = decode_marker(content[0]) if content else None
            if marker is not None and marker.type is ControlType.ABORT:
                hiding.discard(header.producer_id)
        elif header.transactional and header.producer_id in hiding:
            hidden += header.record_count
        else:
            records += decode_batch(data, position, header=header)
    return CommittedRecords(records, end, hidden)
