"""
Describes, sets and deletes the start offsets of share groups (Kafka: DescribeShareGroupOffsets and others).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from attrs import define, frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logbus.coordination.consumer.partition_sets import TopicId
from logbus.coordination.generation_log import loggable_id
from logbus.coordination.group_coordinator import GroupCoordinator
from logbus.coordination.group_lags import GroupLags
from logbus.coordination.share.share_group import ShareGroup
from logbus.coordination.share_group_service import existing
from logbus.coordination.share_group_states import Results, ShareGroupStates
from logbus.coordination.share_state.share_state import SharePartitionKey, ShareState
from logbus.errors import ApiError, ErrorCode
from logbus.model import NO_OFFSET, TopicPartition
from logbus.net.request_context import RequestContext
from logbus.net.time_slices import TimeSlice


@frozen
class ShareStart:
    """
    Where a group is in a partition.

    :ivar start_offset: of the first record that is not done; −1: it has no state, or has not begun.
    :ivar leader_epoch: of the leader that wrote the state.
    :ivar lag: the number of records that are not done; −1: unknown.
    """

    partition: int
    start_offset: int = NO_OFFSET
    leader_epoch: int = 0
    lag: int = -1
    error: ApiError | None = None


@frozen
class TopicStarts:
    """
    Where a group is in a topic.

    :ivar topic_id: zeros, if there is no such topic.
    """

    name: str
    topic_id: TopicId
    starts: Sequence[ShareStart]


NO_ID = bytes(16)

ENDLESS = TimeSlice(None)
"""For few partitions."""


@define(eq=False)
class ShareGroupOffsets:
    """
    The start offsets of this broker's share groups.

    :ivar _lags: knows the ends of partitions.
    """

    _coordinator: GroupCoordinator
    _states: ShareGroupStates
    _lags: GroupLags
    _log = Logger()

    async def describe(
        self, group_id: str, topics: Mapping[str, Collection[int]] | None, time_slice: TimeSlice = ENDLESS
    ) -> list[TopicStarts]:
        """
        Describe start offsets. Groups, topics and partitions that are not known have none; that is no error.

        :param topics: the partitions of each topic; None: all that the group reads.
        :raise ApiError: as :meth:`.GroupCoordinator.shard_of`.
        """
        group = self._coordinator.group(group_id)
        known = group.recorded.partitions if isinstance(group, ShareGroup) else None
        view = self._coordinator.manager.topics
        asked: dict[str, tuple[TopicId, Collection[int]]] = {}
        if topics is not None:
            for name, numbers in topics.items():
                topic = view.topic(name)
                asked[name] = (NO_ID if topic is None else topic.topic_id, numbers)
        elif known is not None:
            for topic_id, numbers in known.initialized.items():
                kept = view.name(topic_id)
                if kept is not None:
                    asked[kept] = (topic_id, sorted(numbers))
        has = {} if known is None else known.initialized
        wanted: list[tuple[str, TopicId, int]] = []
        async for name, (topic_id, numbers) in time_slice.over(asked.items()):
            if topic_id in has:
                wanted += [
                    (name, topic_id, number)
                    async for number in time_slice.over(numbers)
                    if number in has.get(topic_id, ())
                ]
        await self._lags.learn([TopicPartition(name, number) for name, _, number in wanted])
        starts = await self._summaries(group_id, wanted)
        return [
            TopicStarts(
                name,
                topic_id,
                [
                    starts.get((topic_id, number)) or ShareStart(number)
                    async for number in time_slice.over(dict.fromkeys(numbers))
                ],
            )
            async for name, (topic_id, numbers) in time_slice.over(sorted(asked.items()))
        ]

    async def _summaries(
        self, group_id: str, wanted: Sequence[tuple[str, TopicId, int]]
    ) -> dict[tuple[TopicId, int], ShareStart]:
        def summary(asked: tuple[str, TopicId, int]) -> Deferred[ShareState]:
            _, topic_id, number = asked
            return self._states.persister.summary(SharePartitionKey(group_id, UUID(bytes=topic_id), number))

        return {
            (topic_id, number): ShareStart(number, error=outcome)
            if isinstance(outcome, ApiError)
            else self._start(TopicPartition(name, number), outcome)
            for (name, topic_id, number), outcome in zip(
                wanted, await self._states.call_each(wanted, summary), strict=True
            )
        }

    def _start(self, partition: TopicPartition, state: ShareState) -> ShareStart:
        lag = -1
        end = self._lags.end(partition)
        if end is not None and state.start_offset != NO_OFFSET and state.delivery_complete_count >= 0:
            lag = max(end - state.start_offset - state.delivery_complete_count, 0)
        # Kafka has no state without a leader epoch.
        return ShareStart(partition.partition, state.start_offset, max(state.leader_epoch, 0), lag)

    async def alter(
        self,
        group_id: str,
        offsets: Mapping[str, Mapping[int, int]],
        client: RequestContext | None = None,
        time_slice: TimeSlice = ENDLESS,
    ) -> list[TopicStarts]:
        """
        Set start offsets of a group without members; done when that is durable. The group is made, if there is none.

        :param offsets: the new start offset of each partition, by topic.
        :param client: who sets them.
        :return: the result for each partition: an error of None, UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST, or what
            the share coordinator says.
        :raise ApiError: nothing has changed: as :meth:`.GroupCoordinator.shard_of` and :meth:`.StateLog.append`;
            GROUP_ID_NOT_FOUND: the group is of another type; NON_EMPTY_GROUP.
        """
        coordinator = self._coordinator
        results: Results = {}
        wrong: dict[tuple[str, int], ApiError] = {}
        wanted: dict[tuple[TopicId, int], int] = {}
        ids: dict[str, TopicId] = {}
        async for name, starts in time_slice.over(offsets.items()):
            topic = coordinator.manager.topics.topic(name)
            ids[name] = NO_ID if topic is None else topic.topic_id
            async for number, offset in time_slice.over(starts.items()):
                if topic is None or not 0 <= number < topic.partitions:
                    wrong[name, number] = ApiError(
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{number}"
                    )
                elif offset < 0:
                    wrong[name, number] = ApiError(ErrorCode.INVALID_REQUEST, f"there is no offset {offset}")
                else:
                    wanted[topic.topic_id, number] = offset
        shard = coordinator.shard_of(group_id)
        is_new = group_id not in shard.groups
        if is_new:
            coordinator.manager.group_limit.check()
            shard.groups[group_id] = coordinator.manager.share(shard, group_id)
        group = existing(shard, group_id)
        try:
            async with self._states.of(group):
                group.check_deletable()
                if wanted:
                    names = {topic_id: name for name, topic_id in ids.items()}
                    results = await self._states.set_starts(shard, group, wanted, names)
                    if is_new:
                        coordinator.arrivals.add(client)
        finally:
            coordinator.manager.touched(shard, group)
        self._log_change(group_id, "set")
        return [
            TopicStarts(
                name,
                ids[name],
                [
                    ShareStart(number, error=wrong.get((name, number)) or results.get((ids[name], number)))
                    async for number in time_slice.over(starts)
                ],
            )
            async for name, starts in time_slice.over(sorted(offsets.items()))
        ]

    async def delete(
        self, group_id: str, topics: Collection[str], time_slice: TimeSlice = ENDLESS
    ) -> dict[str, tuple[TopicId, ApiError | None]]:
        """
        Delete the start offsets of a group without members in whole topics; done when that is durable.

        :return: the id of each topic, zeros with an error, and the error: UNKNOWN_TOPIC_OR_PARTITION: there is no such
            topic, or the group has no offsets in it.
        :raise ApiError: as :meth:`.GroupCoordinator.shard_of` and :meth:`.ShareGroupStates.delete`; GROUP_ID_NOT_FOUND;
            NON_EMPTY_GROUP.
        """
        shard = self._coordinator.shard_of(group_id)
        group = existing(shard, group_id)
        results: dict[str, tuple[TopicId, ApiError | None]] = {}
        gone: set[TopicId] = set()
        async with self._states.of(group):
            group.check_deletable()
            async for name in time_slice.over(topics):
                topic = self._coordinator.manager.topics.topic(name)
                if topic is None:
                    results[name] = NO_ID, ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
                elif topic.topic_id not in group.recorded.partitions.known:
                    results[name] = (
                        NO_ID,
                        ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the group has no offsets in {name!r}"),
                    )
                else:
                    gone.add(topic.topic_id)
                    results[name] = topic.topic_id, None
            if gone:
                await self._states.delete(shard, group, frozenset(gone))
        self._log_change(group_id, "deleted")
        return results

    def _log_change(self, group_id: str, how: str) -> None:
        self._log.info("start offsets of share group {group} were {how}", group=loggable_id(group_id), how=how)
