"""Tests the reading of a task's range where offsets are gone, without brokers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.model import TopicPartition
from logbus.pipeline.errors import OffsetLost
from logbus.pipeline.source import partition_reader
from logbus.pipeline.source.offset_ranges import OffsetRange
from logbus.pipeline.source.options import read_source_options
from logbus.pipeline.source.partition_reader import read_partition

ONE = TopicPartition("t", 0)


class LossTests(SynchronousTestCase):
    """Offsets that go while a task reads them."""

    def read(self, loss: str, keeps: tuple[int, int]) -> tuple[list[int], list[int]]:
        """Where reading of 0 to 19 begins, if 5 is the first that is missing; and the numbers of lost offsets."""
        starts: list[int] = []
        lost: list[int] = []

        def read_range(brokers: object, partition: TopicPartition, start: int, *_: Any, **__: Any) -> Iterator[Any]:
            starts.append(start)
            if start == 0:
                raise OffsetLost(partition, 5, *keeps, "it has expired")
            return
            yield

        self.patch(partition_reader, "read_range", read_range)
        self.patch(partition_reader, "brokers_for", lambda settings: None)
        self.patch(partition_reader, "begin_work", lambda: None)
        given = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "failOnDataLoss": loss}
        list(read_partition(read_source_options(given, streaming=True), OffsetRange(ONE, 0, 20), lost.append))
        return starts, lost

    def test_allowed_losses_are_counted(self) -> None:
        """Up to what is kept, or to the end of the range."""
        for keeps, starts, lost in (((12, 30), [0, 12], [7]), ((25, 30), [0], [15]), ((-1, -1), [0], [15])):
            self.assertEqual(self.read("false", keeps), (starts, lost))

    def test_others_are_errors(self) -> None:
        """They are what ``failOnDataLoss`` says."""
        self.assertRaises(OffsetLost, self.read, "true", (12, 30))
