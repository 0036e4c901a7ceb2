"""
The client as services of a Twisted application, with the order of stopping built in.

.. code-block:: python

    cluster = ClusterService(reactor, "127.0.0.1:9092")
    producer = cluster.producer()

    def billing() -> Consumer:
        consumer = Consumer(cluster.cluster, "billing")
        consumer.subscribe(["orders"])
        return consumer

    async def bill(record: ConsumerRecord) -> None:
        await producer.send("bills", ...)

    ConsumerService(cluster.cluster, billing, bill).setServiceParent(cluster)
    cluster.setServiceParent(application)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic

from twisted.application.service import MultiService, Service
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.logger import Logger
from twisted.python.failure import Failure
from typing_extensions import Unpack

from logbus.client.cluster.cluster import Cluster, ClusterArguments
from logbus.client.consumer.consumer import Consumer
from logbus.client.consumer.consumer_record import ConsumerRecord, K, V
from logbus.client.producer.producer import Producer, ProducerArguments
from logbus.client.retry import is_retriable
from logbus.client.validators import function, integer, seconds
from logbus.coroutines import returns_deferred, sleep
from logbus.errors import LogbusError


class ClusterService(MultiService):
    """
    A cluster, and the services that use it. A stop ends these first, then its producers, which write what is unsent,
    and hangs up last.

    :param options: of :class:`~logbus.client.Cluster`, likewise ``endpoint``.
    :ivar cluster: the cluster, for consumers and admin clients.
    """

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        bootstrap: str | Iterable[str],
        *,
        endpoint: Callable[[str, int], IStreamClientEndpoint] | None = None,
        **options: Unpack[ClusterArguments],
    ) -> None:
        super().__init__()
        self.cluster = Cluster(reactor, bootstrap, endpoint=endpoint, **options)
        self._producers: list[Producer] = []

    def producer(self, **options: Unpack[ProducerArguments]) -> Producer:
        """
        A producer that the service closes.

        :param options: of :class:`~logbus.client.Producer`.
        """
        producer = Producer(self.cluster, **options)
        self._producers.append(producer)
        return producer

    @returns_deferred
    async def ready(self) -> None:
        """
        Fires when a broker answers; until then it is tried again and again.

        :raises ApiError: (in the Deferred) the broker refuses our login, or its certificate is not trusted.
        """
        attempts = self.cluster.attempts()
        while True:
            try:
                await self.cluster.refresh()
                return
            except LogbusError as e:
                if not is_retriable(e):
                    raise
            await attempts.again()

    def stopService(self) -> Deferred[None]:
        """Stop; fires when everything is closed."""
        children: Deferred[Any] = super().stopService()

        async def stop() -> None:
            await children
            for each in self._producers:
                await each.close()
            await self.cluster.close()

        return Deferred.fromCoroutine(stop())


class ConsumerService(Service, Generic[K, V]):
    """
    Calls a function with each record of a consumer, one after another, or several side by side.

    If it fails, that is logged, the consumer is closed without committing the record, and another one begins with it
    after a while. A stop waits for what is being processed, commits it, and leaves the group.

    :param consumer: makes a consumer that reads something.
    :param process: called with each record; the next one waits for its result.
    :param concurrency: process so many records side by side, in order per key: see :meth:`.Consumer.each`.
    :param pause: seconds after a failure.
    """

    _log = Logger()

    def __init__(
        self,
        cluster: Cluster,
        consumer: Callable[[], Consumer[K, V]],
        process: Callable[[ConsumerRecord[K, V]], Awaitable[object] | None],
        *,
        concurrency: int = 1,
        pause: float = 5.0,
    ) -> None:
        function("consumer", consumer, optional=False)
        function("process", process, optional=False)
        integer("concurrency", concurrency, 1)
        seconds("pause", pause)
        self._cluster = cluster
        self._make = consumer
        self._process = process
        self._concurrency = concurrency
        self._pause = pause
        self._consumer: Consumer[K, V] | None = None
        self._is_processing = False
        self._work: Deferred[None] | None = None
        self._pausing: Deferred[None] | None = None

    def startService(self) -> None:
        """Begin to read."""
        super().startService()
        self._work = Deferred.fromCoroutine(self._run())

    def stopService(self) -> Deferred[None]:
        """Stop reading; fires when the last record is processed and the consumer is closed."""
        super().stopService()
        work, self._work = self._work, None
        if self._pausing is not None:
            self._pausing.cancel()
        if self._consumer is not None and not self._is_processing:
            self._consumer.close()
        stopped: Deferred[None] = Deferred()
        if work is None:
            stopped.callback(None)
        else:
            work.addBoth(lambda _: stopped.callback(None))
        return stopped

    async def _run(self) -> None:
        while self.running:
            try:
                async with self._make() as self._consumer:
                    await self._read(self._consumer)
            except Exception:
                self._log.failure("a record could not be read or processed", Failure())
            finally:
                self._consumer = None
            if self._cluster.is_closed:
                self._log.error("a ConsumerService reads nothing more, since its Cluster was closed; stop it before")
                return
            if self.running:
                self._pausing = sleep(self._cluster.reactor, self._pause)
                try:
                    await self._pausing
                except CancelledError:
                    pass
                self._pausing = None

    async def _read(self, consumer: Consumer[K, V]) -> None:
        if self._concurrency > 1:
            await consumer.each(self._process, concurrency=self._concurrency)
            return
        async for record in consumer:
            self._is_processing = True
            try:
                result = self._process(record)
                if result is not None:
                    await result
            finally:
                self._is_processing = False
            if not self.running:
                return
