"""Fetched batches of a partition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.consumer.completed_fetch import completed_fetch
from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.errors import ApiError
from logbus.model import TopicPartition
from logbus.records.batch import encode_batch
from logbus.records.compression import Codec
from logbus.records.record import Record
from logbus.wire.messages.records import PartitionData

PARTITIONS = [TopicPartition(name, index) for name in ("t", "u") for index in range(3)]


def encoded(*sizes: int, base: int = 0, codec: Codec = Codec.NONE) -> bytes:
    """Batches of so many records each."""
    whole = b""
    for size in sizes:
        records = [Record(base + i, 7, b"k", b"%d" % (base + i), (("h", None),)) for i in range(size)]
        whole += encode_batch(records, base_offset=base, codec=codec)
        base += size
    return whole


class CompletedFetchTests(SynchronousTestCase):
    """Batches that are decoded when they are taken out."""

    P = PARTITIONS[0]

    @given(
        st.lists(st.integers(1, 1500), min_size=1, max_size=5), st.integers(0, 2000), st.sampled_from(list(Codec)[:2])
    )
    def test_round_trip(self, sizes: list[int], offset: int, codec: Codec) -> None:
        """Records are returned from the offset on, each once, for any batches; the byte count reaches zero."""
        total = sum(sizes)
        offset = min(offset, total - 1)
        raw = encoded(*sizes, codec=codec) + b"the beginning of another"
        kept = completed_fetch(
            self.P, offset, PartitionData(partition_index=0, high_watermark=total, records=raw), False
        )
        assert kept is not None
        chunk, last = kept
        self.assertEqual(last.next_offset, total)
        found: list[ConsumerRecord] = []
        while chunk.size:
            fetched = chunk.take()
            self.assertEqual(fetched.high_watermark, total)
            found += fetched.records
            self.assertEqual(fetched.next_offset, found[-1].offset + 1 if found else offset)
        wanted = [ConsumerRecord("t", 0, i, 7, b"k", b"%d" % i, (("h", None),)) for i in range(offset, total)]
        self.assertEqual(found, wanted)

    def test_borrowed_buffer_is_copied(self) -> None:
        """The memory of a response may be reused."""
        raw = bytearray(encoded(2))
        kept = completed_fetch(
            self.P, 0, PartitionData(partition_index=0, high_watermark=2, records=memoryview(raw)), False
        )
        assert kept is not None
        raw[:] = bytes(len(raw))
        self.assertEqual(len(kept[0].take().records), 2)

    def test_error_after_intact_batches(self) -> None:
        """Batches before a damaged one are returned; then each call raises the error."""
        raw = bytearray(encoded(2, 2))
        raw[-1] ^= 1
        kept = completed_fetch(self.P, 0, PartitionData(partition_index=0, high_watermark=4, records=bytes(raw)), False)
        assert kept is not None
        self.assertEqual([each.offset for each in kept[0].take().records], [0, 1])
        for _ in range(2):
            with self.assertRaisesRegex(ApiError, "t-0: the batch at offset 2 cannot be read"):
                kept[0].take()

    def test_invalid_batch(self) -> None:
        """The error names the position; an incomplete batch is ignored."""
        with self.assertRaisesRegex(ApiError, "t-0: the batch at offset 5"):
            completed_fetch(self.P, 5, PartitionData(partition_index=0, high_watermark=4, records=b"\1" * 100), False)
        half = PartitionData(partition_index=0, high_watermark=4, records=encoded(2)[:-1])
        self.assertIsNone(completed_fetch(self.P, 0, half, False))
