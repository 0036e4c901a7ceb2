"""Completes the Deferreds of a batch's records with their metadata or error (Kafka: ProducerBatch.done)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat

from attrs import frozen

from logbus.client.interceptors import ProducerInterceptors
from logbus.client.producer.partition_queue import BatchOutcome, ProducerBatch
from logbus.client.producer.producer_record import DeliveryHandle, RecordMetadata

_new_tuple = tuple.__new__


@frozen
class DeliveryReports:
    """
    Reports outcomes to interceptors and to the Deferreds of :meth:`~logbus.client.producer.producer.Producer.send`.

    :ivar interceptors: called before the Deferreds fire.
    :ivar failed: called first with each failure.
    """

    interceptors: ProducerInterceptors
    failed: Callable[[Exception], object]

    def report(self, batch: ProducerBatch, outcome: BatchOutcome, sends: Sequence[DeliveryHandle | None]) -> None:
        """Report the outcome of a batch."""
        topic, partition = batch.partition
        if isinstance(outcome, Exception):
            for timestamp, sent in zip(batch.stamps, sends, strict=True):
                if sent is not None:
                    self.refuse(sent, outcome, RecordMetadata(topic, partition, -1, timestamp))
            return
        base, stamped = outcome
        offset, step = (base, 1) if base >= 0 else (-1, 0)
        stamps = batch.stamps if stamped < 0 else repeat(stamped, len(sends))
        acknowledges = bool(self.interceptors)
        for timestamp, sent in zip(stamps, sends, strict=True):
            if sent is not None:
                metadata = _new_tuple(RecordMetadata, (topic, partition, offset, timestamp))
                if acknowledges:
                    self.interceptors.on_acknowledgement(metadata, None)
                if not sent.called:
                    sent.callback(metadata)
            offset += step

    def refuse(self, sent: DeliveryHandle, error: Exception, metadata: RecordMetadata) -> None:
        """Report that a record was not written."""
        self.failed(error)
        self.interceptors.on_acknowledgement(metadata, error)
        if not sent.called:
            sent.errback(error)
