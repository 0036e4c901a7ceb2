"""
OffsetCommit, OffsetFetch, OffsetDelete: the committed offsets of groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from attrs import define
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logbus.coordination.group_cleanup import GroupCleanup
from logbus.coordination.group_coordinator import GroupCoordinator
from logbus.coordination.group_offsets import NO_EXPIRY, CommittedOffset, GroupOffsets
from logbus.coordination.offset_commits import OffsetCommits, OffsetCommitter
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.offset_commit_validator import TOPIC_ID_VERSION, OffsetCommitValidator
from logbus.handlers.request_router import serves, task
from logbus.model import TopicPartition
from logbus.net.request_context import RequestContext
from logbus.net.time_slices import TimeSlice
from logbus.wire.connection import Request
from logbus.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from logbus.wire.messages.partitions import PartitionErrorCode, TopicErrorCodes
from logbus.wire.schema import ZERO_UUID

#: The latest time that the record of an offset can hold, in ms since 1970.
MAX_TIME = 2**63 - 1
#: The first version of OffsetFetch with an error field for the group; before, each partition carries the error.
GROUP_ERROR_VERSION = 2
BATCHED_VERSION = 8
#: Number of offsets of a request that are written as one batch; encoding so many records takes some milliseconds.
OFFSETS_A_BATCH = 1000
#: Number of partitions of a request that are looked at between two looks at the time slice.
PARTITIONS_AT_A_TIME = 100
NOTHING = CommittedOffset(-1)
UNKNOWN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


@define(eq=False)
class GroupOffsetHandlers:
    """Reads, writes and deletes committed offsets."""

    _coordinator: GroupCoordinator
    _commits: OffsetCommits
    _upkeep: GroupCleanup
    _rules: OffsetCommitValidator

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(
            broker.group_coordinator,
            OffsetCommits(broker.group_coordinator),
            broker.group_cleanup,
            OffsetCommitValidator(broker.metadata, broker.config),
        )

    # Kafka 4 has removed versions 0 and 1; the fields that they lack have defaults.
    @serves(8, 0, 10, waits_for_metadata=True)
    @task
    async def offset_commit(self, context: RequestContext, request: Request) -> OffsetCommitResponse:
        message: OffsetCommitRequest = request.message
        time_slice = context.time_slice(request)
        now_ms = self._coordinator.wall_ms()
        # A record cannot hold a later time.
        expires = min(now_ms + message.retention_time_ms, MAX_TIME) if message.retention_time_ms >= 0 else NO_EXPIRY
        wanted: list[tuple[TopicPartition, CommittedOffset, PartitionErrorCode]] = []
        known: list[PartitionErrorCode] = []
        topics = []
        async for topic in time_slice.over(message.topics, 2):
            name = self._rules.name_of(topic, request.api_version)
            answers = []
            async for asked in time_slice.over(topic.partitions, 2):
                partition = TopicPartition(name or "", asked.partition_index)
                code = (
                    ErrorCode.UNKNOWN_TOPIC_ID
                    if name is None
                    else self._rules.problem(partition, asked.committed_metadata)
                )
                answer = PartitionErrorCode(partition_index=asked.partition_index, error_code=code)
                answers.append(answer)
                if code not in UNKNOWN:
                    known.append(answer)
                if code == ErrorCode.NONE:
                    wanted.append((partition, committed(asked, now_ms, expires), answer))
            topics.append(OffsetCommitResponseTopic(name=name or "", topic_id=topic.topic_id, partitions=answers))
        committer = OffsetCommitter(
            message.group_id,
            message.member_id,
            message.group_instance_id,
            message.generation_id_or_member_epoch,
            request.api_version,
            context,
        )
        if known:
            await self._commit(committer, wanted, known, time_slice)
        await time_slice.free(wanted)
        return OffsetCommitResponse(topics=topics)

    async def _commit(
        self,
        committer: OffsetCommitter,
        wanted: Sequence[tuple[TopicPartition, CommittedOffset, PartitionErrorCode]],
        known: Sequence[PartitionErrorCode],
        time_slice: TimeSlice,
    ) -> None:
        """
        Commit offsets in batches, and set errors in the responses.

        :param known: the responses of all partitions that exist, which get the error if nothing can be committed.
        """
        waiting: list[Deferred[None]] = []
        for start in range(0, max(1, len(wanted)), OFFSETS_A_BATCH):
            some = wanted[start : start + OFFSETS_A_BATCH]
            concerned = known if len(some) == len(wanted) else [answer for _, _, answer in some]
            try:
                durable = self._commits.commit(committer, [(one, offset) for one, offset, _ in some])
            except ApiError as e:
                code = e.code
            else:
                code = ErrorCode.NONE
                waiting.append(durable.addErrback(_refused, concerned))
            if code:
                rest = known if not start else [answer for _, _, answer in wanted[start:]]
                async for answer in time_slice.over(rest):
                    answer.error_code = code
                break
            if time_slice.used(OFFSETS_A_BATCH):
                await time_slice.next()
        try:
            for durable in waiting:
                await durable
        except Exception:
            # Most likely the client has disconnected.
            for durable in waiting:
                durable.addErrback(lambda _: None)
                durable.cancel()
            raise

    @serves(9, 0, 10, waits_for_metadata=True)
    @task
    async def offset_fetch(self, context: RequestContext, request: Request) -> OffsetFetchResponse:
        message: OffsetFetchRequest = request.message
        time_slice = context.time_slice(request)
        version = request.api_version
        stable = message.require_stable
        if version >= BATCHED_VERSION:
            # Groups and partitions are looked up once, since a request can repeat them at little cost.
            groups: dict[str, OffsetFetchRequestGroup] = {}
            async for group in time_slice.over(reversed(message.groups)):
                groups[group.group_id] = group
            asked_of = list(reversed(groups.values()))
            return OffsetFetchResponse(
                groups=[
                    await self._fetched(group, version, stable, time_slice)
                    async for group in time_slice.over(asked_of, 4)
                ]
            )
        topics = message.topics
        asked = OffsetFetchRequestGroup(
            group_id=message.group_id,
            topics=None
            if topics is None
            else [OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes) for t in topics],
        )
        found = await self._fetched(asked, version, stable, time_slice)
        if found.error_code and version < GROUP_ERROR_VERSION:
            found.topics = [await failed(topic, found.error_code, time_slice) for topic in asked.topics or ()]
        if version == 0:
            # Version 0 read offsets from ZooKeeper in old Kafka, where a missing one was an error.
            for topic in found.topics:
                for partition in topic.partitions:
                    if partition.committed_offset < 0 and not partition.error_code:
                        partition.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return OffsetFetchResponse(
            topics=[OffsetFetchResponseTopic(name=t.name, partitions=t.partitions) for t in found.topics],
            error_code=found.error_code,
        )

    async def _fetched(
        self, asked: OffsetFetchRequestGroup, version: int, stable: bool, time_slice: TimeSlice
    ) -> OffsetFetchResponseGroup:
        """
        The committed offsets of one group.

        :param stable: report partitions with pending offsets as unstable (KIP-447).
        """
        answer = OffsetFetchResponseGroup(group_id=asked.group_id, topics=[])
        try:
            held = self._coordinator.offsets(asked.group_id)
            group = self._coordinator.group(asked.group_id)
            if group is not None:
                group.check_fetch(asked.member_id, asked.member_epoch)
        except ApiError as e:
            answer.error_code = e.code
            return answer
        by_id = version >= TOPIC_ID_VERSION
        if asked.topics is None:
            known = by_topic(sorted(held.visible()))
            unknown: list[OffsetFetchRequestTopics] = []
            if by_id:
                # A topic that is being deleted has no id any more.
                known = [topic for topic in known if self._rules.id_of(topic.name) != ZERO_UUID]
        else:
            known, unknown = await self._named(asked.topics, version, time_slice)
        async for topic in time_slice.over(known, 2):
            numbers = time_slice.over(topic.partition_indexes)
            found = OffsetFetchResponseTopics(
                name=topic.name, partitions=[look_up(held, topic.name, one, stable) async for one in numbers]
            )
            if by_id:
                found.topic_id = self._rules.id_of(topic.name)
            answer.topics.append(found)
        async for topic in time_slice.over(unknown, 2):
            answer.topics.append(await failed(topic, ErrorCode.UNKNOWN_TOPIC_ID, time_slice))
        return answer

    async def _named(
        self, topics: Sequence[OffsetFetchRequestTopics], version: int, time_slice: TimeSlice
    ) -> tuple[list[OffsetFetchRequestTopics], list[OffsetFetchRequestTopics]]:
        """The topics with known names, and those with unknown ids; without duplicate partitions."""
        known: dict[str, dict[int, None]] = {}
        unknown: dict[bytes, dict[int, None]] = {}
        async for topic in time_slice.over(topics, 3):
            name = self._rules.name_of(topic, version)
            numbers = unknown.setdefault(bytes(topic.topic_id), {}) if name is None else known.setdefault(name, {})
            async for some in time_slice.over_parts(topic.partition_indexes, PARTITIONS_AT_A_TIME):
                numbers.update(dict.fromkeys(some))
        return [
            OffsetFetchRequestTopics(name=name, partition_indexes=list(numbers))
            for name, numbers in known.items()
            if numbers
        ], [
            OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=list(numbers))
            for topic_id, numbers in unknown.items()
        ]

    @serves(47, 0, 0, waits_for_metadata=True)
    @task
    async def offset_delete(self, context: RequestContext, request: Request) -> OffsetDeleteResponse:
        message: OffsetDeleteRequest = request.message
        time_slice = context.time_slice(request)
        known: dict[TopicPartition, None] = {}
        async for topic in time_slice.over(message.topics):
            async for one in time_slice.over(topic.partitions):
                asked = TopicPartition(topic.name, one.partition_index)
                if self._rules.exists(asked):
                    known[asked] = None
        try:
            if not message.group_id:
                raise ApiError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
            outcomes = await self._upkeep.delete_offsets(
                message.group_id, list(known), validate_only=context.terms.validate_only
            )
        except ApiError as e:
            return OffsetDeleteResponse(error_code=e.code)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return OffsetDeleteResponse(
            topics=[
                TopicErrorCodes(
                    name=topic.name,
                    partitions=[
                        PartitionErrorCode(
                            partition_index=one.partition_index,
                            error_code=outcomes.get(TopicPartition(topic.name, one.partition_index), unknown),
                        )
                        async for one in time_slice.over(topic.partitions)
                    ],
                )
                async for topic in time_slice.over(message.topics)
            ]
        )


def committed(asked: OffsetCommitRequestPartition, now_ms: int, expires: int) -> CommittedOffset:
    """The offset in a request."""
    return CommittedOffset(
        asked.committed_offset,
        asked.committed_leader_epoch,
        asked.committed_metadata or "",
        # Only version 1 has a time of its own.
        asked.commit_timestamp if asked.commit_timestamp >= 0 else now_ms,
        expires,
    )


def refuse(error: ApiError, answers: Iterable[PartitionErrorCode]) -> None:
    """Set the error of partitions whose offsets were not committed."""
    for answer in answers:
        answer.error_code = error.code


def _refused(failure: Failure, answers: Iterable[PartitionErrorCode]) -> None:
    failure.trap(ApiError)
    assert isinstance(failure.value, ApiError)
    refuse(failure.value, answers)


def fetched(number: int, found: CommittedOffset) -> OffsetFetchResponsePartition:
    """The response for a partition with a committed offset."""
    return OffsetFetchResponsePartition(
        partition_index=number,
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
    )


def look_up(held: GroupOffsets, topic: str, number: int, stable: bool) -> OffsetFetchResponsePartition:
    """The response for a partition; UNSTABLE_OFFSET_COMMIT if ``stable`` and an offset is pending."""
    partition = TopicPartition(topic, number)
    if stable and partition in held.pending:
        answer = fetched(number, NOTHING)
        answer.error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT
        return answer
    return fetched(number, held.get(topic, number) or NOTHING)


async def failed(asked: OffsetFetchRequestTopics, code: int, time_slice: TimeSlice) -> OffsetFetchResponseTopics:
    """The response for a topic that cannot be looked up."""
    partitions = await failed_partitions(asked.partition_indexes, code, time_slice)
    return OffsetFetchResponseTopics(name=asked.name, topic_id=asked.topic_id, partitions=partitions)


async def failed_partitions(
    numbers: Iterable[int], code: int, time_slice: TimeSlice
) -> list[OffsetFetchResponsePartition]:
    """The responses for partitions that cannot be looked up."""
    partitions = []
    async for number in time_slice.over(numbers):
        partition = fetched(number, NOTHING)
        partition.error_code = code
        partitions.append(partition)
    return partitions


def by_topic(partitions: Iterable[TopicPartition]) -> list[OffsetFetchRequestTopics]:
    """Partitions grouped by topic, without duplicates."""
    topics: dict[str, dict[int, None]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, {})[number] = None
    return [OffsetFetchRequestTopics(name=name, partition_indexes=list(numbers)) for name, numbers in topics.items()]
