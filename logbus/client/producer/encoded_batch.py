"""A batch that is encoded already, such as one of another log, in the place of a batch that collects records. Pure."""

from __future__ import annotations

from logbus.records.batch import BatchHeader, readdressed_batch
from logbus.records.compression import Codec
from logbus.records.header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE


class EncodedBatch:
    """
    Sends the records of a batch as they are, with the producer's own id and numbers.

    :param header: of the batch: as many records as offsets, neither log append time nor delete horizon.
    :param data: the whole batch; its CRC is right.
    :ivar count: of records.
    :ivar size: in bytes.
    :ivar codec: how its records are compressed.
    :ivar level: None: the codec's default, for the parts of a batch that has to be split.
    """

    __slots__ = ("_data", "_header", "codec", "count", "size")

    level: int | None = None

    def __init__(self, header: BatchHeader, data: bytes | memoryview) -> None:
        self._header = header
        self._data = data
        self.codec = Codec(header.codec)
        self.count = header.record_count
        self.size = header.size

    def build(
        self,
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
    ) -> bytes:
        """The batch as it is sent."""
        return readdressed_batch(
            self._data,
            self._header,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
        )
