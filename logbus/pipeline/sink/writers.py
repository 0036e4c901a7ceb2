"""The batch and stream writers of the data source: tasks write on workers, the driver commits or aborts."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from random import Random
from typing import Any

from attrs import frozen
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from logbus.pipeline.blocking import transactions
from logbus.pipeline.blocking.brokers import Brokers, brokers_for
from logbus.pipeline.blocking.producer import Producer
from logbus.pipeline.blocking.transactions import ProducerIdentity
from logbus.pipeline.error_text import without_traceback
from logbus.pipeline.errors import PipelineError
from logbus.pipeline.sink import exactly_once
from logbus.pipeline.sink.columns import SinkColumns
from logbus.pipeline.sink.exactly_once import BatchIdentity, PreparedTransaction, TaskOutcome
from logbus.pipeline.sink.options import SinkOptions
from logbus.pipeline.sink.partition_count import partition_count
from logbus.pipeline.worker_daemon import begin_work

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""Spark's local properties with a task's query and batch."""


@frozen
class TaskCommitMessage(WriterCommitMessage):
    """The message of a finished task to the driver."""

    outcome: TaskOutcome
    run: BatchIdentity | None


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame to topics (``DataFrame.write``); can be pickled."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self.options = options
        self.columns = columns
        if options.app_id is not None:
            self.run = BatchIdentity(options.app_id, options.version, skips_older=True)
        else:
            self.run = BatchIdentity(str(uuid.uuid4()), None)

    @without_traceback
    def write(self, iterator: Iterator[Any]) -> TaskCommitMessage:
        """Write one task's rows; runs on a worker."""
        return write_task(self.options, self.columns, self.run, iterator)

    @without_traceback
    def commit(self, messages: Sequence[Any]) -> None:
        """Commit when all tasks are done; runs on the driver."""
        commit(self.options, messages)

    @without_traceback
    def abort(self, messages: Sequence[Any]) -> None:
        """A task failed for good; runs on the driver."""
        abort(self.options, messages, self.run)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream to topics (``DataFrame.writeStream``); can be pickled."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self.options = options
        self.columns = columns

    @without_traceback
    def write(self, iterator: Iterator[Any]) -> TaskCommitMessage:
        """Write one task's rows of a batch; runs on a worker."""
        return write_task(self.options, self.columns, _run_of_stream(), iterator)

    @without_traceback
    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        """Commit when all tasks of a batch are done; runs on the driver."""
        commit(self.options, messages)

    @without_traceback
    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        """A task failed for good; runs on the driver."""
        abort(self.options, messages)


def check_topic(options: SinkOptions) -> None:
    """
    Check on the driver, before a task starts, that the topic in the options exists.

    :raises PipelineError: it does not, and brokers do not create it.
    """
    if options.topic is None:
        return
    brokers = brokers_for(options.settings)
    try:
        partition_count(brokers, options.topic, options.topic_wait)
    finally:
        brokers.release()


def last_batch(options: SinkOptions, name: str) -> int:
    """
    The number of the last batch of a query that a topic has; −1: there is none. A commit under way is not waited for.

    :param name: of the query, or the option ``txnAppId``.
    """
    brokers = brokers_for(options.settings)
    try:
        # Every batch with rows has task 0.
        group = BatchIdentity(name, None).transactional_id(options.prefix, 0)
        last = exactly_once.last_committed_batch(transactions.committed_offsets(brokers, group, stable=False))
    finally:
        brokers.release()
    return -1 if last is None else last.number


