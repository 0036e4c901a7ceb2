"""
What a consumer makes of a partition's part of a Fetch answer.
"""

from __future__ import annotations

from typing import NamedTuple

from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.records.batch import check_crc, decode_batch, iter_batches
from logbus.records.committed import CommittedFilter
from logbus.records.record import Record
from logbus.wire.messages.records import PartitionData


class ConsumerRecord(NamedTuple):
    """A record, and where it was read."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Fetched(NamedTuple):
    """
    Records of one partition, in order.

    :ivar next_offset: where the partition is read on from. It may go forward without records: markers of transactions
        and what compaction removed have offsets, too.
    :ivar high_watermark: where the partition ended, for readers, when this was read.
    """

    partition: TopicPartition
    records: list[Record]
    next_offset: int
    high_watermark: int
    size: int


def read_answer(partition: TopicPartition, offset: int, data: PartitionData, committed: bool) -> Fetched:
    """
    The records from ``offset`` on; what lies before it in the first batch is left out.

    :param committed: leave out what aborted transactions wrote, too, as the answer names them.
    :raises ApiError: CORRUPT_MESSAGE: a batch is damaged.
    """
    raw = data.records
    buffer = raw if isinstance(raw, (bytes, bytearray, memoryview)) else b""
    records: list[Record] = []
    aborted = [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()]
    hidden = CommittedFilter(aborted if committed else ())
    for pos, header in iter_batches(buffer):
        if not check_crc(buffer, pos, header):
            raise ApiError(
                ErrorCode.CORRUPT_MESSAGE,
                f"{partition}: the CRC of the batch at offset {header.base_offset} does not match",
            )
        is_hidden = hidden.hides(buffer, pos, header)
        if header.next_offset <= offset:
            continue
        if not is_hidden:
            batch = decode_batch(buffer, pos, header=header)
            records += batch if header.base_offset >= offset else [each for each in batch if each.offset >= offset]
        offset = header.next_offset
    end = data.last_stable_offset if committed else data.high_watermark
    return Fetched(partition, records, offset, end, len(buffer))
