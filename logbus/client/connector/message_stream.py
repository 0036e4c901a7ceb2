"""
A message stream: the merged records of some partitions, for one loop (Kafka 0.8: KafkaStream).

A stream reads ahead only as far as its reader's buffer, so a slow loop slows down its own partitions only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, TypeVar

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger

from logbus.client.cluster.cluster import Cluster
from logbus.client.connector.partition_reader import (
    OpenReader,
    PartitionReader,
    forget_missing_topics,
    start_position,
)
from logbus.client.connector.positions import Positions
from logbus.client.consumer.consumer_record import ConsumerRecord, Fetched
from logbus.client.interceptors import ConsumerInterceptors
from logbus.client.retry import is_retriable
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition

T = TypeVar("T")


@define(eq=False)
class MessageStream:
    """
    An asynchronous iterator over :class:`~logbus.client.ConsumerRecord`. Its partitions change with every rebalance. It
    ends when the connector shuts down.

    .. code-block:: python

        async for record in stream:
            print(record.topic, record.partition, record.offset, record.value)

    Asking for the next record means that the previous one is processed. A stream is read by one loop; for more loops,
    ask the connector for more streams.

    A corrupt batch, or a partition without an offset if ``auto_offset_reset`` is none, raises an
    :class:`~logbus.errors.ApiError` in the loop. The loop may go on; the stream raises it again while its cause lasts.
    """

    _cluster: Cluster
    _open_reader: OpenReader
    _positions: Positions
    _interceptors: ConsumerInterceptors
    _partitions: dict[TopicPartition, None] = field(factory=dict, init=False)
    _reader: PartitionReader | None = field(default=None, init=False)
    _records: deque[ConsumerRecord] = field(factory=deque, init=False)
    _source: TopicPartition | None = field(default=None, init=False)
    _after: int = field(default=0, init=False)
    _in_hand: tuple[TopicPartition, int] | None = field(default=None, init=False)
    _waiting: Deferred[Any] | None = field(default=None, init=False)
    _turn: int = field(default=0, init=False)
    _attempt: int = field(default=0, init=False)
    _ended: bool = field(default=False, init=False)
    _hearing: list[Deferred[None]] = field(factory=list, init=False)
    _log = Logger()

    # For the loop.

    def __aiter__(self) -> MessageStream:
        return self

    async def __anext__(self) -> ConsumerRecord:
        if self._waiting is not None:
            raise LogbusError("another loop waits for this stream; ask the connector for more streams")
        self.finish()
        while not self._records:
            if self._ended:
                raise StopAsyncIteration
            await self._more()
        record = self._records.popleft()
        after = record.offset + 1 if self._records else self._after
        self._in_hand = TopicPartition(record.topic, record.partition), after
        if self._interceptors:
            # One record at a time: the records behind it may yet be read again, or by another member.
            self._interceptors.on_consume((record,))
        return record

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """The partitions that it reads at present."""
        return frozenset(self._partitions)

    # For the connector.

    def finish(self) -> None:
        """The last record is processed."""
        if self._in_hand is not None:
            partition, after = self._in_hand
            self._in_hand = None
            self._positions.reached(partition, after)
            hearing, self._hearing = self._hearing, []
            for each in hearing:
                each.callback(None)

    def finishing(self, partitions: Iterable[TopicPartition]) -> Deferred[None] | None:
        """Fires when the record in hand is processed; None: it is of none of these partitions."""
        if self._in_hand is None or self._in_hand[0] not in frozenset(partitions):
            return None
        waiting: Deferred[None] = Deferred(self._hearing.remove)
        self._hearing.append(waiting)
        return waiting

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, too, from their positions in :class:`Positions`."""
        new = [each for each in partitions if each not in self._partitions]
        if not new or self._ended:
            return
        self._partitions.update(dict.fromkeys(new))
        if self._reader is not None:
            try:
                self._reader.add(self._starts(new))
                return
            except ApiError:
                pass  # Raised in the loop when it opens the next reader.
        self._open_anew()

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Deliver nothing more of these partitions; the record in hand stays."""
        old = [each for each in partitions if each in self._partitions]
        for each in old:
            del self._partitions[each]
        if self._records and self._source not in self._partitions:
            self._records.clear()
        if self._reader is not None:
            self._reader.remove(old)

    def disown(self, partitions: Iterable[TopicPartition]) -> None:
        """If the record in hand is of these partitions, it does not count as delivered."""
        if self._in_hand is not None and self._in_hand[0] in frozenset(partitions):
            self._in_hand = None

    def end(self) -> None:
        """Deliver nothing more; end a waiting loop."""
        self._ended = True
        self._partitions.clear()
        self._records.clear()
        self._open_anew()

    # Internals.

    async def _more(self) -> None:
        """Wait for records or for other partitions; there may be no records afterwards."""
        turn = self._turn
        try:
            fetched = await self._wait(self._opened().poll())
            if turn == self._turn:
                self._take(fetched)
        except CancelledError:
            if turn == self._turn:
                raise
        except LogbusError as e:
            if turn == self._turn:
                await self._failed(e)

    def _take(self, fetched: Fetched) -> None:
        self._attempt = 0
        if fetched.partition not in self._partitions:
            return
        self._source = fetched.partition
        self._records = deque(fetched.records)
        self._after = fetched.next_offset
        if not self._records:
            self._positions.reached(fetched.partition, fetched.next_offset)

    async def _failed(self, error: LogbusError) -> None:
        """Retry: a topic that was just created or deleted is not known to all brokers at once."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
        damaged = isinstance(error, ApiError) and error.code is ErrorCode.CORRUPT_MESSAGE
        if damaged or not is_retriable(error):
            raise error
        self._log.debug("{error}; retrying", error=error)
        self._attempt += 1
        for topic in {each.topic for each in self._partitions}:
            self._cluster.forget(topic)
        turn = self._turn
        try:
            await self._wait(deferLater(self._cluster.reactor, self._cluster.backoff.before(self._attempt)))
        except CancelledError:
            if turn == self._turn:
                raise

    async def _wait(self, what: Deferred[T]) -> T:
        self._waiting = what
        try:
            return await what
        finally:
            self._waiting = None

    def _opened(self) -> PartitionReader:
        if self._reader is None:
            starts = self._starts(self._partitions)
            self._reader = self._open_reader()
            self._reader.add(starts)
        return self._reader

    def _starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        wanted = list(partitions)
        forget_missing_topics(self._cluster, wanted)
        starts = {}
        for each in wanted:
            if self._in_hand is not None and self._in_hand[0] == each:
                starts[each] = self._in_hand[1]
            else:
                starts[each] = start_position(each, self._positions.get(each))
        return starts

    def _open_anew(self) -> None:
        """Drop the reader; a waiting loop opens the next one, without an error."""
        reader, self._reader = self._reader, None
        self._records.clear()
        self._turn += 1
        if self._waiting is not None:
            self._waiting.cancel()
        if reader is not None:
            reader.close()