def write_task(
    options: SinkOptions, columns: SinkColumns, run: BatchIdentity, batches: Iterable[Any]
) -> TaskCommitMessage:
    """
    Write one task's rows; with exactly-once leave them in an open transaction.

    :param batches: ``pyarrow.RecordBatch``\\ es.
    :raises PipelineError: they could not be written; the transaction, if there is one, is aborted.
    """
    from logbus.pipeline.sink.row_packer import coalesced

    begin_work()
    context = TaskContext.get()
    task = 0 if context is None else context.partitionId()
    brokers = brokers_for(options.settings)
    try:
        rows = coalesced(batches, options.packing.linger)
        if not options.exactly_once:
            identity = transactions.init_producer_id(brokers) if options.idempotent else None
            count, _ = _produce(brokers, options, columns, identity, rows)
            return TaskCommitMessage(TaskOutcome(task, count), None)
        return TaskCommitMessage(_write_once(brokers, options, columns, run, task, rows), run)
    finally:
        brokers.release()


def _write_once(
    brokers: Brokers, options: SinkOptions, columns: SinkColumns, run: BatchIdentity, task: int, rows: Iterator[Any]
) -> TaskOutcome:
    first = next(rows, None)
    if first is None and (task or run.number is None):
        # Without rows there is nothing to commit, except for task 0, by which a repeated batch is recognized.
        return TaskOutcome(task, 0)
    name = run.transactional_id(options.prefix, task)
    # In this order: earlier attempts can commit nothing more once they are fenced.
    identity = transactions.init_transactions(brokers, name, options.transaction_timeout)
    last = (
        None if run.number is None else exactly_once.last_committed_batch(transactions.committed_offsets(brokers, name))
    )
    rows = rows if first is None else chain([first], rows)
    if exactly_once.is_committed(run, last):
        return TaskOutcome(task, sum(each.num_rows for each in rows), before=last)
    try:
        count, topic = _produce(brokers, options, columns, identity, rows)
    except BaseException:
        exactly_once.try_abort(brokers, identity)
        raise
    return TaskOutcome(task, count, PreparedTransaction(identity, topic))


def _produce(
    brokers: Brokers,
    options: SinkOptions,
    columns: SinkColumns,
    identity: ProducerIdentity | None,
    batches: Iterator[Any],
) -> tuple[int, str]:
    """
    Write all rows, and wait for their acknowledgement.

    :returns: the number of rows, and one of the topics, "" without rows.
    """
    # Imported here since the driver, which starts a process for each commit, needs neither Arrow nor numpy.
    from logbus.pipeline.sink.row_packer import RowPacker

    count, topic = 0, ""
    packer = RowPacker(
        columns,
        options.topic,
        options.packing,
        lambda name: partition_count(brokers, name, options.topic_wait),
        random=Random(),
        now=lambda: int(time.time() * 1000),
    )
    producer = Producer(brokers, options.delivery, identity)
    try:
        for rows in batches:
            for partition, batch in packer.pack(rows):
                producer.send(partition, batch)
                topic = topic or partition.topic
            count += rows.num_rows
        producer.flush()
    finally:
        producer.close()
    return count, topic


def commit(options: SinkOptions, messages: Sequence[TaskCommitMessage]) -> None:
    """Commit the tasks' transactions."""
    begin_work()
    runs = [each.run for each in messages if each.run is not None]
    if not runs:
        return
    brokers = brokers_for(options.settings)
    try:
        exactly_once.commit(brokers, runs[0], [each.outcome for each in messages])
    finally:
        brokers.release()


def abort(options: SinkOptions, messages: Sequence[TaskCommitMessage | None], run: BatchIdentity | None = None) -> None:
    """
    Abort the tasks' transactions.

    :param run: the batch; None: as the messages say.
    """
    if not options.exactly_once:
        return
    run = run or next((each.run for each in messages if each is not None), None)
    outcomes = [None if each is None else each.outcome for each in messages]
    brokers = brokers_for(options.settings)
    try:
        exactly_once.abort(brokers, outcomes, run, options.prefix, options.transaction_timeout)
    finally:
        brokers.release()


def _run_of_stream() -> BatchIdentity:
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(_QUERY)
    batch = None if context is None else context.getLocalProperty(_BATCH)
    if query is None or batch is None:
        raise PipelineError(f"Spark does not tell its tasks which query and batch they work at: {_QUERY} and {_BATCH}")
    return BatchIdentity(query, int(batch))
