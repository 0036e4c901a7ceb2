"""
The consumer (Kafka: KafkaConsumer): reads records of chosen partitions, or as a member of a group.

.. code-block:: python

    consumer = Consumer(cluster, "billing")
    consumer.subscribe(["orders"])
    async for record in consumer:
        print(record.offset, record.value)
    await consumer.close()
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from typing_extensions import Unpack

from logbus.client import validators as check
from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.assignment_listener import AssignmentListener
from logbus.client.consumer.committer import Committer
from logbus.client.consumer.consumer_arguments import (
    check_listener,
    check_position,
    committed_offsets,
    group_options,
    subscription_to,
)
from logbus.client.consumer.consumer_options import ConsumerOptions
from logbus.client.consumer.consumer_record import ConsumerRecord, K, V
from logbus.client.consumer.delivered_offsets import DeliveredOffsets
from logbus.client.consumer.fetcher import Fetcher
from logbus.client.consumer.group_subscription import GroupSubscription
from logbus.client.consumer.offsets_by_time import OffsetsByTime
from logbus.client.consumer.partition_position import AtTime, Isolation, Position, Reset, reset_position
from logbus.client.consumer.record_poller import BatchIterator, RecordPoller
from logbus.client.group_metadata import CommittedOffset
from logbus.client.interceptors import ConsumerInterceptor
from logbus.client.list_offsets import EARLIEST, LATEST
from logbus.client.membership import GroupArguments, GroupListener, GroupMetadata
from logbus.client.serializers import Deserializer
from logbus.coroutines import returns_deferred, shield
from logbus.errors import LogbusError
from logbus.model import TopicPartition

if TYPE_CHECKING:
    from logbus.client.consumer.record_processor import EachArguments

__all__ = ["AtTime", "Consumer", "Isolation", "Position", "Reset"]


class Consumer(OffsetsByTime, Generic[K, V]):
    """
    A consumer of records whose keys and values have the types that its deserializers return, or ``bytes | None``.

    A consumer is read by one loop. A record counts as processed when the loop asks for the next one. Automatic commits
    cover processed records only, so a record whose processing fails is read again.

    :param cluster: the cluster to read from; its owner closes it, not the consumer.
    :param group_id: the group to join, or to commit for; None: the application keeps offsets itself.
    :param auto_offset_reset: where to start without a committed offset, or if the offset is out of range: ``earliest``,
        ``latest``, or ``none``, which raises an error.
    :param enable_auto_commit: commit processed records every ``auto_commit_interval`` seconds, before partitions are
        revoked, and at the end.
    :param isolation_level: ``read_committed`` delivers records of transactions only once they are committed.
    :param key_deserializer: called with the topic and the bytes of a key, returns the record's key. If it raises, the
        loop ends with a :class:`RecordError`, and the record stays the next one.
    :param value_deserializer: the same for values.
    :param interceptors: see :class:`~logbus.client.interceptors.ConsumerInterceptor`.
    :param client_rack: the rack of this client: brokers may name a nearby replica to fetch from (KIP-392).
    :param fetch_max_wait: seconds a broker delays a fetch that has fewer than ``fetch_min_bytes``.
    :param fetch_max_bytes: of one response.
    :param max_partition_fetch_bytes: of one partition in it.
    :param queue_max_bytes: the most to read ahead, of all partitions together, in bytes on the wire.
    :param options: of :class:`~logbus.client.membership.GroupOptions`.

    :ivar poller: delivers records; for clients of other event loops.
    :raises ConfigError: an option is wrong.
    :raises TypeError: there is no such option, or it needs a ``group_id``.
    """

    _log = Logger()

    def __init__(
        self,
        cluster: Cluster,
        group_id: str | None = None,
        *,
        auto_offset_reset: Reset = "latest",
        enable_auto_commit: bool = True,
        auto_commit_interval: float = 5.0,
        isolation_level: Isolation = "read_uncommitted",
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
        client_rack: str | None = None,
        fetch_max_wait: float = 0.5,
        fetch_min_bytes: int = 1,
        fetch_max_bytes: int = 16 * 1024 * 1024,
        max_partition_fetch_bytes: int = 4 * 1024 * 1024,
        queue_max_bytes: int = 32 * 1024 * 1024,
        **options: Unpack[GroupArguments],
    ) -> None:
        check.cluster(cluster)
        super().__init__(cluster, isolation_level)
        self._options: ConsumerOptions[K, V] = ConsumerOptions(
            auto_offset_reset=auto_offset_reset,
            enable_auto_commit=enable_auto_commit,
            auto_commit_interval=auto_commit_interval,
            isolation_level=isolation_level,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            interceptors=interceptors,
            client_rack=client_rack,
            fetch_max_wait=fetch_max_wait,
            fetch_min_bytes=fetch_min_bytes,
            fetch_max_bytes=fetch_max_bytes,
            max_partition_fetch_bytes=max_partition_fetch_bytes,
            queue_max_bytes=queue_max_bytes,
        )
        self._group_options = group_options(group_id, client_rack, dict(options))
        group = None
        require_stable = False
        if self._group_options is not None:
            from logbus.client.membership.group_offsets import GroupOffsets  # as all of groups, where there is one

            group = GroupOffsets(cluster, self._group_options.group_id, self._group_options.request_timeout)
            require_stable = self._group_options.require_stable
        self._fetcher = Fetcher(cluster, self._options.fetching)
        self._delivered_offsets = DeliveredOffsets()
        self.poller = RecordPoller(cluster.reactor, self._fetcher, self._options, self._delivered_offsets.delivered)
        self._committer = Committer(
            cluster.reactor, group, self._options.interceptors, self.poller.offsets, self._delivered_offsets
        )
        self._listener = AssignmentListener(
            cluster, self._fetcher, self._committer, self.poller, self._options, require_stable
        )
        self._auto = enable_auto_commit and group is not None
        self.poller.monitor = self._listener
        # Fires when the consumer is closed; None: close() was not called.
        self._closed: Deferred[None] | None = None
        self._subscription: GroupSubscription | None = None
        if self._group_options is not None:
            self._subscription = GroupSubscription(
                cluster, self._group_options, self._committer, self.poller, self._listener
            )

    # Assignment.

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The assigned partitions."""
        return self._fetcher.assigned.partitions

    def assign(self, partitions: Mapping[TopicPartition, Position] | Iterable[TopicPartition]) -> None:
        """
        Read exactly these partitions, without joining the group.

        :param partitions: with start positions; without, they start at the group's committed offsets, or as
            ``auto_offset_reset`` says.
        :raises LogbusError: the consumer subscribes to topics, or is closed.
        :raises ConfigError: the argument is something else.
        """
        if isinstance(partitions, Mapping):
            for each, position in partitions.items():
                check.partition(each)
                check_position(each, position)
        else:
            partitions = check.partitions(partitions)
        if self._committer.membership is not None:
            raise LogbusError("the consumer subscribes to topics: await unsubscribe() before partitions are assigned")
        self._check_open()
        self.poller.drop(self.assignment)
        self._fetcher.remove(self.assignment)
        self._listener.end()
        if not partitions:
            self._fetcher.rest()
        elif isinstance(partitions, Mapping):
            self._fetcher.add(partitions)
        elif self._committer.group is None:
            self._fetcher.add(dict.fromkeys(partitions, reset_position(self._options.auto_offset_reset)))
        else:
            self._listener.begin(frozenset(partitions))
        self._begin()

    def subscribe(self, topics: Iterable[str] | re.Pattern[str], listener: GroupListener | None = None) -> None:
        """
        Join the group, which divides the partitions of topics among its members.

        :param topics: names, or an expression that has to match whole names; topics created later are included.
        :param listener: called when partitions are assigned and revoked.
        :raises LogbusError: there is no group, or the consumer is closed.
        :raises ConfigError: no topic is named, or the options do not fit.
        """
        self._check_open()
        if self._subscription is None:
            raise LogbusError("a consumer without a group cannot subscribe: give it a group_id, or assign partitions")
        check_listener(listener)
        wanted = subscription_to(topics)
        if self._subscription.follow(wanted, listener):
            return
        if self._committer.membership is None:
            self.assign({})
        self._subscription.subscribe(wanted, listener)
        self._begin()

    def unsubscribe(self) -> Deferred[None]:
        """Leave the group, or drop the assigned partitions; fires when that is done."""

        async def unsubscribe() -> None:
            if self._subscription is not None:
                await self._subscription.leave()
            self.poller.drop(self.assignment)
            self._fetcher.remove(self.assignment)
            self._listener.end()
            await self._fetcher.rest()
            if self._subscription is not None and self._subscription.subscribe_next():
                self._begin()

        if self._subscription is not None:
            self._subscription.forget_next()
        return Deferred.fromCoroutine(unsubscribe())

    def group_metadata(self) -> GroupMetadata:
        """
        The member's identity, with which a producer's transaction commits offsets (KIP-447).

        It covers the records delivered since the last call. If one of their partitions was revoked meanwhile, the
        result is the identity from before: the coordinator then refuses the offsets, and the transaction is aborted. So
        call this once for each transaction, when all records of the transaction have been delivered.

        :raises LogbusError: there is no group.
        """
        if self._group_options is None:
            raise LogbusError("a consumer without a group has no group metadata; give it a group_id")
        membership = self._committer.membership
        if membership is None:
            now = GroupMetadata(self._group_options.group_id)
        else:
            now = evolve(membership.last_metadata, assignment=self.assignment)
        # Otherwise a loop over records would continue in the same batch unnoticed.
        self.poller.stop()
        return self._delivered_offsets.metadata(now)

    def transaction_offsets(self) -> tuple[dict[TopicPartition, CommittedOffset | None], GroupMetadata]:
        """
        The offsets of this consumer that a transaction commits: those after the records delivered since the last call,
        or None where a partition was revoked meanwhile; and the identity that the member had.

        :meth:`~logbus.client.producer.transaction.Transaction.send_offsets` calls it.

        :raises LogbusError: there is no group.
        """
        delivered, positions = self._delivered_offsets.in_transaction, self.poller.offsets(False)
        return {each: positions.get(each) for each in delivered}, self.group_metadata()

    # Records.

    def __aiter__(self) -> RecordPoller[K, V]:
        return self.poller

    def __anext__(self) -> Coroutine[Deferred[Any], Any, ConsumerRecord[K, V]]:
        return self.poller.__anext__()

    def batches(self) -> BatchIterator[K, V]:
        """``async for batch in consumer.batches()``: the records of one partition at a time, as they were fetched."""
        return BatchIterator(self.poller)

    def each(
        self,
        process: Callable[[ConsumerRecord[K, V]], Awaitable[object] | None],
        *,
        on_error: Callable[[ConsumerRecord[K, V], Exception], Awaitable[object] | None] | None = None,
        **options: Unpack[EachArguments],
    ) -> Deferred[None]:
        """
        Process records side by side: those with the same key in one partition one after another, in order.

        Commits, the automatic ones as well, cover what is before the first unfinished record of each partition. When
        a partition is revoked, nothing more of it begins, and the group waits for what is under way. So does
        :meth:`close`, which ends this. When a partition is lost, what is under way of it is cancelled.

        :param process: called with each record; it is finished when the result, if any, has fired. It must not wait for
            the consumer's ``close()``, which waits for it.
        :param on_error: called with a record and the error of its processing. If it succeeds, the record is finished.
            Default: the first error ends this, and the record stays unfinished.
        :param concurrency: (default 16) how many records are under way at the most.
        :param order: (``key``) ``key``: records without a key are in no order; ``partition``: all records of a
            partition are processed one after another; ``none``: all records are in no order.
        :param drain_timeout: (30) seconds after which what is under way is cancelled when its partition is revoked,
            or the consumer is closed.
        :param max_records: (16 × concurrency) how many records are taken and not finished, at the most; their size is
            bounded as well, by ``queue_max_bytes``.
        :returns: fires when the consumer is closed. Cancelling it cancels what is under way. When it ends in another
            way than by ``close()``, the consumer goes back to the unfinished records.
        :raises ProcessingFailed: (in the Deferred, as all of these) a record could not be processed.
        :raises LogbusError: as of :meth:`poll`; or another call of this method is running.
        :raises InvalidOption: an option is wrong.
        """
        from logbus.client.consumer.record_processor import RecordProcessor

        async def run() -> None:
            processor: RecordProcessor[K, V] = RecordProcessor(
                self._cluster.reactor,
                self.poller,
                self._fetcher,
                process,
                on_error,
                self._options.queue_max_bytes,
                **options,
            )
            if self.poller.processor is not None:
                raise LogbusError("each() of this consumer is running already; use a consumer for each call")
            await processor.run()

        return Deferred.fromCoroutine(run())

    def poll(
        self, timeout: float | None = None, max_records: int = 500
    ) -> Deferred[dict[TopicPartition, list[ConsumerRecord[K, V]]]]:
        """
        The next records, by partition.

        Cancelling the Deferred loses no records.

        :param timeout: seconds to wait for records; None: no limit.
        :returns: fires with at least one record, unless the timeout expires or the consumer is closed meanwhile.
        :raises RecordError: (in the Deferred) the next record cannot be deserialized.
        :raises ApiError: OFFSET_OUT_OF_RANGE if ``auto_offset_reset`` is ``none``; a topic that does not exist; corrupt
            records. The error is raised again until its cause is gone; :meth:`seek` skips it.
        :raises MembershipFailed: the group does not accept this member any more.
        :raises LogbusError: the consumer was closed before, or reads nothing yet.
        """

        if timeout is not None:
            check.seconds("timeout", timeout)
        check.integer("max_records", max_records, 1)

        async def poll() -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
            # Not an empty result again and again, with which a loop would never end.
            self._check_open()
            delivery = await self.poller.next_delivery(timeout)
            return {} if delivery is None else self.poller.take(delivery, max_records)

        return Deferred.fromCoroutine(poll())

    def pause(self, *partitions: TopicPartition) -> None:
        """
        Deliver no records of these partitions until they are resumed; the consumer stays in its group.

        :raises NotAssigned: one is not assigned.
        """
        self._fetcher.assigned.pause(partitions)
        self.poller.stop()

    def resume(self, *partitions: TopicPartition) -> None:
        """
        Deliver them again.

        :raises NotAssigned: one is not assigned.
        """
        self._fetcher.resume(partitions)

    def paused(self) -> frozenset[TopicPartition]:
        """The paused partitions."""
        return self._fetcher.assigned.paused()

    # Positions.

    def position(self, partition: TopicPartition) -> int | None:
        """
        The offset of the next record to deliver; None while it is being looked up.

        :raises NotAssigned: the partition is not assigned.
        """
        return self.poller.position(partition)

    def seek(self, partition: TopicPartition, position: Position) -> None:
        """
        Move to another position.

        :param position: an offset, :data:`EARLIEST`, :data:`LATEST`, or :class:`AtTime`.
        :raises NotAssigned: the partition is not assigned.
        """
        check.partition(partition)
        check_position(partition, position)
        self._fetcher.seek(partition, position)
        self.poller.drop((partition,))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Move to the first offset; default: of all partitions."""
        for each in partitions or self.assignment:
            self.seek(each, EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Move to the end; default: of all partitions."""
        for each in partitions or self.assignment:
            self.seek(each, LATEST)

    def seek_to_committed(self, *partitions: TopicPartition) -> Deferred[None]:
        """
        Go back to the committed offsets, for instance after an aborted transaction. A partition without a committed
        offset starts as ``auto_offset_reset`` says; one that is revoked meanwhile is left out. If the offsets cannot be
        looked up, or the Deferred is cancelled, nothing of these partitions is delivered until they are.

        :param partitions: default: all assigned partitions.
        :raises NotAssigned: (in the Deferred, as all of these) one is not assigned.
        :raises LogbusError: there is no group; the broker refuses; or a partition has no committed offset and
            ``auto_offset_reset`` is ``none``.
        """
        return Deferred.fromCoroutine(self._listener.seek_to_committed(partitions or tuple(self.assignment)))

    def lag(self) -> dict[TopicPartition, int | None]:
        """
        The number of offsets between each position and the partition's end, as of its last fetch; None while that is
        unknown.
        """
        found: dict[TopicPartition, int | None] = {}
        for each in self.assignment:
            position, end = self.position(each), self._fetcher.assigned.high_watermark(each)
            found[each] = None if position is None or end is None else max(0, end - position)
        return found

    # Committing.

    def commit(self, offsets: Mapping[TopicPartition, int | CommittedOffset] | None = None) -> Deferred[None]:
        """
        Commit offsets. Calls made while a commit is in flight become one commit, and all get its outcome.

        :param offsets: the next offsets to read; default: the positions after the delivered records.
        :raises CommitFailed: (in the Deferred) the group has rebalanced, or a partition's offset is refused.
        :raises LogbusError: there is no group, or no coordinator was reached in time.
        """
        return self._committer.commit(committed_offsets(offsets))

    def commit_nowait(self, offsets: Mapping[TopicPartition, int | CommittedOffset] | None = None) -> None:
        """Commit without waiting; a failure is logged."""
        self._committer.commit_nowait(committed_offsets(offsets))

    def committed(self, partitions: Iterable[TopicPartition]) -> Deferred[dict[TopicPartition, CommittedOffset | None]]:
        """
        The group's committed offsets; None: no offset.

        :raises LogbusError: (in the Deferred) there is no group; or the broker refuses.
        """
        return Deferred.fromCoroutine(self._listener.committed(tuple(partitions)))

    @returns_deferred
    async def close(self, *, done: bool = True) -> None:
        """
        Stop reading, wait for what :meth:`each` has under way, commit if automatic commits are enabled, and leave the
        group. Fires when that is done, also of a second call; never fails.

        :param done: the records delivered last are processed, too.
        """
        if self._closed is not None:
            await shield(self._closed)
            return
        self._closed = Deferred()
        try:
            await self._close(done)
        finally:
            self._closed.callback(None)

    async def _close(self, done: bool) -> None:
        self.poller.closed = True
        self.poller.stop()
        if done:
            self.poller.settle()
        self.poller.stop_waiting()
        if self.poller.processor is not None:
            await self.poller.processor.drain()
        membership = self._committer.membership
        self._committer.stop()
        if membership is not None:
            await membership.close()
        elif self._auto:
            try:
                await self._committer.commit(done=True)
            except LogbusError as e:
                self._log.warn("offsets were not committed: {error}", error=e)
        self._committer.close()
        self._listener.end()
        await self._fetcher.close()

    async def __aenter__(self) -> Consumer[K, V]:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        await self.close(done=kind is None)

    # Internals.

    def _check_open(self) -> None:
        if self.poller.closed:
            raise LogbusError("the consumer is closed")

    def _begin(self) -> None:
        self._listener.is_idle = False
        if self._auto:
            self._committer.start(self._options.auto_commit_interval)
