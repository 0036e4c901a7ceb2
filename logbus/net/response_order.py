"""Keeps responses in the order of their requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, TypeAlias

from twisted.internet.defer import Deferred

from logbus.net.metrics import NetMetrics
from logbus.records.file_slice import Parts, total_length
from logbus.wire.connection import Request
from logbus.wire.fetch_template import RepeatedFetch
from logbus.wire.request_template import CoalescedProduce

AnyRequest: TypeAlias = Request | CoalescedProduce | RepeatedFetch
"""A request that was decoded, or recognized; or several together."""


class ResponseSlot:
    """
    The place of one response in the order, or of the joint response to several Produce requests.

    :ivar deferred: gives the response; None if it was ready at once.
    :ivar parts: the response, once it is ready; empty if nothing is to be sent.
    :ivar count: number of requests.
    :ivar received: when they were received, and ``since``: since when they wait, as :class:`.RequestTimes` has it.
    """

    __slots__ = ("count", "deferred", "parts", "ready", "received", "request", "since", "size")

    def __init__(self, request: AnyRequest, deferred: Deferred[Any] | None, parts: Parts, count: int = 1) -> None:
        self.request = request
        self.count = count
        self.deferred = deferred
        self.parts = parts
        self.ready = deferred is None
        self.received = self.since = 0.0
        self.size = total_length(parts)


class ResponseOrder:
    """
    The responses of one connection that cannot be sent yet.

    :param most: upper bound of requests without a response.
    :param most_bytes: upper bound of bytes of ready responses that wait for earlier ones.
    :ivar waiting: requests whose responses wait, for themselves or for earlier ones.
    """

    __slots__ = ("_metrics", "_most", "_most_bytes", "_queue", "_ready_bytes", "waiting")

    def __init__(self, most: int, most_bytes: int, metrics: NetMetrics) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._metrics = metrics
        self._queue: deque[ResponseSlot] = deque()
        self._ready_bytes = self.waiting = 0

    @property
    def full(self) -> bool:
        """Whether no further request may be begun."""
        return self.waiting >= self._most or self._ready_bytes > self._most_bytes

    @property
    def room(self) -> int:
        """The number of further requests that may be begun; large responses may allow fewer."""
        return self._most - self.waiting

    def add(self, pending: ResponseSlot) -> None:
        """Append the place for the newest request's response."""
        self._queue.append(pending)
        self._ready_bytes += pending.size
        self.waiting += pending.count
        self._metrics.requests_pending += pending.count

    def settle(self, pending: ResponseSlot, parts: Parts) -> Iterator[Parts]:
        """Set a response; yields those that can be sent now, oldest first."""
        pending.parts = parts
        pending.ready = True
        pending.size = total_length(parts)
        self._ready_bytes += pending.size
        queue = self._queue
        while queue and queue[0].ready:
            first = queue.popleft()
            self._ready_bytes -= first.size
            self.waiting -= first.count
            self._metrics.requests_pending -= first.count
            yield first.parts

    def clear(self) -> list[ResponseSlot]:
        """Remove and return all, oldest first."""
        forgotten = list(self._queue)
        self._queue.clear()
        self._metrics.requests_pending -= self.waiting
        self._ready_bytes = self.waiting = 0
        return forgotten
