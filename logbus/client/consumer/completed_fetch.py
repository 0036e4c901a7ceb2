"""
Fetched batches of a partition, still encoded (Kafka: CompletedFetch).

Batches are kept as they came, and decoded when records are taken. So data that is read ahead needs as much memory as it
took on the wire, however well it is compressed.
"""

from __future__ import annotations

from attrs import define, field

from logbus.client.consumer.consumer_record import ConsumerRecord, Fetched, FetchedBatch
from logbus.errors import ApiError, DecodeError, ErrorCode
from logbus.model import NO_EPOCH, TopicPartition
from logbus.records.batch import BatchHeader, check_crc, decode_batch, iter_batches
from logbus.records.read_committed import CommittedFilter
from logbus.wire.messages.records import PartitionData

ENOUGH = 2000
"""The number of records to decode at a time, rounded up to whole batches."""


@define(eq=False)
class CompletedFetch:
    """
    Fetched batches of one partition, still encoded.

    :ivar offset: records before it are skipped.
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
        Decode a few batches.

        :raises ApiError: CORRUPT_MESSAGE: a batch is corrupt; it stays the next one.
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
                raise corrupt_batch_error(self.partition, offset, e) from e
            # Deliver the records before the corrupt batch first.
        self.offset = offset
        taken = self._pos - before
        self.size -= taken
        return Fetched(self.partition, records, offset, self.high_watermark, taken, epoch)

    def take_batches(self) -> Fetched:
        """
        Take the batches as they are in the log.

        :raises ApiError: as :meth:`take`.
        """
        data, offset, before, epoch = memoryview(self._data), self.offset, self._pos, NO_EPOCH
        batches: list[FetchedBatch] = []
        try:
            for pos, header in iter_batches(data, before):
                if not check_crc(data, pos, header):
                    raise DecodeError("the CRC does not match")
                hidden = self._hidden.hides(data, pos, header)
                if header.next_offset > offset:
                    if not hidden and header.record_count:
                        skip = max(0, offset - header.base_offset)
                        batches.append(FetchedBatch(header, data[pos : pos + header.size], skip))
                    offset = header.next_offset
                epoch = header.leader_epoch
                self._pos = pos + header.size
        except (DecodeError, ApiError) as e:
            if not batches:
                raise corrupt_batch_error(self.partition, offset, e) from e
        else:
            self._pos = len(data)
        self.offset = offset
        taken = self._pos - before
        self.size -= taken
        return Fetched(self.partition, [], offset, self.high_watermark, taken, epoch, tuple(batches))

    def take_all(self) -> Fetched:
        """
        Decode all batches that are left.

        :raises ApiError: CORRUPT_MESSAGE: the first batch cannot be read.
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


@define(eq=False)
class EncodedFetch(CompletedFetch):
    """The same for readers of whole batches."""

    def take(self) -> Fetched:
        """Take all batches, in the place of records."""
        return self.take_batches()


def corrupt_batch_error(partition: TopicPartition, offset: int, error: Exception) -> ApiError:
    """The error for a batch that cannot be read."""
    code = error.code if isinstance(error, ApiError) else ErrorCode.CORRUPT_MESSAGE
    return ApiError(code, f"{partition}: the batch at offset {offset} cannot be read: {error}")


def completed_fetch(
    partition: TopicPartition, offset: int, data: PartitionData, committed: bool, *, encoded: bool = False
) -> tuple[CompletedFetch, BatchHeader] | None:
    """
    Copy the batches of a partition out of a Fetch response, whose memory may be reused.

    :param offset: the fetch offset.
    :param committed: leave out records of aborted transactions, which the response lists.
    :param encoded: for a reader of whole batches.
    :returns: the batches, and the header of the last one; None if there is no whole batch.
    :raises ApiError: CORRUPT_MESSAGE: the data is not a sequence of batches.
    """
    raw = data.records
    if not isinstance(raw, (bytes, bytearray, memoryview)) or not len(raw):
        return None
    last, end = None, 0
    try:
        for pos, header in iter_batches(raw):
            last, end = header, pos + header.size
    except DecodeError as e:
        raise corrupt_batch_error(partition, offset, e) from e
    if last is None or last.next_offset <= offset:
        return None
    aborted = [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()] if committed else ()
    high_watermark = data.last_stable_offset if committed else data.high_watermark
    whole = bytes(raw[:end])
    kind = EncodedFetch if encoded else CompletedFetch
    return kind(partition, offset, high_watermark, end, whole, CommittedFilter(aborted)), last
