"""The producer for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from typing_extensions import Unpack

from logbus.client.aio.awaiting import outcome
from logbus.client.aio.cluster import Cluster, ClusterArguments
from logbus.client.aio.cluster_client import Client
from logbus.client.producer import producer as core
from logbus.client.producer.producer_metrics import ProducerMetrics
from logbus.client.producer.producer_record import RecordMetadata
from logbus.records.batch import Headers

if TYPE_CHECKING:
    from logbus.client.aio.consumer import Consumer
    from logbus.client.aio.transaction import Transaction


class ProducerArguments(ClusterArguments, core.ProducerArguments, total=False):
    """Options of :class:`logbus.client.Producer`, and of the cluster."""


class _Delivery(asyncio.Future[RecordMetadata]):
    """A record's future, told the outcome as a Deferred is."""

    callback = asyncio.Future.set_result
    errback = asyncio.Future.set_exception
    called = property(asyncio.Future.done)


class _TransactionalDelivery(_Delivery):
    """That of a record in a transaction. Nobody need look at it, since the transaction's end raises the error, too."""

    def errback(self, error: type | BaseException, /) -> None:
        self.set_exception(error)
        self.exception()


class Producer(Client):
    """
    Sends records to topics, alone or in transactions.

    .. code-block:: python

        async with Producer("127.0.0.1:9092") as producer:
            sent = await producer.send("orders", b"...", key=b"42")   # it is in a batch
            print((await sent).offset)                                # it is written
            await producer.send_and_wait("orders", b"...")            # both

    :param cluster: ``HOST:PORT``, or several, or a :class:`~logbus.client.aio.Cluster`.
    :param options: of :class:`logbus.client.Producer`, which see; and of the cluster, if it is not shared.

    :raises ConfigError: an option is wrong.
    :raises TypeError: there is no such option.
    """

    def __init__(self, cluster: Cluster | str | Iterable[str], **options: Unpack[ProducerArguments]) -> None:
        own: dict[str, Any] = dict(options)
        super().__init__(cluster, own, "a producer", ProducerArguments.__annotations__)
        self._core = core.Producer(self._cluster.core, **own)
        self._delivery = _Delivery if self._core.transactional_id is None else _TransactionalDelivery
        self._room = self._core.room
        self._send_for = self._core.send_for
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def metrics(self) -> ProducerMetrics:
        """Counts of records, batches and requests."""
        return self._core.metrics

    @property
    def buffered(self) -> int:
        """The bytes that wait to be sent."""
        return self._core.buffered

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Headers = (),
    ) -> asyncio.Future[RecordMetadata]:
        """
        Put a record into a batch, once there is room for it. If this is cancelled, the record is not sent.

        :param value: bytes, or a value that the serializer takes; likewise ``key``. None deletes the key of a compacted
            topic.
        :param partition: default: the partitioner chooses.
        :param timestamp: milliseconds since 1970; default: now.
        :returns: a future of the record's place. Cancelling it does not take the record back, unless its topic is still
            being looked up.
        :raises RuntimeError: another event loop runs than the one in which the producer was first used.
        :raises ApiError: (in the future, as all of these) the topic or partition does not exist, or the broker rejects
            the record.
        :raises DeliveryFailed: the record could not be written in time, or the producer is closed.
        :raises SerializationError: a serializer failed on the key or value.
        :raises TransactionError: the producer is transactional and no transaction is open, or the open one failed.
        """
        while (room := self._room()) is not None:
            await outcome(room)
        sent = self._delivery()
        if sent.get_loop() is not self._loop:
            # The first record, or one of a loop, in another thread, that would never hear of its outcome.
            self._loop = self._cluster.loop
        self._send_for(sent, topic, value, key, partition, timestamp, headers)
        return sent

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Headers = (),
    ) -> RecordMetadata:
        """
        Send a record, and wait until it is written.

        If this is cancelled, a record that is in a batch is sent all the same.

        :raises: what the future of :meth:`send` has.
        """
        sent = await self.send(topic, value, key, partition=partition, timestamp=timestamp, headers=headers)
        try:
            return await sent
        finally:
            if sent.cancelled():
                self._core.withdraw(sent)  # type: ignore[arg-type]

    async def flush(self) -> None:
        """Send everything now, and wait until all outcomes are known, failures included."""
        self._check_loop()
        await outcome(self._core.flush())

    def transaction(self, consumer: Consumer[Any, Any] | None = None) -> Transaction:
        """
        Start a transaction: consumers of committed records see all records sent in its block, or none.

        .. code-block:: python

            async with producer.transaction(consumer) as transaction:
                for records in (await consumer.getmany()).values():
                    await producer.send("totals", b"%d" % len(records), key=b"orders")
                await transaction.send_offsets(consumer)

        :param consumer: after an abort it goes back to its committed offsets, and delivers the records again.
        :raises InvalidOption: the producer has no transactional id.
        """
        from logbus.client.aio.transaction import Transaction

        return Transaction(self._core.transaction(None if consumer is None else consumer._core), self._check_loop)

    async def close(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - it is no error
        """
        Flush, and accept no more records. An open transaction is aborted. If this is cancelled, what is unsent fails.

        :param timeout: seconds after which unsent records fail; default: none besides the delivery timeout.
        """
        self._check_loop()
        self._is_closed = True
        try:
            await outcome(self._core.close(timeout))
        finally:
            await super().close()

    def _abandon(self) -> None:
        self._core.abort()
        super()._abandon()
