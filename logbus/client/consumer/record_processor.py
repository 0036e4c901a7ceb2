"""Processes a consumer's records side by side, in order per key: :meth:`.Consumer.each`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.client import validators as check
from logbus.client.consumer.batch_delivery import BatchDelivery
from logbus.client.consumer.consumer_record import ConsumerRecord, K, V
from logbus.client.consumer.work_ledger import Work, WorkLedger
from logbus.client.group_metadata import CommittedOffset
from logbus.errors import LogbusError
from logbus.model import TopicPartition

if TYPE_CHECKING:
    from logbus.client.consumer.fetcher import Fetcher
    from logbus.client.consumer.record_poller import RecordPoller

__all__ = ["EachArguments", "ProcessingFailed", "RecordOrder", "RecordProcessor"]

RecordOrder = Literal["key", "partition", "none"]

_TAKEN_PER_CALL = 16
"""How many records are taken for each that may be under way: so many of one key leave room for others."""


class EachArguments(TypedDict, total=False):
    """Options of :meth:`.Consumer.each`, but for ``on_error``."""

    concurrency: int
    order: RecordOrder
    drain_timeout: float
    max_records: int | None


class ProcessingFailed(LogbusError):
    """
    A record could not be processed; the message names its place and the error, which is the ``__cause__``.

    :ivar record: the record.
    """

    def __init__(self, record: ConsumerRecord[Any, Any], error: BaseException) -> None:
        place = TopicPartition(record.topic, record.partition)
        super().__init__(f"{place}@{record.offset}: {type(error).__name__}: {error}")
        self.record = record
        self.__cause__ = error


class RecordProcessor(Generic[K, V]):
    """
    One call of :meth:`.Consumer.each`.

    While it runs, the consumer's offsets to commit are those of the first unfinished records.

    :param process: called with each record.
    :param on_error: called with a record and the error of its processing. Default: the first error ends it all.
    :param most_bytes: of records taken and not finished, on the wire.
    :param options: see :meth:`.Consumer.each`.
    """

    _log = Logger()

    def __init__(
        self,
        clock: Any,
        poller: RecordPoller[K, V],
        fetcher: Fetcher,
        process: Callable[[ConsumerRecord[K, V]], Awaitable[object] | None],
        on_error: Callable[[ConsumerRecord[K, V], Exception], Awaitable[object] | None] | None,
        most_bytes: int,
        *,
        concurrency: int = 16,
        order: RecordOrder = "key",
        drain_timeout: float = 30.0,
        max_records: int | None = None,
    ) -> None:
        check.function("process", process, optional=False)
        check.function("on_error", on_error)
        check.integer("concurrency", concurrency, 1)
        check.seconds("drain_timeout", drain_timeout)
        if max_records is not None:
            check.integer("max_records", max_records, 1)
        check.choice("order", order, ("key", "partition", "none"))
        self._clock = clock
        self._poller = poller
        self._fetcher = fetcher
        self._process, self._on_error = process, on_error
        self._order = order
        self._drain_timeout = drain_timeout
        self._ledger: WorkLedger[K, V] = WorkLedger(
            concurrency, max_records or _TAKEN_PER_CALL * concurrency, most_bytes
        )
        self._calls: dict[Work[K, V], Deferred[None]] = {}
        self._cancelled: set[Work[K, V]] = set()
        self._failure: LogbusError | None = None
        self._is_stopped = self._is_beginning = False
        self._asking: Deferred[BatchDelivery | None] | None = None
        self._room: Deferred[None] | None = None

    async def run(self) -> None:
        """
        Process records until the consumer is closed.

        :raises LogbusError: see :meth:`.Consumer.each`.
        """
        self._poller.processor = self
        try:
            await self._take()
        except BaseException as e:
            self.stop()
            if isinstance(e, CancelledError):
                self._cancel(list(self._calls))
            raise
        finally:
            await self.drain()
            if not self._poller.closed:
                self._poller.processor = None
                self._go_back()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Begin nothing more."""
        self._is_stopped = True

    def drain(self) -> Deferred[None]:
        """Begin nothing more; fires when everything under way has ended, and cancels it after a while."""
        self.stop()
        return self._when_ended(list(self._calls), self._drain_timeout)

    # Called by the poller.

    def when_done(self, partitions: Iterable[TopicPartition], seconds: float) -> Deferred[None]:
        """
        Begin no more records of these partitions; fires when those under way have ended, and cancels them after a
        while.

        :param seconds: the most to wait; the drain timeout may be less.
        """
        partitions = list(partitions)
        self._ledger.withdraw(partitions)
        return self._when_ended(self._ledger.under_way_of(partitions), min(seconds, self._drain_timeout))

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget the records taken of these partitions; the outcome of those under way does not matter."""
        self._ledger.drop(partitions)
        self._wake()

    def cancel(self, partitions: Iterable[TopicPartition]) -> None:
        """Cancel what is under way of these partitions, which other members may have."""
        self._cancel(self._ledger.under_way_of(partitions))

    def offset(self, partition: TopicPartition) -> CommittedOffset | None:
        """The first unfinished record of a partition; None: there is none."""
        work = self._ledger.unfinished(partition)
        return None if work is None else CommittedOffset(work.record.offset, work.epoch)

    # Internals.

    async def _take(self) -> None:
        while not self._is_stopped:
            room = self._ledger.room
            if not room:
                self._room = Deferred()
                await self._room
                continue
            delivery = await self._next_delivery()
            if delivery is None:
                return
            keyed = delivery.take_keyed(room)
            if not keyed and delivery.error is not None:
                raise delivery.error
            delivery.settle()
            fetched = delivery.fetched
            size = fetched.size // max(1, len(fetched.records))
            for key, record in keyed:
                order = {"key": key, "partition": b"", "none": None}[self._order]
                self._ledger.add(Work(fetched.partition, record, order, size, fetched.epoch))
            self._begin()

    async def _next_delivery(self) -> BatchDelivery | None:
        """Ask for records; None as well if processing has failed meanwhile."""
        self._asking = Deferred.fromCoroutine(self._poller.next_delivery())
        try:
            return await self._asking
        except CancelledError:
            if self._failure is None:
                raise
            return None
        finally:
            self._asking = None

    def _begin(self) -> None:
        """Begin what may begin; a call that ends at once is none of another call here."""
        if self._is_beginning:
            return
        self._is_beginning = True
        try:
            while not self._is_stopped and (work := self._ledger.begin()) is not None:
                call = self._calls[work] = Deferred.fromCoroutine(self._call(work))
                call.addBoth(self._ended, work)
        finally:
            self._is_beginning = False

    async def _call(self, work: Work[K, V]) -> None:
        try:
            result = self._process(work.record)
            if result is not None:
                await result
        except Exception as e:
            if self._on_error is None or work in self._cancelled:
                raise
            result = self._on_error(work.record, e)
            if result is not None:
                await result

    def _ended(self, result: object, work: Work[K, V]) -> None:
        del self._calls[work]
        self._ledger.end(work, is_finished=not isinstance(result, Failure))
        if isinstance(result, Failure):
            if work.is_dropped or work in self._cancelled:
                self._log.debug("{error}, in a record that is read again", error=result.value)
            elif self._failure is None:
                error: BaseException = result.value  # type: ignore[assignment]  # a Failure has one
                self._failure = ProcessingFailed(work.record, error)
                self.stop()
                if self._asking is not None:
                    self._asking.cancel()
        self._cancelled.discard(work)
        self._begin()
        self._wake()

    def _wake(self) -> None:
        """Take more, if that waited for room."""
        if self._room is not None and (self._is_stopped or self._ledger.room):
            room, self._room = self._room, None
            room.callback(None)

    def _when_ended(self, works: list[Work[K, V]], seconds: float) -> Deferred[None]:
        calls = [self._calls[each] for each in works if each in self._calls]
        if not calls:
            return succeed(None)
        left = len(calls)
        ended: Deferred[None] = Deferred(lambda _: None)

        def one(result: Any) -> Any:
            nonlocal left
            left -= 1
            if not left and not ended.called:
                ended.callback(None)
            return result

        for call in calls:
            call.addBoth(one)

        def late() -> None:
            self._cancel(works)
            # Some may not end all the same.
            if not ended.called:
                ended.callback(None)

        timer = self._clock.callLater(seconds, late)

        def over(result: Any) -> None:
            if timer.active():
                timer.cancel()

        return ended.addBoth(over)

    def _cancel(self, works: list[Work[K, V]]) -> None:
        for each in works:
            call = self._calls.get(each)
            if call is not None:
                self._cancelled.add(each)
                call.cancel()

    def _go_back(self) -> None:
        """Go back to the unfinished records, for the next loop that reads the consumer."""
        for each in self._ledger.partitions:
            work = self._ledger.unfinished(each)
            if work is not None and each in self._fetcher.assigned.partitions:
                self._fetcher.seek(each, work.record.offset, work.epoch)
                self._poller.drop((each,))
