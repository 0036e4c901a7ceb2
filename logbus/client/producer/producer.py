"""
The producer (Kafka: KafkaProducer): sends records to topics, alone or in transactions.

.. code-block:: python

    producer = Producer(cluster)
    sent = await producer.send("orders", b"...", key=b"42")
    await producer.close()

Records of a partition reach its log in the order in which they were given to :meth:`Producer.send`. With ``acks=-1``,
the default, each record is written exactly once, even if it has to be sent several times.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import Random, getrandbits
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as DeferredTimeout
from twisted.logger import Logger

from logbus.client import validators as check
from logbus.client.cluster.cluster import Cluster, TopicMetadata
from logbus.client.interceptors import ProducerInterceptor, ProducerInterceptors
from logbus.client.producer.buffer_pool import PER_SEND, BufferPool
from logbus.client.producer.deferreds import all_done
from logbus.client.producer.delivery_reports import DeliveryReports
from logbus.client.producer.encoded_batch import EncodedBatch
from logbus.client.producer.idempotence import ProducerId
from logbus.client.producer.partitioner import Partitioner
from logbus.client.producer.producer_identity import ProducerIdentity
from logbus.client.producer.producer_metrics import ProducerMetrics
from logbus.client.producer.producer_options import Acks, ProducerArguments, ProducerOptions, codec_of
from logbus.client.producer.producer_record import (
    BufferFull,
    DeliveryFailed,
    DeliveryHandle,
    ProducerRecord,
    RecordMetadata,
)
from logbus.client.producer.record_accumulator import BatchOutcome, ProducerBatch, RecordAccumulator
from logbus.client.producer.record_builder import RecordBuilder
from logbus.client.producer.record_diagnosis import diagnosed
from logbus.client.producer.record_router import RecordRouter
from logbus.client.producer.sender import Sender
from logbus.client.serializers import Serializer
from logbus.client.validators import InvalidOption, shown
from logbus.coroutines import returns_deferred
from logbus.model import TopicPartition
from logbus.records.batch import BatchBuilder, Headers
from logbus.records.compression import Codec, CodecName

if TYPE_CHECKING:
    from logbus.client.producer.transaction import OffsetSource, Transaction
    from logbus.client.producer.transaction_manager import TransactionManager

__all__ = ["BufferFull", "DeliveryFailed", "Producer", "ProducerArguments", "ProducerRecord", "RecordMetadata"]


class Producer:
    """
    Collects records into batches, and sends each batch to the leader of its partition.

    :param cluster: the cluster to write to; its owner closes it, not the producer.
    :param wall_clock: seconds since 1970, for the records' timestamps; default: ``time.time``.
    :param random: chooses partitions for records without a key; None: one of its own.
    :param acks: −1 or ``"all"``: wait for the in-sync replicas; 1: wait for the leader; 0: do not wait.
    :param codec: how batches are compressed, as a :class:`~logbus.records.compression.Codec` or by name: ``none``,
        ``gzip``, ``snappy``, ``lz4`` or ``zstd``.
    :param level: compression level; None: the codec's default.
    :param batch_bytes: a batch is sent when it has this many bytes, uncompressed,
    :param linger: or this many seconds after its first record.
    :param delivery_timeout: seconds after which a batch that is not written fails.
    :param request_timeout: seconds to wait for the answer to one request.
    :param request_bytes: the most bytes of batches in one request.
    :param buffer_bytes: with this many bytes in batches, :meth:`send` and :meth:`room` wait.
    :param create_topics: ask brokers to create missing topics; they do if they are configured to.
    :param metadata_max_age: seconds after which a topic's metadata is refreshed, to find new partitions.
    :param partitioner: chooses the partition of a record for which :meth:`send` was given none. Default: by the key, as
        the Java client does; without a key, several records go to one partition and then to another. See
        :mod:`logbus.client.producer.partitioner`.
    :param enable_idempotence: brokers recognise a batch that is sent again (KIP-98); needs ``acks=-1``. None: if acks
        is −1 and the brokers support it.
    :param transactional_id: the name under which :meth:`transaction` works; only one producer at a time can use it.
    :param transaction_timeout: seconds after which the coordinator aborts a transaction that is still open.
    :param key_serializer: called with the topic and a key, returns the record's key as bytes. If it raises, the send
        fails with that error. Default: keys are bytes.
    :param value_serializer: the same for values.
    :param interceptors: see :class:`~logbus.client.interceptors.ProducerInterceptor`.

    :ivar metrics: counts of records, batches and requests.
    :raises InvalidOption: a ``ConfigError`` and ``ValueError``: an option is wrong, or does not go with another.
    :raises TypeError: there is no such option.
    """

    _log = Logger()

    @check.names_options("a producer")
    def __init__(
        self,
        cluster: Cluster,
        *,
        wall_clock: Callable[[], float] | None = None,
        random: Random | None = None,
        acks: Acks = -1,
        codec: Codec | CodecName = Codec.NONE,
        level: int | None = None,
        batch_bytes: int = 64 * 1024,
        linger: float = 0.005,
        delivery_timeout: float = 120.0,
        request_timeout: float = 30.0,
        request_bytes: int = 1024 * 1024,
        buffer_bytes: int = 32 * 1024 * 1024,
        create_topics: bool = False,
        metadata_max_age: float = 300.0,
        partitioner: Partitioner | None = None,
        enable_idempotence: bool | None = None,
        transactional_id: str | None = None,
        transaction_timeout: float = 60.0,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        interceptors: Sequence[ProducerInterceptor] = (),
    ) -> None:
        check.cluster(cluster)
        check.function("wall_clock", wall_clock)
        # From the process's source of randomness, so that a program that seeds it gets the same choices.
        random = Random(getrandbits(64)) if random is None else random
        if not callable(getattr(random, "random", None)):
            raise InvalidOption(f"random is {shown(random)}; give random.Random()")
        check.function("partitioner", partitioner)
        check.function("key_serializer", key_serializer)
        check.function("value_serializer", value_serializer)
        hooks = ProducerInterceptors(check.objects("interceptors", interceptors, "on_send"))
        options = ProducerOptions(
            acks=acks,
            codec=codec_of(codec, level),
            level=level,
            batch_bytes=batch_bytes,
            linger=linger,
            delivery_timeout=delivery_timeout,
            request_timeout=request_timeout,
            request_bytes=request_bytes,
            buffer_bytes=buffer_bytes,
            create_topics=create_topics,
            metadata_max_age=metadata_max_age,
            enable_idempotence=enable_idempotence,
            transactional_id=transactional_id,
            transaction_timeout=transaction_timeout,
        )
        self._clock = cluster.reactor
        self._wall_clock = time.time if wall_clock is None else wall_clock
        self._batch_bytes = batch_bytes
        self._hooks = hooks
        self._record_builder = RecordBuilder(hooks, key_serializer, value_serializer)
        self.metrics = ProducerMetrics()
        self._accumulator = RecordAccumulator(batch_bytes, options.codec, level)
        self._router = RecordRouter(self._accumulator, random, batch_bytes, partitioner)
        self._buffer_pool = BufferPool(cluster, options, self.metrics, self._place, self._refuse)
        self._transactions: TransactionManager | None = None
        if options.transactional_id is None:
            identity = ProducerIdentity(cluster, options.is_idempotent)
        else:
            from logbus.client.producer.transaction_manager import TransactionManager

            identity = self._transactions = TransactionManager(cluster, options, self.flush, self._drop_unsent)
        self._delivery_reports = DeliveryReports(hooks, identity.failed)
        self._sender = Sender(cluster, self._accumulator, identity, options, self.metrics)
        self._unfinished: dict[ProducerBatch, None] = {}
        self._closed = False
        # Whether records can go straight into batches.
        self._is_plain = not self._record_builder and self._transactions is None

    @property
    def transactional_id(self) -> str | None:
        """The name under which :meth:`transaction` works; None: it has none."""
        return None if self._transactions is None else self._transactions.transactional_id

    @property
    def producer_id(self) -> ProducerId | None:
        """The id of the transactional producer, and its epoch; None: it has none, or not yet."""
        return None if self._transactions is None else self._transactions.producer

    @property
    def buffered(self) -> int:
        """Bytes in batches, and of records that wait to be put into one."""
        return self._buffer_pool.buffered

    # Records in.

    def send(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Headers = (),
    ) -> Deferred[RecordMetadata]:
        """
        Send a record.

        If the buffer is full, the record waits until there is room. A caller that awaits each Deferred, or
        :meth:`room`, never has more in memory than the buffer. Cancelling the Deferred withdraws the record if it is in
        no batch yet; after that it is sent all the same, and only its outcome is not reported.

        :param value: bytes, or a value that the serializer takes; likewise ``key``. None deletes the key of a compacted
            topic.
        :param partition: default: the partitioner chooses.
        :param timestamp: milliseconds since 1970; default: now.
        :returns: fires when the record is written as ``acks`` demands.
        :raises ApiError: (in the Deferred, as all of these) the topic or partition does not exist, or the broker
            rejects the record.
        :raises DeliveryFailed: the record could not be written in time, or the producer is closed.
        :raises SerializationError: a serializer failed on the key or value.
        :raises RecordDropped: an interceptor dropped the record.
        :raises BufferFull: too many records wait for room already.
        :raises TransactionError: the producer is transactional and no transaction is open, or the open one failed.
        """
        sent: Deferred[RecordMetadata] = Deferred(self._buffer_pool.withdraw)
        self.send_for(sent, topic, value, key, partition, timestamp, headers)
        return sent

    def send_for(
        self,
        sent: DeliveryHandle,
        topic: str,
        value: Any,
        key: Any = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Headers = (),
    ) -> None:
        """
        As :meth:`send`, for clients that are no Deferred's: ``sent`` is told the outcome.

        If nobody wants to know it any more, :meth:`withdraw` withdraws the record as cancelling a Deferred does.
        """
        if timestamp is None:
            timestamp = int(self._wall_clock() * 1000)
        elif isinstance(timestamp, (float, bool)):
            # The encoder would cut it: the seconds of time.time() are a day in January 1970.
            error = diagnosed(TypeError("timestamp"), value, key, partition, timestamp, headers)
            self._delivery_reports.refuse(sent, error, RecordMetadata(topic, -1, -1, -1))
            return
        if self._is_plain and (known := self._buffer_pool.topic(topic)) is not None:
            try:
                batch, index = self._put(known, value, key, timestamp, partition, headers)
            except Exception as e:
                error = diagnosed(e, value, key, partition, timestamp, headers)
                self._delivery_reports.refuse(sent, error, RecordMetadata(topic, -1, -1, timestamp))
                return
            batch.wait_for(index, timestamp, sent)
            self._buffer_pool.buffered += PER_SEND
            return
        record = ProducerRecord(topic, value, key, partition, timestamp, headers)
        try:
            check.text("the topic", topic)
            record = self._record_builder.on_send(record)
            self._check_open()
            try:
                self._buffer_pool.take(record, sent)
            except (TypeError, ValueError) as e:
                raise diagnosed(e, record.value, record.key, record.partition, record.timestamp, record.headers) from e
        except Exception as e:
            self._refuse(record, sent, e)
        else:
            if not sent.called:
                self._hooks.on_queued(record)

    def withdraw(self, sent: DeliveryHandle) -> None:
        """Withdraw a record that is in no batch yet; its handle wants to know nothing more."""
        self._buffer_pool.withdraw(sent)

    def put(
        self,
        topic: TopicMetadata,
        value: bytes | None,
        key: bytes | None = None,
        *,
        timestamp: int,
        partition: int | None = None,
        headers: Headers = (),
    ) -> tuple[ProducerBatch, int]:
        """
        Append a record to a batch at once, for callers that send many. The caller gets outcomes from the batches, and
        calls :meth:`room` before it goes on. Serializers and interceptors are not called.

        :returns: the batch and the record's index in it.
        :raises ApiError: UNKNOWN_TOPIC_OR_PARTITION: the topic has no such partition.
        :raises ValueError: a number is out of range.
        :raises BufferFull: the batches hold twice ``buffer_bytes``.
        :raises DeliveryFailed: the producer is closed.
        :raises TransactionError: no transaction is open, or the open one failed.
        """
        self._check_open()
        self._buffer_pool.check_room()
        return self._put(topic, value, key, timestamp, partition, headers)

    def put_batch(self, partition: TopicPartition, builder: BatchBuilder | EncodedBatch) -> ProducerBatch:
        """
        Send a complete batch, for callers that copy from another log; see :meth:`put`.

        :param builder: of at least one record; nobody else appends to it.
        :raises BufferFull: the batches hold twice ``buffer_bytes``.
        :raises DeliveryFailed: the producer is closed.
        :raises TransactionError: no transaction is open, or the open one failed.
        """
        self._check_open()
        self._buffer_pool.check_room()
        batch = self._accumulator.append_batch(self._accumulator.queue(partition), builder, self._clock.seconds())
        batch.settle = self._settle
        self._unfinished[batch] = None
        self._sender.begun(batch)
        self._buffer_pool.buffered += batch.size
        self.metrics.records += builder.count
        self._sender.pump()
        return batch

    def room(self) -> Deferred[None] | None:
        """None while more can be sent; else a Deferred that fires when there is room again."""
        return self._buffer_pool.room()

    @returns_deferred
    async def flush(self) -> None:
        """Send everything now. Fires when all outcomes are known, failures included."""
        self._sender.hurry()
        try:
            await self._buffer_pool.all_placed()
            batches = list(self._unfinished)
            if batches:
                await all_done(batches)
        finally:
            self._sender.relax()

    def close(self, timeout: float | None = None) -> Deferred[None]:
        """
        Flush, and accept no more records. An open transaction is aborted.

        :param timeout: seconds after which unsent records fail; default: none besides the delivery timeout.
        """
        return Deferred.fromCoroutine(self._close(timeout))

    def abort(self) -> None:
        """Drop unsent records; they fail. An open transaction is left to its timeout."""
        self._closed, self._is_plain = True, False
        error = DeliveryFailed("the producer was stopped")
        self._buffer_pool.stop()
        self._sender.stop(error)
        self._buffer_pool.close(error)

    # Transactions.

    def transaction(self, consumer: OffsetSource | None = None) -> Transaction:
        """
        Start a transaction: consumers of committed records see all records sent in its block, or none.

        .. code-block:: python

            async with producer.transaction(consumer) as transaction:
                for records in (await consumer.poll()).values():
                    await producer.send("totals", b"%d" % len(records), key=b"orders")
                await transaction.send_offsets(consumer)

        :param consumer: after an abort it goes back to its committed offsets, and delivers the records again.
        :rtype: logbus.client.producer.transaction.Transaction
        :raises InvalidOption: the producer has no transactional id.
        """
        if self._transactions is None:
            raise InvalidOption("a producer needs a transactional_id for transactions")
        from logbus.client.producer.transaction import Transaction

        return Transaction(self._transactions, consumer)

    # Appending to batches.

    def _check_open(self) -> None:
        if self._closed:
            raise DeliveryFailed("the producer is closed")
        if self._transactions is not None:
            self._transactions.check_open()

    def _put(
        self,
        topic: TopicMetadata,
        value: bytes | None,
        key: bytes | None,
        timestamp: int,
        partition: int | None,
        headers: Headers,
    ) -> tuple[ProducerBatch, int]:
        queue = self._router.find(topic, key, value, partition)
        batch = queue.growing
        index = -1
        size = 0
        # A batch that grows is never one that is encoded already.
        builder: Any
        if batch is not None:
            builder = batch.builder
            size = builder.size
            index = builder.append_within(self._batch_bytes, timestamp, key, value, headers)
        is_full = False
        if batch is None or index < 0:
            is_full = batch is not None
            size = index = 0
            batch = self._accumulator.append(queue, self._clock.seconds(), timestamp, key, value, headers)
            builder = batch.builder
            batch.settle = self._settle
            self._unfinished[batch] = None
            self._sender.begun(batch)
        size = builder.size - size
        queue.taken += size
        self._buffer_pool.buffered += size
        self.metrics.records += 1
        if is_full:
            self._sender.pump()
            if queue.waiting:
                self._buffer_pool.note_backlog()
        return batch, index

    def _place(self, topic: TopicMetadata, record: ProducerRecord, sent: DeliveryHandle) -> None:
        """Append a record that had to wait to a batch."""
        _, value, key, partition, timestamp, headers = record
        refusal = None if self._transactions is None else self._transactions.refusal
        if refusal is not None:
            # What waited belongs to a transaction that can only be aborted.
            self._refuse(record, sent, refusal)
            return
        try:
            batch, index = self._put(topic, value, key, timestamp, partition, headers)
        except Exception as e:
            self._refuse(record, sent, diagnosed(e, value, key, partition, timestamp, headers))
        else:
            batch.wait_for(index, timestamp, sent)
            self._buffer_pool.buffered += PER_SEND

    def _refuse(self, record: ProducerRecord, sent: DeliveryHandle, error: Exception) -> None:
        self._delivery_reports.refuse(sent, error, RecordMetadata(record.topic, -1, -1, record.timestamp))

    # Outcomes.

    def _settle(self, batch: ProducerBatch, outcome: BatchOutcome) -> None:
        """Report the outcome of a batch, and free its memory."""
        sends, batch.sends = batch.sends, []
        is_whole = len(batch.place) == 1
        if is_whole:
            del self._unfinished[batch]
            waiters = batch.waiters or sum([each is not None for each in sends])
            self._buffer_pool.buffered -= batch.size + PER_SEND * waiters
        self._delivery_reports.report(batch, outcome, sends)
        if is_whole:
            self._buffer_pool.freed(0)

    def _drop_unsent(self, error: Exception) -> None:
        """Drop unsent records of a transaction that can only be aborted."""
        # Those that wait come first: they would take the room that the others leave.
        self._buffer_pool.drop(error)
        self._sender.give_up(error)
        self._buffer_pool.make_room()

    async def _close(self, seconds: float | None) -> None:
        self._closed, self._is_plain = True, False
        closing: Deferred[None] = Deferred.fromCoroutine(self._end())
        if seconds is not None:
            closing.addTimeout(seconds, self._clock)
        try:
            await closing
        except DeferredTimeout:
            unsent = self._buffer_pool.unplaced() + sum(batch.builder.count for batch in self._unfinished)
            self._log.warn(
                "the producer was closed after {seconds} s; records not acknowledged: {count}",
                seconds=seconds,
                count=unsent,
            )
        finally:
            self.abort()

    async def _end(self) -> None:
        if self._transactions is not None:
            await self._transactions.finish()
        await self.flush()
