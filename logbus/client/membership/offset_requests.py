"""Builds OffsetCommit and OffsetFetch requests, and reads their responses. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from attrs import field, frozen

from logbus.client.group_metadata import MOVED_ON, CommittedOffset, GroupMetadata
from logbus.client.membership.interface import CommitFailed
from logbus.client.retry import api_error
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition, group_by_topic, numbers_by_topic
from logbus.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from logbus.wire.messages.partitions import TopicPartitionIndexes

T = TypeVar("T")

COMMITS_A_REQUEST = 1000
"""All commits of a request become one record batch, whose size brokers limit (``message.max.bytes``)."""
_SEVERAL_GROUPS = 8
"""The first version of OffsetFetch for several groups (KIP-709)."""
_STABLE = 7
"""The first version of OffsetFetch with require_stable (KIP-447); older brokers always return stable offsets."""


@frozen
class OffsetResults(Generic[T]):
    """
    Results by partition.

    :ivar whole: an error for all of them.
    """

    parts: Mapping[TopicPartition, T | ApiError] = field(factory=dict)
    whole: ApiError | None = None

    def of(self, partition: TopicPartition) -> T | ApiError:
        """The result for one partition."""
        if self.whole is not None:
            return self.whole
        if partition not in self.parts:
            left_out = f"{partition}: the broker's answer leaves it out"
            return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, left_out)
        return self.parts[partition]


def commit_request(member: GroupMetadata, offsets: Mapping[TopicPartition, CommittedOffset]) -> OffsetCommitRequest:
    """An OffsetCommit of a member, or without one."""
    by_topic = group_by_topic(
        (
            partition,
            OffsetCommitRequestPartition(
                partition_index=partition.partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            ),
        )
        for partition, committed in offsets.items()
    )
    return OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        topics=[OffsetCommitRequestTopic(name=name, partitions=each) for name, each in by_topic.items()],
    )


def read_committed(response: OffsetCommitResponse) -> OffsetResults[None]:
    """The results of an OffsetCommit."""
    found: dict[TopicPartition, ApiError | None] = {}
    for topic in response.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            found[partition] = api_error(each.error_code, str(partition)) if each.error_code else None
    return OffsetResults(found)


def fetch_request(
    group_id: str, partitions: Sequence[TopicPartition], require_stable: bool, version: int
) -> OffsetFetchRequest:
    """An OffsetFetch for some partitions, for a version."""
    stable = require_stable and version >= _STABLE
    numbers = numbers_by_topic(partitions)
    if version < _SEVERAL_GROUPS:
        topics = [TopicPartitionIndexes(name=name, partition_indexes=each) for name, each in numbers.items()]
        return OffsetFetchRequest(group_id=group_id, topics=topics, require_stable=stable)
    newer = [OffsetFetchRequestTopics(name=name, partition_indexes=each) for name, each in numbers.items()]
    asked = OffsetFetchRequestGroup(group_id=group_id, topics=newer)
    return OffsetFetchRequest(groups=[asked], require_stable=stable)


def read_fetched(group_id: str, response: OffsetFetchResponse) -> OffsetResults[CommittedOffset | None]:
    """The results of an OffsetFetch; None: no offset."""
    answer: Any = next((each for each in response.groups if each.group_id == group_id), response)
    if answer.error_code:
        return OffsetResults(whole=api_error(answer.error_code, f"group {group_id!r}"))
    return OffsetResults(read_offsets(answer.topics))


def read_offsets(topics: Iterable[Any]) -> dict[TopicPartition, CommittedOffset | ApiError | None]:
    """The results for the topics of an OffsetFetch, of any version; None: no offset."""
    found: dict[TopicPartition, CommittedOffset | ApiError | None] = {}
    for topic in topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            if each.error_code:
                found[partition] = api_error(each.error_code, str(partition))
            elif each.committed_offset < 0:
                found[partition] = None
            else:
                found[partition] = CommittedOffset(
                    each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                )
    return found


def commit_failure(member: GroupMetadata, errors: Mapping[TopicPartition, ApiError]) -> CommitFailed | None:
    """The error for partitions that were not committed; None if there are none."""
    if not errors:
        return None
    code = next((each.code for each in errors.values() if each.code in MOVED_ON), next(iter(errors.values())).code)
    which = _some(errors)
    group = f"group {member.group_id!r}"
    if code is ErrorCode.FENCED_INSTANCE_ID:
        why = (
            f"another consumer of {group} uses group_instance_id {member.group_instance_id!r} now: give each its own, "
            "or stop the other"
        )
    elif code is ErrorCode.REBALANCE_IN_PROGRESS:
        why = f"{group} is rebalancing: commit again after on_assigned, if the partitions are still yours"
    elif code in MOVED_ON and member.generation < 0:
        why = f"{group} has members, and only they commit: stop them, or subscribe instead of assigning partitions"
    elif code in MOVED_ON:
        why = (
            f"{group} has gone on without this member, and others may read these partitions: they will read the "
            "records again. Process fewer records between polls, raise max_poll_interval, or commit in on_revoked"
        )
    else:
        why = "; ".join(dict.fromkeys(each.message for each in list(errors.values())[:3]))
    return CommitFailed(code, f"offsets of {which} are not committed: {why} ({code.name})", errors)


def _some(partitions: Mapping[TopicPartition, object]) -> str:
    names = [str(each) for each in sorted(partitions)]
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:3])} and {len(names) - 3} more"
