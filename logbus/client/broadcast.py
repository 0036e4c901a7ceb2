"""
One consumer's records for many readers, such as browsers that listen to server-sent events.

.. code-block:: python

    broadcast = Broadcast(lambda record: b"data: " + record.value + b"\\n\\n")
    reading = broadcast.run(consumer)

    def render_GET(self, request: Request) -> int:
        request.setHeader(b"content-type", b"text/event-stream")
        broadcast.add(request).addErrback(lambda _: request.loseConnection())
        return NOT_DONE_YET

The consumer never waits for a reader. Each may lag by a number of records and bytes; one that lags more is dropped, or
misses records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IConsumer, IPushProducer
from twisted.logger import Logger
from zope.interface import implementer

from logbus.client import validators as check
from logbus.client.consumer.consumer import Consumer
from logbus.client.consumer.consumer_record import ConsumerRecord, K, V
from logbus.client.reader_backlog import ReaderBacklog, WhenBehind
from logbus.coroutines import returns_deferred
from logbus.errors import LogbusError

__all__ = ["Broadcast", "ReaderTooSlow", "WhenBehind"]


class ReaderTooSlow(LogbusError):
    """
    A reader lagged by more than it may, and was dropped.

    :ivar records: that waited for it; ``size``: their bytes.
    """

    def __init__(self, records: int, size: int) -> None:
        super().__init__(f"the reader was dropped, since {records} records of {size} bytes waited for it")
        self.records = records
        self.size = size


@implementer(IPushProducer)
class BroadcastReader:
    """
    One reader, which pauses and resumes it as its connection fills and empties.

    :ivar gone: fires when it is gone.
    """

    def __init__(
        self,
        consumer: Any,
        backlog: ReaderBacklog,
        skipped: Callable[[int], bytes] | None,
        forget: Callable[[BroadcastReader], object],
    ) -> None:
        self.gone: Deferred[None] = Deferred(lambda _: self.end(None))
        self._consumer = consumer
        self._backlog = backlog
        self._skipped = skipped
        self._forget = forget
        self._is_paused = self._is_over = False

    def put(self, data: bytes) -> None:
        """Write a piece, or queue it."""
        if not self._backlog.put(data):
            self.end(ReaderTooSlow(len(self._backlog), self._backlog.size))
        else:
            self._write()

    def end(self, error: Exception | None) -> None:
        """Write nothing more."""
        if self._is_over:
            return
        self._is_over = True
        self._backlog.clear()
        self._forget(self)
        self._consumer.unregisterProducer()
        if self.gone.called:
            return
        if error is None:
            self.gone.callback(None)
        else:
            self.gone.errback(error)

    def _write(self) -> None:
        while not self._is_paused and not self._is_over and (found := self._backlog.take()) is not None:
            skipped, data = found
            if skipped and self._skipped is not None:
                data = self._skipped(skipped) + data
            self._consumer.write(data)

    # Called by the reader's connection.

    def pauseProducing(self) -> None:
        """Its buffer is full."""
        self._is_paused = True

    def resumeProducing(self) -> None:
        """It takes more."""
        self._is_paused = False
        self._write()

    def stopProducing(self) -> None:
        """It is closed."""
        self.end(None)


class Broadcast(Generic[K, V]):
    """
    Gives records to all readers there are.

    :param encode: called with each record once, returns what all readers get; None: nothing. An error in it is that of
        :meth:`publish`.
    :param max_records: how many may wait for a reader whose connection takes no more; ``max_bytes``: their size.
    :param when_behind: (``drop``) for a reader that lags more: ``drop``: it is dropped, and its Deferred fails;
        ``skip``: the oldest records that wait for it are left out.
    :param skipped: with ``skip``: called with the number of records that were left out, returns what the reader gets in
        their place. Default: nothing.
    :raises InvalidOption: an option is wrong.
    """

    _log = Logger()

    def __init__(
        self,
        encode: Callable[[ConsumerRecord[K, V]], bytes | None],
        *,
        max_records: int = 1000,
        max_bytes: int = 1024 * 1024,
        when_behind: WhenBehind = "drop",
        skipped: Callable[[int], bytes] | None = None,
    ) -> None:
        check.function("encode", encode, optional=False)
        check.integer("max_records", max_records, 1)
        check.integer("max_bytes", max_bytes, 1)
        check.choice("when_behind", when_behind, ("drop", "skip"))
        check.function("skipped", skipped)
        if skipped is not None and when_behind != "skip":
            raise check.InvalidOption("skipped is called when records are left out: give when_behind='skip', too")
        self._encode = encode
        self._bounds = max_records, max_bytes, when_behind
        self._skipped = skipped
        self._readers: dict[BroadcastReader, None] = {}

    @property
    def readers(self) -> int:
        """The number of readers."""
        return len(self._readers)

    def add(self, reader: Any) -> Deferred[None]:
        """
        Give a reader the records from now on. It is registered as a streaming producer of the reader.

        :param reader: an ``IConsumer``: a transport, or a request of twisted.web.
        :returns: fires when the reader's connection is closed, or :meth:`close` was called. Cancelling it ends the
            reader. Nothing is closed: that is for the caller.
        :raises ReaderTooSlow: (in the Deferred) the reader lags, and is dropped.
        :raises InvalidOption: it is no ``IConsumer``.
        """
        if not IConsumer.providedBy(reader) and not callable(getattr(reader, "registerProducer", None)):
            raise check.InvalidOption(f"a reader is {check.shown(reader)}; give an IConsumer, such as a Request")
        backlog = ReaderBacklog(*self._bounds)
        added = BroadcastReader(reader, backlog, self._skipped, lambda each: self._readers.pop(each, None))
        self._readers[added] = None
        # It may be stopped at once, if the connection is closed already.
        reader.registerProducer(added, True)
        return added.gone

    def publish(self, record: ConsumerRecord[K, V]) -> None:
        """
        Give a record to all readers: what a :class:`~logbus.client.ConsumerService` calls with each.

        :raises Exception: as ``encode`` does.
        """
        data = self._encode(record)
        if data is None:
            return
        for each in list(self._readers):
            try:
                each.put(data)
            except Exception as e:
                # One reader must not end the others.
                self._log.failure("a reader failed, and is dropped")
                each.end(e)

    @returns_deferred
    async def run(self, consumer: Consumer[K, V]) -> None:
        """
        Publish the records of a consumer; fires when it is closed. Then, or when reading fails, the readers end.

        :raises LogbusError: (in the Deferred) as of :meth:`.Consumer.poll`.
        """
        try:
            async for record in consumer:
                self.publish(record)
        finally:
            self.close()

    def close(self) -> None:
        """End all readers; their Deferreds fire."""
        for each in list(self._readers):
            each.end(None)
