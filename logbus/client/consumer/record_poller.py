"""Delivers records to the application: a consumer's loop, its batches, and its positions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Protocol

from twisted.internet.defer import CancelledError, Deferred, succeed

from logbus.client.consumer.batch_delivery import BatchDelivery, deserialize_batch
from logbus.client.consumer.consumer_options import ConsumerOptions
from logbus.client.consumer.consumer_record import ConsumerRecord, Fetched, K, V
from logbus.client.consumer.fetcher import Fetcher
from logbus.client.group_metadata import CommittedOffset
from logbus.errors import LogbusError
from logbus.model import TopicPartition


class PollMonitor(Protocol):
    """The group membership, as seen by the delivery of records."""

    def polled(self) -> None:
        """Note that the application asks for records."""

    def check(self) -> None:
        """
        Check that waiting for records makes sense.

        :raises LogbusError: it does not: the consumer reads nothing, or has failed.
        """

    def waiting(self, records: Deferred[Fetched]) -> Deferred[Fetched]:
        """Cancel a wait for records when the consumer fails."""


class Processor(Protocol):
    """The part of :class:`.RecordProcessor` that the poller needs."""

    def when_done(self, partitions: Iterable[TopicPartition], seconds: float) -> Deferred[None]:
        """See :meth:`.RecordPoller.when_done`."""

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget the records taken of these partitions."""

    def cancel(self, partitions: Iterable[TopicPartition]) -> None:
        """Cancel what is under way of these partitions."""

    def drain(self) -> Deferred[None]:
        """Begin nothing more; fires when nothing is under way, after a while in any case."""

    def offset(self, partition: TopicPartition) -> CommittedOffset | None:
        """The first unfinished record of a partition; None: there is none."""


