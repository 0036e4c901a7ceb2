"""The consumer for asyncio."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self

from twisted.internet.defer import Deferred
from typing_extensions import Unpack

from logbus.client import validators as check
from logbus.client.aio.awaiting import awaited, deferred_of, outcome, run
from logbus.client.aio.cluster import Cluster, ClusterArguments
from logbus.client.aio.cluster_client import Client
from logbus.client.aio.group_listener import AwaitingListener
from logbus.client.consumer import consumer as core
from logbus.client.consumer.batch_delivery import BatchDelivery
from logbus.client.consumer.consumer_record import ConsumerRecord, Fetched, K, V
from logbus.client.consumer.partition_position import Isolation, Position, Reset
from logbus.client.group_metadata import CommittedOffset, GroupMetadata
from logbus.client.interceptors import ConsumerInterceptor
from logbus.client.membership import GroupArguments, GroupListener
from logbus.client.serializers import Deserializer
from logbus.errors import LogbusError
from logbus.model import TopicPartition

if TYPE_CHECKING:
    from logbus.client.consumer.record_processor import EachArguments


class ConsumerArguments(ClusterArguments, GroupArguments, total=False):
    """Options of :class:`logbus.client.Consumer`, of its group's member, and of the cluster."""

    auto_offset_reset: Reset
    enable_auto_commit: bool
    auto_commit_interval: float
    isolation_level: Isolation
    interceptors: Sequence[ConsumerInterceptor]
    client_rack: str | None
    fetch_max_wait: float
    fetch_min_bytes: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    queue_max_bytes: int


