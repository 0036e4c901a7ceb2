"""
Repairs damaged logs with records from other replicas.

A leader with a damaged log has another replica elected, so that readers and followers get every record from there.
Then, like any follower with a damaged log, it fetches the damaged range from the leader and replaces its own. Only
committed records are copied, so that no later election truncates them; where its log diverges from the leader's behind
the damage, which hinders the truncation, only those before that. They are fetched as a consumer does: a
follower's fetch would say that this broker has nothing behind the offset.

A leader that is not replaced in time copies from an in-sync replica instead. Without one the damage stays, and is
logged and shown as a metric; offsets outside the damage are served as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.cluster.follower.replica_fetcher import ChannelFor
from logbus.cluster.icluster import ILeadershipListener
from logbus.cluster.replication.replica import Replica
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.cluster.replication.replica_reports import ReplicaReports
from logbus.coroutines import returns_deferred
from logbus.errors import ErrorCode, LogbusError, StorageError, error_of
from logbus.metrics import metric
from logbus.model import TopicPartition
from logbus.net.channel import Channel
from logbus.storage.log import Log
from logbus.storage.repair.damage import Damage
from logbus.storage.repair.segment_refetch import FetchedBatches, RangeNotCommitted, ReplicaNotAvailable
from logbus.storage.segment_replacement import ReplacementAbandoned
from logbus.timers import Timer, Timers
from logbus.wire.messages.records import FetchPartition, FetchRequest, FetchResponse, FetchTopic

PURPOSE = "repair"
"""Purpose of its connections to other brokers."""
MAX_BYTES = 1 << 20
"""Bytes in one fetch."""
TIMEOUT_S = 30.0
LEADER_CHANGE_TIMEOUT_S = 5.0
"""Seconds that a leader waits for another to be elected, before it copies from a follower."""
FIRST_RETRY_S, MAX_RETRY_S = 1.0, 60.0
ALONE_RETRY_S = 4.0
"""Seconds after which a leader looks again whether another replica is in sync."""


@define(eq=False)
class RepairSource:
    """A replica on another broker, from which records are copied."""

    broker_id: int
    replica: Replica
    channel_for: ChannelFor

    @returns_deferred
    async def fetch(self, offset: int) -> FetchedBatches:
        """See :meth:`.BatchSource.fetch`."""
        channel: Channel = await self.channel_for(self.broker_id, PURPOSE)
        name, epoch = self.replica.topic_partition, self.replica.partition.leader_epoch
        asked = FetchPartition(
            partition=name.partition, current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=MAX_BYTES
        )
        topic = FetchTopic(topic=name.topic, topic_id=self.replica.topic_id.bytes, partitions=[asked])
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=MAX_BYTES, topics=[topic])
        response: FetchResponse = await channel.request(request, timeout=TIMEOUT_S)
        if response.error_code:
            raise error_of(response.error_code, f"broker {self.broker_id} refuses the fetch")
        data = response.responses[0].partitions[0]
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and offset < data.log_start_offset:
            return FetchedBatches(b"", data.high_watermark, data.log_start_offset)
        if data.error_code:
            raise error_of(data.error_code, f"broker {self.broker_id} refuses to give offset {offset}")
        records = data.records
        assert records is None or isinstance(records, (bytes, bytearray, memoryview))
        return FetchedBatches(records or b"", data.high_watermark, data.log_start_offset)


@implementer(ILeadershipListener)
@define(eq=False, repr=False)
class ReplicaRepair:
    """
    Repairs damage that is found in this broker's logs, one log at a time.

    :ivar reports: reports damaged leaders to the controller.
    :ivar handed_over: how often another leader was requested.
    :ivar failures: repairs that failed, so far.
    """

    broker_id: int
    replicas: ReplicaManager
    channel_for: ChannelFor
    timers: Timers
    reports: ReplicaReports
    handed_over: int = field(default=0, init=False)
    failures: int = metric("logbus_repair_failures_total", "Attempts to repair a damaged log that failed.")
    _asked: dict[Log, float] = field(factory=dict, init=False)
    _withdrawn: dict[Log, set[int]] = field(factory=dict, init=False)
    _problems: dict[Log, str] = field(factory=dict, init=False)
    _waiting: dict[Log, list[Deferred[None]]] = field(factory=dict, init=False)
    _retry_s: float = field(default=FIRST_RETRY_S, init=False)
    _timer: Timer | None = field(default=None, init=False)
    _due: float = field(default=0.0, init=False)
    _working: bool = field(default=False, init=False)
    _again: bool = field(default=False, init=False)
    _running: bool = field(default=False, init=False)
    _log = Logger()

    # -- Start and stop

    def start(self) -> None:
        """Begin to repair damage as it is found."""
        self._running = True
        self.replicas.logs.damage.on_found = self._damage_found
        self._work_in(0)

    def stop(self) -> None:
        """Begin no more repairs; closing the logs ends those under way."""
        self._running = False
        self.replicas.logs.damage.on_found = lambda log: None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for log in list(self._waiting):
            self._release_waiters(log)

    # -- What happens

    def leads(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        """This broker leads a partition."""
        self._role_changed(topic_partition)

    def leads_no_more(self, topic_partition: TopicPartition) -> None:
        """Another one does."""
        self._role_changed(topic_partition)

    def _role_changed(self, name: TopicPartition) -> None:
        for log in list(self.replicas.logs.damage.open):
            if log.partition == name:
                # Later: other listeners are called after this one, and waiting callers must see the new role.
                self.timers.call_later(0, partial(self._release_waiters, log))
                self._work_in(0)

    def _damage_found(self, log: Log) -> None:
        self._retry_s = FIRST_RETRY_S
        self._work_in(0)

    async def check_and_repair(self, replica: Replica, offset: int) -> None:
        """
        Check the batch at an offset. If it is damaged, have it repaired, or another replica lead. Returns when that is
        done, or is not possible now.
        """
        await self.check(replica, offset)
        log = replica.log
        if self._running and self.replicas.logs.damage.of(log):
            waiting: Deferred[None] = Deferred()
            self._waiting.setdefault(log, []).append(waiting)
            self._work_in(0)
            await waiting

    def check(self, replica: Replica, offset: int) -> Deferred[None]:
        """
        Check the batches from an offset on, since a follower fetched them again. Fires when it is known whether they
        are damaged.
        """
        log = replica.log
        segment = next((one for one in reversed(log.segments) if one.base_offset <= offset), None)
        if segment is None or offset >= log.log_end_offset:
            return succeed(None)
        return self.replicas.logs.scrubber.suspect(log, segment, offset)

    # -- Work

    def _work_in(self, seconds: float) -> None:
        if not self._running:
            return
        due = self.timers.clock.seconds() + seconds
        if self._working:
            self._again = True
        elif self._timer is None or due < self._due:
            if self._timer is not None:
                self._timer.cancel()
            self._due, self._timer = due, self.timers.call_later(seconds, self._work)

    def _work(self) -> None:
        self._timer, self._working, self._again = None, True, False

        def failed(failure: Failure) -> None:
            self._log.failure("a repair failed, and is tried again", failure)

        def done(_: object) -> None:
            self._working = False
            damage = self.replicas.logs.damage
            if not any(damage.of(log) for log in list(damage.open)):
                self._retry_s = FIRST_RETRY_S
            elif self._again:
                self._work_in(0)
            else:
                self._work_in(self._retry_s)
                self._retry_s = min(MAX_RETRY_S, 2 * self._retry_s)

        Deferred.fromCoroutine(self._work_through()).addErrback(failed).addCallback(done)

    async def _work_through(self) -> None:
        damage = self.replicas.logs.damage
        for log in list(damage.open):
            is_over = True
            try:
                if damage.of(log) and self._running:
                    is_over = await self._repair_log(log)
            except (LogbusError, OSError, CancelledError) as error:
                self._repair_failed(log, str(error) or repr(error))
            finally:
                if is_over:
                    self._release_waiters(log)
            if not damage.of(log):
                self._asked.pop(log, None)
                self._withdrawn.pop(log, None)
                self._problems.pop(log, None)
                self.reports.complete(log.partition)

    def _release_waiters(self, log: Log) -> None:
        for waiting in self._waiting.pop(log, ()):
            waiting.callback(None)

    async def _repair_log(self, log: Log) -> bool:
        """Repair a log as far as possible now; False: another leader is about to be elected."""
        replica = self.replicas.find(*log.partition)
        if replica is None or replica.log is not log:
            return True
        partition = replica.partition
        cluster = self.replicas.cluster
        in_sync = [one for one in partition.leader_and_isr.isr if one != self.broker_id and cluster.is_alive(one)]
        if not partition.is_leader:
            self._asked.pop(log, None)
            # It was reported to have another replica elected. It has all records but the damaged ones, and without it
            # too few replicas may be in sync to commit anything.
            self.reports.complete(log.partition)
            leader = partition.leader_and_isr.leader
            if leader < 0:
                return True  # Its election wakes us, or the next retry finds it.
            await self._repair(replica, [leader, *(one for one in in_sync if one != leader)])
            return True
        if not in_sync:
            self._repair_failed(log, "no other replica is in sync; what is damaged cannot be read until one is")
            # Looking again costs no request, and readers wait.
            self._retry_s = min(self._retry_s, ALONE_RETRY_S)
            return True
        if self._request_other_leader(replica, log):
            return False
        await self._repair(replica, in_sync)
        return True

    def _request_other_leader(self, replica: Replica, log: Log) -> bool:
        """Have another replica elected; return whether that may still happen."""
        withdrawn = self._withdrawn.get(log, ())
        damage = [one for one in self.replicas.logs.damage.of(log) if one.base_offset not in withdrawn]
        if not damage:
            return False
        now = self.timers.clock.seconds()
        asked = self._asked.get(log)
        if asked is None:
            asked = self._asked[log] = now
            self.handed_over += 1
            self._log.warn(
                "{partition}: this broker leads it, and its log is damaged: another replica is to lead",
                partition=log.partition,
            )
            self.reports.incomplete(log.partition, f"damaged at offset {damage[0].offset}")
        left = asked + LEADER_CHANGE_TIMEOUT_S - now
        if left > 0:
            self._retry_s = min(self._retry_s, left)
        return left > 0

    async def _repair(self, replica: Replica, brokers: Sequence[int]) -> None:
        damage = self.replicas.logs.damage
        for found in damage.of(replica.log):
            # The repair of another range may have covered this one.
            if found in damage.of(replica.log):
                await self._repair_one(replica, found, brokers)

    async def _repair_one(self, replica: Replica, damage: Damage, brokers: Sequence[int]) -> None:
        log = replica.log
        problems, nobody_has_it, uncommitted = [], True, ""
        end = None
        if replica.diverges is not None and not replica.partition.is_leader:
            epoch, offset = replica.diverges
            # In another epoch another leader's log counts.
            end = offset if epoch == replica.partition.leader_epoch else None
        for broker_id in brokers:
            source = RepairSource(broker_id, replica, self.channel_for)
            try:
                await self.replicas.logs.repairer.repair(log, damage, source, broker_id, end)
                return
            except ReplacementAbandoned:
                return
            except RangeNotCommitted as error:
                uncommitted = str(error)
            except ReplicaNotAvailable as error:
                problems.append(f"broker {broker_id}: {error}")
            except (StorageError, CancelledError):
                # The disk failed, which was logged, or the broker stops.
                return
            except LogbusError as error:
                nobody_has_it = False
                problems.append(f"broker {broker_id}: {error}")
        if uncommitted:
            # It will be committed soon, where followers keep up.
            self._log.debug("{partition} is repaired later: {why}", partition=log.partition, why=uncommitted)
            self._retry_s = min(self._retry_s, FIRST_RETRY_S)
            return
        self._repair_failed(log, "; ".join(problems))
        if nobody_has_it:
            # No replica has more records than this one: another leader would not help.
            self._withdrawn.setdefault(log, set()).add(damage.base_offset)

    def _repair_failed(self, log: Log, problem: str) -> None:
        self.failures += 1
        if self._problems.get(log) != problem:
            self._problems[log] = problem
            first = self.replicas.logs.damage.of(log)[:1]
            self._log.error(
                "{partition}: {path} is damaged at offset {offset}, and cannot be repaired now: {problem}",
                partition=log.partition, path=first[0].path if first else "a segment",
                offset=first[0].offset if first else -1, problem=problem,
            )  # fmt: skip