class RecordPoller(Generic[K, V]):
    """
    Delivers records to one loop: the records delivered last are processed when the loop asks for more.

    :param monitor: set before records are asked for.
    :param delivered: called with a partition when its next batch, or the rest of one, is delivered.

    :ivar rest: the records that a loop gets next without waiting.
    :ivar processor: processes the delivered records side by side, and knows which are done; None: the loop does.
    :ivar closed: deliver nothing more.
    :ivar leaving: the application gives up its partitions itself, so do not wait until it asks for more.
    """

    monitor: PollMonitor
    processor: Processor | None = None

    def __init__(
        self,
        clock: Any,
        fetcher: Fetcher,
        options: ConsumerOptions[K, V],
        delivered: Callable[[TopicPartition], object],
    ) -> None:
        self.closed = self.leaving = False
        self._clock = clock
        self._fetcher = fetcher
        self._interceptors = options.interceptors
        self._key, self._value = options.key_deserializer, options.value_deserializer
        self._open_batches: dict[TopicPartition, BatchDelivery] = {}
        self.rest: Iterator[ConsumerRecord[K, V]] = iter(())
        self._delivered = delivered
        self._is_polling = False
        self._processing: list[Deferred[None]] = []

    def __aiter__(self) -> RecordPoller[K, V]:
        return self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        for record in self.rest:
            # The fast path, without a call or an exception.
            return record
        while True:
            delivery = await self.next_delivery()
            if delivery is None:
                raise StopAsyncIteration
            for record in self.iterate(delivery):
                return record

    def iterate(self, delivery: BatchDelivery) -> Iterator[ConsumerRecord[K, V]]:
        """
        The records of a delivery, one by one, which are :attr:`rest` from now on.

        :raises RecordError: there are none, since the next one cannot be deserialized.
        """
        delivery.iterate()
        self.rest = delivery.rest
        if not delivery.left and delivery.error is not None:
            raise delivery.error
        return delivery.rest

    def take(self, delivery: BatchDelivery, count: int) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """
        Take records of a delivery, and of others that are ready, at most ``count``.

        :raises RecordError: the first record cannot be deserialized.
        """
        found: dict[TopicPartition, list[ConsumerRecord[K, V]]] = {}
        following: BatchDelivery | None = delivery
        while following is not None:
            records = following.take(count)
            if not records:
                if following.error is not None and not found:
                    raise following.error
                break
            found.setdefault(following.fetched.partition, []).extend(records)
            count -= len(records)
            if not count or not following.is_over:
                break
            try:
                following = self.next_ready_delivery(found)
            except LogbusError:
                # The next call raises it; this one returns records.
                break
        return found

    def take_batch(self, delivery: BatchDelivery) -> Fetched[K, V]:
        """
        Take the rest of a delivery.

        :raises RecordError: the first record cannot be deserialized.
        """
        records = delivery.take(delivery.left)
        if not records and delivery.error is not None:
            raise delivery.error
        return delivery.fetched._replace(records=records)

    def can_deliver(self, delivery: BatchDelivery) -> bool:
        """Whether a delivery is still due: its partition was not paused, moved or given up since."""
        partition = delivery.fetched.partition
        return (
            not self.closed
            and self._open_batches.get(partition) is delivery
            and not delivery.is_over
            and partition not in self._fetcher.assigned.paused()
        )

    async def next_delivery(self, seconds: float | None = None) -> BatchDelivery | None:
        """
        Wait for the next batch to deliver; None if the time is up or the consumer was closed.

        :raises LogbusError: another loop is waiting for records; or the error of a partition.
        """
        if self._is_polling:
            raise LogbusError(
                "another poll or loop of this consumer is waiting for records: one loop reads a consumer, so await it "
                "first, or use a consumer for each loop"
            )
        self._is_polling = True
        try:
            delivery = await self._next_delivery(seconds)
        finally:
            self._is_polling = False
        if delivery is not None:
            self._delivered(delivery.fetched.partition)
        return delivery

    async def _next_delivery(self, seconds: float | None) -> BatchDelivery | None:
        self.settle()
        deadline = None if seconds is None else self._clock.seconds() + seconds
        while not self.closed:
            self.monitor.polled()
            delivery = self._ready_delivery()
            if delivery is not None:
                return delivery
            fetched = await self._wait(deadline)
            if fetched is None:
                return None
            delivery = self._open_batch(fetched)
            if delivery is not None:
                return delivery
        return None

    def next_ready_delivery(self, but: Iterable[TopicPartition]) -> BatchDelivery | None:
        """
        The next batch that can be delivered without waiting, in addition to the last one.

        :param but: partitions to skip if they only have the rest of a batch.
        :raises LogbusError: the error of the partition whose turn it is.
        """
        delivery = self._ready_delivery(but)
        if delivery is not None:
            self._delivered(delivery.fetched.partition)
        return delivery

    def _ready_delivery(self, but: Iterable[TopicPartition] = ()) -> BatchDelivery | None:
        if self._open_batches:
            paused = self._fetcher.assigned.paused()
            for partition, delivery in self._open_batches.items():
                if partition not in but and partition not in paused and not delivery.is_over:
                    return delivery
        while not self.closed:
            fetched = self._fetcher.take()
            if fetched is None:
                return None
            found = self._open_batch(fetched)
            if found is not None:
                return found
        return None

    def settle(self) -> None:
        """Mark all delivered records as processed."""
        for partition, delivery in list(self._open_batches.items()):
            delivery.settle()
            if delivery.is_over:
                del self._open_batches[partition]
        self.stop_waiting()

    def when_done(self, partitions: Iterable[TopicPartition], seconds: float) -> Deferred[None]:
        """
        Fires when the application has processed the delivered records of partitions: when it asks for more, or gives
        them up.

        :param seconds: the most to wait.
        """
        partitions = list(partitions)
        if self.processor is not None:
            return self.processor.when_done(partitions, seconds)
        deliveries = [self._open_batches[each] for each in partitions if each in self._open_batches]
        if self.closed or self.leaving or all(each.done >= each.position for each in deliveries):
            return succeed(None)
        # A loop over records iterates over a batch without calling here: make it come back for the next record.
        self.stop()
        waiting: Deferred[None] = Deferred(self._processing.remove)
        self._processing.append(waiting)
        return waiting.addTimeout(seconds, self._clock).addErrback(lambda _: None)

    def stop_waiting(self) -> None:
        """Fire the Deferreds of :meth:`when_done`."""
        processing, self._processing = self._processing, []
        for each in processing:
            each.callback(None)

    def stop(self) -> None:
        """Make a loop over records come back for the next record."""
        self.rest = iter(())

    def give_up(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop the batches of these partitions, which others may read now, and cancel what is under way of them."""
        partitions = list(partitions)
        self.drop(partitions)
        if self.processor is not None:
            self.processor.cancel(partitions)

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop the batches of these partitions."""
        partitions = list(partitions)
        if self.processor is not None:
            self.processor.drop(partitions)
        for each in partitions:
            delivery = self._open_batches.pop(each, None)
            if delivery is not None and delivery.rest is self.rest:
                self.stop()

    def position(self, partition: TopicPartition) -> int | None:
        """
        The offset of the next record to deliver; None while it is being looked up.

        :raises NotAssigned: the partition is not assigned.
        """
        delivery = self._open_batches.get(partition)
        return self._fetcher.assigned.position(partition) if delivery is None else delivery.position

    def offsets(self, done: bool) -> dict[TopicPartition, CommittedOffset]:
        """
        The offsets to commit.

        :param done: those after processed records, not after delivered ones.
        """
        found = {}
        for each in self._fetcher.assigned.partitions:
            delivery = self._open_batches.get(each)
            unfinished = None if self.processor is None else self.processor.offset(each)
            if unfinished is not None:
                found[each] = unfinished
            elif delivery is not None:
                found[each] = CommittedOffset(delivery.done if done else delivery.position, delivery.fetched.epoch)
            else:
                position = self._fetcher.assigned.position(each)
                if position is not None and position >= 0:
                    found[each] = CommittedOffset(position, self._fetcher.assigned.epoch(each))
        return found

    def _open_batch(self, fetched: Fetched) -> BatchDelivery | None:
        delivery = deserialize_batch(fetched, self._key, self._value)
        if delivery.is_over:
            # Only transaction markers or compacted offsets: the position advanced without records.
            return None
        if self._interceptors and delivery.fetched.records:
            self._interceptors.on_consume(delivery.fetched.records)
        before = self._open_batches.get(fetched.partition)
        if before is not None:
            delivery.floor = before.done
        self._open_batches[fetched.partition] = delivery
        return delivery

    async def _wait(self, deadline: float | None) -> Fetched | None:
        """Wait for the fetcher; None if the time is up or the consumer was closed."""
        self.monitor.check()
        waiting = self.monitor.waiting(self._fetcher.poll())
        timer = None
        if deadline is not None:
            timer = self._clock.callLater(max(0.0, deadline - self._clock.seconds()), waiting.cancel)
        try:
            return await waiting
        except (CancelledError, LogbusError) as e:
            is_late = timer is not None and not timer.active() and isinstance(e, CancelledError)
            if self.closed or is_late:
                return None
            raise
        finally:
            if timer is not None and timer.active():
                timer.cancel()


class BatchIterator(Generic[K, V]):
    """A consumer's batches, as an asynchronous iterator of :class:`~logbus.client.consumer.consumer_record.Fetched`."""

    def __init__(self, poller: RecordPoller[K, V]) -> None:
        self._record_poller = poller

    def __aiter__(self) -> BatchIterator[K, V]:
        return self

    async def __anext__(self) -> Fetched[K, V]:
        delivery = await self._record_poller.next_delivery()
        if delivery is None:
            raise StopAsyncIteration
        return self._record_poller.take_batch(delivery)
