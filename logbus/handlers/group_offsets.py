"""
Offsets that groups commit: OffsetCommit, OffsetFetch, OffsetDelete.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import define

from logbus.cluster.metadata import ClusterMetadata
from logbus.config import ConfigView, keys
from logbus.coordination.commits import Commits, Committer
from logbus.coordination.groups import GroupCoordinator
from logbus.coordination.offsets import NO_EXPIRY, CommittedOffset
from logbus.coordination.upkeep import Upkeep
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.routing import Answer, serves, task
from logbus.model import TopicPartition
from logbus.net.context import RequestContext
from logbus.wire.connection import Request
from logbus.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

#: The longest text that the record of a committed offset can hold, in bytes.
MAX_METADATA = 32767
#: The latest time that such a record can hold, in ms since 1970.
MAX_TIME = 2**63 - 1
#: OffsetFetch: errors of the whole group have a place of their own; before, each partition carries it.
GROUP_ERROR_VERSION = 2
BATCHED_VERSION = 8
NOTHING = CommittedOffset(-1)


@define(eq=False)
class GroupOffsetHandlers:
    """Serves what reads and writes committed offsets."""

    _coordinator: GroupCoordinator
    _commits: Commits
    _upkeep: Upkeep
    _metadata: ClusterMetadata
    _config: ConfigView

    # Versions 0 and 1 went with Kafka 4; what they lack has a value that says so.
    @serves(8, 0, 9)
    @task
    async def offset_commit(self, context: RequestContext, request: Request) -> OffsetCommitResponse:
        message: OffsetCommitRequest = request.message
        now_ms = self._coordinator.wall_ms()
        # A record holds no later time than that.
        expires = min(now_ms + message.retention_time_ms, MAX_TIME) if message.retention_time_ms >= 0 else NO_EXPIRY
        most = min(self._config.get(keys.OFFSET_METADATA_MAX_BYTES), MAX_METADATA)
        wanted: list[tuple[TopicPartition, CommittedOffset]] = []
        known: list[OffsetCommitResponsePartition] = []
        topics = []
        for topic in message.topics:
            answers = []
            for asked in topic.partitions:
                answer = OffsetCommitResponsePartition(partition_index=asked.partition_index)
                answers.append(answer)
                partition = TopicPartition(topic.name, asked.partition_index)
                if self._metadata.partition(partition) is None:
                    answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    continue
                known.append(answer)
                if len((asked.committed_metadata or "").encode()) > most:
                    answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    wanted.append((partition, committed(asked, now_ms, expires)))
            topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=answers))
        committer = Committer(
            message.group_id,
            message.member_id,
            message.group_instance_id,
            message.generation_id_or_member_epoch,
            request.api_version,
        )
        try:
            if known:
                await self._commits.commit(committer, wanted)
        except ApiError as e:
            for answer in known:
                answer.error_code = e.code
        return OffsetCommitResponse(topics=topics)

    @serves(9, 0, 9)
    def offset_fetch(self, context: RequestContext, request: Request) -> Answer:
        message: OffsetFetchRequest = request.message
        version = request.api_version
        if version >= BATCHED_VERSION:
            # What is asked twice is answered once, here and below: a name costs bytes, what was committed much more.
            groups = {group.group_id: group for group in reversed(message.groups)}
            return OffsetFetchResponse(groups=[self._fetched(group) for group in reversed(groups.values())])
        topics = message.topics
        asked = OffsetFetchRequestGroup(
            group_id=message.group_id,
            topics=None
            if topics is None
            else [OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes) for t in topics],
        )
        found = self._fetched(asked)
        if found.error_code and version < GROUP_ERROR_VERSION:
            found.topics = [failed(topic, found.error_code) for topic in asked.topics or ()]
        if version == 0:
            # It asked ZooKeeper once, where there was something or nothing.
            for topic in found.topics:
                for partition in topic.partitions:
                    if partition.committed_offset < 0 and not partition.error_code:
                        partition.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return OffsetFetchResponse(
            topics=[OffsetFetchResponseTopic(name=t.name, partitions=t.partitions) for t in found.topics],
            error_code=found.error_code,
        )

    def _fetched(self, asked: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        """
        What one group committed. Nothing is pending in transactions, so that what there is is stable.
        """
        answer = OffsetFetchResponseGroup(group_id=asked.group_id, topics=[])
        try:
            held = self._coordinator.committed(asked.group_id)
            group = self._coordinator.group(asked.group_id)
            if group is not None:
                group.check_fetch(asked.member_id, asked.member_epoch)
        except ApiError as e:
            answer.error_code = e.code
            return answer
        wanted = by_topic(
            sorted(held)
            if asked.topics is None
            else (TopicPartition(topic.name, number) for topic in asked.topics for number in topic.partition_indexes)
        )
        answer.topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    fetched(number, held.get(TopicPartition(topic.name, number), NOTHING))
                    for number in topic.partition_indexes
                ],
            )
            for topic in wanted
        ]
        return answer

    @serves(47, 0, 0)
    @task
    async def offset_delete(self, context: RequestContext, request: Request) -> OffsetDeleteResponse:
        message: OffsetDeleteRequest = request.message
        asked = [TopicPartition(t.name, p.partition_index) for t in message.topics for p in t.partitions]
        known = [partition for partition in asked if self._metadata.partition(partition) is not None]
        try:
            if not message.group_id:
                raise ApiError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
            outcomes = await self._upkeep.delete_offsets(message.group_id, known)
        except ApiError as e:
            return OffsetDeleteResponse(error_code=e.code)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return OffsetDeleteResponse(
            topics=[
                OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetDeleteResponsePartition(
                            partition_index=one.partition_index,
                            error_code=outcomes.get(TopicPartition(topic.name, one.partition_index), unknown),
                        )
                        for one in topic.partitions
                    ],
                )
                for topic in message.topics
            ]
        )


def committed(asked: OffsetCommitRequestPartition, now_ms: int, expires: int) -> CommittedOffset:
    """What a request wants to be remembered of a partition."""
    return CommittedOffset(
        asked.committed_offset,
        asked.committed_leader_epoch,
        asked.committed_metadata or "",
        # Only version 1 brings a time of its own.
        asked.commit_timestamp if asked.commit_timestamp >= 0 else now_ms,
        expires,
    )


def fetched(number: int, found: CommittedOffset) -> OffsetFetchResponsePartition:
    """The answer for a partition."""
    return OffsetFetchResponsePartition(
        partition_index=number,
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
    )


def failed(asked: OffsetFetchRequestTopics, code: int) -> OffsetFetchResponseTopics:
    """The answer for a topic of a group that cannot be asked."""
    partitions = [fetched(number, NOTHING) for number in asked.partition_indexes]
    for partition in partitions:
        partition.error_code = code
    return OffsetFetchResponseTopics(name=asked.name, partitions=partitions)


def by_topic(partitions: Iterable[TopicPartition]) -> Sequence[OffsetFetchRequestTopics]:
    """Partitions, each once, gathered by topic."""
    topics: dict[str, dict[int, None]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, {})[number] = None
    return [OffsetFetchRequestTopics(name=name, partition_indexes=list(numbers)) for name, numbers in topics.items()]
