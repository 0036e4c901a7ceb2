"""
Makes and deletes the states of share partitions at the share coordinator, as their groups need them.

A group notes in its records what is to be done before it is begun, so that whoever coordinates it next goes on with it.
For one group one thing is done at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredList, DeferredLock
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.coordination.consumer.partition_sets import Partitions, TopicId, from_pairs, pairs
from logbus.coordination.generation_log import loggable_id
from logbus.coordination.group import Change, Group
from logbus.coordination.group_coordinator import GroupCoordinator
from logbus.coordination.group_shard import GroupShard
from logbus.coordination.share.share_group import ShareGroup
from logbus.coordination.share_state.persister import SharePersister
from logbus.coordination.share_state.share_state import SharePartitionKey
from logbus.coroutines import shield, sleep
from logbus.errors import ApiError, ErrorCode
from logbus.model import NO_OFFSET
from logbus.net.time_slices import TimeSlice

CALLS_AT_A_TIME = 200
"""Number of states that are asked for at a time."""

UNITS_A_CALL = 30
"""Cost of a call, in units of a time slice."""

T = TypeVar("T")

Results = Mapping[tuple[TopicId, int], ApiError | None]
"""What came of the calls for each partition; None: done."""


@define(eq=False)
class ShareGroupStates:
    """The states of the share partitions of this broker's groups."""

    _coordinator: GroupCoordinator
    persister: SharePersister
    _locks: WeakKeyDictionary[ShareGroup, DeferredLock] = field(factory=WeakKeyDictionary, init=False)
    _at_work: WeakKeyDictionary[ShareGroup, Deferred[None]] = field(factory=WeakKeyDictionary, init=False)
    _log = Logger()

    def maintain(self, shard: GroupShard, group: ShareGroup) -> Deferred[None] | None:
        """
        Make the states that a group's members wait for, and delete those that were to be deleted, in the background.

        :return: fires, without an error, when that is over; None: there is nothing to do. Not to be cancelled.
        """
        working = self._at_work.get(group)
        if working is not None:
            return working
        if not group.to_initialize and not group.recorded.partitions.deleting:
            return None
        working = self._at_work[group] = self._in_background(group, self._maintain(shard, group))

        def over(_: object) -> None:
            if self._at_work.get(group) is working:
                del self._at_work[group]

        return working.addBoth(over)

    def _in_background(self, group: ShareGroup, work: Coroutine[Deferred[Any], Any, None]) -> Deferred[None]:
        def failed(failure: Failure) -> None:
            self._log.warn(
                "states of share group {group} cannot be made or deleted yet: {error}",
                group=loggable_id(group.group_id),
                error=failure.getErrorMessage(),
            )

        return Deferred.fromCoroutine(work).addErrback(failed)

    async def wait(self, working: Deferred[None], seconds: float) -> None:
        """Wait until something is over, for some time at most."""
        waiting = shield(working)
        late = sleep(self._coordinator.clock, seconds)
        late.addCallback(lambda _: waiting.cancel())
        waiting.addErrback(lambda _: None).addBoth(lambda _: late.cancel())
        late.addErrback(lambda _: None)
        await waiting

    async def _maintain(self, shard: GroupShard, group: ShareGroup) -> None:
        async with self.of(group):
            deleting = group.recorded.partitions.deleting
            if deleting:
                await self.delete(shard, group, deleting)
            wanted = group.to_initialize
            results = await self._initialize(shard, group, wanted, lambda key: NO_OFFSET)
            done = from_pairs(partition for partition, error in results.items() if error is None)
            if done:
                await self.save(shard, group, lambda: group.initialized(done, {}))
        for error in results.values():
            if error is not None:
                raise error

    def resume(self, shard: GroupShard, group: Group) -> None:
        """Go on with what a group's former coordinator has begun. For :attr:`.GroupCoordinator.resume`."""
        if isinstance(group, ShareGroup):
            self.maintain(shard, group)

    def forget_topics(self, topics: Sequence[str]) -> None:
        """
        Delete the states of deleted topics, in the background. For :meth:`.ClusterMetadata.when_removed`.

        A deletion that no coordinator has heard of, or that has failed, is made up for when the group is deleted.
        """
        for shard in list(self._coordinator.shards.values()):
            if shard.loading:
                shard.when_loaded.append(partial(self._forget_topics, shard, frozenset(topics)))
            else:
                self._forget_topics(shard, frozenset(topics))

    def _forget_topics(self, shard: GroupShard, topics: frozenset[str]) -> None:
        name_of = self._coordinator.manager.topics.name
        for group in list(shard.groups.values()):
            if isinstance(group, ShareGroup):
                names = group.recorded.partitions.names.items()
                gone = frozenset(topic_id for topic_id, name in names if name in topics and name_of(topic_id) is None)
                if gone:
                    self._in_background(group, self._delete(shard, group, gone))

    async def _delete(self, shard: GroupShard, group: ShareGroup, topics: frozenset[TopicId]) -> None:
        async with self.of(group):
            await self.delete(shard, group, topics)

    def of(self, group: ShareGroup) -> DeferredLock:
        """The lock of what is done with the states of a group."""
        return self._locks.setdefault(group, DeferredLock())

    async def _initialize(
        self, shard: GroupShard, group: ShareGroup, partitions: Partitions, start: Callable[[SharePartitionKey], int]
    ) -> Results:
        """
        Make states, or set their start offsets.

        Their state epoch is the group epoch, once that is durable: the next coordinator of the group has no lower one,
        so that a call that arrives late, when that one has taken over, changes nothing.
        """
        epoch = group.recorded.epoch or 0
        await shard.log.durable()
        results = await self._each(group, partitions, lambda key: self.persister.initialize(key, epoch, start(key)))
        fenced = [at for at, error in results.items() if error and error.code is ErrorCode.FENCED_STATE_EPOCH]
        if not fenced:
            return results
        # They are left from a group of the same name whose deletion has failed, unless this is a former coordinator,
        # which cannot save anything.
        left = [await self.persister.summary(_key(group, *each)) for each in fenced]
        higher = max(state.state_epoch for state in left) + 1
        await self.save(shard, group, lambda: group.raise_epoch(higher))
        again = await self._each(
            group, from_pairs(fenced), lambda key: self.persister.initialize(key, higher, start(key))
        )
        return {**results, **again}

    async def set_starts(
        self,
        shard: GroupShard,
        group: ShareGroup,
        offsets: Mapping[tuple[TopicId, int], int],
        names: Mapping[TopicId, str],
    ) -> Results:
        """
        Set start offsets; the lock of the group must be held.

        :param offsets: the new start offset of each partition.
        :param names: the topics' names.
        :raise ApiError: nothing has changed: as :meth:`.StateLog.append`.
        """
        partitions = from_pairs(offsets)
        left = group.recorded.partitions.deleting & partitions.keys()
        if left:
            await self.delete(shard, group, left)
        await self.save(shard, group, lambda: group.begin_alteration(partitions, names))
        results = await self._initialize(
            shard, group, partitions, lambda key: offsets[key.topic_id.bytes, key.partition]
        )
        done = from_pairs(partition for partition, error in results.items() if error is None)
        if done:
            await self.save(shard, group, lambda: group.initialized(done, names))
        return results

    async def delete(self, shard: GroupShard, group: ShareGroup, topics: frozenset[TopicId]) -> None:
        """
        Delete the states of topics; the lock of the group must be held.

        :raise ApiError: some may be left: the next heartbeat tries again.
        """
        if not topics <= group.recorded.partitions.deleting:
            await self.save(shard, group, lambda: group.begin_deletion(topics))
        known = group.recorded.partitions.known
        partitions = {topic_id: known[topic_id] for topic_id in topics if topic_id in known}
        results = await self._each(group, partitions, self.persister.delete)
        for error in results.values():
            if error is not None:
                raise error
        await self.save(shard, group, lambda: group.deleted(topics))

    async def save(self, shard: GroupShard, group: ShareGroup, change: Callable[[], Sequence[Change]]) -> None:
        """
        Change a group; done when that is durable.

        :raise ApiError: nothing has changed: as :meth:`.StateLog.append`; NOT_COORDINATOR: the group is not this
            broker's any more.
        """
        if shard.closed or shard.groups.get(group.group_id) is not group:
            raise ApiError(ErrorCode.NOT_COORDINATOR, f"the group {group.group_id!r} has moved, or was deleted")
        changes = change()
        try:
            durable = shard.save(changes)
        except ApiError:
            group.undo()
            raise
        await durable

    async def _each(
        self, group: ShareGroup, partitions: Partitions, call: Callable[[SharePartitionKey], Deferred[None]]
    ) -> Results:
        asked = sorted(pairs(partitions))
        outcomes = await self.call_each(asked, lambda partition: call(_key(group, *partition)))
        return {
            partition: outcome if isinstance(outcome, ApiError) else None
            for partition, outcome in zip(asked, outcomes, strict=True)
        }

    async def call_each(self, asked: Sequence[T], call: Callable[[T], Deferred[Any]]) -> list[Any]:
        """Call the share coordinator for each partition, for some at a time; the results, or ApiErrors, in order."""
        # A coordinator on this broker may answer at once.
        time_slice = TimeSlice(self._coordinator.slices)
        results: list[Any] = []
        every = iter(asked)
        while some := list(islice(every, CALLS_AT_A_TIME)):
            calls = [call(each) async for each in time_slice.over(some, UNITS_A_CALL)]
            outcomes: Any = await DeferredList(calls, consumeErrors=True)
            results += [outcome if succeeded else _error_of(outcome) for succeeded, outcome in outcomes]
        return results


def _key(group: ShareGroup, topic_id: TopicId, number: int) -> SharePartitionKey:
    return SharePartitionKey(group.group_id, UUID(bytes=topic_id), number)


def _error_of(failure: Failure) -> ApiError:
    """The error of a call that has failed."""
    if isinstance(failure.value, ApiError):
        return failure.value
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, failure.getErrorMessage())
