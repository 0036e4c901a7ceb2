"""Delivery timeouts of batches, in the order in which they expire."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.interfaces import IDelayedCall

from logbus.client.producer.partition_queue import ProducerBatch
from logbus.model import TopicPartition


class BatchDeadlines:
    """
    Runs one timer for all batches that wait for delivery.

    :param clock: the reactor.
    :param seconds: the delivery timeout.
    :param late: called with the partitions that have expired batches, and the time at which the latest of these was
        created.
    """

    def __init__(self, clock: Any, seconds: float, late: Callable[[Sequence[TopicPartition], float], object]) -> None:
        self._clock = clock
        self._seconds = seconds
        self._late = late
        self._batches: OrderedDict[ProducerBatch, None] = OrderedDict()
        self._timer: IDelayedCall | None = None

    def add(self, batch: ProducerBatch) -> None:
        """Watch a batch created just now, until its outcome is known."""
        self._batches[batch] = None
        batch.when_done(lambda _: self._batches.pop(batch, None))
        if self._timer is None:
            self._timer = self._clock.callLater(self._seconds, self._expire)

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def _expire(self) -> None:
        self._timer = None
        latest = self._clock.seconds() - self._seconds
        late: dict[TopicPartition, None] = {}
        while self._batches:
            batch = next(iter(self._batches))
            if batch.created > latest:
                self._timer = self._clock.callLater(batch.created - latest, self._expire)
                break
            del self._batches[batch]
            late[batch.partition] = None
        self._late(list(late), latest)
