"""The admin client's requests about groups; each returns a value or an error for each item."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from logbus.client.admin.group_results import ListedGroup
from logbus.client.cluster.cluster import Cluster, Node
from logbus.client.cluster.coordinators import (
    Coordinators,
    ask_all_brokers,
    group_error,
    is_coordinator_retriable,
    require_version,
)
from logbus.client.group_metadata import CommittedOffset, GroupMetadata
from logbus.client.membership.offset_requests import COMMITS_A_REQUEST, commit_request, read_offsets
from logbus.client.retry import api_error
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition, group_by_topic
from logbus.net.channel import Channel
from logbus.wire.messages.groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from logbus.wire.messages.offsets import (
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)

_OFFSET_COMMIT, _OFFSET_FETCH, _LIST_GROUPS = 8, 9, 16
_BY_NAME = 9
"""The last version of OffsetCommit and OffsetFetch that identifies topics by name."""
_SEVERAL_GROUPS = 8
"""The first version of OffsetFetch for several groups (KIP-709)."""


async def list_groups(
    cluster: Cluster, patience: float, states: Sequence[str], types: Sequence[str]
) -> list[ListedGroup]:
    """
    The groups of all brokers, by id.

    :param patience: seconds for which a broker that is loading is retried.
    """

    async def ask(channel: Channel) -> ListGroupsResponse:
        for what, wanted, since in (("states", states, 4), ("types", types, 5)):
            if wanted:
                require_version(channel, _LIST_GROUPS, since, f"does not tell the {what} of groups")
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        response: ListGroupsResponse = await channel.request(request)
        return response

    found: dict[str, ListedGroup] = {}
    for node_id, response in (await ask_all_brokers(cluster, patience, "the groups", ask)).items():
        for each in response.groups:
            found[each.group_id] = ListedGroup(
                each.group_id, each.protocol_type, each.group_state, each.group_type, node_id
            )
    return [found[group_id] for group_id in sorted(found)]


async def alter_offsets(
    coordinators: Coordinators, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> dict[TopicPartition, ApiError | None]:
    """Commit offsets for a group, in several requests if there are many."""
    answers: dict[TopicPartition, ApiError | None] = {}
    wanted = list(offsets.items())
    for first in range(0, len(wanted), COMMITS_A_REQUEST):
        some = dict(wanted[first : first + COMMITS_A_REQUEST])
        answers.update(await _alter_some(coordinators, group_id, some))
    return answers


async def _alter_some(
    coordinators: Coordinators, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> dict[TopicPartition, ApiError | None]:
    request = commit_request(GroupMetadata(group_id), offsets)

    async def send(
        channel: Channel, node: Node, group_ids: Sequence[str]
    ) -> dict[str, dict[TopicPartition, ApiError | None] | ApiError]:
        version = min(channel.version(_OFFSET_COMMIT), _BY_NAME)
        response: OffsetCommitResponse = await channel.request(request, version)
        return {group_id: _whole(_commit_errors(response.topics, group_id))}

    return _for_each(offsets, (await coordinators.ask([group_id], send))[group_id])


async def delete_offsets(
    coordinators: Coordinators, group_id: str, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, ApiError | None]:
    """Delete a group's committed offsets."""
    by_topic = group_by_topic(
        (each, OffsetDeleteRequestPartition(partition_index=each.partition)) for each in partitions
    )
    topics = [OffsetDeleteRequestTopic(name=name, partitions=each) for name, each in by_topic.items()]
    request = OffsetDeleteRequest(group_id=group_id, topics=topics)

    async def send(
        channel: Channel, node: Node, group_ids: Sequence[str]
    ) -> dict[str, dict[TopicPartition, ApiError | None] | ApiError]:
        response: OffsetDeleteResponse = await channel.request(request)
        return {group_id: group_error(response.error_code, group_id) or _commit_errors(response.topics, group_id)}

    return _for_each(partitions, (await coordinators.ask([group_id], send))[group_id])


async def fetch_offsets(
    channel: Channel, node: Node, group_ids: Sequence[str]
) -> dict[str, dict[TopicPartition, CommittedOffset | ApiError] | ApiError]:
    """All committed offsets of groups, from one coordinator."""
    version = min(channel.version(_OFFSET_FETCH), _BY_NAME)
    response: OffsetFetchResponse
    if version >= _SEVERAL_GROUPS:
        groups = [OffsetFetchRequestGroup(group_id=each) for each in group_ids]
        response = await channel.request(OffsetFetchRequest(groups=groups), version)
        return {
            each.group_id: group_error(each.error_code, each.group_id) or _committed(each.topics)
            for each in response.groups
        }
    answers: dict[str, dict[TopicPartition, CommittedOffset | ApiError] | ApiError] = {}
    for group_id in group_ids:
        response = await channel.request(OffsetFetchRequest(group_id=group_id, topics=None), version)
        answers[group_id] = group_error(response.error_code, group_id) or _committed(response.topics)
    return answers


def _committed(topics: Iterable[Any]) -> dict[TopicPartition, CommittedOffset | ApiError]:
    return {partition: found for partition, found in sorted(read_offsets(topics).items()) if found is not None}


async def delete_groups(channel: Channel, node: Node, group_ids: Sequence[str]) -> dict[str, ApiError | None]:
    """Delete groups at one coordinator."""
    response: DeleteGroupsResponse = await channel.request(DeleteGroupsRequest(groups_names=list(group_ids)))
    return {each.group_id: group_error(each.error_code, each.group_id) for each in response.results}


def _commit_errors(topics: Iterable[Any], group_id: str) -> dict[TopicPartition, ApiError | None]:
    return {
        (partition := TopicPartition(topic.name, each.partition_index)): _commit_error(
            each.error_code, group_id, partition
        )
        for topic in topics
        for each in topic.partitions
    }


def _commit_error(code: int, group_id: str, partition: TopicPartition) -> ApiError | None:
    if not code:
        return None
    topic, number = partition
    known = {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: f"topic {topic!r} has no partition {number}, or there is no such topic",
        ErrorCode.UNKNOWN_MEMBER_ID: f"group {group_id!r} has members; stop its consumers first",
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: f"group {group_id!r} is reading topic {topic!r}; stop its consumers first",
        ErrorCode.GROUP_ID_NOT_FOUND: f"there is no group {group_id!r}",
    }
    error = api_error(code, str(partition))
    return ApiError(error.code, known[error.code]) if error.code in known else error


def _whole(
    errors: dict[TopicPartition, ApiError | None],
) -> dict[TopicPartition, ApiError | None] | ApiError:
    """OffsetCommit has no error for the whole response: a coordinator that has moved returns one for each partition."""
    for error in errors.values():
        if error is not None and is_coordinator_retriable(error):
            return error
    return errors


def _for_each(
    partitions: Iterable[TopicPartition], answer: dict[TopicPartition, ApiError | None] | ApiError
) -> dict[TopicPartition, ApiError | None]:
    wanted = list(partitions)
    if isinstance(answer, ApiError):
        return dict.fromkeys(wanted, answer)
    for partition in wanted:
        if partition not in answer:
            raise LogbusError(f"the broker's answer leaves out {partition}")
    return {partition: answer[partition] for partition in wanted}
