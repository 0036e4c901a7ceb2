"""Sends records of an input, and counts those that are written."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from random import Random
from typing import Any

from attrs import frozen

from logbus.cli.input_records import InputRecord
from logbus.cli.outage_lines import outage_lines
from logbus.cli.output import PROGRESS_INTERVAL, Progress, quantity
from logbus.cli.runner import CommandFailed
from logbus.client.cluster.cluster import Cluster, TopicMetadata
from logbus.client.producer.producer import Producer
from logbus.client.producer.producer_options import Acks
from logbus.client.producer.record_accumulator import BatchOutcome, ProducerBatch
from logbus.client.retry import Unreachable
from logbus.errors import ApiError, ErrorCode
from logbus.records.compression import Codec


@frozen(kw_only=True)
class SendOptions:
    """
    The options of sending records.

    :ivar create: let the broker create the topic.
    :ivar partition: of all records; None: a record's own, or chosen by its key, or any.
    :ivar headers: of each record, behind its own.
    :ivar linger: seconds to wait for a batch to fill.
    :ivar timeout: seconds for a request, and for the delivery of a record.
    """

    topic: str
    create: bool = False
    partition: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    acks: Acks = -1
    codec: Codec
    batch_bytes: int
    linger: float
    timeout: float


async def existing_topic(cluster: Cluster, options: SendOptions, advice: str) -> TopicMetadata:
    """
    The topic to send to.

    :param advice: how it is created.
    :raise CommandFailed: it does not exist.
    """
    try:
        return await cluster.topic(options.topic, create=options.create)
    except ApiError as e:
        if e.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or options.create:
            raise
        raise CommandFailed(f"{e}; it is created by {advice}") from None


class RecordSender:
    """
    Sends records to a topic, and remembers the first error.

    :param on_failure: called when a batch has failed: no more need be read.
    """

    def __init__(
        self, cluster: Cluster, topic: TopicMetadata, options: SendOptions, on_failure: Any = lambda: None
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._options = options
        self._on_failure = on_failure
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
        self._progress = Progress(PROGRESS_INTERVAL)
        self._outages = ExitStack()
        self._outages.enter_context(outage_lines(cluster, self._progress.clear))
        self._started = time.monotonic()
        self._count = self._size = self._written = 0
        self._latest: ProducerBatch | None = None
        self._unanswered: set[ProducerBatch] = set()
        self._refused: Exception | None = None
        self._failed: Exception | None = None

    @property
    def has_failed(self) -> bool:
        """Whether no more records are to be sent."""
        return self._failed is not None or self._refused is not None

    def refuse(self, problem: Exception) -> None:
        """Remember that the input is wrong; the records before it are still sent."""
        self._refused = problem

    def put(self, record: InputRecord, now: int) -> None:
        """
        Append a record to a batch.

        :param now: milliseconds since 1970, the time of a record that has none.
        :raise ValueError: a number is out of range.
        :raise ApiError: the topic has no such partition.
        """
        options = self._options
        key, value, headers, partition, timestamp = record
        batch, _ = self._producer.put(
            self._topic,
            value,
            key,
            partition=partition if options.partition is None else options.partition,
            timestamp=now if timestamp is None else timestamp,
            headers=(*headers, *options.headers) if headers else options.headers,
        )
        self._count += 1
        if batch is not self._latest:
            self._latest = batch
            if batch not in self._unanswered:
                self._unanswered.add(batch)
                batch.when_done(partial(self._done, batch))

    async def room(self, size: int) -> None:
        """
        Wait until more can be sent.

        :param size: bytes of input since the last call.
        """
        self._size += size
        self._progress.show(f"{quantity(self._count)} records, {quantity(self._size)}B")
        room = self._producer.room()
        if room is not None:
            await room

    async def flush(self, patience: float | None = None) -> None:
        """
        Wait for the outcomes of all records.

        :param patience: seconds to wait at most.
        """
        flushing = self._producer.flush()
        if patience is not None:
            flushing.addTimeout(patience, self._cluster.reactor, lambda result, _: result)
        await flushing

    def stop(self) -> None:
        """Send no more."""
        self._producer.abort()
        self._progress.clear()
        self._outages.close()

    def summary(self) -> dict[str, Any]:
        """
        Return what was sent, as JSON values.

        :raise CommandFailed: a record cannot be sent, or a batch failed; it says how many were written.
        """
        if isinstance(self._failed, Unreachable) and not self._written:
            raise self._failed
        errors = [str(each) for each in (self._refused, self._failed) if each is not None]
        if errors:
            of = "" if self._written == self._count else f" of {self._count}"
            raise CommandFailed(f"{'; '.join(errors)}; records written: {self._written}{of}")
        seconds = round(time.monotonic() - self._started, 6)
        return {"topic": self._options.topic, "records": self._count, "bytes": self._size, "seconds": seconds}

    def _done(self, batch: ProducerBatch, outcome: BatchOutcome) -> None:
        self._unanswered.discard(batch)
        if not isinstance(outcome, Exception):
            self._written += batch.builder.count
        elif self._failed is None:
            self._failed = outcome
            self._on_failure()


REFUSED = (ValueError, ApiError)
"""What :meth:`RecordSender.put` raises for a record that cannot be sent."""
