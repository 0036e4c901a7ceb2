"""Writes topics to files and files to topics, for ``logbus topics export`` and ``import``."""

from __future__ import annotations

import io
import time
from collections.abc import Collection, Sequence
from typing import IO, Any, cast

from twisted.internet.defer import CancelledError
from twisted.internet.task import deferLater

from logbus.cli.input_records import InputRecord
from logbus.cli.new_file import NewFile, named_errors
from logbus.cli.output import PROGRESS_INTERVAL, Progress, quantity
from logbus.cli.record_files.record_file import BadRecord, FileFormat
from logbus.cli.record_filter import AnyRecord
from logbus.cli.record_sender import REFUSED, RecordSender, SendOptions, existing_topic
from logbus.cli.runner import CommandFailed
from logbus.cli.topic_reader import ReadOptions, consume_topic
from logbus.client.cluster.cluster import Cluster
from logbus.errors import LogbusError
from logbus.model import TopicPartition


class _CountedFile(io.RawIOBase):
    """A file whose position is the number of bytes that were written to it, so that it may be a pipe."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._size = file, 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self._file.closed:
            # It was given up; pyarrow nevertheless writes the end of a Parquet file when the writer is freed.
            return len(data)
        written = self._file.write(data)
        self._size += written
        return written

    def tell(self) -> int:
        return self._size


class _FileOutput:
    """The records of a topic, to a file; see :class:`~logbus.cli.topic_reader.RecordOutput`."""

    def __init__(self, file: IO[bytes], file_format: FileFormat) -> None:
        self.file = _CountedFile(file)
        self._writer = file_format.new_writer(cast(IO[bytes], self.file))
        self._progress = Progress(PROGRESS_INTERVAL)
        self.count = 0

    def show(self, partition: TopicPartition, records: Sequence[AnyRecord]) -> None:
        self._writer.write(partition, records)
        self.count += len(records)
        self._progress.show(f"{quantity(self.count)} records, {quantity(self.file.tell())}B")

    def clear_progress(self) -> None:
        self._progress.clear()

    def close(self) -> None:
        self._writer.close()
        self.clear_progress()


async def export_topic(
    cluster: Cluster, options: ReadOptions, name: str, file_format: FileFormat, *, overwrite: bool
) -> dict[str, Any]:
    """
    Write a topic's records to a file, which gets its name when it is complete.

    :param overwrite: whether a file that is there is replaced.
    :returns: a summary, as JSON values.
    :raises CommandFailed: the file is there, or cannot be written.
    """
    started = time.monotonic()
    new = NewFile(name, overwrite=overwrite)
    try:
        with named_errors(name):
            output = _FileOutput(new.file, file_format)
            if not await consume_topic(cluster, options, output):
                raise CancelledError
            size = output.file.tell()
            new.keep()
    finally:
        new.discard()
    seconds = round(time.monotonic() - started, 6)
    return {"topic": options.topic, "file": name, "records": output.count, "bytes": size, "seconds": seconds}


async def import_topic(
    cluster: Cluster, options: SendOptions, file: IO[bytes], file_format: FileFormat, ignored: Collection[str]
) -> dict[str, Any]:
    """
    Send the records of a file.

    :param ignored: of :data:`~logbus.cli.input_records.IGNORABLE`: what is chosen anew.
    :returns: a summary, as JSON values.
    :raise CommandFailed: a record cannot be sent, or a batch failed; those before it are sent.
    """
    topic = await existing_topic(cluster, options, f"'logbus topics create {options.topic} --partitions N'")
    sender = RecordSender(cluster, topic, options)
    read = 0
    try:
        try:
            for records in file_format.read(file):
                _put(sender, [_without(each, ignored) for each in records], read)
                read += len(records)
                await sender.room(sum(len(each.key or b"") + len(each.value or b"") for each in records))
                # The file is read without waiting: connections must have their turn.
                await deferLater(cluster.reactor, 0)
                if sender.has_failed:
                    break
        except (BadRecord, ValueError, LogbusError) as problem:
            sender.refuse(CommandFailed(f"{file.name}: {problem}"))
        await sender.flush()
    finally:
        sender.stop()
    return {"file": file.name, **sender.summary()}


def _without(record: InputRecord, ignored: Collection[str]) -> InputRecord:
    return record._replace(
        partition=None if "partition" in ignored else record.partition,
        timestamp=None if "timestamp" in ignored else record.timestamp,
    )


def _put(sender: RecordSender, records: Sequence[InputRecord], read: int) -> None:
    """
    Send records.

    :param read: how many there were before them.
    """
    now = int(time.time() * 1000)
    for number, record in enumerate(records, read + 1):
        try:
            sender.put(record, now)
        except REFUSED as problem:
            raise BadRecord(number, problem) from None
