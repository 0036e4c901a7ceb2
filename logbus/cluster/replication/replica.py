"""
One replica on this broker: its log, its role, and the requests that wait for it.

:class:`~logbus.cluster.replication.partition.Partition` decides; this module writes and reads the log, and completes
waiting requests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol
from uuid import UUID

from attrs import define, field
from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.replication.broker_topic_stats import TopicStats
from logbus.cluster.replication.follower_state import FollowerState
from logbus.cluster.replication.offset_waiters import OffsetWaiters
from logbus.cluster.replication.partition import Partition
from logbus.cluster.replication.record_deletion import low_watermark
from logbus.cluster.replication.replica_context import ReplicaContext, StandaloneContext
from logbus.config import TopicConfig
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.model import NO_EPOCH, IsrChange, LeaderAndIsr, TopicPartition
from logbus.records.batch import Marker
from logbus.records.checksum import Buffer
from logbus.storage.appends.append_as_follower import append_as_follower
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.appends.append_many import AppendManyResult, append_many
from logbus.storage.appends.append_marker import append_marker
from logbus.storage.appends.log_append_info import LogAppendInfo
from logbus.storage.log import Log, ReadResult

#: More bytes than any fetch waits for: watchers should read again, however much there is.
UNKNOWN_SIZE = 1 << 62


class Watcher(Protocol):
    """Is called when records become readable."""

    def moved(self, replica: Replica, size: int) -> None:
        """About ``size`` more bytes of ``replica`` can be read now."""


Repair = Callable[["Replica", int], Awaitable[None]]
"""Checks the log at an offset and repairs damage; returns when that is done, or is not possible now."""


async def no_repair(replica: Replica, offset: int) -> None:
    """The default: damage is not repaired."""


@define(eq=False, repr=False)
class Replica:
    """
    One replica on this broker.

    :ivar repair: see :data:`Repair`; called by readers that find damage in the log.
    :ivar diverges: a leader epoch, and the offset from which on its leader has other records, where the log could not
        be cut there.
    :ivar stats: the counts of its topic.
    :ivar watchers: called whenever the high watermark moves, in the order they came.
    :ivar log_watchers: called whenever the log grows; and, with a size of 0, when there is news without records.
    """

    partition: Partition
    topic_id: UUID
    log: Log
    cluster: ReplicaContext[Replica] = field(factory=StandaloneContext, kw_only=True)
    repair: Repair = field(default=no_repair, kw_only=True)
    diverges: tuple[int, int] | None = field(default=None, init=False)
    stats: TopicStats = field(factory=TopicStats, init=False)
    watchers: dict[Watcher, None] = field(factory=dict, init=False)
    log_watchers: dict[Watcher, None] = field(factory=dict, init=False)
    _acks: OffsetWaiters = field(factory=OffsetWaiters, init=False)
    _deletions: OffsetWaiters = field(factory=OffsetWaiters, init=False)
    _syncing: bool = field(default=False, init=False)
    _log = Logger()

    @property
    def topic_partition(self) -> TopicPartition:
        """Which partition this is."""
        return self.partition.topic_partition

    @property
    def high_watermark(self) -> int:
        """The first offset that readers do not see."""
        return self.partition.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The first offset that readers of committed records do not see."""
        return self.log.last_stable_offset(self.partition.high_watermark)

    # Appends, as the leader.

    def append(
        self,
        data: Buffer,
        now_ms: int,
        zstd_allowed: bool = True,
        all_in_sync: bool = False,
        from_coordinator: bool = False,
    ) -> LogAppendInfo:
        """
        Write one batch from a client, as the leader.

        :param data: one record batch; neither kept nor changed.
        :param zstd_allowed: whether the producer's version of the protocol knows zstd.
        :param all_in_sync: the producer asks for ``acks=all``; :meth:`durable` fires once all in-sync replicas have it.
        :param from_coordinator: a coordinator of this broker wrote it, not a client; see :func:`.validate_for_topic`.
        :raise ApiError: the batch is refused; nothing was written.
        """
        partition = self.partition
        if not partition.is_leader or partition.in_doubt:
            partition.check_leader()
        if all_in_sync:
            partition.check_enough_replicas()
        log = self.log
        appended = append_as_leader(log, data, partition.leader_epoch, now_ms, zstd_allowed, from_coordinator)
        if partition.log_grew(log.log_end_offset) and self.watchers:
            self._notify_watchers(appended.size)
        if self.log_watchers:
            self._notify_log_watchers(appended.size)
        return appended

    def append_marker(
        self, producer_id: int, producer_epoch: int, marker: Marker, now_ms: int, transaction_version: int
    ) -> LogAppendInfo:
        """
        End a producer's transaction in this partition, as the leader; :meth:`durable` fires once that is committed.

        :param transaction_version: of the rules by which the epoch is checked; see :func:`.append_marker`.
        :raise ApiError: as :meth:`append` with ``all_in_sync``; INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
        """
        partition = self.partition
        if not partition.is_leader or partition.in_doubt:
            partition.check_leader()
        partition.check_enough_replicas()
        log = self.log
        appended = append_marker(
            log, producer_id, producer_epoch, marker, partition.leader_epoch, now_ms, transaction_version
        )
        if partition.log_grew(log.log_end_offset) and self.watchers:
            self._notify_watchers(appended.size)
        if self.log_watchers:
            self._notify_log_watchers(appended.size)
        return appended

    def append_many(
        self,
        batches: Sequence[Buffer],
        now_ms: int,
        zstd_allowed: bool = True,
        all_in_sync: bool = False,
        in_transaction: bool = False,
    ) -> AppendManyResult | None:
        """
        Write several batches at once, as the leader; arguments as of :meth:`append`.

        :param in_transaction: they continue a transaction that is open here; otherwise they belong to none.
        :return: None: at least one needs a check of its own, and none was written.
        """
        partition, log = self.partition, self.log
        if not partition.is_leader or partition.in_doubt or (all_in_sync and not partition.has_enough_replicas):
            return None
        appended = append_many(log, batches, partition.leader_epoch, now_ms, zstd_allowed, in_transaction)
        if appended is not None and partition.log_grew(log.log_end_offset) and self.watchers:
            self._notify_watchers(appended.size)
        if appended is not None and self.log_watchers:
            self._notify_log_watchers(appended.size)
        return appended

    # Reads.

    def read(self, offset: int, max_bytes: int, *, committed: bool, min_one: bool) -> ReadResult:
        """
        Read whole batches from ``offset`` on, as far as consumers may read.

        :param committed: stop at the last stable offset instead of the high watermark.
        :param min_one: return the first batch even when it is larger than ``max_bytes`` (KIP-74).
        :raise ApiError: OFFSET_OUT_OF_RANGE; OFFSET_NOT_AVAILABLE beyond the end of a new leader that may still lack
            committed records: a reader must not take that for a truncation.
        """
        bound = self.last_stable_offset if committed else self.partition.high_watermark
        if offset > self.log.log_end_offset:
            self.partition.check_established()
        return self.log.read(offset, max_bytes, bound, min_one)

    # Replication: the followers' fetches, as the leader; the leader's records, as a follower.

    def fetched(self, follower: FollowerState, offset: int, log_start_offset: int) -> None:
        """
        A follower fetches: its offset acknowledges all records before it.

        :param offset: its log does not diverge from this one up to there.
        :param log_start_offset: where its log begins.
        :raise ApiError: OFFSET_OUT_OF_RANGE.
        """
        log, partition, cluster = self.log, self.partition, self.cluster
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise log.out_of_range(offset)
        if (
            offset == follower.log_end_offset
            and log_start_offset == follower.log_start_offset
            and partition.is_settled(follower)
            and partition.synced_end_offset is None
            and not log.config.flush_before_ack
            and not len(self._deletions)
        ):
            # Its fetch has waited, and is read again: that it is still there is all that is new.
            follower.fetched(offset, log_start_offset, partition.log_end_offset, cluster.seconds())
            return
        before = partition.high_watermark
        self._update_synced_end()
        moved = partition.fetched(follower, offset, log_start_offset, cluster.seconds(), cluster.max_lag)
        self._high_watermark_updated(moved, before)
        isr_change = partition.isr_change
        if (follower.is_ready or isr_change.needs_confirmation) and isr_change.pending is None:
            cluster.request_isr_change(self)
        if partition.synced_end_offset is not None:
            self._sync_to_followers_end()
        if len(self._deletions):
            self._deletions.reached(self.low_watermark)

    def follow(self, data: Buffer, leaders_high_watermark: int) -> int:
        """
        Append the records of the leader's answer, and take over its high watermark.

        :param data: whole batches with their offsets and epochs, or nothing; neither kept nor changed.
        :return: the number of offsets that the log grew by.
        :raise ApiError: CORRUPT_MESSAGE; the records before the damage were appended.
        :raise StorageError: the disk failed.
        """
        log, before = self.log, self.log.log_end_offset
        try:
            if data:
                append_as_follower(log, data, self.partition.leader_epoch, log.config.compacted)
        finally:
            if self.partition.learn_high_watermark(leaders_high_watermark, log.log_end_offset) and self.watchers:
                self._notify_watchers(UNKNOWN_SIZE)
        return log.log_end_offset - before

    # Syncs of the leader's log, with ``flush.before.ack``.

    def _update_synced_end(self) -> None:
        log = self.log
        self.partition.synced_end_offset = log.flushed_end_offset if log.config.flush_before_ack else None

    def _sync_to_followers_end(self) -> None:
        """
        Sync the log as far as the followers have it: with ``flush.before.ack``, committed records are on stable storage
        of all in-sync replicas, the leader included.
        """
        partition, synced = self.partition, self.partition.synced_end_offset
        if self._syncing or not partition.is_leader or synced is None or synced >= partition.others_end_offset:
            return

        def done(_: object) -> None:
            self._syncing = False
            # The followers may be further by now, and do not fetch while there is nothing new.
            self._sync_to_followers_end()

        def failed(failure: Failure) -> None:
            self._syncing = False
            failure.trap(ApiError, StorageError)  # The log directory goes offline, and this replica with it.

        self._syncing = True
        self.log.flush().addCallback(self._synced).addCallbacks(done, failed).addErrback(
            lambda failure: self._log.failure("syncing {partition}", failure, partition=self.topic_partition)
        )

    def _synced(self, _: object) -> None:
        before = self.partition.high_watermark
        self._update_synced_end()
        self._high_watermark_updated(self.partition.advance(), before)

    # The role, and the ISR.

    def take_role(self, given: LeaderAndIsr, replicas: tuple[int, ...] | None = None) -> None:
        """
        Take the role the controller gives.

        :param replicas: of the partition; by default those in sync.
        """
        partition = self.partition
        led, epoch, before = partition.is_leader, partition.leader_epoch, partition.high_watermark
        self._update_synced_end()
        if not partition.take_role(given, self.log.log_end_offset, replicas, self.cluster.seconds()):
            return
        for n, follower in partition.followers.items():
            if follower.broker_epoch == NO_EPOCH:
                follower.broker_epoch = self.cluster.epoch_of(n)
        if partition.is_leader:
            partition.set_shutting_down(self.cluster.shutting_down())
            self.log.become_leader(given.leader_epoch)
            self._isr_changed(before)
        elif led:
            self._fail_waiters(self._no_leader())
        if epoch != partition.leader_epoch:
            self._notify_log_watchers(UNKNOWN_SIZE)
        if not partition.is_leader:
            self._notify_watchers(UNKNOWN_SIZE)

    def replace_log(self, log: Log) -> None:
        """Use another log with the same records: it was moved to another log directory."""
        config, self.log = self.log.config, log
        if log.config is not config:
            # It was changed while the log was made.
            log.configure(config)
        self._update_synced_end()
        self._sync_to_followers_end()
        # Waiting fetches wait for records of the old one.
        self._notify_watchers(UNKNOWN_SIZE)
        self._notify_log_watchers(UNKNOWN_SIZE)

    def configure(self, config: TopicConfig) -> None:
        """Swap the topic's settings."""
        self.log.configure(config)
        before = self.partition.high_watermark
        self._high_watermark_updated(self.partition.configure(config.min_insync_replicas), before)

    def check_lag(self) -> None:
        """Periodically: check whether all in-sync replicas keep up (Kafka: Partition.maybeShrinkIsr)."""
        partition, now, max_lag = self.partition, self.cluster.seconds(), self.cluster.max_lag
        before = partition.high_watermark
        self._high_watermark_updated(partition.check_lag(now, max_lag), before)
        if partition.desired_isr(now, max_lag) != partition.leader_and_isr.isr:
            self.cluster.request_isr_change(self)

    def brokers_lost(self, brokers: Collection[int]) -> None:
        """These brokers are no longer registered: the high watermark does not wait for them to join the ISR."""
        before = self.partition.high_watermark
        self._high_watermark_updated(self.partition.brokers_lost(brokers), before)
        self._wake_followers()

    def set_shutting_down(self, brokers: Collection[int]) -> None:
        """Set the brokers that are shutting down, which cannot join the ISR."""
        before = self.partition.high_watermark
        self._high_watermark_updated(self.partition.set_shutting_down(brokers), before)

    def isr_answered(self, change: IsrChange, answer: LeaderAndIsr | ApiError | None) -> None:
        """
        The controller answered a change of the ISR.

        :param answer: the stored state, the error, or None: the outcome is unknown.
        """
        partition, before = self.partition, self.partition.high_watermark
        if answer is None:
            partition.unanswered(change)
        elif isinstance(answer, ApiError):
            partition.refused(change)
        else:
            partition.granted(change, answer, self.cluster.seconds())
        if partition.is_leader:
            self._isr_changed(before)

    def _isr_changed(self, high_watermark_before: int) -> None:
        partition = self.partition
        self._wake_followers()
        self._high_watermark_updated(partition.high_watermark != high_watermark_before, high_watermark_before)
        if len(self._acks) and not partition.has_enough_replicas:
            # The high watermark cannot move now: producers would wait in vain.
            try:
                partition.check_enough_replicas(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
            except ApiError as e:
                self._acks.fail(e)

    def doubt_leadership(self) -> None:
        """Another broker may lead by now: fail the waiting requests, so that their clients look for the leader."""
        self.partition.in_doubt = True
        self._fail_waiters(self._no_leader())
        self._notify_watchers(UNKNOWN_SIZE)

    def retire(self, error: ApiError | None = None) -> None:
        """The replica was removed from this broker: fail the waiting requests."""
        self.partition.retire()
        self._fail_waiters(error or self._no_leader())
        self._notify_watchers(UNKNOWN_SIZE)
        self._notify_log_watchers(UNKNOWN_SIZE)

    # The high watermark.

    def _high_watermark_updated(self, moved: bool, before: int) -> None:
        """
        The high watermark was updated, but not by an append: tell those that wait for it.

        :param moved: whether it changed; it may have become valid for this epoch without that.
        :param before: what it was.
        """
        if moved:
            if self.log_watchers:
                self._notify_log_watchers(UNKNOWN_SIZE if self.cluster.followers_serve else 0)
            if self.watchers:
                self._notify_watchers(self._size_between(before, self.partition.high_watermark))
        self._complete_acks()

    def _size_between(self, start: int, end: int) -> int:
        """The bytes of records between two offsets; :data:`UNKNOWN_SIZE` where that cannot be told cheaply."""
        log = self.log
        try:
            data = log.read(max(start, log.local_start_offset), UNKNOWN_SIZE, end, True).data
        except (ApiError, StorageError, OSError):
            return UNKNOWN_SIZE
        return len(data) if data is not None else 0

    # Requests that wait: of producers, and DeleteRecords.

    def durable(self) -> Deferred[None] | None:
        """
        None if all records appended so far are on all in-sync replicas, else a Deferred that fires when they are.

        This includes records of a former leader, for a producer that sends a batch again that is there already: they
        count once the in-sync replicas have shown in this epoch that they have them.

        With ``flush.before.ack`` all waiting callers share one sync (group commit); followers sync what they
        acknowledge, too.

        :raise ApiError: (as a failure) NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS_AFTER_APPEND; the records may or may
            not be kept then.
        """
        log, partition = self.log, self.partition
        if not partition.is_leader:
            return fail(self._no_leader())
        flushed = log.flush() if log.config.flush_before_ack else None
        if partition.is_established and partition.high_watermark >= log.log_end_offset:
            return flushed
        committed = self._acks.wait(log.log_end_offset)
        if flushed is None:
            return committed
        return Deferred.fromCoroutine(self._durable(committed, flushed.addCallback(self._synced)))

    async def _durable(self, committed: Deferred[None], flushed: Deferred[None]) -> None:
        try:
            await committed
        except BaseException:
            flushed.addErrback(lambda _: None)
            raise
        await flushed
        self.partition.check_enough_replicas(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def _complete_acks(self) -> None:
        """Complete the producers whose records are committed, once that is known in this epoch."""
        if self.partition.is_established:
            self._acks.reached(self.partition.high_watermark)

    @property
    def low_watermark(self) -> int:
        """The lowest log start offset of all live replicas."""
        return low_watermark(self.partition, self.log.log_start_offset, self.cluster.is_alive)

    def deleted(self) -> Deferred[None] | None:
        """None if all live replicas have advanced to this log's start offset, else a Deferred that fires then."""
        start = self.log.log_start_offset
        if self.low_watermark >= start:
            return None
        # They learn the start offset from the answers to their fetches.
        self._notify_log_watchers(UNKNOWN_SIZE)
        return self._deletions.wait(start)

    def _fail_waiters(self, error: ApiError) -> None:
        self._acks.fail(error)
        self._deletions.fail(error)

    def _no_leader(self) -> ApiError:
        return ApiError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"broker {self.partition.broker_id} does not lead {self.topic_partition} any more",
        )

    # Watchers.

    def watchers_for(self, to_log_end: bool) -> dict[Watcher, None]:
        """The watchers of reads up to the log's end, or up to the high watermark."""
        return self.log_watchers if to_log_end else self.watchers

    def _notify_watchers(self, size: int) -> None:
        for watcher in list(self.watchers):
            watcher.moved(self, size)

    def _notify_log_watchers(self, size: int) -> None:
        for watcher in list(self.log_watchers):
            watcher.moved(self, size)

    def _wake_followers(self) -> None:
        """
        Have all followers fetch again, even those that are caught up: one that could not join the ISR so far, or has
        just left it, may join now.
        """
        self._notify_log_watchers(0)
