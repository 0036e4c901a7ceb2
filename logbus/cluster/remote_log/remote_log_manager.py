"""
Tiered storage of a broker: the work on all its partitions, again and again (Kafka: RemoteLogManager).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from uuid import UUID

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, gatherResults
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.cluster.icluster import ILeadershipListener
from logbus.cluster.remote_log.deleted_topics import DeletedTopics
from logbus.cluster.remote_log.remote_log_task import RemoteLogTask, RemoteTools, delete_segment
from logbus.cluster.remote_log.store_trouble import StoreTrouble
from logbus.cluster.replication.replica_manager import Replica, ReplicaManager
from logbus.errors import ApiError, StorageError
from logbus.metrics import Registry
from logbus.model import TopicPartition
from logbus.storage.log import Log
from logbus.storage.remote.iremote_storage import RemoteStorageError
from logbus.storage.remote.remote_log import RemoteLog

SOON_SECONDS = 0.1
"""Until the next run after a change of leadership."""

LONGEST_PAUSE_SECONDS = 60.0
"""Between two runs while something fails, unless they are further apart anyway."""


@implementer(ILeadershipListener)
@define(eq=False)
class RemoteLogManager:
    """
    The remote parts of this broker's logs.

    :ivar tools: what the work on each partition uses.
    :ivar trouble: whether the store works.
    :ivar tasks_at_a_time: partitions that are worked on at a time.
    """

    _replicas: ReplicaManager
    tools: RemoteTools
    _deleted: DeletedTopics
    trouble: StoreTrouble
    _clock: IReactorTime
    _interval: Callable[[], float]
    tasks_at_a_time: int
    _tasks: dict[tuple[UUID, int], RemoteLogTask] = field(factory=dict, init=False)
    # What the store has failed for, that longest ago first: it comes last, so that it does not hold up the others.
    _failing: dict[tuple[UUID, int], None] = field(factory=dict, init=False)
    _next: IDelayedCall | None = field(default=None, init=False)
    _running: Deferred[None] | None = field(default=None, init=False)
    _again: bool = field(default=False, init=False)
    _stopped: bool = field(default=True, init=False)
    _failures: int = field(default=0, init=False)
    _problems: dict[TopicPartition, str] = field(factory=dict, init=False)
    _log = Logger()

    def remote_log(self, log: Log) -> RemoteLog | None:
        """The remote part of a log; see :meth:`.LogOwner.remote_log`."""
        if log.topic_id is None:
            return None
        index = self.tools.topic.index(log.topic_id, log.partition.partition)
        self.soon()
        return RemoteLog(log.partition, index, self.tools.reader)

    @property
    def tasks(self) -> Collection[RemoteLogTask]:
        """The work on each partition."""
        return self._tasks.values()

    def register_metrics(self, registry: Registry) -> None:
        """Declare the metrics of tiered storage."""
        registry.add_fields(self.tools.counters)
        registry.add_fields(self.tools.reader)
        registry.gauge(
            "logbus_remote_log_size_bytes",
            "Bytes in remote storage of the partitions that this broker leads.",
            read=lambda: sum(remote.index.size for _, remote in self._led()),
        )
        registry.gauge(
            "logbus_remote_log_segments",
            "Segments in remote storage of the partitions that this broker leads.",
            read=lambda: sum(len(remote.index.finished) for _, remote in self._led()),
        )
        registry.gauge(
            "logbus_remote_copy_lag_bytes",
            "Bytes of closed segments that are still to be copied to remote storage.",
            read=lambda: sum(self._lag(replica.log, remote) for replica, remote in self._led()),
        )
        registry.gauge(
            "logbus_remote_storage_away",
            "1 while remote storage does not work.",
            read=lambda: int(self.trouble.failures > 0),
        )
        registry.gauge(
            "logbus_remote_cache_bytes",
            "Memory used by what was read from remote storage.",
            read=lambda: self.tools.reader.windows.size,
        )

    def _led(self) -> Iterator[tuple[Replica, RemoteLog]]:
        for replica in self._replicas:
            remote = replica.log.remote
            if remote is not None and replica.partition.is_leader:
                yield replica, remote

    @staticmethod
    def _lag(log: Log, remote: RemoteLog) -> int:
        closed = zip(log.segments, log.segments[1:], strict=False)
        return sum(old.size for old, following in closed if following.base_offset > remote.copied_end)

    # Leadership.

    def leads(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        self.soon()

    def leads_no_more(self, topic_partition: TopicPartition) -> None:
        pass

    # Runs.

    def start(self) -> None:
        """Begin to work."""
        self._stopped = False
        self._at(0)

    async def stop(self) -> None:
        """Stop; returns when nothing runs any more."""
        self._stopped = True
        self.tools.throttle.stop()
        if self._next is not None:
            self._next.cancel()
            self._next = None
        if self._running is not None:
            running = self._running
            running.cancel()
            await running
        await self.tools.topic.stop()

    def soon(self) -> None:
        """Run soon, since something has changed."""
        if self._running is not None:
            self._again = True
        elif not self._stopped and not self._failures:
            self._at(SOON_SECONDS)

    def _at(self, seconds: float) -> None:
        due = self._clock.seconds() + seconds
        if self._next is not None and self._next.active():
            if self._next.getTime() <= due:
                return
            self._next.cancel()
        self._next = self._clock.callLater(seconds, self._begin)

    def _begin(self) -> None:
        self._next, self._again = None, False

        def ended(_: object) -> None:
            self._running = None
            if not self._stopped:
                self._at(SOON_SECONDS if self._again and not self._failures else self._pause())

        def failed(failure: Failure) -> None:
            # What is cancelled by a stop may say so in several ways.
            if not self._stopped:
                self._log.failure("remote storage", failure)

        running = Deferred.fromCoroutine(self.run()).addErrback(failed)
        if running.called:
            ended(None)
        else:
            self._running = running.addCallback(ended)

    def _pause(self) -> float:
        interval = self._interval()
        longest = max(interval, LONGEST_PAUSE_SECONDS)
        return float(min(longest, interval * 2 ** min(self._failures, 10)))

    async def run(self) -> None:
        """Work once on all partitions."""
        replicas = {_key(replica): replica for replica in self._replicas if self._concerns(replica.log)}
        for key in self._tasks.keys() - replicas.keys():
            del self._tasks[key]
            self._failing.pop(key, None)
        before = [key for key in self._failing if key in replicas]
        left = iter(
            [*(each for key, each in replicas.items() if key not in before), *(replicas[key] for key in before)]
        )
        failed: list[Exception] = []

        async def work() -> None:
            for replica in left:
                if self._stopped or failed:
                    return
                await self._work_on(replica, failed)

        await gatherResults([Deferred.fromCoroutine(work()) for _ in range(self.tasks_at_a_time)], consumeErrors=True)
        if not self._stopped and self._failing.keys() <= set(before):
            await self._delete_topics(failed)
        self._failures = self._failures + 1 if failed else 0

    @staticmethod
    def _concerns(log: Log) -> bool:
        return log.remote is not None or log.config.remote_log_delete_on_disable

    async def _work_on(self, replica: Replica, failed: list[Exception]) -> None:
        key = _key(replica)
        task = self._tasks.get(key)
        if task is None or task.replica is not replica:
            task = self._tasks[key] = RemoteLogTask(replica, self.tools)
        try:
            await task.run()
        except RemoteStorageError as error:
            if not self._stopped:
                self.trouble.note(error)
                failed.append(error)
                self._failing.pop(key, None)
                self._failing[key] = None
            return
        except (ApiError, StorageError) as error:
            self._problem(replica.topic_partition, str(error))
        except CancelledError:
            raise
        except Exception:
            self._log.failure("{partition}: remote storage", partition=replica.topic_partition)
        else:
            self._problems.pop(replica.topic_partition, None)
        self._failing.pop(key, None)

    def _problem(self, partition: TopicPartition, problem: str) -> None:
        if self._problems.get(partition) != problem:
            self._problems[partition] = problem
            self._log.warn("{partition}: remote storage: {problem}", partition=partition, problem=problem)

    async def _delete_topics(self, failed: list[Exception]) -> None:
        try:
            await self._deleted.delete(partial(delete_segment, self.tools))
        except RemoteStorageError as error:
            self.trouble.note(error)
            failed.append(error)
        except (ApiError, StorageError) as error:
            self._log.debug("remote segments of deleted topics: {error}", error=error)


def _key(replica: Replica) -> tuple[UUID, int]:
    return replica.topic_id, replica.topic_partition.partition
