"""Who waits for records is told what became of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from logbus.client.interceptors import ProducerInterceptors
from logbus.client.partition_queue import Batch, Outcome
from logbus.client.producer_records import RecordMetadata

_new_tuple = tuple.__new__


@frozen
class Telling:
    """
    :ivar interceptors: told, too, and before who waits.
    :ivar failed: told of each failure first.
    """

    interceptors: ProducerInterceptors
    failed: Callable[[Exception], object]

    def tell(self, batch: Batch, outcome: Outcome, sends: Sequence[Deferred[RecordMetadata] | None]) -> None:
        """The outcome of a batch is known."""
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

    def refuse(self, sent: Deferred[Any], error: Exception, metadata: RecordMetadata) -> None:
        """Nothing came of a record."""
        self.failed(error)
        self.interceptors.on_acknowledgement(metadata, error)
        if not sent.called:
            sent.errback(error)
