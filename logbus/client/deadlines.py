"""Batches in the order in which their time is up."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.interfaces import IDelayedCall

from logbus.client.partition_queue import Batch
from logbus.model import TopicPartition


class Deadlines:
    """
    :param clock: the reactor.
    :param seconds: that each batch has.
    :param late: called with the partitions that have batches whose time is up, and when the latest of them was begun.
    """

    def __init__(self, clock: Any, seconds: float, late: Callable[[Sequence[TopicPartition], float], object]) -> None:
        self._clock = clock
        self._seconds = seconds
        self._late = late
        self._batches: OrderedDict[Batch, None] = OrderedDict()
        self._timer: IDelayedCall | None = None

    def add(self, batch: Batch) -> None:
        """A batch was begun just now. It is forgotten when its outcome is known."""
        self._batches[batch] = None
        batch.when_done(lambda _: self._batches.pop(batch, None))
        if self._timer is None:
            self._timer = self._clock.callLater(self._seconds, self._expire)

    def stop(self) -> None:
        """No more calls."""
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