class Consumer(Client, Generic[K, V]):
    """
    Reads records whose keys and values have the types that its deserializers return, or ``bytes | None``.

    .. code-block:: python

        async with Consumer("127.0.0.1:9092", "orders", group_id="billing") as consumer:
            async for record in consumer:
                print(record.offset, record.value)

    A consumer is read by one loop. A record counts as processed when the loop asks for the next one. Automatic commits
    cover processed records only, so a record whose processing fails, or is cancelled, is read again.

    :param cluster: ``HOST:PORT``, or several, or a :class:`~logbus.client.aio.Cluster`.
    :param topics: topics to read from :meth:`start` on: as a member of the group; without a group, all partitions that
        they have then. More about both: :meth:`subscribe` and :meth:`assign`.
    :param group_id: the group to join, or to commit for; None: the application keeps offsets itself.
    :param listener: called when the group assigns and revokes partitions; its methods may be coroutines.
    :param key_deserializer: called with the topic and the bytes of a key, returns the record's key. If it raises, the
        loop ends with a :class:`.RecordError`, and the record stays the next one.
    :param value_deserializer: the same for values.
    :param options: of :class:`logbus.client.Consumer` and :class:`logbus.client.GroupOptions`, which see; and of the
        cluster, if it is not shared.

    :raises ConfigError: an option is wrong.
    :raises TypeError: there is no such option, or it needs a ``group_id``.
    """

    def __init__(
        self,
        cluster: Cluster | str | Iterable[str],
        *topics: str,
        group_id: str | None = None,
        listener: GroupListener | None = None,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        **options: Unpack[ConsumerArguments],
    ) -> None:
        own: dict[str, Any] = dict(options)
        named = ("group_id", "listener", "key_deserializer", "value_deserializer")
        super().__init__(cluster, own, "a consumer", (*named, *ConsumerArguments.__annotations__))
        for each in topics:
            check.text("a topic", each)
        if listener is not None and group_id is None:
            raise check.InvalidOption("a listener is called by the group: give a group_id, too")
        self._topics, self._listener = topics, listener
        self._core: core.Consumer[K, V] = core.Consumer(
            self._cluster.core,
            group_id,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            **own,
        )
        self._has_group = group_id is not None
        self._poller = self._core.poller

    async def start(self) -> Self:
        """
        Connect to the cluster, and begin to read the topics given.

        :raises Unreachable: no broker answers.
        :raises ApiError: the broker refuses our login, or its certificate is not trusted; or, without a group, a topic
            does not exist.
        """
        await super().start()
        topics, self._topics = self._topics, ()
        if topics and self._has_group:
            self.subscribe(topics, self._listener)
        elif topics:
            partitions = [
                TopicPartition(topic, number)
                for topic in topics
                for number in (await outcome(self._cluster.core.topic(topic))).partitions
            ]
            self.assign(partitions)
        return self

    # Assignment.

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The assigned partitions."""
        return self._core.assignment

    def assign(self, partitions: Mapping[TopicPartition, Position] | Iterable[TopicPartition]) -> None:
        """
        Read exactly these partitions, without joining the group.

        :param partitions: with start positions; without, they start at the group's committed offsets, or as
            ``auto_offset_reset`` says.
        :raises LogbusError: the consumer subscribes to topics, or is closed.
        :raises ConfigError: the argument is something else.
        """
        self._core.assign(partitions)

    def subscribe(self, topics: Iterable[str] | re.Pattern[str], listener: GroupListener | None = None) -> None:
        """
        Join the group, which divides the partitions of topics among its members.

        :param topics: names, or an expression that has to match whole names; topics created later are included.
        :param listener: called when partitions are assigned and revoked; its methods may be coroutines.
        :raises LogbusError: there is no group, or the consumer is closed.
        :raises ConfigError: no topic is named, or the options do not fit.
        """
        if isinstance(listener, GroupListener):
            listener = AwaitingListener(listener)
        self._core.subscribe(topics, listener)

    unsubscribe = awaited(core.Consumer.unsubscribe)

    def group_metadata(self) -> GroupMetadata:
        """
        The member's identity, with which a producer's transaction commits offsets (KIP-447): see
        :meth:`logbus.client.Consumer.group_metadata`.

        :raises LogbusError: there is no group.
        """
        return self._core.group_metadata()

    # Records.

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        for record in self._poller.rest:
            # The fast path, without a call or an exception.
            return record
        while (delivery := await self._next_delivery(None)) is not None:
            for record in self._poller.iterate(delivery):
                return record
        raise StopAsyncIteration

    async def getone(self) -> ConsumerRecord[K, V]:
        """
        The next record. Cancelling it loses none.

        :raises RecordError: the record cannot be deserialized.
        :raises ApiError: see :meth:`getmany`.
        :raises LogbusError: the consumer was closed.
        """
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise LogbusError("the consumer is closed") from None

    async def getmany(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - getmany returns what there is then, and raises nothing
        max_records: int = 500,
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """
        The next records, by partition. Cancelling it loses none.

        :param timeout: seconds to wait for records; None: no limit.
        :returns: at least one record, unless the timeout expires or the consumer is closed meanwhile.
        :raises RecordError: the next record cannot be deserialized.
        :raises ApiError: OFFSET_OUT_OF_RANGE if ``auto_offset_reset`` is ``none``; a topic that does not exist; corrupt
            records. The error is raised again until its cause is gone; :meth:`seek` skips it.
        :raises MembershipFailed: the group does not accept this member any more.
        :raises LogbusError: the consumer was closed before, or reads nothing yet: it was not started.
        """
        if timeout is not None:
            check.seconds("timeout", timeout)
        check.integer("max_records", max_records, 1)
        if self._poller.closed:
            # Not an empty result again and again, with which a loop would never end.
            raise LogbusError("the consumer is closed")
        delivery = await self._next_delivery(timeout)
        return {} if delivery is None else self._poller.take(delivery, max_records)

    async def batches(self) -> AsyncIterator[Fetched[K, V]]:
        """``async for batch in consumer.batches()``: the records of one partition at a time, as they were fetched."""
        while (delivery := await self._next_delivery(None)) is not None:
            yield self._poller.take_batch(delivery)

    async def each(
        self,
        process: Callable[[ConsumerRecord[K, V]], Awaitable[object] | None],
        *,
        on_error: Callable[[ConsumerRecord[K, V], Exception], Awaitable[object] | None] | None = None,
        **options: Unpack[EachArguments],
    ) -> None:
        """
        Process records side by side: those with the same key in one partition one after another, in order.

        Commits, the automatic ones as well, cover what is before the first unfinished record of each partition. When
        a partition is revoked, nothing more of it begins, and the group waits for what is under way. So does
        :meth:`close`, which ends this. When a partition is lost, what is under way of it is cancelled.

        .. code-block:: python

            await consumer.each(bill, concurrency=32)

        :param process: called with each record; a coroutine runs as a task of its own. It must not wait for the
            consumer's ``close()``, which waits for it.
        :param on_error: called with a record and the error of its processing. If it succeeds, the record is finished.
            Default: the first error ends this, and the record stays unfinished.
        :param concurrency: (default 16) how many records are under way at the most.
        :param order: (``key``) ``key``: records without a key are in no order; ``partition``: all records of a
            partition are processed one after another; ``none``: all records are in no order.
        :param drain_timeout: (30) seconds after which what is under way is cancelled when its partition is revoked,
            or the consumer is closed.
        :param max_records: (16 × concurrency) how many records are taken and not finished, at the most; their size is
            bounded as well, by ``queue_max_bytes``.
        :returns: when the consumer is closed. If it ends in another way, when it is cancelled for instance, the tasks
            are cancelled or have ended, and the consumer goes back to the unfinished records.
        :raises ProcessingFailed: a record could not be processed.
        :raises LogbusError: as of :meth:`getmany`; or another call of this method is running.
        :raises InvalidOption: an option is wrong.
        """
        check.function("process", process, optional=False)
        check.function("on_error", on_error)
        tasks: set[asyncio.Future[Any]] = set()

        def begin(answer: Awaitable[object] | None) -> Deferred[object] | None:
            if answer is None:
                return None
            task = asyncio.ensure_future(answer)
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            return deferred_of(task)

        try:
            await outcome(
                self._core.each(
                    lambda record: begin(process(record)),
                    on_error=None if on_error is None else lambda record, error: begin(on_error(record, error)),
                    **options,
                )
            )
        finally:
            # Cancelled ones take a turn or more to end.
            if tasks:
                await asyncio.wait(tasks)

    async def _next_delivery(self, seconds: float | None) -> BatchDelivery | None:
        """
        Wait for the next batch to deliver. Nothing of it is taken before the waiting task goes on, since that may have
        been cancelled by then.
        """
        loop = self._cluster.loop
        if self._topics and not self._poller.closed:
            raise LogbusError("the consumer was not started: use 'async with', or await its start()")
        deadline = None if seconds is None else loop.time() + seconds
        while True:
            left = None if deadline is None else max(0.0, deadline - loop.time())
            delivery = await run(self._poller.next_delivery(left))
            # The task goes on a turn later, and the partition may be gone by then.
            if delivery is None or self._poller.can_deliver(delivery):
                return delivery

    def pause(self, *partitions: TopicPartition) -> None:
        """
        Deliver no records of these partitions until they are resumed; the consumer stays in its group.

        :raises NotAssigned: one is not assigned.
        """
        self._core.pause(*partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """
        Deliver them again.

        :raises NotAssigned: one is not assigned.
        """
        self._core.resume(*partitions)

    def paused(self) -> frozenset[TopicPartition]:
        """The paused partitions."""
        return self._core.paused()

    # Positions.

    def position(self, partition: TopicPartition) -> int | None:
        """
        The offset of the next record to deliver; None while it is being looked up.

        :raises NotAssigned: the partition is not assigned.
        """
        return self._core.position(partition)

    def seek(self, partition: TopicPartition, position: Position) -> None:
        """
        Move to another position.

        :param position: an offset, :data:`.EARLIEST`, :data:`.LATEST`, or :class:`.AtTime`.
        :raises NotAssigned: the partition is not assigned.
        """
        self._core.seek(partition, position)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Move to the first offset; default: of all partitions."""
        self._core.seek_to_beginning(*partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Move to the end; default: of all partitions."""
        self._core.seek_to_end(*partitions)

    def lag(self) -> dict[TopicPartition, int | None]:
        """
        The number of offsets between each position and the partition's end, as of its last fetch; None while that is
        unknown.
        """
        return self._core.lag()

    seek_to_committed = awaited(core.Consumer.seek_to_committed)
    beginning_offsets = awaited(core.Consumer.beginning_offsets)
    end_offsets = awaited(core.Consumer.end_offsets)
    offsets_for_times = awaited(core.Consumer.offsets_for_times)

    # Committing.

    commit = awaited(core.Consumer.commit)
    committed = awaited(core.Consumer.committed)

    def commit_nowait(self, offsets: Mapping[TopicPartition, int | CommittedOffset] | None = None) -> None:
        """Commit without waiting; a failure is logged."""
        self._core.commit_nowait(offsets)

    async def close(self, *, done: bool = True) -> None:
        """
        Stop reading, commit if automatic commits are enabled, and leave the group. Never fails.

        :param done: the records delivered last are processed, too.
        """
        self._check_loop()
        self._is_closed = True
        try:
            await outcome(self._core.close(done=done))
        finally:
            await super().close()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close(done=kind is None)

    def _abandon(self) -> None:
        self._core.close(done=False)
        super()._abandon()
