"""The pipeline's data source with points at which its tasks and commits can be held (:mod:`.hold_points`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

from pyspark.sql.datasource import InputPartition

from logbus.pipeline.blocking import transactions
from logbus.pipeline.datasource import LogbusDataSource
from logbus.pipeline.sink.writers import StreamWriter
from logbus.pipeline.source.batch_reader import LogbusBatchReader
from tests.pipeline.kills.hold_points import at

FETCHED, GIVEN = "task-has-fetched", "task-has-given-on"
"""A task has rows; it has given them to Spark, which writes them to a file, and is not done."""

FENCED, SENT = "task-has-fenced", "task-has-sent"
"""A task has fenced earlier attempts; it has written all its rows, and not reported yet."""

PREPARED, NOTED, PART, COMMITTED = "batch-prepared", "batch-noted", "batch-committed-in-part", "batch-committed"
"""All tasks have reported; the batch's number is in all transactions; one of them is committed; all are."""


class HeldSource(LogbusDataSource):
    """Takes the place of ``format("logbus")`` where it is registered."""

    def reader(self, schema: Any) -> LogbusBatchReader:
        return HeldReader(super().reader(schema)._options)

    def streamWriter(self, schema: Any, overwrite: bool) -> StreamWriter:
        return HeldWriter(*self._sink(schema, streaming=True))


class HeldReader(LogbusBatchReader):
    """Reads batches, and holds tasks at their points."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        for rows in super().read(partition):
            at(FETCHED)
            yield rows
            at(GIVEN)


class HeldWriter(StreamWriter):
    """Writes a stream's batches, and holds tasks and commits at their points."""

    def write(self, iterator: Iterator[Any]) -> Any:
        init = transactions.init_transactions

        def holding_init(*arguments: Any) -> Any:
            identity = init(*arguments)
            at(FENCED)
            return identity

        with mock.patch.object(transactions, "init_transactions", holding_init):
            written = super().write(iterator)
        at(SENT)
        return written

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        end, ended = transactions.end_txn, 0

        def holding_end(*arguments: Any, **more: Any) -> None:
            nonlocal ended
            if not ended:
                at(NOTED)
            end(*arguments, **more)
            ended += 1
            if ended == 1:
                at(PART)

        at(PREPARED)
        with mock.patch.object(transactions, "end_txn", holding_end):
            super().commit(messages, batchId)
        at(COMMITTED)
