"""
Accounts for a producer's memory, and holds records that are in no batch yet (Kafka: BufferPool): those that wait for
room, and those whose topic is being looked up.

Memory is bounded whatever the application does. Batches hold up to ``buffer_bytes``; records beyond that wait, up to as
much again. Further records are refused; only a caller that awaits neither Deferreds nor room meets that error.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from twisted.internet.defer import CancelledError, Deferred

from logbus.client.cluster.cluster import Cluster, TopicMetadata
from logbus.client.producer.backpressure import Backpressure
from logbus.client.producer.producer_metrics import ProducerMetrics
from logbus.client.producer.producer_options import ProducerOptions
from logbus.client.producer.producer_record import BufferFull, DeliveryFailed, DeliveryHandle, ProducerRecord
from logbus.client.retry import is_retriable
from logbus.errors import ApiError, ErrorCode, LogbusError

PER_SEND = 512
"""Bytes of memory that a record takes besides its own, for its Deferred."""


class _PendingRecord(NamedTuple):
    """
    A record and its Deferred. Without a record it is a marker: its Deferred fires when the records before it are in
    batches.
    """

    record: ProducerRecord | None
    sent: Any

    @property
    def charge(self) -> int:
        """Bytes of memory that it takes."""
        record = self.record
        if record is None:
            return 0
        headers = sum(len(name) + len(content or b"") + 16 for name, content in record.headers)
        return PER_SEND + len(record.value or b"") + len(record.key or b"") + headers


Place = Callable[[TopicMetadata, ProducerRecord, DeliveryHandle], None]
Refuse = Callable[[ProducerRecord, DeliveryHandle, Exception], None]


class BufferPool:
    """
    The producer's buffer: bytes in use, and records that wait.

    :param options: its ``buffer_bytes``; and ``delivery_timeout``, for which the lookup of a topic is retried.
    :param place: appends a record to a batch.
    :param refuse: fails a record's Deferred.
    :ivar buffered: bytes in batches, of records whose topic is being looked up, and of the Deferreds of both.
    :ivar note_backlog: called when a partition has complete batches that cannot be sent yet.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: ProducerOptions,
        metrics: ProducerMetrics,
        place: Place,
        refuse: Refuse,
    ) -> None:
        self._cluster = cluster
        self._buffer_bytes = options.buffer_bytes
        self._patience = options.delivery_timeout
        self._create_topics = options.create_topics
        self._metrics = metrics
        self._place_in_batch = place
        self._refuse = refuse
        self.buffered = 0
        self._backpressure = Backpressure(cluster.reactor)
        self.note_backlog = self._backpressure.note_backlog
        self._topics: dict[str, TopicMetadata] = {}
        self._pending: OrderedDict[object, _PendingRecord] = OrderedDict()
        self._pending_bytes = 0
        self._lookups: dict[str, dict[object, _PendingRecord]] = {}
        self._lookup_tasks: set[Deferred[None]] = set()
        self._is_stopped = False

    def topic(self, name: str) -> TopicMetadata | None:
        """
        The topic, if a record for it can be appended at once. While a topic is looked up again, the previous metadata
        is used.
        """
        if self.buffered >= self._buffer_bytes or self._pending or self._lookups:
            return None
        topic = self._cluster.known(name)
        if topic is None:
            return self._topics.get(name)
        self._topics[name] = topic
        return topic

    def take(self, record: ProducerRecord, sent: DeliveryHandle) -> None:
        """
        Append a record to a batch as soon as possible.

        :raises BufferFull: too many records wait already.
        :raises TypeError: its size cannot be known, since a part of it is wrong; likewise ValueError.
        """
        pending = _PendingRecord(record, sent)
        if self.buffered < self._buffer_bytes and not self._pending:
            self._place(pending)
            return
        if self._pending_bytes >= self._buffer_bytes:
            raise BufferFull(f"{len(self._pending)} records wait for room in the buffer; wait for them, or for room()")
        self._pending_bytes += pending.charge
        self._pending[sent] = pending
        self._metrics.waits += 1

    def withdraw(self, sent: object) -> None:
        """Remove a record whose sender has cancelled it; a record in a batch stays."""
        pending = self._pending.pop(sent, None)
        if pending is not None:
            self._pending_bytes -= pending.charge
            self.make_room()
            return
        for waiting in self._lookups.values():
            pending = waiting.pop(sent, None)
            if pending is not None:
                self.freed(pending.charge)
                return

    def check_room(self) -> None:
        """
        Check that a caller of :meth:`~logbus.client.producer.producer.Producer.put` waits for room now and then.

        :raises BufferFull: twice the buffer's size is in use.
        """
        if self.buffered >= 2 * self._buffer_bytes:
            raise BufferFull(f"{self.buffered} bytes wait to be sent; wait for room()")

    def room(self) -> Deferred[None] | None:
        """None while more can be sent; else a Deferred that fires when there is room again."""
        if self.buffered < self._buffer_bytes and not self._pending:
            return None if self.buffered < self._backpressure.next_turn else self._backpressure.turn(self.buffered)
        return self._backpressure.wait()

    def freed(self, size: int) -> None:
        """Give back a number of bytes."""
        self.buffered -= size
        self._backpressure.freed(self.buffered)
        self.make_room()

    def make_room(self, *, for_all: bool = False) -> None:
        """
        Append waiting records as far as there is room.

        :param for_all: the producer is closing: resume all callers.
        """
        while self._pending and self.buffered < self._buffer_bytes and not self._is_stopped:
            _, pending = self._pending.popitem(last=False)
            self._pending_bytes -= pending.charge
            self._place(pending)
        if self._backpressure and ((self.buffered < self._buffer_bytes and not self._pending) or for_all):
            self._backpressure.resume_all()

    def unplaced(self) -> int:
        """The number of records that are in no batch yet."""
        places = (self._pending, *self._lookups.values())
        return sum(each.record is not None for place in places for each in place.values())

    async def all_placed(self) -> None:
        """Wait until all current records are in batches or refused."""
        if self._pending:
            passed: Deferred[None] = Deferred(self.withdraw)
            self._pending[passed] = _PendingRecord(None, passed)
            await passed
        # All at once: a lookup that ends while another one is waited for would not see a later marker.
        markers: list[Deferred[None]] = []
        for waiting in self._lookups.values():
            known: Deferred[None] = Deferred(self.withdraw)
            waiting[known] = _PendingRecord(None, known)
            markers.append(known)
        for each in markers:
            await each

    def drop(self, error: Exception) -> None:
        """Fail all records here."""
        dropped = list(self._pending.values())
        self._pending.clear()
        self._pending_bytes = 0
        for waiting in self._lookups.values():
            self.buffered -= sum(each.charge for each in waiting.values())
            dropped += waiting.values()
            waiting.clear()
        for pending in dropped:
            self._fail(pending, error)

    def stop(self) -> None:
        """Append no waiting records any more: whatever room there is, nothing would send them."""
        self._is_stopped = True

    def close(self, error: Exception) -> None:
        """Fail all records here, and stop looking up topics."""
        self.drop(error)
        for lookup in list(self._lookup_tasks):
            lookup.cancel()
        self.make_room(for_all=True)

    def _place(self, pending: _PendingRecord) -> None:
        record, sent = pending
        if record is None:
            sent.callback(None)
            return
        name = record.topic
        topic = self._cluster.known(name) or self._topics.get(name)
        if topic is not None and name not in self._lookups:
            self._place_in_batch(topic, record, sent)
            return
        self.buffered += pending.charge
        waiting = self._lookups.get(name)
        if waiting is not None:
            waiting[sent] = pending
            return
        self._lookups[name] = {sent: pending}
        lookup = Deferred.fromCoroutine(self._look_up(name))
        if not lookup.called:
            self._lookup_tasks.add(lookup)
            lookup.addBoth(lambda _: self._lookup_tasks.discard(lookup))

    async def _look_up(self, name: str) -> None:
        """Look up a topic, then append the records that wait for it."""
        error: Exception | None = None
        try:
            self._topics[name] = await self._ask_for(name)
        except CancelledError:
            error = DeliveryFailed("the producer was stopped")
        except Exception as e:
            error = e
        waiting = list(self._lookups.pop(name, {}).values())
        self.buffered -= sum(each.charge for each in waiting)
        for pending in waiting:
            if error is not None:
                self._fail(pending, error)
            elif not pending.sent.called:
                self._place(pending)
        self.make_room()

    async def _ask_for(self, name: str) -> TopicMetadata:
        attempts = self._cluster.attempts(self._patience)
        while True:
            try:
                return await self._cluster.topic(name, create=self._create_topics)
            except LogbusError as e:
                unknown = isinstance(e, ApiError) and e.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                is_lasting = (unknown and not self._create_topics) or not is_retriable(e)
                if is_lasting or not await attempts.again():
                    raise

    def _fail(self, pending: _PendingRecord, error: Exception) -> None:
        if pending.sent.called:
            return
        if pending.record is None:
            pending.sent.callback(None)
        else:
            self._refuse(pending.record, pending.sent, error)
