"""Reads one offset range in a Spark task, as Arrow record batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from pyspark.sql.datasource import InputPartition

from logbus.pipeline.blocking import brokers_for
from logbus.pipeline.blocking.range_reader import read_range
from logbus.pipeline.errors import OffsetLost
from logbus.pipeline.source.arrow import record_batch
from logbus.pipeline.source.offset_ranges import OffsetRange
from logbus.pipeline.source.options import SourceOptions
from logbus.pipeline.worker_daemon import begin_work

_log = logging.getLogger(__name__)


class RangePartition(InputPartition):
    """The input partition of one task: its offset range."""

    def __init__(self, wanted: OffsetRange) -> None:
        super().__init__(wanted)

    def __repr__(self) -> str:
        wanted: OffsetRange = self.value
        return f"RangePartition({wanted.partition}: {wanted.start} to {wanted.end})"


def _nobody_counts(offsets: int) -> None:
    """Losses are only logged."""


def read_partition(
    options: SourceOptions, wanted: OffsetRange, on_loss: Callable[[int], None] = _nobody_counts
) -> Iterator[Any]:
    """
    The rows of a range as ``pyarrow.RecordBatch``.

    :param on_loss: is called with the number of offsets that are gone and left out.
    :raises OffsetLost: offsets are gone, and ``failOnDataLoss`` is set.
    """
    begin_work()
    brokers = brokers_for(options.settings)
    start = wanted.start
    while start < wanted.end:
        rows = read_range(
            brokers,
            wanted.partition,
            start,
            wanted.end,
            options.fetching,
            topic_id=wanted.topic_id,
            headers=options.include_headers and (options.columns is None or "headers" in options.columns),
        )
        try:
            with closing(rows):
                for some in rows:
                    yield record_batch(wanted.partition, some.columns, some.stamped, options.columns)
            return
        except OffsetLost as e:
            if options.fail_on_data_loss:
                raise
            _log.warning("data are lost: %s", e)
            # All rows before the missing offset were yielded.
            start = min(e.log_start, wanted.end) if e.wanted < e.log_start else wanted.end
            on_loss(start - e.wanted)
