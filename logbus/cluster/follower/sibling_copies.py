"""
Has new replicas begin with linked copies of logs that other workers of this machine have.

A follower whose log is empty, and that is not in sync, usually is one that a reassignment has just added. If a worker
beside this one has the log, it is asked for a copy (:mod:`logbus.storage.log_linker`), which replaces the empty log;
only then the partition is fetched, from where the copy ends. Where that cannot be done, all of it is fetched, as ever.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Collection
from functools import partial
from typing import Protocol
from uuid import UUID

from attrs import asdict, define, field
from twisted.internet.defer import CancelledError, Deferred, DeferredSemaphore
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.plugin_calls import PluginCalls
from logbus.cluster.replication.replica import Replica
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.metrics import metric
from logbus.model import TopicPartition
from logbus.storage.log import Log
from logbus.storage.log_linker import LinkedCopy, LogLinker, is_blank
from logbus.storage.log_mover import Swap
from logbus.timers import Timers

NAME = "logbus-linked-copies"
"""Of the requests between workers."""

SECONDS = 120.0
"""Timeout of a request: the log is synced first."""
PAUSE_SECONDS = 0.5
PATIENCE_SECONDS = 30.0
"""For how long a worker that is out of reach is asked again, with a pause each time: usually it is started again."""
AT_ONCE = 4
"""Copies that are asked for at a time."""

_PASSING = (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT)


class Replicas(Protocol):
    """The replicas of this broker: the :class:`.ReplicaManager`."""

    def find(self, topic: str, partition: int) -> Replica | None:
        """The replica, if it is open."""

    def swap_log(self, name: TopicPartition, swap: Swap) -> Awaitable[None]:
        """Replace a replica's log, while its role does not change and nothing is fetched for it."""


class Fetchers(Protocol):
    """The part of :class:`.ReplicaFetcherManager` that is needed here."""

    def follow(self, replica: Replica, leader: int) -> None:
        """Fetch a partition."""

    def unfollow(self, name: TopicPartition) -> Deferred[None]:
        """Fetch it no more; fires once nothing changes its log."""


def encode_request(name: TopicPartition, topic_id: UUID) -> bytes:
    """A request for a copy."""
    return json.dumps([name.topic, name.partition, topic_id.hex]).encode()


def decode_request(body: bytes) -> tuple[TopicPartition, UUID]:
    """The reverse of :func:`encode_request`."""
    topic, number, topic_id = json.loads(body)
    return TopicPartition(topic, number), UUID(topic_id)


def encode_copy(copy: LinkedCopy) -> bytes:
    """The answer."""
    return json.dumps(asdict(copy)).encode()


def decode_copy(body: bytes) -> LinkedCopy:
    """The reverse of :func:`encode_copy`."""
    return LinkedCopy(**json.loads(body))


@define(eq=False, repr=False)
class SiblingCopies:
    """
    Begins to follow partitions, with a linked copy where a sibling has one.

    :param siblings: the brokers of this machine that have their logs below the same directories.
    :ivar replicas: set once they are there; they have their partitions fetched by this.
    :ivar adopted: logs that began as copies, since the start.
    """

    broker_id: int
    siblings: Collection[int]
    _fetchers: Fetchers
    _linker: LogLinker
    _calls: PluginCalls
    _timers: Timers
    replicas: Replicas = field(init=False)
    adopted: int = metric("logbus_linked_logs_total", "Logs that began as linked copies of other workers' logs.")
    _asking: dict[TopicPartition, Deferred[None]] = field(factory=dict, init=False)
    _tried: dict[TopicPartition, int] = field(factory=dict, init=False)
    _turns: DeferredSemaphore = field(factory=lambda: DeferredSemaphore(AT_ONCE), init=False)
    _log = Logger()

    def serve(self) -> None:
        """Answer other workers from now on."""

        async def answer(body: bytes) -> bytes:
            return encode_copy(await self._linker.copy(*decode_request(body)))

        self._calls.answer(NAME, lambda body: Deferred.fromCoroutine(answer(body)))

    def stop(self) -> None:
        """Ask for nothing more."""
        for asking in list(self._asking.values()):
            asking.cancel()
        self._asking.clear()

    # What fetchers do.

    def follow(self, replica: Replica, leader: int) -> None:
        """Fetch a partition, or ask a sibling for a copy first."""
        name = replica.topic_partition
        sibling = self._sibling_with_log(replica, leader)
        if sibling is None:
            self._fetchers.follow(replica, leader)
            return
        asking = self._asking[name] = Deferred.fromCoroutine(self._begin(replica, sibling))
        asking.addErrback(self._failed, replica, leader)

    def unfollow(self, name: TopicPartition) -> Deferred[None]:
        """Fetch a partition no more, nor ask for a copy."""
        asking = self._asking.pop(name, None)
        if asking is not None:
            asking.cancel()
        return self._fetchers.unfollow(name)

    def _sibling_with_log(self, replica: Replica, leader: int) -> int | None:
        partition, name = replica.partition, replica.topic_partition
        isr = partition.leader_and_isr.isr
        if not self.siblings or self.broker_id in isr or not is_blank(replica.log):
            self._tried.pop(name, None)
            return None
        if self._tried.get(name) == partition.leader_epoch:
            return None
        return next((one for one in (leader, *isr) if one in self.siblings and one != self.broker_id), None)

    async def _begin(self, replica: Replica, sibling: int) -> None:
        name, epoch = replica.topic_partition, replica.partition.leader_epoch
        # The caller is in the middle of giving roles.
        await deferLater(self._timers.clock, 0)
        copy = await self._ask(sibling, name, replica.topic_id)
        # Whatever comes of it, there is no second attempt before the next role.
        self._tried[name] = epoch
        del self._asking[name]
        # This also begins to fetch.
        await self.replicas.swap_log(name, partial(self._adopt, replica, copy))

    async def _ask(self, sibling: int, name: TopicPartition, topic_id: UUID) -> LinkedCopy:
        deadline = self._timers.clock.seconds() + PATIENCE_SECONDS
        while True:
            try:
                async with self._turns:
                    answer = await self._calls.ask(sibling, NAME, encode_request(name, topic_id), SECONDS)
                return decode_copy(answer)
            except ApiError as error:
                if error.code not in _PASSING or self._timers.clock.seconds() >= deadline:
                    raise
            await deferLater(self._timers.clock, PAUSE_SECONDS)

    async def _adopt(self, replica: Replica, copy: LinkedCopy) -> Log:
        name = replica.topic_partition
        if self.replicas.find(*name) is not replica or replica.partition.is_leader:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} has another role or replica now")
        log = await self._linker.adopt(name, copy)
        self.adopted += 1
        return log

    def _failed(self, failure: Failure, replica: Replica, leader: int) -> None:
        if failure.check(CancelledError):
            return
        name = replica.topic_partition
        if failure.check(ApiError, StorageError):
            self._log.info(
                "{partition} is fetched, not linked: {error}", partition=name, error=failure.getErrorMessage()
            )
        else:
            self._log.failure("linking {partition}", failure, partition=name)
        self._tried[name] = replica.partition.leader_epoch
        if self._asking.pop(name, None) is not None:
            self._fetchers.follow(replica, leader)
