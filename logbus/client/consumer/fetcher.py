"""
Fetches records of assigned partitions and buffers them ahead of the application (Kafka: Fetcher).

Each broker has one fetch in flight, on a connection of its own, while records of the previous one are delivered. The
buffer is bounded in bytes, over all partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.client.background_tasks import BackgroundTasks
from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.assigned_partitions import AssignedPartitions
from logbus.client.consumer.broker_fetches import BrokerFetches, FetchResult, end_sessions
from logbus.client.consumer.completed_fetch import CompletedFetch
from logbus.client.consumer.consumer_record import Fetched
from logbus.client.consumer.fetch_options import FetchOptions
from logbus.client.consumer.partition_position import PartitionPosition, Position, reset_position
from logbus.client.consumer.position_lookup import find_leaders, find_offsets
from logbus.client.retry import ClientClosed, is_retriable
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import NO_EPOCH, OffsetAndEpoch, TopicPartition


class LogTruncated(ApiError):
    """
    Records that were read are not in the leader's log any more (Kafka: LogTruncationException).

    :ivar offset: from which on the log may have others.
    """

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        self.offset = offset


class Fetcher:
    """
    Looks up and fetches what the assigned partitions lack, while there is room.

    :param cluster: the cluster to read from; its owner closes it, not the fetcher.
    :param options: None: the defaults.
    :ivar assigned: the assigned partitions, with their positions and fetched data.
    """

    _log = Logger()

    def __init__(self, cluster: Cluster, options: FetchOptions | None = None) -> None:
        self._cluster = cluster
        self._clock = cluster.reactor
        self._lane = cluster.lane("fetch")
        self._options = options or FetchOptions()
        self.assigned = AssignedPartitions(self._options.queue_bytes)
        self._brokers: dict[int, BrokerFetches] = {}
        self._finding_leaders = False
        self._finding_offsets: set[int] = set()
        self._is_full = False
        self._waiting: list[Deferred[Fetched]] = []
        self._watching: list[Deferred[None]] = []
        self._tasks = BackgroundTasks(self._task_failed)
        self._wake: Any = None
        self._closed = False

    # Assignment and positions.

    def assign(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Fetch exactly these partitions, from these positions."""
        self.remove(self.assigned.partitions)
        self.add(positions)

    def add(self, positions: Mapping[TopicPartition, Position], epochs: Mapping[TopicPartition, int] = {}) -> None:
        """
        Fetch these partitions, too; those that are assigned already move to the positions.

        :param epochs: the leader epochs of the records before the positions, if known, to detect that the log was
            truncated since (KIP-320).
        """
        self.assigned.add(positions, epochs)
        self._schedule()

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching these partitions, and drop their buffered data."""
        self.assigned.remove(partitions)

    def seek(self, partition: TopicPartition, position: Position, epoch: int = NO_EPOCH) -> None:
        """
        Move to another position of a partition, and drop its buffered data.

        :raises NotAssigned: the partition is not assigned.
        """
        self.assigned.seek(partition, position, epoch)
        self._schedule()

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """
        Fetch and deliver paused partitions again.

        :raises NotAssigned: one is not assigned.
        """
        self.assigned.resume(partitions)
        self._serve_waiters()
        self._schedule()

    # Records.

    def take(self) -> Fetched | None:
        """
        The next records of any partition, if some are buffered.

        :raises LogbusError: as :meth:`poll`.
        """
        if not self.assigned.has_data:
            return None
        position = self.assigned.next
        try:
            fetched = self.assigned.take()
        except LogbusError:
            position.failed(self._clock.seconds(), self._cluster.backoff)
            self._schedule()
            raise
        if self._is_full and self.assigned.has_room:
            self._schedule()
        return fetched

    def poll(self) -> Deferred[Fetched]:
        """
        Wait for the next records of any partition. The result has no records if a partition advanced without any.

        Cancelling the Deferred loses no records: the next call gets them.

        :raises ApiError: (in the Deferred) OFFSET_OUT_OF_RANGE if ``reset`` is none; a topic that does not exist;
            corrupt records; the login is refused. The error is raised again until its cause is gone; :meth:`seek` skips
            it.
        :raises ClientClosed: the cluster was closed.
        """
        if self._closed:
            return fail(LogbusError("the consumer is closed"))
        try:
            fetched = self.take()
        except LogbusError as e:
            return fail(e)
        if fetched is not None:
            return succeed(fetched)
        waiting: Deferred[Fetched] = Deferred(self._waiting.remove)
        self._waiting.append(waiting)
        self._schedule()
        return waiting

    def wait(self) -> Deferred[None]:
        """Fires when :meth:`take` has something of any partition: records, or an error."""
        if self._closed:
            return fail(LogbusError("the consumer is closed"))
        if self.assigned.has_data:
            return succeed(None)
        watching: Deferred[None] = Deferred(self._watching.remove)
        self._watching.append(watching)
        self._schedule()
        return watching

    def rest(self) -> Deferred[None]:
        """Close the fetch sessions, since nothing is fetched for now (KIP-227). Fires soon, and never fails."""
        brokers, self._brokers = self._brokers, {}
        return end_sessions(brokers.values(), self._clock)

    def close(self) -> Deferred[None]:
        """
        Stop fetching; callers that wait get an error. Fires when the fetch sessions are closed, or after a short time.
        """
        self._closed = True
        self._tasks.cancel()
        if self._wake is not None and self._wake.active():
            self._wake.cancel()
        self._cluster.close_lane(self._lane)
        self.remove(self.assigned.partitions)
        resting = self.rest()
        waiting: list[Deferred[Any]] = [*self._waiting, *self._watching]
        self._waiting, self._watching = [], []
        for each in waiting:
            each.errback(LogbusError("the consumer is closed"))
        return resting

    # Internals.

    def _schedule(self) -> None:
        """Start all lookups and fetches that are possible now."""
        if self._closed:
            return
        now, wake, most = self._clock.seconds(), 0.0, self._options.partition_max_bytes
        self._is_full = not self.assigned.has_room
        lost, to_locate, fetch, left_out = (
            list[PartitionPosition](),
            dict[int, list[PartitionPosition]](),
            dict[int, list[PartitionPosition]](),
            dict[int, list[PartitionPosition]](),
        )
        for position in self.assigned:
            if position.has_error:
                continue
            if position.retry_at > now:
                wake = min(wake or position.retry_at, position.retry_at)
                continue
            leader = self._cluster.leader(position.partition)
            if leader is None or position.lost:
                position.lost = True
                lost.append(position)
            elif position.wanted is not None:
                to_locate.setdefault(leader, []).append(position)
            elif not position.paused and not self._is_full:
                if position.replica_until <= now or position.replica not in self._cluster.nodes:
                    position.replica = -1
                some = fetch if self.assigned.size_of(position.partition) < most else left_out
                some.setdefault(leader if position.replica < 0 else position.replica, []).append(position)
        self._wake_after(wake - now if wake else 0.0)
        if lost and not self._finding_leaders:
            self._finding_leaders = True
            self._tasks.start(self._find_leaders(lost))
        for node_id, positions in to_locate.items():
            if node_id not in self._finding_offsets:
                self._finding_offsets.add(node_id)
                self._tasks.start(self._find_offsets(node_id, positions))
        for node_id, positions in fetch.items():
            if node_id not in self._brokers:
                self._brokers[node_id] = BrokerFetches(node_id, self._cluster, self._lane, self._options)
            broker = self._brokers[node_id]
            if not broker.busy:
                broker.busy = True
                self._tasks.start(self._fetch(broker, positions, left_out.get(node_id, ())))

    def _wake_after(self, seconds: float) -> None:
        if self._wake is not None and self._wake.active():
            self._wake.cancel()
        if seconds:
            self._wake = self._clock.callLater(seconds, self._schedule)

    async def _find_leaders(self, positions: list[PartitionPosition]) -> None:
        try:
            self.assigned.put_errors(await find_leaders(self._cluster, positions, self._options.patience))
        except LogbusError as e:
            self._report(positions, e)
        finally:
            self._finding_leaders = False
        self._after()

    async def _find_offsets(self, node_id: int, positions: list[PartitionPosition]) -> None:
        try:
            found, errors = await find_offsets(self._cluster, positions, self._options.committed)
        except LogbusError as e:
            self._report(positions, e)
        else:
            self.assigned.located(found)
            self.assigned.put_errors(errors)
        finally:
            self._finding_offsets.discard(node_id)
        self._after()

    async def _fetch(
        self, broker: BrokerFetches, positions: list[PartitionPosition], left_out: Sequence[PartitionPosition]
    ) -> None:
        # Fetches start while half of the buffer is free: together the responses of all brokers fit into that half.
        share = max(1, self._options.queue_bytes // 2 // max(1, len(self._brokers)))
        try:
            found = await broker.fetch(positions, min(self._options.max_bytes, share), is_partial=bool(left_out))
        except LogbusError as e:
            broker.lost()
            now = self._clock.seconds()
            self._log.debug("{error}; retrying", error=e)
            for position in positions:
                position.lost = position.lost or position.replica != broker.node_id
                position.replica = -1
                position.failed(now, self._cluster.backoff)
            if not is_retriable(e):
                self._report(positions, e)
        else:
            for position, result in found:
                self._handle_result(position, result)
            if left_out:
                broker.waited(in_vain=any(not self.assigned.size_of(each.partition) for each in left_out))
        finally:
            broker.busy = False
        self._after()

    def _report(self, positions: Sequence[PartitionPosition], error: LogbusError) -> None:
        """Have an error that retrying does not help raised once, though it is that of several partitions."""
        if not isinstance(error, (ApiError, ClientClosed)):
            error = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        self.assigned.put_errors([(positions[0], error)])

    def _after(self) -> None:
        self.assigned.make_room()
        self._serve_waiters()
        self._schedule()

    def _handle_result(self, position: PartitionPosition, result: FetchResult) -> None:
        partition = position.partition
        if not self.assigned.is_reading(position):
            return
        if isinstance(result, CompletedFetch):
            self.assigned.put(partition, result)
        elif isinstance(result, OffsetAndEpoch):
            self._handle_truncation(position, result)
        elif result.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            message = f"{partition} has no offset {position.offset}: its records begin and end elsewhere"
            if self._options.reset == "none":
                self.assigned.put_errors([(position, ApiError(result.code, message))])
            else:
                self._log.info("{message}; going on from the {reset}", message=message, reset=self._options.reset)
                position.wanted = reset_position(self._options.reset)
                # Do not loop at full speed if a broker returns this error each time.
                position.failed(self._clock.seconds(), self._cluster.backoff)
        else:
            self.assigned.put_errors([(position, result)])

    def _handle_truncation(self, position: PartitionPosition, end: OffsetAndEpoch) -> None:
        """Handle a truncated log: records were read that the leader's log does not have."""
        partition, delivered = position.partition, position.delivered
        message = (
            f"{partition} was cut off at offset {end.offset}, and the position is {delivered}: what was read is gone"
        )
        self._log.warn("{message}", message=message)
        self.assigned.drop(partition)
        if delivered > end.offset and self._options.reset == "none":
            position.refetch()
            self.assigned.put_errors([(position, LogTruncated(message, end.offset))])
        else:
            epoch = end.epoch if delivered >= end.offset else NO_EPOCH
            position.move_to(min(delivered, end.offset), epoch, checked=position.checked)
            position.failed(self._clock.seconds(), self._cluster.backoff)

    def _serve_waiters(self) -> None:
        """Give buffered records to callers that wait."""
        while self._waiting and self.assigned.has_data:
            waiting = self._waiting.pop(0)
            try:
                fetched = self.take()
            except LogbusError as e:
                waiting.errback(e)
            else:
                assert fetched is not None
                waiting.callback(fetched)
        if self.assigned.has_data:
            watching, self._watching = self._watching, []
            for each in watching:
                each.callback(None)

    def _task_failed(self, failure: Failure) -> None:
        self._log.failure("fetching failed", failure=failure)
        self._clock.callLater(self._cluster.backoff.most, self._schedule)
