"""Fetched data that is not delivered yet."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.client.consumer.completed_fetch import completed_fetch
from logbus.client.consumer.fetch_buffer import FetchBuffer, PartitionProblem
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.wire.messages.records import PartitionData
from tests.client.consumer.test_completed_fetch import encoded

PARTITIONS = [TopicPartition(name, index) for name in ("t", "u") for index in range(3)]


class FetchBufferTests(SynchronousTestCase):
    """Data by partition."""

    def completed(self, partition: TopicPartition, *sizes: int) -> Any:
        raw = encoded(*sizes)
        kept = completed_fetch(partition, 0, PartitionData(partition_index=0, high_watermark=9, records=raw), False)
        assert kept is not None
        return kept[0]

    def test_turns_and_sizes(self) -> None:
        """
        Partitions take turns; what is paused waits, and all sizes come back to nothing.
        """
        buffer, (a, b, c, *_) = FetchBuffer(), PARTITIONS
        for each in (a, b, c):
            buffer.put(each, self.completed(each, 2500, 2500, 2500))
        total = buffer.size
        buffer.pause(b)
        self.assertEqual((buffer.paused_size, buffer.paused()), (total // 3, [b]))
        self.assertEqual([buffer.take().partition for _ in range(4)], [a, c, a, c])
        buffer.resume(b)
        self.assertEqual({buffer.take().partition for _ in range(3)}, {a, b, c})
        buffer.drop(b)
        self.assertEqual((bool(buffer), buffer.size, buffer.paused_size), (False, 0, 0))

    def test_errors_come_after_earlier_records(self) -> None:
        """Data from before an error is taken first."""
        buffer, (a, *_) = FetchBuffer(), PARTITIONS
        buffer.put(a, self.completed(a, 1))
        buffer.put(a, PartitionProblem(ApiError(ErrorCode.CORRUPT_MESSAGE)))
        self.assertEqual(len(buffer.take().records), 1)
        with self.assertRaises(ApiError):
            buffer.take()
        self.assertFalse(buffer)
