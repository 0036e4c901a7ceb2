"""
What a consumer makes of a partition's part of a Fetch answer.

Batches are kept as they came, and decoded when they are taken out: so what is read ahead takes the memory that it took
on the wire, however well it is compressed.
"""

from __future__ import annotations

from typing import Generic, NamedTuple

from attrs import define, field
from typing_extensions import TypeVar

from logbus.errors import ApiError, DecodeError, ErrorCode
from logbus.model import NO_EPOCH, TopicPartition
from logbus.records.batch import BatchHeader, check_crc, decode_batch, iter_batches
from logbus.records.committed import CommittedFilter
from logbus.wire.messages.records import PartitionData

ENOUGH = 2000
"""Records to decode at a time, but whole batches."""


K = TypeVar("K", default=bytes | None)
V = TypeVar("V", default=bytes | None)


class ConsumerRecord(NamedTuple, Generic[K, V]):
    """
    A record, and where it was read. ``ConsumerRecord`` alone means that there are no deserializers, and
    ``ConsumerRecord[K, V]`` that keys and values are what deserializers made of them.

    :ivar timestamp: milliseconds since 1970; -1 is none.
    :ivar key: bytes, or what the consumer's deserializer made of them; None is no key.
    :ivar value: the same; None is a tombstone: compaction removes the key.
    :ivar headers: pairs of name and value, in order.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: K
    value: V
    headers: tuple[tuple[str, bytes | None], ...]


class Fetched(NamedTuple, Generic[K, V]):
    """
    Records of one partition, in order; keys and values are typed as those of a :class:`ConsumerRecord`.

    :ivar next_offset: where the partition is read on from. It may go forward without records: markers of transactions
        and what compaction removed have offsets, too.
    :ivar high_watermark: where the partition ended, for readers, when this was read.
    :ivar epoch: the leader epoch of what lies before ``next_offset``, −1 if it is not known.
    :ivar size: bytes that it took on the wire.
    """

    partition: TopicPartition
    records: list[ConsumerRecord[K, V]]
    next_offset: int
    high_watermark: int
    size: int
    epoch: int = NO_EPOCH


@define(eq=False)
class Chunk:
    """
    Batches of one partition, as they came.

    :ivar offset: what lies before it in the first batch is left out.
    :ivar size: bytes that are left.
    """

    partition: TopicPartition
    offset: int
    high_watermark: int
    size: int
    _data: bytes
    _hidden: CommittedFilter
    _pos: int = field(default=0, init=False)

    def take(self) -> Fetched:
        """
        Decode a few batches more.

        :raises ApiError: CORRUPT_MESSAGE: a batch is damaged; it stays the next.
        """
        data, offset, before, epoch = self._data, self.offset, self._pos, NO_EPOCH
        place = tuple(self.partition)
        records: list[ConsumerRecord] = []
        try:
            for pos, header in iter_batches(data, before):
                if not check_crc(data, pos, header):
                    raise DecodeError("the CRC does not match")
                hidden = self._hidden.hides(data, pos, header)
                if header.next_offset > offset:
                    if not hidden:
                        batch = decode_batch(data, pos, header=header, kind=ConsumerRecord, prefix=place)
                        if header.base_offset < offset:
                            batch = [each for each in batch if each.offset >= offset]
                        records = records + batch if records else batch
                    offset = header.next_offset
                epoch = header.leader_epoch
                self._pos = pos + header.size
                if len(records) >= ENOUGH:
                    break
            else:
                self._pos = len(data)
        except (DecodeError, ApiError) as e:
            if not records:
                raise damaged(self.partition, offset, e) from e
            # What came before the damage is handed out first.
        self.offset = offset
        taken = self._pos - before
        self.size -= taken
        return Fetched(self.partition, records, offset, self.high_watermark, taken, epoch)

    def take_all(self) -> Fetched:
        """
        Decode all that is left.

        :raises ApiError: CORRUPT_MESSAGE: nothing can be read of the first batch.
        """
        whole = self.take()
        while self.size:
            try:
                more = self.take()
            except ApiError:
                break
            size = whole.size + more.size
            whole = more._replace(records=whole.records + more.records, size=size)
        return whole


def damaged(partition: TopicPartition, offset: int, error: Exception) -> ApiError:
    """The error that stands for a batch that cannot be read."""
    code = error.code if isinstance(error, ApiError) else ErrorCode.CORRUPT_MESSAGE
    return ApiError(code, f"{partition}: the batch at offset {offset} cannot be read: {error}")


def chunk_of(
    partition: TopicPartition, offset: int, data: PartitionData, committed: bool
) -> tuple[Chunk, BatchHeader] | None:
    """
    Keep what an answer says of a partition; its records may be lent, and are copied.

    :param offset: the one that was asked for.
    :param committed: leave out what aborted transactions wrote, as the answer names them.
    :returns: the batches, and the header of the last one; None if there is no whole batch.
    :raises ApiError: CORRUPT_MESSAGE: these are no batches.
    """
    raw = data.records
    if not isinstance(raw, (bytes, bytearray, memoryview)) or not len(raw):
        return None
    last, end = None, 0
    try:
        for pos, header in iter_batches(raw):
            last, end = header, pos + header.size
    except DecodeError as e:
        raise damaged(partition, offset, e) from e
    if last is None or last.next_offset <= offset:
        return None
    aborted = [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()] if committed else ()
    high_watermark = data.last_stable_offset if committed else data.high_watermark
    whole = bytes(raw[:end])
    return Chunk(partition, offset, high_watermark, end, whole, CommittedFilter(aborted)), last
