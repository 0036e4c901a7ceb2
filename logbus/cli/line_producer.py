"""Sends lines from standard input as records, for ``logbus produce``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

from attrs import frozen
from twisted.internet.defer import CancelledError

from logbus.cli.input_records import InputFormat
from logbus.cli.line_reader import LineReader, LineTooLong
from logbus.cli.output import Progress, quantity
from logbus.cli.runner import CommandFailed
from logbus.client.cluster.cluster import Cluster, TopicMetadata
from logbus.client.producer.producer import Producer
from logbus.client.producer.record_accumulator import BatchOutcome, ProducerBatch
from logbus.client.retry import Unreachable
from logbus.errors import ApiError, LogbusError
from logbus.records.compression import Codec


@frozen(kw_only=True)
class ProduceOptions:
    """
    How ``logbus produce`` sends lines.

    :ivar create: let the broker create the topic.
    :ivar partition: None: chosen by the key, or any.
    :ivar input_format: what lines stand for.
    :ivar headers: of each record, behind its own.
    :ivar linger: seconds to wait for a batch to fill.
    :ivar timeout: seconds for a request, and for the delivery of a record.
    """

    topic: str
    create: bool
    partition: int | None
    input_format: InputFormat
    headers: Sequence[tuple[str, bytes]]
    acks: int
    codec: Codec
    batch_bytes: int
    linger: float
    timeout: float


async def produce_lines(cluster: Cluster, options: ProduceOptions) -> dict[str, Any]:
    """
    Send the lines of standard input.

    :returns: a summary, as JSON values.
    :raise CommandFailed: a line cannot be sent, or a batch failed; lines before it are sent.
    """
    topic = await cluster.topic(options.topic, create=options.create)
    return await LineProducer(cluster, topic, options).run()


class LineProducer:
    """Sends lines, and counts those that are written."""

    def __init__(self, cluster: Cluster, topic: TopicMetadata, options: ProduceOptions) -> None:
        self._cluster = cluster
        self._topic = topic
        self._options = options
        self._producer = Producer(
            cluster,
            wall_clock=time.time,
            random=Random(),
            acks=options.acks,
            codec=options.codec,
            batch_bytes=options.batch_bytes,
            linger=options.linger,
            delivery_timeout=options.timeout,
            request_timeout=options.timeout,
            buffer_bytes=16 * max(options.batch_bytes, 1 << 20),
        )
        self._lines = LineReader(cluster.reactor)
        self._progress = Progress()
        self._read = self._count = self._size = self._written = 0
        self._latest: ProducerBatch | None = None
        self._unanswered: set[ProducerBatch] = set()
        self._refused: Exception | None = None
        self._failed: Exception | None = None

    async def run(self) -> dict[str, Any]:
        """Send all lines; see :func:`produce_lines`."""
        started = time.monotonic()
        try:
            await self._send_lines()
            await self._producer.flush()
        except CancelledError:
            # Lines that were read are sent, since they are gone from the input.
            await self._producer.flush().addTimeout(5.0, self._cluster.reactor, lambda result, _: result)
            raise
        finally:
            self._lines.stop()
            self._producer.abort()
            self._progress.clear()
        self._raise_error()
        seconds = round(time.monotonic() - started, 6)
        return {"topic": self._options.topic, "records": self._count, "bytes": self._size, "seconds": seconds}

    async def _send_lines(self) -> None:
        while self._failed is None and self._refused is None:
            try:
                lines = await self._lines.more()
                if lines is None:
                    break
                self._size += sum(map(len, lines))
                self._send(lines)
            except (LineTooLong, LogbusError) as problem:
                # The lines before it are still sent.
                self._refused = problem
            self._progress.show(f"{quantity(self._count)} records, {quantity(self._size)}B")
            room = self._producer.room()
            if room is not None:
                await room

    def _send(self, lines: Sequence[bytes]) -> None:
        options = self._options
        now = int(time.time() * 1000)
        for line in lines:
            self._read += 1
            try:
                record = options.input_format(line)
                if record is None:
                    continue
                key, value, headers, partition, timestamp = record
                batch, _ = self._producer.put(
                    self._topic,
                    value,
                    key,
                    partition=partition if options.partition is None else options.partition,
                    timestamp=now if timestamp is None else timestamp,
                    headers=(*headers, *options.headers) if headers else options.headers,
                )
            except (ValueError, ApiError) as problem:
                raise CommandFailed(f"line {self._read}: {problem}") from None
            self._count += 1
            if batch is not self._latest:
                self._latest = batch
                if batch not in self._unanswered:
                    self._unanswered.add(batch)
                    batch.when_done(partial(self._done, batch))

    def _done(self, batch: ProducerBatch, outcome: BatchOutcome) -> None:
        self._unanswered.discard(batch)
        if not isinstance(outcome, Exception):
            self._written += batch.builder.count
        elif self._failed is None:
            self._failed = outcome
            self._lines.stop()

    def _raise_error(self) -> None:
        if isinstance(self._failed, Unreachable) and not self._written:
            raise self._failed
        errors = [str(each) for each in (self._refused, self._failed) if each is not None]
        if errors:
            of = "" if self._written == self._count else f" of {self._count}"
            raise CommandFailed(f"{'; '.join(errors)}; records written: {self._written}{of}")
