"""Who waits for records is told what became of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logbus.client.partition_queue import Batch, Outcome
from logbus.client.producer_records import RecordMetadata

_new_tuple = tuple.__new__


@frozen
class Telling:
    """
    :ivar on_acknowledgement: told, too; what it raises is logged.
    :ivar failed: told of each failure first.
    """

    on_acknowledgement: Callable[[RecordMetadata, Exception | None], object] | None
    failed: Callable[[Exception], object]

    _log = Logger()

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
        acknowledges = self.on_acknowledgement is not None
        for timestamp, sent in zip(batch.stamps, sends, strict=True):
            if sent is not None and (acknowledges or not sent.called):
                stamp = timestamp if stamped < 0 else stamped
                metadata = _new_tuple(RecordMetadata, (topic, partition, offset, stamp))
                if acknowledges:
                    self._acknowledge(metadata, None)
                if not sent.called:
                    sent.callback(metadata)
            offset += step

    def refuse(self, sent: Deferred[Any], error: Exception, metadata: RecordMetadata) -> None:
        """Nothing came of a record."""
        self.failed(error)
        self._acknowledge(metadata, error)
        if not sent.called:
            sent.errback(error)

    def _acknowledge(self, metadata: RecordMetadata, error: Exception | None) -> None:
        if self.on_acknowledgement is not None:
            try:
                self.on_acknowledgement(metadata, error)
            except Exception:
                self._log.failure("on_acknowledgement failed for a record of topic {topic}", topic=metadata.topic)
